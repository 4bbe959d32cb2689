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
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	boltErrors "go.etcd.io/bbolt/errors"
)

// Schema is the version of the layout below and of ZooKeeperJournal's. It increases when a release that does not know
// the new version would misread the journal or lose data that it needs. A field that an older release may drop does not
// change it.
//
//	meta   schema, framework_id
//	jobs   NAME, or NAME@RUN from the second run of a name on → job
//	tasks  the same \0 INDEX → task
//	documents  KEY → document
//
// The value of a job, task or document is a checksum of key and text (4 bytes),
// followed by the text, which is JSON for jobs and tasks. bbolt itself does not
// detect a flipped bit in a value. Schema 1 has no checksums and schema 2 no
// documents; OpenBolt rewrites such files. Schema 3 has the same layout as schema 4,
// but releases that only know schema 3 would ignore what schema 4 added to jobs and
// documents: job dependencies, matrices, cordons and manual quotas. Releases that only
// know schema 4 cannot read several runs of a job, which schema 5 added. Releases that
// only know schema 5 would ignore the shares of tasks, which schema 6 renamed from parts.
// Those that only know schema 6 would run the newest one alone of several runs of a name
// that have not ended, which belong to several owners and which schema 7 permits.
const Schema = 7

// OldestSchema is the oldest schema of a file that OpenBolt opens. Journals in ZooKeeper
// started with schema 2.
const OldestSchema = 1

// lockTimeout is how long OpenBolt waits for another process, such as a scheduler
// that is being replaced, to release the file.
const lockTimeout = 2 * time.Second

func metaBucket() []byte      { return []byte("meta") }
func jobsBucket() []byte      { return []byte("jobs") }
func tasksBucket() []byte     { return []byte("tasks") }
func documentsBucket() []byte { return []byte("documents") }
func schemaKey() []byte       { return []byte("schema") }
func frameworkKey() []byte    { return []byte("framework_id") }

// BoltJournal is a Journal in one file.
type BoltJournal struct {
	// db is the open file. It is locked: a second scheduler gets ErrLocked.
	db *bolt.DB
	// path is the name of the file, for errors.
	path string
	// marked is set once this process has found or made the marker, or given that up; see markerPath.
	marked bool
	// reserve keeps disk space for the file.
	reserve diskReserve
}

// OpenBolt opens the journal at path, or creates it. The file is locked until
// Close. It returns ErrLocked, ErrCorrupt, ErrEmptied or ErrNewer, wrapped with the
// file's name and the remedy, and never modifies a file that it cannot read. It
// rewrites a mostly empty file into a smaller one.
func OpenBolt(path string) (b *BoltJournal, err error) {
	defer recoverCorruption(path, &err)()
	if err := checkFileSize(path); err != nil {
		return nil, err
	}
	db, err := openLocked(path)
	if err != nil {
		return nil, err
	}
	version, err := checkOrCreate(db, path)
	if err == nil && (version < Schema || isSparse(db)) {
		db, err = rewriteFile(db, path, version)
		if isDiskFull(err) && version == Schema {
			err = nil // the old file still works, and users must be able to kill jobs
		}
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &BoltJournal{db: db, path: path}, nil
}

// isDiskFull reports whether a write failed because the disk, or the user's quota of it, has no space.
func isDiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// openLocked opens and locks the file, after waiting up to lockTimeout. It opens the
// path again if the previous owner has replaced the file meanwhile.
func openLocked(path string) (*bolt.DB, error) {
	for {
		var opened fs.FileInfo
		db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: lockTimeout, OpenFile: func(name string, flag int, mode fs.FileMode) (*os.File, error) {
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
		case isDiskFull(err):
			return nil, fmt.Errorf("open journal %s: %w: free space there", path, err)
		case err != nil:
			return nil, corruptFile(path, err)
		}
		if now, err := os.Stat(path); err == nil && os.SameFile(opened, now) {
			if err := checkMetaPages(path); err != nil {
				return nil, errors.Join(corruptFile(path, err), db.Close())
			}
			return db, nil
		}
		if err := db.Close(); err != nil {
			return nil, fmt.Errorf("open journal %s: %w", path, err)
		}
	}
}

// checkFileSize rejects a file that is not empty but too short to be a journal: bbolt
// would treat some of those as new databases. It also rejects an empty or missing file
// whose marker exists.
func checkFileSize(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return checkMarkerAbsent(path, "it is missing")
	case err != nil:
		return fmt.Errorf("open journal: %w", err)
	case !info.Mode().IsRegular():
		return fmt.Errorf("open journal %s: it is not a regular file", path)
	case info.Size() == 0:
		return checkMarkerAbsent(path, "it has 0 bytes")
	case info.Size() < 4096:
		return corruptFile(path, fmt.Errorf("%d bytes are too few", info.Size()))
	}
	return nil
}

// corruptFile returns ErrCorrupt with the cause and the remedy.
func corruptFile(path string, err error) error {
	return fmt.Errorf("open journal %s: %w (%v): restore it from a backup, or move it and %s away to begin without the jobs it remembers",
		path, ErrCorrupt, err, markerPath(path))
}

