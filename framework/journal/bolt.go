package journal

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	bolt "go.etcd.io/bbolt"
	boltErrors "go.etcd.io/bbolt/errors"

	"mesos-gpu/job"
)

// Schema is the version of the layout below.
//
//	meta   schema, framework_id
//	jobs   NAME → spec and submission, as JSON
//	tasks  NAME \0 INDEX (4 bytes, big endian) → task, as JSON
//
// A job and its tasks are apart, so that one task's update rewrites one
// task, not a job of thousands.
const Schema = 1

// lockWait is how long Open waits for another process to let go: a scheduler
// that is being replaced.
const lockWait = 2 * time.Second

func metaBucket() []byte   { return []byte("meta") }
func jobsBucket() []byte   { return []byte("jobs") }
func tasksBucket() []byte  { return []byte("tasks") }
func schemaKey() []byte    { return []byte("schema") }
func frameworkKey() []byte { return []byte("framework_id") }

// Bolt is a Journal in one file.
type Bolt struct {
	db   *bolt.DB
	path string
}

// Open opens the journal at path, or begins one there. The file is locked
// until Close. Returns ErrLocked, ErrCorrupt or ErrNewer, wrapped with the
// file's name and what to do; it changes no file it cannot read.
func Open(path string) (b *Bolt, err error) {
	defer guard(path, &err)()
	if err := probe(path); err != nil {
		return nil, err
	}
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: lockWait})
	switch {
	case errors.Is(err, boltErrors.ErrTimeout):
		return nil, fmt.Errorf("open journal %s: %w: stop that scheduler, or give this one a journal of its own", path, ErrLocked)
	case errors.Is(err, os.ErrPermission), errors.Is(err, os.ErrNotExist):
		return nil, fmt.Errorf("open journal: %w", err)
	case err != nil:
		return nil, corrupt(path, err)
	}
	if err := prepare(db, path); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &Bolt{db: db, path: path}, nil
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
// of a new one.
func prepare(db *bolt.DB, path string) error {
	fresh := false
	err := db.View(func(tx *bolt.Tx) error {
		if info, err := os.Stat(path); err != nil || info.Size() < tx.Size() {
			return corrupt(path, fmt.Errorf("it is shorter than its %d bytes", tx.Size()))
		}
		if meta := tx.Bucket(metaBucket()); meta != nil {
			return checkSchema(tx, meta, path)
		}
		if key, _ := tx.Cursor().First(); key != nil {
			return corrupt(path, fmt.Errorf("it is another program's database, with a bucket %q", key))
		}
		fresh = true
		return nil
	})
	if err != nil || !fresh {
		return err
	}
	return db.Update(func(tx *bolt.Tx) error {
		for _, name := range [][]byte{metaBucket(), jobsBucket(), tasksBucket()} {
			if _, err := tx.CreateBucket(name); err != nil {
				return fmt.Errorf("create journal %s: %w", path, err)
			}
		}
		return tx.Bucket(metaBucket()).Put(schemaKey(), []byte(strconv.Itoa(Schema)))
	})
}

func checkSchema(tx *bolt.Tx, meta *bolt.Bucket, path string) error {
	version, err := strconv.Atoi(string(meta.Get(schemaKey())))
	switch {
	case err != nil:
		return corrupt(path, fmt.Errorf("schema version %q", meta.Get(schemaKey())))
	case version > Schema:
		return fmt.Errorf("open journal %s: %w: it has schema version %d, this release reads up to %d: install the newer release again", path, ErrNewer, version, Schema)
	case version < 1 || tx.Bucket(jobsBucket()) == nil || tx.Bucket(tasksBucket()) == nil:
		return corrupt(path, fmt.Errorf("schema version %d without its buckets", version))
	}
	return nil
}

// stored is a job without its tasks.
type stored struct {
	Spec      job.Spec  `json:"spec"`
	Submitted time.Time `json:"submitted"`
}

func taskKey(name string, index int) []byte {
	return binary.BigEndian.AppendUint32(append([]byte(name), 0), uint32(index))
}

// Commit writes the change and waits until the disk has it.
func (b *Bolt) Commit(c Change) error {
	err := b.db.Update(func(tx *bolt.Tx) error {
		if c.FrameworkID != "" {
			if err := tx.Bucket(metaBucket()).Put(frameworkKey(), []byte(c.FrameworkID)); err != nil {
				return err
			}
		}
		for _, name := range c.Removed {
			if err := remove(tx, name); err != nil {
				return err
			}
		}
		for _, j := range c.Jobs {
			if err := put(tx.Bucket(jobsBucket()), []byte(j.Spec.Name), stored{j.Spec, j.Submitted}); err != nil {
				return err
			}
		}
		for i := range c.Tasks {
			t := &c.Tasks[i]
			if err := put(tx.Bucket(tasksBucket()), taskKey(t.Job, t.Index), t); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("write journal %s: %w", b.path, err)
	}
	return nil
}

func put(bucket *bolt.Bucket, key []byte, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode %q: %w", key, err)
	}
	return bucket.Put(key, text)
}

func remove(tx *bolt.Tx, name string) error {
	if err := tx.Bucket(jobsBucket()).Delete([]byte(name)); err != nil {
		return err
	}
	prefix := append([]byte(name), 0)
	var keys [][]byte
	c := tx.Bucket(tasksBucket()).Cursor()
	for k, _ := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, _ = c.Next() {
		keys = append(keys, k)
	}
	for _, k := range keys {
		if err := tx.Bucket(tasksBucket()).Delete(k); err != nil {
			return err
		}
	}
	return nil
}

// Close releases the file.
func (b *Bolt) Close() error {
	if err := b.db.Close(); err != nil {
		return fmt.Errorf("close journal %s: %w", b.path, err)
	}
	return nil
}
