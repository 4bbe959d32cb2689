package journal

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"strconv"
	"time"

	bolt "go.etcd.io/bbolt"
	boltErrors "go.etcd.io/bbolt/errors"
)

// Schema is the version of the layouts below and in ZooKeeper.
//
//	meta   schema, framework_id
//	jobs   NAME → job
//	tasks  NAME \0 INDEX → task
//	documents  KEY → document
//
// Jobs, tasks and documents are checksums of key and text (4 bytes), then the text, of
// jobs and tasks JSON: bbolt itself would not notice a flipped bit in it. Schema 1 had no
// checksums, schema 2 no documents; such files are read and written anew. Schema 3 is laid
// out alike, but releases that know no newer would not keep to what jobs and documents of
// schema 4 say: jobs after others, matrices, cordons, quotas set by hand.
const Schema = 4

// lockWait is how long Open waits for another process to let go: a scheduler
// that is being replaced.
const lockWait = 2 * time.Second

func metaBucket() []byte      { return []byte("meta") }
func jobsBucket() []byte      { return []byte("jobs") }
func tasksBucket() []byte     { return []byte("tasks") }
func documentsBucket() []byte { return []byte("documents") }
func schemaKey() []byte       { return []byte("schema") }
func frameworkKey() []byte    { return []byte("framework_id") }

// Bolt is a Journal in one file.
type Bolt struct {
	db   *bolt.DB
	path string
}

// Open opens the journal at path, or begins one there. The file is locked
// until Close. Returns ErrLocked, ErrCorrupt or ErrNewer, wrapped with the
// file's name and what to do; it changes no file it cannot read. A file that
// is mostly empty is written anew, smaller.
func Open(path string) (b *Bolt, err error) {
	defer guard(path, &err)()
	if err := probe(path); err != nil {
		return nil, err
	}
	db, err := lock(path)
	if err != nil {
		return nil, err
	}
	version, err := prepare(db, path)
	if err == nil && (version < Schema || sparse(db)) {
		db, err = rewrite(db, path, version)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &Bolt{db: db, path: path}, nil
}

// lock opens the file once no other process has it. The one that had it may
// have put another in its place.
func lock(path string) (*bolt.DB, error) {
	for {
		var opened fs.FileInfo
		db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: lockWait, OpenFile: func(name string, flag int, mode fs.FileMode) (*os.File, error) {
			f, err := os.OpenFile(name, flag, mode)
			if err == nil {
				opened, err = f.Stat()
			}
			return f, err
		}})
		switch {
		case errors.Is(err, boltErrors.ErrTimeout):
			return nil, fmt.Errorf("open journal %s: %w: stop that scheduler, or give this one a journal of its own", path, ErrLocked)
		case errors.Is(err, os.ErrPermission), errors.Is(err, os.ErrNotExist):
			return nil, fmt.Errorf("open journal: %w", err)
		case err != nil:
			return nil, corrupt(path, err)
		}
		if now, err := os.Stat(path); err == nil && os.SameFile(opened, now) {
			return db, nil
		}
		if err := db.Close(); err != nil {
			return nil, fmt.Errorf("open journal %s: %w", path, err)
		}
	}
}

// probe refuses a file that is too short to be a journal, but not empty:
// bbolt would take some of those for new ones.
func probe(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("open journal: %w", err)
	case !info.Mode().IsRegular():
		return fmt.Errorf("open journal %s: it is no regular file", path)
	case info.Size() > 0 && info.Size() < 4096:
		return corrupt(path, fmt.Errorf("%d bytes are too few", info.Size()))
	}
	return nil
}

func corrupt(path string, err error) error {
	return fmt.Errorf("open journal %s: %w (%v): restore it from a backup, or move it away to begin without the jobs it remembers", path, ErrCorrupt, err)
}

// prepare checks an old journal, without writing to it, and makes the buckets
// of a new one. It returns the schema's version.
func prepare(db *bolt.DB, path string) (version int, err error) {
	err = db.View(func(tx *bolt.Tx) error {
		if info, err := os.Stat(path); err != nil || info.Size() < tx.Size() {
			return corrupt(path, fmt.Errorf("it is shorter than its %d bytes", tx.Size()))
		}
		if meta := tx.Bucket(metaBucket()); meta != nil {
			version, err = checkSchema(tx, meta, path)
			return err
		}
		if key, _ := tx.Cursor().First(); key != nil {
			return corrupt(path, fmt.Errorf("it is another program's database, with a bucket %q", key))
		}
		return nil
	})
	if err != nil || version > 0 {
		return version, err
	}
	return Schema, db.Update(func(tx *bolt.Tx) error { return create(tx) })
}

