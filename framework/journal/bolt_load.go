package journal

import (
	"bytes"
	"context"
	"fmt"
	"runtime/debug"

	bolt "go.etcd.io/bbolt"
)

// recoverCorruption turns what bbolt does to a damaged file, which is to panic or to read
// beyond its end, into ErrCorrupt. Use: defer guard(path, &err)().
func recoverCorruption(path string, err *error) func() {
	old := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(old)
		if p := recover(); p != nil {
			*err = corruptFile(path, fmt.Errorf("%v", p))
		}
	}
}

// Load reads all of it and checks every page and every record.
func (b *BoltJournal) Load(context.Context) (all JournalContents, err error) {
	defer recoverCorruption(b.path, &err)()
	err = b.db.View(func(tx *bolt.Tx) error {
		m, err := readImage(tx, Schema)
		if err == nil {
			all, err = m.decodeContents()
		}
		if err != nil {
			return corruptFile(b.path, err)
		}
		return nil
	})
	return all, err
}

// readImage makes the image of a file of that schema. It is of use in tx only.
func readImage(tx *bolt.Tx, version int) (*contentsImage, error) {
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
			if version == 1 {
				v = bytes.Clone(v) // read here, where guard is
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

// checkPages returns the first problem, after the checker's goroutine has ended.
func checkPages(tx *bolt.Tx) (first error) {
	for problem := range tx.Check() {
		if first == nil {
			first = problem
		}
	}
	return first
}
