package volumemgr

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	securejoin "github.com/cyphar/filepath-securejoin"
)

// resolveInside resolves path as a process with the root folder root does: an
// absolute link starts at root, and ".." does not leave root. It returns a path
// on this host without symbolic links. os.Root cannot do this: it rejects
// absolute links.
func resolveInside(root, path string) (string, error) {
	root, err := filepath.EvalSymlinks(root)
	if err != nil {
		return "", err
	}
	if root, err = filepath.Abs(root); err != nil {
		return "", err
	}
	found, err := securejoin.SecureJoin(root, path)
	if err != nil {
		return "", fmt.Errorf("resolve %s below %s: %w", path, root, err)
	}
	_, err = os.Lstat(found) // SecureJoin accepts paths that do not exist
	return found, err
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
