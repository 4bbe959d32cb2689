package workdir

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
)

// CheckArchive reads an archive to its end and returns an error unless agents can unpack
// it safely: files, folders and links below the folder, none of them through a link, and
// within the bounds.
func CheckArchive(r io.Reader) error {
	unzipped, err := gzip.NewReader(r)
	if err != nil {
		return fmt.Errorf("it is not compressed by gzip: %w", err)
	}
	entries := archiveEntries{kinds: map[string]byte{}}
	for in := tar.NewReader(unzipped); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = entries.addEntry(h)
		}
		if err != nil {
			return err
		}
	}
	// Blocks may follow the end of the tar; more would hide data from the check.
	rest, err := io.Copy(io.Discard, io.LimitReader(unzipped, maxTrailer+1))
	if err == nil && rest > maxTrailer {
		err = errors.New("data follows its last entry")
	}
	return err
}

// maxTrailer is the longest padding after the end of a tar, in bytes.
const maxTrailer = 64 << 10

// archiveEntries are the entries read so far.
type archiveEntries struct {
	// kinds has the type of each entry by its path.
	kinds map[string]byte
	size  folderSize
}

// addEntry returns an error for an entry that must not be unpacked. An entry below a link would be written outside of
// the folder; a folder that follows its files is permitted.
func (a *archiveEntries) addEntry(h *tar.Header) error {
	name := strings.TrimSuffix(h.Name, "/")
	if err := checkPath(name); err != nil {
		return err
	}
	if err := a.size.addEntry(h.Size); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeDir, tar.TypeSymlink:
	default:
		return fmt.Errorf("%s is neither a file nor a folder nor a symbolic link", name)
	}
	if _, ok := a.kinds[name]; ok {
		return fmt.Errorf("%s is in it twice", name)
	}
	for above := path.Dir(name); above != "."; above = path.Dir(above) {
		if kind, ok := a.kinds[above]; ok && kind != tar.TypeDir {
			return fmt.Errorf("%s is below %s, which is no folder", name, above)
		}
	}
	a.kinds[name] = h.Typeflag
	return nil
}
