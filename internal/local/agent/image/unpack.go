package image

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// maxUnpacked limits the unpacked size of an image in bytes.
const maxUnpacked = 256 << 30

// unpackLayers applies an image's layers to the folder dir, lowest first. It
// fails if a layer's digest differs from the image's configuration.
func unpackLayers(ctx context.Context, img v1.Image, config *v1.ConfigFile, dir string) error {
	layers, err := img.Layers()
	if err != nil {
		return fmt.Errorf("list layers: %w", err)
	}
	if want := len(config.RootFS.DiffIDs); len(layers) != want {
		return fmt.Errorf("the archive has %d layers, its configuration names %d", len(layers), want)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.Chmod(".", 0o755); err != nil {
		return err
	}
	w := &layerWriter{root: root, left: maxUnpacked}
	for i, layer := range layers {
		if err := applyLayer(ctx, w, layer, config.RootFS.DiffIDs[i]); err != nil {
			return fmt.Errorf("layer %d of %d: %w", i+1, len(layers), err)
		}
	}
	return nil
}

func applyLayer(ctx context.Context, w *layerWriter, layer v1.Layer, want v1.Hash) error {
	content, err := layer.Uncompressed()
	if err != nil {
		return err
	}
	defer content.Close()
	sum := sha256.New()
	checked := io.TeeReader(content, sum)
	w.layer = map[string]bool{}
	if err := w.applyLayer(ctx, tar.NewReader(checked)); err != nil {
		return err
	}
	// The checksum includes padding after the end of the archive.
	if _, err := io.Copy(io.Discard, checked); err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != want.Hex {
		return fmt.Errorf("content has sha256 %s, the image names %s", got, want.Hex)
	}
	return nil
}

// Whiteout names, with which a layer removes files of lower layers.
const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
)

func (w *layerWriter) applyLayer(ctx context.Context, r *tar.Reader) error {
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		if h.Typeflag == tar.TypeXGlobalHeader {
			continue // a comment on the archive, as written by git archive
		}
		name := path.Clean("/" + h.Name)[1:]
		if err := w.applyEntry(name, h, r); err != nil {
			return fmt.Errorf("entry %q: %w", h.Name, err)
		}
	}
}

func (w *layerWriter) applyEntry(name string, h *tar.Header, r io.Reader) error {
	dir, base := path.Split(name)
	parent, err := resolveLinks(w.root, dir)
	if err != nil {
		return err
	}
	switch {
	case name == "":
		return w.setAttributes(".", h)
	case base == opaque:
		return w.emptyFolder(parent)
	case strings.HasPrefix(base, whiteout):
		return w.removeWhiteout(parent, strings.TrimPrefix(base, whiteout))
	}
	if err := w.root.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	return w.writeEntry(path.Join(parent, base), h, r)
}

// removeWhiteout removes a lower layer's file with that name.
func (w *layerWriter) removeWhiteout(dir, base string) error {
	if base == "" || base == "." || base == ".." {
		return fmt.Errorf("removes %q", base)
	}
	return w.root.RemoveAll(path.Join(dir, base))
}

// emptyFolder removes the files of lower layers from a folder.
func (w *layerWriter) emptyFolder(dir string) error {
	d, err := w.root.Open(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		if child := path.Join(dir, name); !w.layer[child] {
			if err := w.root.RemoveAll(child); err != nil {
				return err
			}
		}
	}
	return nil
}
