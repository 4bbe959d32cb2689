package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/moby/go-archive"
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
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	left := int64(maxUnpacked)
	for i, layer := range layers {
		if err := applyLayer(ctx, dir, layer, config.RootFS.DiffIDs[i], &left); err != nil {
			return fmt.Errorf("layer %d of %d: %w", i+1, len(layers), err)
		}
	}
	return nil
}

// applyLayer applies one layer. go-archive confines all paths and links to dir.
func applyLayer(ctx context.Context, dir string, layer v1.Layer, want v1.Hash, left *int64) error {
	content, err := layer.Uncompressed()
	if err != nil {
		return err
	}
	defer content.Close()
	sum := sha256.New()
	checked := io.TeeReader(&boundedReader{ctx, content, left}, sum)
	// InUserNS skips device nodes: a container has its own /dev, and could not
	// open nodes elsewhere. Attributes that the file system does not support are
	// left out.
	if _, err := archive.UnpackLayer(dir, checked, &archive.TarOptions{InUserNS: true, BestEffortXattrs: true}); err != nil {
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

// boundedReader fails once ctx has ended or left is used up.
type boundedReader struct {
	ctx  context.Context
	from io.Reader
	left *int64
}

func (r *boundedReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := r.from.Read(p)
	if *r.left -= int64(n); *r.left < 0 {
		return n, fmt.Errorf("the image unpacks to more than %d bytes", int64(maxUnpacked))
	}
	return n, err
}