func create(tx *bolt.Tx) error {
	for _, name := range [][]byte{metaBucket(), jobsBucket(), tasksBucket(), documentsBucket()} {
		if _, err := tx.CreateBucket(name); err != nil {
			return fmt.Errorf("create journal: bucket %s: %w", name, err)
		}
	}
	return tx.Bucket(metaBucket()).Put(schemaKey(), []byte(strconv.Itoa(Schema)))
}

func checkSchema(tx *bolt.Tx, meta *bolt.Bucket, path string) (int, error) {
	version, err := strconv.Atoi(string(meta.Get(schemaKey())))
	switch {
	case err != nil:
		return 0, corrupt(path, fmt.Errorf("schema version %q", meta.Get(schemaKey())))
	case version > Schema:
		return 0, fmt.Errorf("open journal %s: %w: it has schema version %d, this release reads up to %d: install the newer release again", path, ErrNewer, version, Schema)
	case version < 1 || tx.Bucket(jobsBucket()) == nil || tx.Bucket(tasksBucket()) == nil || version >= 3 && tx.Bucket(documentsBucket()) == nil:
		return 0, corrupt(path, fmt.Errorf("schema version %d without its buckets", version))
	}
	return version, nil
}

// Commit writes the change and waits until the disk has it. It does not stop
// halfway for ctx: a disk answers or fails.
func (b *Bolt) Commit(_ context.Context, c Change) error {
	all, err := encode(c)
	if err != nil {
		return err
	}
	if err := b.db.Update(func(tx *bolt.Tx) error { return write(tx, all) }); err != nil {
		return fmt.Errorf("write journal %s: %w", b.path, err)
	}
	return nil
}

func write(tx *bolt.Tx, all []record) error {
	jobs, tasks := tx.Bucket(jobsBucket()), tx.Bucket(tasksBucket())
	for _, r := range all {
		var err error
		switch r.kind {
		case frameworkRecord:
			err = tx.Bucket(metaBucket()).Put(frameworkKey(), r.value)
		case removedRecord:
			err = remove(jobs, tasks, r.key)
		case jobRecord:
			err = jobs.Put([]byte(r.key), seal(r))
		case taskRecord:
			err = tasks.Put([]byte(r.key), seal(r))
		case documentRecord:
			err = putDocument(tx.Bucket(documentsBucket()), r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func putDocument(documents *bolt.Bucket, r record) error {
	if len(r.value) == 0 {
		return documents.Delete([]byte(r.key))
	}
	return documents.Put([]byte(r.key), seal(r))
}

func remove(jobs, tasks *bolt.Bucket, name string) error {
	if err := jobs.Delete([]byte(name)); err != nil {
		return err
	}
	prefix := append([]byte(name), 0)
	var keys [][]byte
	c := tasks.Cursor()
	for k, _ := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, _ = c.Next() {
		keys = append(keys, k)
	}
	for _, k := range keys {
		if err := tasks.Delete(k); err != nil {
			return err
		}
	}
	return nil
}

const sealSize = 4

func checksum(key string, text []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	return crc32.Update(crc32.Checksum([]byte(key), table), table, text)
}

// seal puts the checksum before the text.
func seal(r record) []byte {
	sealed := make([]byte, sealSize, sealSize+len(r.value))
	binary.BigEndian.PutUint32(sealed, checksum(r.key, r.value))
	return append(sealed, r.value...)
}

func unseal(key string, sealed []byte) ([]byte, error) {
	if len(sealed) < sealSize || binary.BigEndian.Uint32(sealed) != checksum(key, sealed[sealSize:]) {
		return nil, fmt.Errorf("the checksum of %q is wrong", key)
	}
	return sealed[sealSize:], nil
}

// Close releases the file.
func (b *Bolt) Close() error {
	if err := b.db.Close(); err != nil {
		return fmt.Errorf("close journal %s: %w", b.path, err)
	}
	return nil
}
