package volumemgr

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// maxLinks is how many symbolic links a path may contain, as in the kernel.
const maxLinks = 40

// resolveInside resolves path as a process with the root folder root does: an
// absolute link starts at root, and ".." does not leave root. It returns a path
// on this host without symbolic links. os.Root cannot replace it: it rejects
// absolute links.
func resolveInside(root, path string) (string, error) {
	root, err := filepath.EvalSymlinks(root)
	if err != nil {
		return "", err
	}
	here, rest := root, strings.Split(path, "/")
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			if here != root {
				here = filepath.Dir(here)
			}
			continue
		}
		next := filepath.Join(here, name)
		info, err := os.Lstat(next)
		if err != nil {
			return "", err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			here = next
			continue
		}
		if links++; links > maxLinks {
			return "", fmt.Errorf("resolve %s below %s: more than %d symbolic links", path, root, maxLinks)
		}
		target, err := os.Readlink(next)
		if err != nil {
			return "", err
		}
		if filepath.IsAbs(target) {
			here = root
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return here, nil
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
