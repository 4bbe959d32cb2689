package journal

import (
	"bytes"
	"context"
	"fmt"
	"runtime/debug"

	bolt "go.etcd.io/bbolt"
)

// recoverCorruption converts a panic or a memory fault, which bbolt causes when it
// reads a damaged file, into ErrCorrupt. Use: defer recoverCorruption(path, &err)(). The file is mapped into memory, and
// the fault is recovered only in the goroutine that called recoverCorruption: no other may read the mapped file.
func recoverCorruption(path string, err *error) func() {
	old := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(old)
		if p := recover(); p != nil {
			*err = corruptFile(path, fmt.Errorf("%v", p))
		}
	}
}

// Load reads the whole journal and verifies every page and every record. It fails with ErrCorrupt if any is damaged.
func (b *BoltJournal) Load(ctx context.Context) (all JournalContents, err error) {
	defer recoverCorruption(b.path, &err)()
	err = b.db.View(func(tx *bolt.Tx) error {
		m, err := readImage(ctx, tx, Schema)
		if err == nil {
			all, err = m.decodeContents(ctx)
		}
		if err != nil && ctx.Err() == nil {
			return corruptFile(b.path, err)
		}
		return err
	})
	return all, err
}

// readImage reads a file of schema version into an image, which is valid only
// until tx ends. It fails when ctx ends.
func readImage(ctx context.Context, tx *bolt.Tx, version int) (*contentsImage, error) {
	if err := checkPages(tx); err != nil {
		return nil, err
	}
	m := newImage()
	m.frameworkID = string(tx.Bucket(metaBucket()).Get(frameworkKey()))
	for _, part := range []struct {
		bucket []byte
		kind   recordKind
	}{{jobsBucket(), jobRecord}, {tasksBucket(), taskRecord}, {documentsBucket(), documentRecord}} {
		if version < 3 && part.kind == documentRecord {
			continue
		}
		err := tx.Bucket(part.bucket).ForEach(func(k, v []byte) (err error) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if version == 1 {
				v = bytes.Clone(v) // faults here, where recoverCorruption catches it
			} else if v, err = checkChecksum(string(k), v); err != nil {
				return err
			}
			return m.applyRecords([]journalRecord{{part.kind, string(k), v}})
		})
		if err != nil {
			return nil, err
		}
	}
	return m, nil
}

// checkPages returns the first problem, or nil. It waits until the checker's
// goroutine has ended.
func checkPages(tx *bolt.Tx) (first error) {
	for problem := range tx.Check() {
		if first == nil {
			first = problem
		}
	}
	return first
}