// checkOrCreate validates an existing journal without writing to it, or creates the
// buckets of a new one. It returns the schema version.
func checkOrCreate(db *bolt.DB, path string) (version int, err error) {
	err = db.View(func(tx *bolt.Tx) error {
		if info, err := os.Stat(path); err != nil || info.Size() < tx.Size() {
			return corruptFile(path, fmt.Errorf("it is shorter than its %d bytes", tx.Size()))
		}
		if meta := tx.Bucket(metaBucket()); meta != nil {
			version, err = checkSchema(tx, meta, path)
			return err
		}
		if key, _ := tx.Cursor().First(); key != nil {
			return corruptFile(path, fmt.Errorf("it is another program's database, with a bucket %q", key))
		}
		return nil
	})
	if err != nil || version > 0 {
		return version, err
	}
	return Schema, db.Update(func(tx *bolt.Tx) error { return createBuckets(tx) })
}

// createBuckets makes the buckets of an empty file and records the schema.
func createBuckets(tx *bolt.Tx) error {
	for _, name := range [][]byte{metaBucket(), jobsBucket(), tasksBucket(), documentsBucket()} {
		if _, err := tx.CreateBucket(name); err != nil {
			return fmt.Errorf("create journal: bucket %s: %w", name, err)
		}
	}
	return tx.Bucket(metaBucket()).Put(schemaKey(), []byte(strconv.Itoa(Schema)))
}

// checkSchema returns the schema version of a file, or an error if this release cannot read it.
func checkSchema(tx *bolt.Tx, meta *bolt.Bucket, path string) (int, error) {
	version, err := strconv.Atoi(string(meta.Get(schemaKey())))
	switch {
	case err != nil:
		return 0, corruptFile(path, fmt.Errorf("schema version %q", meta.Get(schemaKey())))
	case version > Schema:
		return 0, fmt.Errorf("open journal %s: %w: it has schema version %d, this release reads up to %d: install the newer release again",
			path, ErrNewer, version, Schema)
	case version < OldestSchema || tx.Bucket(jobsBucket()) == nil || tx.Bucket(tasksBucket()) == nil || version >= 3 && tx.Bucket(documentsBucket()) == nil:
		return 0, corruptFile(path, fmt.Errorf("schema version %d without its buckets", version))
	}
	return version, nil
}

// Commit writes the change and waits until it is on disk. It ignores ctx: a local
// write either completes or fails. A failed write or fsync may nevertheless have changed the
// file, unless the disk was full.
func (b *BoltJournal) Commit(_ context.Context, c Change) error {
	all, err := encodeChange(c)
	if err != nil {
		return err
	}
	if err := b.writeMarkerOnce(); err != nil {
		return err
	}
	complete := false // whether the transaction has all records
	err = b.db.Update(func(tx *bolt.Tx) error {
		err := writeRecords(tx, all)
		complete = err == nil
		return err
	})
	switch {
	case err == nil:
		return nil
	case isDiskFull(err):
		return fmt.Errorf("write journal %s: %w: free space there, then start the scheduler", b.path, err)
	case complete:
		return fmt.Errorf("write journal %s: %w: %w", b.path, ErrUnknown, err)
	default:
		return fmt.Errorf("write journal %s: %w", b.path, err)
	}
}

// writeRecords writes the records in their order.
func writeRecords(tx *bolt.Tx, all []journalRecord) error {
	jobs, tasks := tx.Bucket(jobsBucket()), tx.Bucket(tasksBucket())
	for _, r := range all {
		var err error
		switch r.kind {
		case frameworkRecord:
			err = tx.Bucket(metaBucket()).Put(frameworkKey(), r.value)
		case removedRecord:
			err = removeJob(jobs, tasks, r.key)
		case jobRecord:
			err = jobs.Put([]byte(r.key), addChecksum(r))
		case taskRecord:
			err = tasks.Put([]byte(r.key), addChecksum(r))
		case documentRecord:
			err = putDocument(tx.Bucket(documentsBucket()), r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func putDocument(documents *bolt.Bucket, r journalRecord) error {
	if len(r.value) == 0 {
		return documents.Delete([]byte(r.key))
	}
	return documents.Put([]byte(r.key), addChecksum(r))
}

// removeJob deletes a run of a job and its tasks. It collects the keys first: a cursor may skip keys if the bucket changes.
func removeJob(jobs, tasks *bolt.Bucket, name string) error {
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

const checksumSize = 4

// recordChecksum returns the checksum of a key and its text. It covers the key, so that a value under another key is
// detected too.
func recordChecksum(key string, text []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	return crc32.Update(crc32.Checksum([]byte(key), table), table, text)
}

// addChecksum returns the record's value, prefixed with its checksum.
func addChecksum(r journalRecord) []byte {
	sealed := make([]byte, checksumSize, checksumSize+len(r.value))
	binary.BigEndian.PutUint32(sealed, recordChecksum(r.key, r.value))
	return append(sealed, r.value...)
}

// checkChecksum returns the text of a stored value, or an error if its checksum is wrong.
func checkChecksum(key string, sealed []byte) ([]byte, error) {
	if len(sealed) < checksumSize || binary.BigEndian.Uint32(sealed) != recordChecksum(key, sealed[checksumSize:]) {
		return nil, fmt.Errorf("the checksum of %q is wrong", key)
	}
	return sealed[checksumSize:], nil
}

// ConfirmLeading implements Journal: the lock of the file excludes other schedulers.
func (b *BoltJournal) ConfirmLeading(context.Context) error { return nil }

// Close closes and unlocks the file.
func (b *BoltJournal) Close() error {
	if err := b.db.Close(); err != nil {
		return fmt.Errorf("close journal %s: %w", b.path, err)
	}
	return nil
}
