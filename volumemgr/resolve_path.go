package volumemgr

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	securejoin "github.com/cyphar/filepath-securejoin"
)

// packageStores are folders of packages that are never changed, of NixOS and Guix. Links
// to them are absolute on this host, whatever the root: the driver's folder of NixOS,
// /run/opengl-driver, has nothing but such links.
var packageStores = []string{"/nix/store/", "/gnu/store/"}

// resolveInside resolves path as a process with the root folder root does: an
// absolute link starts at root, and ".." does not leave root. It returns a path
// on this host without symbolic links. os.Root cannot do this: it rejects
// absolute links. Only links to the packageStores of this host leave the root, if the
// root has no such file.
func resolveInside(root, path string) (string, error) {
	real, err := realRoot(root)
	if err != nil {
		return "", err
	}
	found, err := securejoin.SecureJoin(real, path)
	if err != nil {
		return "", fmt.Errorf("resolve %s below %s: %w", path, root, err)
	}
	_, err = os.Lstat(found) // SecureJoin accepts paths that do not exist
	if errors.Is(err, fs.ErrNotExist) {
		if stored, ok := resolveInStore(real, path); ok {
			return stored, nil
		}
	}
	return found, err
}

// realRoot returns the root without symbolic links.
func realRoot(root string) (string, error) {
	root, err := filepath.EvalSymlinks(root)
	if err != nil {
		return "", err
	}
	return filepath.Abs(root)
}

// resolveInStore returns the file in a package store of this host that path leads to.
func resolveInStore(root, path string) (string, bool) {
	isStored := func(path string) bool {
		return slices.ContainsFunc(packageStores, func(store string) bool { return strings.HasPrefix(path, store) })
	}
	if !isStored(path) {
		path = filepath.Join(root, path)
	}
	found, err := filepath.EvalSymlinks(path)
	return found, err == nil && isStored(found)
}

// belowRoot returns the path below root of a path that resolveInside has returned.
func belowRoot(root, path string) string {
	if real, err := realRoot(root); err == nil && real != "/" {
		return strings.TrimPrefix(path, real)
	}
	return path
}

// resolveFile resolves path and returns an error if it is not a regular file.
func resolveFile(root, path string) (string, fs.FileInfo, error) {
	found, err := resolveInside(root, path)
	if err != nil {
		return "", nil, err
	}
	info, err := os.Lstat(found)
	if err != nil {
		return "", nil, err
	}
	if !info.Mode().IsRegular() {
		return "", nil, fmt.Errorf("%s is not a regular file", found)
	}
	return found, info, nil
}
