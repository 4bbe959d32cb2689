// Package image unpacks docker archives into root file systems. It locates an
// image's archive, determines the contents of the root file system and reads
// the image's run configuration. It pulls nothing and runs nothing. All files
// that it reads and writes are below the archive folder and the store folder,
// whatever an archive contains.
package image

import (
	"fmt"
	"path/filepath"
	"strings"
)

// maxName is the maximum length of an image name, as in registries.
const maxName = 512

// archivePath returns the path of an image's archive below the archive folder:
// NAME:TAG.tar, with the slashes of NAME as folders. The default tag is latest.
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
