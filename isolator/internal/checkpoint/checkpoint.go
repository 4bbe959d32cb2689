// Package checkpoint replaces small files that must outlive a crash of the
// machine.
package checkpoint

import (
	"errors"
	"os"
	"path/filepath"
)

// WriteFile replaces the file: whenever the machine stops it holds the old text
// or the new one, whole. What was cut off lies beside it under a name that
// begins with a dot.
func WriteFile(path string, text []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // nothing is there after the rename
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
