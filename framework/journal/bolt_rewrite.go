package journal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"

	"mesos-gpu/internal/atomicfile"
)

// minRewriteSize is the size in bytes from which a mostly empty file is rewritten.
const minRewriteSize = 16 << 20

// isSparse reports whether the file is large and more than half of it is unused.
// bbolt reuses free pages but never shrinks a file.
func isSparse(db *bolt.DB) bool {
	size := int64(0)
	_ = db.View(func(tx *bolt.Tx) error { size = tx.Size(); return nil }) // the function never fails
	free := int64(db.Stats().FreePageN+db.Stats().PendingPageN) * int64(db.Info().PageSize)
	return size >= minRewriteSize && free > size/2
}

// rewriteFile copies the journal into a new file, syncs it to disk and renames it to
// path. After a crash at any point, path is a complete journal. It returns the open
// database: the new one, or the old one if err is not nil.
func rewriteFile(old *bolt.DB, path string, version int) (*bolt.DB, error) {
	fail := func(err error) (*bolt.DB, error) { return old, fmt.Errorf("rewrite journal %s: %w", path, err) }
	fresh := path + ".new"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fail(err) // a crash left the file; it was never in use
	}
	db, err := bolt.Open(fresh, 0o600, &bolt.Options{Timeout: lockTimeout})
	if err != nil {
		return fail(err)
	}
	err = old.View(func(from *bolt.Tx) error {
		m, err := readImage(context.Background(), from, version)
		if err == nil {
			_, err = m.decodeContents(context.Background())
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
	// From here on the new file is the journal and is locked.
	if err := errors.Join(old.Close(), atomicfile.SyncDir(filepath.Dir(path))); err != nil {
		return db, fmt.Errorf("rewrite journal %s: %w", path, err)
	}
	return db, nil
}
