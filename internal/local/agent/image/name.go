// Package image turns docker archives into root file systems. It decides
// where an image's archive lies, what its unpacked form holds and how the
// image wants to be run; it pulls nothing and runs nothing. All it reads and
// writes stays below the archives' and the store's folder, whatever an
// archive holds.
package image

import (
	"fmt"
	"path/filepath"
	"strings"
)

// maxName bounds an image's name, as registries do.
const maxName = 512

// archivePath is where the archive of an image lies below the folder of
// archives: NAME:TAG.tar, with the slashes of NAME parting folders. A name
// without tag means its latest.
func archivePath(name string) (string, error) {
	if name == "" || len(name) > maxName {
		return "", fmt.Errorf("image name has %d bytes, want 1 to %d", len(name), maxName)
	}
	if strings.Contains(name, "@") {
		return "", fmt.Errorf("image %s is named by digest: name it by tag, as its archive is", name)
	}
	if !strings.Contains(name[strings.LastIndex(name, "/")+1:], ":") {
		name += ":latest"
	}
	path := name + ".tar"
	if !filepath.IsLocal(path) || filepath.Clean(path) != path || strings.ContainsAny(path, "\x00\\") {
		return "", fmt.Errorf("image name %q is no name of an image", name)
	}
	return path, nil
}
