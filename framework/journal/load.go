package journal

import (
	"bytes"
	"context"
	"fmt"
	"runtime/debug"

	bolt "go.etcd.io/bbolt"
)

// guard turns what bbolt does to a damaged file, which is to panic or to read
// beyond its end, into ErrCorrupt. Use: defer guard(path, &err)().
func guard(path string, err *error) func() {
	old := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(old)
		if p := recover(); p != nil {
			*err = corrupt(path, fmt.Errorf("%v", p))
		}
	}
}

// Load reads all of it and checks every page and every record.
func (b *Bolt) Load(context.Context) (all Contents, err error) {
	defer guard(b.path, &err)()
	err = b.db.View(func(tx *bolt.Tx) error {
		m, err := read(tx, Schema)
		if err == nil {
			all, err = m.contents()
		}
		if err != nil {
			return corrupt(b.path, err)
		}
		return nil
	})
	return all, err
}

// read makes the image of a file of that schema. It is of use in tx only.
func read(tx *bolt.Tx, version int) (*image, error) {
	if err := check(tx); err != nil {
		return nil, err
	}
	m := newImage()
	m.frameworkID = string(tx.Bucket(metaBucket()).Get(frameworkKey()))
	for _, part := range []struct {
		bucket []byte
		kind   kind
	}{{jobsBucket(), jobRecord}, {tasksBucket(), taskRecord}, {documentsBucket(), documentRecord}} {
		if version < 3 && part.kind == documentRecord {
			continue
		}
		err := tx.Bucket(part.bucket).ForEach(func(k, v []byte) (err error) {
			if version == 1 {
				v = bytes.Clone(v) // read here, where guard is
			} else if v, err = unseal(string(k), v); err != nil {
				return err
			}
			return m.apply([]record{{part.kind, string(k), v}})
		})
		if err != nil {
			return nil, err
		}
	}
	return m, nil
}

// check returns the first problem, after the checker's goroutine has ended.
func check(tx *bolt.Tx) (first error) {
	for problem := range tx.Check() {
		if first == nil {
			first = problem
		}
	}
	return first
}
