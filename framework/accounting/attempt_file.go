package accounting

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/sched"
	"mesos-gpu/job"
)

// The file has two buckets: the records by end and id, and the end of each id. Both change in one transaction, so that each
// id has one record. bbolt is the journal's database, too. SQLite would add 10 MB to the program, and a sum over a million
// records takes it longer than a scan of this file.
func recordsBucket() []byte { return []byte("attempts") }
func idsBucket() []byte     { return []byte("ids") }

// lockTimeout is how long opening waits for another process that has the file open.
const lockTimeout = 2 * time.Second

// attemptFile is the file of ended attempts. It is safe for concurrent use.
type attemptFile struct{ db *bolt.DB }

// openAttemptFile opens the file at path, or creates it and its folder. It fails if another process has it open.
func openAttemptFile(path string) (f *attemptFile, err error) {
	var file *os.File
	defer func() {
		if r := recover(); r != nil { // bbolt panics for some damaged files
			f, err = nil, fmt.Errorf("open %s: it is damaged: %v: move it away", path, r)
			if file != nil { // its mapping remains, and would keep the lock after a Close
				err = errors.Join(err, syscall.Flock(int(file.Fd()), syscall.LOCK_UN), file.Close())
			}
		}
	}()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	db, err := bolt.Open(path, 0o600, &bolt.Options{
		Timeout:      lockTimeout,
		FreelistType: bolt.FreelistMapType,
		OpenFile: func(name string, flag int, mode os.FileMode) (*os.File, error) {
			var err error
			file, err = os.OpenFile(name, flag, mode)
			return file, err
		},
	})
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		for _, name := range [][]byte{recordsBucket(), idsBucket()} {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", path, err), db.Close())
	}
	return &attemptFile{db}, nil
}

func (f *attemptFile) close() error { return f.db.Close() }

// addEnds stores the ends that are not stored yet, in one transaction. The end of an attempt that was given up as lost
// replaces its record. It returns the records that are new.
func (f *attemptFile) addEnds(ends []sched.AttemptEnd) (added []attemptRecord, err error) {
	err = f.db.Update(func(tx *bolt.Tx) error {
		records, ids := tx.Bucket(recordsBucket()), tx.Bucket(idsBucket())
		added = added[:0]
		var d recordDecoder
		for i := range ends {
			r := newRecord(&ends[i])
			if at := ids.Get([]byte(r.id)); at != nil {
				if r.state == string(job.Lost) {
					continue // it adds nothing to the stored end
				}
				var old attemptRecord
				key := append(bytes.Clone(at), r.id...)
				if err := d.decodeRecord(&old, key, records.Get(key)); err != nil {
					return err
				}
				if old.state != string(job.Lost) {
					continue
				}
				// The end stays the time of the loss: it is a part of the key.
				r.ended, r.usageState, r.usage = old.ended, old.usageState, old.usage
			} else {
				added = append(added, r)
			}
			if err := putRecord(tx, &r); err != nil {
				return err
			}
		}
		return nil
	})
	return added, err
}

// putRecord writes a record and its entry in the index of ids.
func putRecord(tx *bolt.Tx, r *attemptRecord) error {
	key := formatKey(r.ended, r.id)
	if err := tx.Bucket(recordsBucket()).Put(key, appendRecord(nil, r)); err != nil {
		return err
	}
	return tx.Bucket(idsBucket()).Put([]byte(r.id), key[:8])
}

// setUsage stores what was measured of an attempt, or that nothing is known of it. Concurrent calls share a transaction.
// A record that was removed meanwhile is no error.
func (f *attemptFile) setUsage(key []byte, state usageState, usage api.MeasuredUsage) error {
	return f.db.Batch(func(tx *bolt.Tx) error {
		var r attemptRecord
		value := tx.Bucket(recordsBucket()).Get(key)
		if value == nil {
			return nil // removed
		}
		if err := new(recordDecoder).decodeRecord(&r, key, value); err != nil {
			return err
		}
		r.usageState, r.usage = state, usage
		return putRecord(tx, &r)
	})
}

