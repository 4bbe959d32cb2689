package container

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// FolderAlias is a second path of a folder, at which the agent has made a link. In a fenced container the folder itself is mounted
// there, so that the kernel too reports this path as the working directory of the container's processes.
type FolderAlias struct {
	// Folder is a path below Root. The container's user may be able to replace folders in Root, but not Root.
	Root, Folder string
	// Path is the alias. The container sees no other aliases in its folder.
	Path string
}

// mountAlias mounts the folder at its alias. No link in Root leads the mount out of Root.
func mountAlias(a FolderAlias) error {
	root, err := os.OpenRoot(a.Root)
	if err != nil {
		return fmt.Errorf("mount %s: %w", a.Path, err)
	}
	defer root.Close()
	folder, err := root.Open(a.Folder)
	if err != nil {
		return fmt.Errorf("mount %s: %w", a.Path, err)
	}
	defer folder.Close()
	// The file system covers the agent's link, at which nothing can be mounted.
	err = unix.Mount("tmpfs", filepath.Dir(a.Path), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=711,size=64k")
	if err == nil {
		err = os.Mkdir(a.Path, 0o700)
	}
	if err == nil {
		err = unix.Mount(fmt.Sprintf("/proc/self/fd/%d", folder.Fd()), a.Path, "", unix.MS_BIND|unix.MS_REC, "")
	}
	if err != nil {
		return fmt.Errorf("mount %s: %w", a.Path, err)
	}
	return nil
}
