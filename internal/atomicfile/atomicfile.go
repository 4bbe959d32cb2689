// Package atomicfile replaces files and symbolic links in one step. A reader,
// or a process that starts after a crash, finds the old content or the new
// content, never a part of either. The package creates no folders, and it
// never writes through a link that has the target's name.
package atomicfile

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// TempPrefix starts the name of a file that has not replaced its target yet.
// A crash may leave such a file behind. The owner of the folder may remove it
// when no other process writes there.
const TempPrefix = ".new-"

// Write replaces the file at path and waits until the disk has it: after a
// crash of the machine the file has the old or the new content. The mode is
// exact, whatever the umask. On an error the old file stays.
func Write(path string, data []byte, mode fs.FileMode) error {
	if err := replace(path, data, mode, true); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// Update is Write unless the file has this content: a program that starts on a full disk does not fail for what it has stored.
func Update(path string, data []byte, mode fs.FileMode) error {
	if known, err := os.ReadFile(path); err == nil && bytes.Equal(known, data) {
		return nil
	}
	return Write(path, data, mode)
}

// Replace is Write without waiting for the disk. A crash of the process leaves
// the old or the new content; a crash of the machine may leave an empty file.
func Replace(path string, data []byte, mode fs.FileMode) error {
	return replace(path, data, mode, false)
}

func replace(path string, data []byte, mode fs.FileMode, sync bool) error {
	f, err := os.CreateTemp(filepath.Dir(path), TempPrefix+"*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // it does not exist after the rename
	if err := fill(f, data, mode, sync); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// fill writes and closes the file.
func fill(f *os.File, data []byte, mode fs.FileMode, sync bool) error {
	_, err := f.Write(data)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil && sync {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// ReplaceIn is Replace for a folder that an untrusted user can write to. It
// follows no link out of the folder, and a link or file that the user put at
// either name is replaced, never written through. One caller at a time may
// replace a name.
func ReplaceIn(folder *os.Root, name string, data []byte, mode fs.FileMode) error {
	temp := filepath.Join(filepath.Dir(name), TempPrefix+filepath.Base(name))
	if err := removeIfExists(folder.Remove, temp); err != nil {
		return err
	}
	f, err := folder.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err = fill(f, data, mode, false); err == nil {
		err = folder.Rename(temp, name)
	}
	if err != nil {
		_ = folder.Remove(temp) // the next call reports why it cannot be removed
	}
	return err
}

// Symlink makes path a symbolic link to target. It replaces a file or link
// there, but not a folder. One caller at a time may replace a path.
func Symlink(target, path string) error {
	temp := filepath.Join(filepath.Dir(path), TempPrefix+filepath.Base(path))
	if err := removeIfExists(os.Remove, temp); err != nil {
		return err
	}
	if err := os.Symlink(target, temp); err != nil {
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return nil
}

// SyncDir waits until the disk has the folder's entries. A rename or a new
// file is lost by a crash of the machine before that.
func SyncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func removeIfExists(remove func(string) error, name string) error {
	if err := remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
