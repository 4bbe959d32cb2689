package fetch

import (
	"archive/tar"
	"archive/zip"
	"compress/bzip2"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
)

// extractArchive unpacks an archive into its own folder. The suffix of the name
// selects the format; a file with another suffix is left as it is, and extracted is false.
func (f *artifactFetcher) extractArchive(ctx context.Context, name string) (extracted bool, err error) {
	ends := func(with ...string) bool {
		for _, end := range with {
			if strings.HasSuffix(name, end) {
				return true
			}
		}
		return false
	}
	if ends(".tar.xz", ".txz") {
		return false, errors.New("this agent unpacks no xz: pack it with gzip")
	}
	isTar := ends(".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2")
	if !isTar && !ends(".zip", ".gz") {
		return false, nil
	}
	in, err := f.root.Open(name)
	if err != nil {
		return false, err
	}
	defer in.Close()
	if ends(".zip") {
		return true, f.extractZip(ctx, path.Dir(name), in)
	}
	var content io.Reader = in
	switch {
	case ends("gz"):
		if content, err = gzip.NewReader(in); err != nil {
			return false, err
		}
	case ends("bz2"):
		content = bzip2.NewReader(in)
	}
	if !isTar {
		return true, f.writeFile(strings.TrimSuffix(name, ".gz"), 0o644, content)
	}
	return true, f.extractTar(ctx, path.Dir(name), tar.NewReader(content))
}

// maxEntries limits the number of entries in an archive.
const maxEntries = 1_000_000

func (f *artifactFetcher) extractTar(ctx context.Context, dir string, r *tar.Reader) error {
	for n := 0; ; n++ {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = ctx.Err()
		}
		if err == nil && n == maxEntries {
			err = fmt.Errorf("it has more than %d entries", maxEntries)
		}
		name := ""
		if err == nil {
			name = path.Join(dir, path.Clean("/" + h.Name)[1:])
			err = checkName(name)
		}
		if err != nil {
			return err
		}
		switch h.Typeflag {
		case tar.TypeReg:
			err = f.writeEntry(name, os.FileMode(h.Mode).Perm(), r)
		case tar.TypeDir:
			err = f.makeFolder(name)
		case tar.TypeSymlink:
			if err = f.makeFolder(path.Dir(name)); err == nil {
				err = errors.Join(f.root.Symlink(h.Linkname, name), f.changeOwner(name))
			}
		case tar.TypeLink:
			err = f.root.Link(path.Join(dir, path.Clean("/" + h.Linkname)[1:]), name)
		case tar.TypeXGlobalHeader:
		default:
			err = fmt.Errorf("its kind %q is neither file, folder nor link", h.Typeflag)
		}
		if err != nil {
			return fmt.Errorf("unpack %q: %w", h.Name, err)
		}
	}
}

func (f *artifactFetcher) extractZip(ctx context.Context, dir string, in *os.File) error {
	info, err := in.Stat()
	if err != nil {
		return err
	}
	z, err := zip.NewReader(in, info.Size())
	if err != nil {
		return err
	}
	if len(z.File) > maxEntries {
		return fmt.Errorf("it has %d entries, more than %d", len(z.File), maxEntries)
	}
	for _, e := range z.File {
		if err := ctx.Err(); err != nil {
			return err
		}
		name := path.Join(dir, path.Clean("/" + e.Name)[1:])
		if err := checkName(name); err != nil {
			return err
		}
		if err := f.unzipOne(name, e); err != nil {
			return fmt.Errorf("unpack %q: %w", e.Name, err)
		}
	}
	return nil
}

func (f *artifactFetcher) unzipOne(name string, e *zip.File) error {
	switch mode := e.Mode(); {
	case mode.IsDir():
		return f.makeFolder(name)
	case !mode.IsRegular():
		return errors.New("it is neither file nor folder")
	}
	content, err := e.Open()
	if err != nil {
		return err
	}
	defer content.Close()
	return f.writeEntry(name, e.Mode().Perm(), content)
}

// writeEntry writes one file of an archive, writable only by its owner.
func (f *artifactFetcher) writeEntry(name string, mode os.FileMode, from io.Reader) error {
	if err := f.makeFolder(path.Dir(name)); err != nil {
		return err
	}
	return f.writeFile(name, mode&^0o022, from)
}

// makeFolder creates a folder and its parents.
func (f *artifactFetcher) makeFolder(name string) error {
	if name == "." {
		return nil
	}
	if _, err := f.root.Lstat(name); err == nil {
		return nil
	}
	if err := f.makeFolder(path.Dir(name)); err != nil {
		return err
	}
	if err := f.root.Mkdir(name, 0o755); err != nil {
		return err
	}
	return f.changeOwner(name)
}