// eachRecord calls do for the records of ends from since up to until, which is exclusive and 0 for no limit, in their
// order, until it returns false. It starts after the record with the key after, unless that is nil. The record is reused:
// do must clone what it keeps. Writers do not wait for it, but the file grows while it reads.
func (f *attemptFile) eachRecord(since, until int64, after []byte, do func(r *attemptRecord) bool) error {
	return f.db.View(func(tx *bolt.Tx) error {
		c := tx.Bucket(recordsBucket()).Cursor()
		from := formatEnd(since)
		if bytes.Compare(after, from) > 0 {
			from = after
		}
		var r attemptRecord
		var d recordDecoder
		for k, v := c.Seek(from); k != nil; k, v = c.Next() {
			if bytes.Equal(k, after) {
				continue
			}
			if err := d.decodeRecord(&r, k, v); err != nil {
				return err
			}
			if until != 0 && r.ended >= until || !do(&r) {
				return nil
			}
		}
		return nil
	})
}

// recordsOfRun returns the records of a run that was submitted then, by their ends. The number of a run may be used again
// after all runs of the name were forgotten.
func (f *attemptFile) recordsOfRun(run job.RunID, submitted time.Time) (list []attemptRecord, err error) {
	err = f.db.View(func(tx *bolt.Tx) error {
		records := tx.Bucket(recordsBucket())
		prefix := []byte(run.Name + ".")
		c := tx.Bucket(idsBucket()).Cursor()
		var d recordDecoder
		for id, at := c.Seek(prefix); bytes.HasPrefix(id, prefix); id, at = c.Next() {
			var r attemptRecord
			key := append(bytes.Clone(at), id...)
			if err := d.decodeRecord(&r, key, records.Get(key)); err != nil {
				return err
			}
			if r.job == run.Name && r.run == run.Run && r.queued >= unixNano(submitted) {
				list = append(list, r)
			}
		}
		return nil
	})
	slices.SortFunc(list, func(a, b attemptRecord) int { return cmp.Or(cmp.Compare(a.ended, b.ended), cmp.Compare(a.id, b.id)) })
	return list, err
}

// oldest returns the oldest end, 0 if none exists.
func (f *attemptFile) oldest() (ended int64, err error) {
	err = f.db.View(func(tx *bolt.Tx) error {
		if k, _ := tx.Bucket(recordsBucket()).Cursor().First(); len(k) > 8 {
			ended = endOfKey(k)
		}
		return nil
	})
	return ended, err
}

// removeBatch is how many records one transaction removes.
const removeBatch = 1000

// removeOldest removes the oldest records that ended before a time or, if the file uses more than maxBytes, the oldest
// ones whatever their age, at most removeBatch. It returns whether there may be more to remove.
func (f *attemptFile) removeOldest(before, maxBytes int64) (more bool, err error) {
	tooLarge := f.usedBytes() > maxBytes
	err = f.db.Update(func(tx *bolt.Tx) error {
		c, n := tx.Bucket(recordsBucket()).Cursor(), 0
		for k, _ := c.First(); len(k) > 8 && n < removeBatch && (tooLarge || endOfKey(k) < before); k, _ = c.First() {
			if err := tx.Bucket(idsBucket()).Delete(k[8:]); err != nil {
				return err
			}
			if err := c.Delete(); err != nil {
				return err
			}
			n++
		}
		more = n == removeBatch
		return nil
	})
	return more, err
}

// usedBytes returns the bytes of the file without its free pages, which later records use.
func (f *attemptFile) usedBytes() (n int64) {
	_ = f.db.View(func(tx *bolt.Tx) error { n = tx.Size(); return nil })
	s := f.db.Stats()
	return n - int64(s.FreePageN+s.PendingPageN)*int64(f.db.Info().PageSize)
}
