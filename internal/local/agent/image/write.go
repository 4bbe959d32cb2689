package image

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// layerWriter writes one image's files below root.
type layerWriter struct {
	root *os.Root
	// left is the number of bytes that may still be written.
	left int64
	// layer holds the paths that the layer being applied has written.
	layer map[string]bool
}

// writeEntry creates one file and replaces an existing one.
func (w *layerWriter) writeEntry(name string, h *tar.Header, r io.Reader) error {
	if err := w.clearPath(name, h); err != nil {
		return err
	}
	w.layer[name] = true
	switch h.Typeflag {
	case tar.TypeDir:
		if err := w.root.Mkdir(name, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		return w.setAttributes(name, h)
	case tar.TypeReg:
		if err := w.writeFile(name, h, r); err != nil {
			return err
		}
		if err := w.setAttributes(name, h); err != nil {
			return err
		}
		return w.setCapability(name, h)
	case tar.TypeSymlink:
		if err := w.root.Symlink(h.Linkname, name); err != nil {
			return err
		}
		return w.root.Lchown(name, h.Uid, h.Gid)
	case tar.TypeLink:
		dir, base := path.Split(path.Clean("/" + h.Linkname)[1:])
		parent, err := resolveLinks(w.root, dir)
		if err != nil {
			return err
		}
		return w.root.Link(path.Join(parent, base), name)
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		// A container has its own /dev. Nodes elsewhere could not be opened.
		return nil
	}
	return fmt.Errorf("unknown type %q", h.Typeflag)
}

// clearPath removes the existing file at an entry's path. It keeps a folder if
// the entry is a folder.
func (w *layerWriter) clearPath(name string, h *tar.Header) error {
	info, err := w.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.IsDir() && h.Typeflag == tar.TypeDir {
		return nil
	}
	return w.root.RemoveAll(name)
}

func (w *layerWriter) writeFile(name string, h *tar.Header, r io.Reader) error {
	if w.left -= h.Size; w.left < 0 {
		return fmt.Errorf("the image unpacks to more than %d bytes", int64(maxUnpacked))
	}
	f, err := w.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}

// setAttributes sets owner, mode and time, in that order: changing the owner
// clears the set-user-id bit.
func (w *layerWriter) setAttributes(name string, h *tar.Header) error {
	if err := w.root.Lchown(name, h.Uid, h.Gid); err != nil {
		return err
	}
	if err := w.root.Chmod(name, h.FileInfo().Mode()&(fs.ModePerm|fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky)); err != nil {
		return err
	}
	return w.root.Chtimes(name, h.ModTime, h.ModTime)
}

// fileCapability is the extended attribute with the capabilities of a program
// such as ping. All other attributes are ignored.
const fileCapability = "security.capability"

// setCapability must run after setAttributes: changing the owner removes the
// capability.
func (w *layerWriter) setCapability(name string, h *tar.Header) error {
	value, ok := h.PAXRecords["SCHILY.xattr."+fileCapability]
	if !ok {
		return nil
	}
	f, err := w.root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Fsetxattr(int(f.Fd()), fileCapability, []byte(value), 0); err != nil {
		return fmt.Errorf("set file capability: %w", err)
	}
	return nil
}

// maxLinks limits the number of symbolic links in a path.
const maxLinks = 40

// resolveLinks resolves the symbolic links in a folder's path like a process
// whose root folder is root: absolute links are relative to root. os.Root alone
// rejects them. Missing path elements stay unchanged.
func resolveLinks(root *os.Root, dir string) (string, error) {
	done, rest := ".", path.Clean("/" + dir)[1:]
	for links := 0; rest != ""; {
		part, after, _ := strings.Cut(rest, "/")
		rest = after
		switch part {
		case "", ".":
			continue
		case "..":
			done = path.Dir(done)
			continue
		}
		next := path.Join(done, part)
		info, err := root.Lstat(next)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if err != nil || info.Mode().Type() != fs.ModeSymlink {
			done = next
			continue
		}
		if links++; links > maxLinks {
			return "", fmt.Errorf("more than %d symbolic links in %s", maxLinks, dir)
		}
		target, err := root.Readlink(next)
		if err != nil {
			return "", err
		}
		if path.IsAbs(target) {
			done = "."
		}
		rest = target + "/" + rest
	}
	return done, nil
}
