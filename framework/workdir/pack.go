package workdir

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing/format/gitignore"

	"mesos-gpu/job"
)

const (
	// IgnoreFile lists the files of a folder that are not uploaded, in the syntax of
	// .gitignore. In a folder without it, gitIgnoreFile has this effect.
	IgnoreFile    = ".mesosgpuignore"
	gitIgnoreFile = ".gitignore"
	// gitFolder is never uploaded.
	gitFolder = ".git"
)

// modified is the time of all files in archives: it must not change the digest.
var modified = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// PackedFolder is an archive in a temporary file. Close removes it.
type PackedFolder struct {
	// Digest is the value of job.Spec.Workdir.
	Digest string
	// Bytes is the size of the archive, Files the number of its entries.
	Bytes int64
	Files int
	file  *os.File
}

// Reader returns a reader of the archive from its start. Several may be used at a time.
func (p *PackedFolder) Reader() io.Reader { return io.NewSectionReader(p.file, 0, p.Bytes) }

// Close removes the archive.
func (p *PackedFolder) Close() error { return p.file.Close() }

// Pack packs the files of a folder, except those that its ignore files exclude. It
// follows no links out of the folder, and packs links as links. Sockets, pipes and
// devices are left out. It returns a *SizeError for a folder above a bound. Files that change meanwhile are packed as they
// are when they are read. The archive's file has no name, so that it disappears with the process.
func Pack(ctx context.Context, folder string) (packed *PackedFolder, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("pack %s: %w", folder, err)
		}
	}()
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	file, err := os.CreateTemp("", "mesos-gpu-workdir-*")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = file.Close() // it has no name any more
		}
	}()
	if err := os.Remove(file.Name()); err != nil {
		return nil, err
	}
	digest := sha256.New()
	buffered := bufio.NewWriterSize(io.MultiWriter(file, digest), 1<<20)
	zipped, err := gzip.NewWriterLevel(buffered, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	p := packer{ctx: ctx, root: root, out: tar.NewWriter(zipped)}
	if err := p.packFolder(".", nil); err != nil {
		return nil, err
	}
	if err := errors.Join(p.out.Close(), zipped.Close(), buffered.Flush()); err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	return &PackedFolder{Digest: job.WorkdirPrefix + hex.EncodeToString(digest.Sum(nil)), Bytes: info.Size(), Files: p.size.files, file: file}, nil
}

// packer writes the entries of one folder.
type packer struct {
	ctx  context.Context // stored, because each file checks it
	root *os.Root
	out  *tar.Writer
	size folderSize
}

// packFolder packs the entries of a folder in the order of their names. patterns are
// those of the ignore files above.
func (p *packer) packFolder(folder string, patterns []gitignore.Pattern) error {
	patterns, err := p.addPatterns(folder, patterns)
	if err != nil {
		return err
	}
	ignored := gitignore.NewMatcher(patterns)
	entries, err := fs.ReadDir(p.root.FS(), folder)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := context.Cause(p.ctx); err != nil {
			return err
		}
		name := path.Join(folder, e.Name())
		if e.Name() == gitFolder || ignored.Match(strings.Split(name, "/"), e.IsDir()) {
			continue
		}
		if err := p.packEntry(name, e.Type(), patterns); err != nil {
			return err
		}
	}
	return nil
}

// addPatterns returns patterns with those of a folder's ignore file.
func (p *packer) addPatterns(folder string, patterns []gitignore.Pattern) ([]gitignore.Pattern, error) {
	text, err := p.root.ReadFile(path.Join(folder, IgnoreFile))
	if errors.Is(err, fs.ErrNotExist) {
		text, err = p.root.ReadFile(path.Join(folder, gitIgnoreFile))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return patterns, nil
	}
	if err != nil {
		return nil, err
	}
	var domain []string
	if folder != "." {
		domain = strings.Split(folder, "/")
	}
	patterns = patterns[:len(patterns):len(patterns)] // append must not overwrite the patterns of a sibling folder
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\r\n")
		if strings.TrimSpace(line) != "" && !strings.HasPrefix(line, "#") {
			patterns = append(patterns, gitignore.ParsePattern(line, domain))
		}
	}
	return patterns, nil
}

// packEntry packs one entry of a folder, with all that is below it.
func (p *packer) packEntry(name string, mode fs.FileMode, patterns []gitignore.Pattern) error {
	if !mode.IsRegular() && !mode.IsDir() && mode != fs.ModeSymlink {
		return nil
	}
	if err := checkPath(name); err != nil {
		return err
	}
	switch {
	case mode.IsDir():
		if err := p.writeHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755}); err != nil {
			return err
		}
		return p.packFolder(name, patterns)
	case mode.IsRegular():
		return p.packFile(name)
	}
	target, err := p.root.Readlink(name)
	if err != nil {
		return err
	}
	return p.writeHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777})
}

// writeHeader begins an entry. It returns a *SizeError if the folder is above a bound with it.
func (p *packer) writeHeader(h *tar.Header) error {
	if err := p.size.addEntry(h.Size); err != nil {
		return err
	}
	h.ModTime = modified
	return p.out.WriteHeader(h)
}

// packFile packs a file. Of its mode it keeps whether its owner may execute it.
func (p *packer) packFile(name string) error {
	f, err := p.root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s was replaced while it was read", name)
	}
	mode := int64(0o644)
	if info.Mode()&0o100 != 0 {
		mode = 0o755
	}
	if err := p.writeHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: info.Size()}); err != nil {
		return err
	}
	n, err := io.Copy(p.out, io.LimitReader(f, info.Size()))
	if err == nil && n < info.Size() {
		err = errors.New("it became smaller while it was read")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
