package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"
)

// compactFrom is the size from which a file that is mostly empty is written
// anew.
const compactFrom = 16 << 20

// sparse reports whether more than half of a large file is unused. bbolt uses
// freed pages again, but never gives one back: a file stays as large as it was
// when it held most.
func sparse(db *bolt.DB) bool {
	size := int64(0)
	_ = db.View(func(tx *bolt.Tx) error { size = tx.Size(); return nil }) // it returns what we return
	free := int64(db.Stats().FreePageN+db.Stats().PendingPageN) * int64(db.Info().PageSize)
	return size >= compactFrom && free > size/2
}

// rewrite copies all into a new file, has the disk write it, and puts it in
// the old one's place. Whatever happens on the way, there is a whole file at
// path. It returns the database that is open, with an error the old one.
func rewrite(old *bolt.DB, path string, version int) (*bolt.DB, error) {
	fail := func(err error) (*bolt.DB, error) { return old, fmt.Errorf("write journal %s anew: %w", path, err) }
	fresh := path + ".new"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fail(err) // it was left by a crash, and never in use
	}
	db, err := bolt.Open(fresh, 0o600, &bolt.Options{Timeout: lockWait})
	if err != nil {
		return fail(err)
	}
	err = old.View(func(from *bolt.Tx) error {
		m, err := read(from, version)
		if err == nil {
			_, err = m.contents()
		}
		if err != nil {
			return corrupt(path, err)
		}
		return db.Update(func(to *bolt.Tx) error {
			if err := create(to); err != nil {
				return err
			}
			return write(to, m.records())
		})
	})
	if err == nil {
		err = db.Sync()
	}
	if err == nil {
		err = os.Rename(fresh, path)
	}
	if err != nil {
		return fail(errors.Join(err, db.Close(), os.Remove(fresh)))
	}
	// From here on the new file is the journal, and its lock is held.
	if err := errors.Join(old.Close(), syncFolder(path)); err != nil {
		return db, fmt.Errorf("write journal %s anew: %w", path, err)
	}
	return db, nil
}

func syncFolder(path string) error {
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
