package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"

	"mesos-gpu/internal/atomicfile"
)

// minRewriteSize is the size from which a file that is mostly empty is written
// anew.
const minRewriteSize = 16 << 20

// isSparse reports whether more than half of a large file is unused. bbolt uses
// freed pages again, but never gives one back: a file stays as large as it was
// when it held most.
func isSparse(db *bolt.DB) bool {
	size := int64(0)
	_ = db.View(func(tx *bolt.Tx) error { size = tx.Size(); return nil }) // it returns what we return
	free := int64(db.Stats().FreePageN+db.Stats().PendingPageN) * int64(db.Info().PageSize)
	return size >= minRewriteSize && free > size/2
}

// rewriteFile copies all into a new file, has the disk write it, and puts it in
// the old one's place. Whatever happens on the way, there is a whole file at
// path. It returns the database that is open, with an error the old one.
func rewriteFile(old *bolt.DB, path string, version int) (*bolt.DB, error) {
	fail := func(err error) (*bolt.DB, error) { return old, fmt.Errorf("write journal %s anew: %w", path, err) }
	fresh := path + ".new"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fail(err) // it was left by a crash, and never in use
	}
	db, err := bolt.Open(fresh, 0o600, &bolt.Options{Timeout: lockTimeout})
	if err != nil {
		return fail(err)
	}
	err = old.View(func(from *bolt.Tx) error {
		m, err := readImage(from, version)
		if err == nil {
			_, err = m.decodeContents()
		}
		if err != nil {
			return corruptFile(path, err)
		}
		return db.Update(func(to *bolt.Tx) error {
			if err := createBuckets(to); err != nil {
				return err
			}
			return writeRecords(to, m.allRecords())
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
	if err := errors.Join(old.Close(), atomicfile.SyncDir(filepath.Dir(path))); err != nil {
		return db, fmt.Errorf("write journal %s anew: %w", path, err)
	}
	return db, nil
}
