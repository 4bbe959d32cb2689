package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// UnpackedImage is an unpacked image. Containers share Rootfs and must not
// modify it.
type UnpackedImage struct {
	Name   string
	Rootfs string
	Config v1.Config
}

// ImageStore holds unpacked images, each in a folder named by its digest.
type ImageStore struct {
	archives, dir string
	// mu serializes unpacking, so that no image is unpacked twice.
	mu sync.Mutex
}

// NewStore returns a store that unpacks archives from the folder archives into
// dir.
func NewStore(archives, dir string) *ImageStore { return &ImageStore{archives: archives, dir: dir} }

// Get returns the image with the given name. It unpacks the image on first use.
func (s *ImageStore) Get(ctx context.Context, name string) (UnpackedImage, error) {
	img, digest, config, err := s.openArchive(name)
	if err != nil {
		return UnpackedImage{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	folder := digest.Algorithm + "-" + digest.Hex
	out := UnpackedImage{Name: name, Rootfs: filepath.Join(s.dir, folder), Config: config.Config}
	if _, err := os.Stat(out.Rootfs); err == nil {
		return out, os.Chtimes(out.Rootfs, time.Time{}, time.Now()) // RemoveUnused reads it
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return UnpackedImage{}, fmt.Errorf("unpack image %s: %w", name, err)
	}
	stage, err := os.MkdirTemp(s.dir, stagePrefix)
	if err != nil {
		return UnpackedImage{}, fmt.Errorf("unpack image %s: %w", name, err)
	}
	err = unpackLayers(ctx, img, config, stage)
	if err == nil {
		// The rename publishes the image atomically.
		err = os.Rename(stage, out.Rootfs)
	}
	if err == nil {
		err = os.Chtimes(out.Rootfs, time.Time{}, time.Now())
	}
	if err != nil {
		return UnpackedImage{}, errors.Join(fmt.Errorf("unpack image %s: %w", name, err), os.RemoveAll(stage))
	}
	return out, nil
}

// UnpackInto writes an image's files into the empty folder dir, for a container
// that cannot share the store's copy.
func (s *ImageStore) UnpackInto(ctx context.Context, name, dir string) error {
	img, _, config, err := s.openArchive(name)
	if err != nil {
		return err
	}
	if err := unpackLayers(ctx, img, config, dir); err != nil {
		return fmt.Errorf("unpack image %s: %w", name, err)
	}
	return nil
}

// RemovePartial removes the partially unpacked images of a killed agent.
func (s *ImageStore) RemovePartial() error {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), stagePrefix) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(s.dir, e.Name())))
		}
	}
	if err != nil {
		return fmt.Errorf("clean image store: %w", err)
	}
	return nil
}

// RemoveUnused removes the images that were last used before a time. The caller ensures
// that no container has one of them.
func (s *ImageStore) RemoveUnused(before time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		info, ierr := e.Info()
		if ierr == nil && info.ModTime().Before(before) && !strings.HasPrefix(e.Name(), stagePrefix) {
			ierr = os.RemoveAll(filepath.Join(s.dir, e.Name()))
		}
		err = errors.Join(err, ierr)
	}
	if err != nil {
		return fmt.Errorf("clean image store: %w", err)
	}
	return nil
}

// stagePrefix begins the names of folders into which images are being unpacked.
const stagePrefix = ".unpacking-"

// openArchive reads an archive's configuration. unpackLayers reads the layers.
func (s *ImageStore) openArchive(ref string) (v1.Image, v1.Hash, *v1.ConfigFile, error) {
	path, err := archivePath(ref)
	if err != nil {
		return nil, v1.Hash{}, nil, err
	}
	opener := func() (io.ReadCloser, error) { return os.OpenInRoot(s.archives, path) }
	img, err := fromArchive(opener, ref)
	var digest v1.Hash
	if err == nil {
		digest, err = img.ConfigName()
	}
	var config *v1.ConfigFile
	if err == nil {
		config, err = img.ConfigFile()
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("image %s: no file %s: put its archive there (docker save -o)", ref, filepath.Join(s.archives, path))
	case err != nil:
		err = fmt.Errorf("read image archive %s: %w", filepath.Join(s.archives, path), err)
	}
	return img, digest, config, err
}

// fromArchive returns the image named ref, or the archive's only image.
func fromArchive(opener tarball.Opener, ref string) (v1.Image, error) {
	manifest, err := tarball.LoadManifest(opener)
	if err != nil {
		return nil, err
	}
	if len(manifest) == 1 {
		return tarball.Image(opener, nil)
	}
	tag, err := name.NewTag(ref)
	if err != nil {
		return nil, fmt.Errorf("pick one of %d images: %w", len(manifest), err)
	}
	return tarball.Image(opener, &tag)
}
