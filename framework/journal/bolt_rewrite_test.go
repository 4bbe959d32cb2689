package journal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"

	"mesos-gpu/job"
)

// writeSchema1 writes a journal with schema 1: without checksums.
func writeSchema1(t *testing.T, path string, j *job.Job) {
	t.Helper()
	b := openBolt(t, path)
	all, err := encodeChange(Change{FrameworkID: "f1", Jobs: []*job.Job{j}, Tasks: j.Tasks})
	if err != nil {
		t.Fatal(err)
	}
	err = b.db.Update(func(tx *bolt.Tx) error {
		for _, r := range all {
			bucket, key := tx.Bucket(jobsBucket()), []byte(r.key)
			switch r.kind {
			case frameworkRecord:
				bucket, key = tx.Bucket(metaBucket()), frameworkKey()
			case taskRecord:
				bucket = tx.Bucket(tasksBucket())
			}
			if err := bucket.Put(key, r.value); err != nil {
				return err
			}
		}
		return tx.Bucket(metaBucket()).Put(schemaKey(), []byte("1"))
	})
	if err != nil {
		t.Fatal(err)
	}
	closeJournal(t, b)
}

func TestOlderSchemaIsRewritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := testJob("train", 20)
	writeSchema1(t, path, j)
	// A crash during an earlier rewrite left this file.
	if err := os.WriteFile(path+".new", []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		b := openBolt(t, path)
		if diff := cmp.Diff(JournalContents{FrameworkID: "f1", Jobs: []*job.Job{j}}, loadContents(t, b)); diff != "" {
			t.Error(diff)
		}
		if _, err := OpenBolt(path); !errors.Is(err, ErrLocked) {
			t.Errorf("a second opener got %v", err)
		}
		closeJournal(t, b)
	}
	if _, err := os.Stat(path + ".new"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("left behind: %v", err)
	}
}

func TestCorruptOlderSchemaIsLeftUnchanged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	writeSchema1(t, path, testJob("train", 20))
	data := bytes.ReplaceAll(readFileBytes(t, path), []byte(`{"id":`), []byte(`{"id"!`))
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenBolt(path); !errors.Is(err, ErrCorrupt) {
		t.Errorf("got %v", err)
	}
	if !bytes.Equal(data, readFileBytes(t, path)) {
		t.Error("the rejected journal was changed")
	}
}

func sizeOf(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// A file that was large once is shrunk at the next start, and a file that is written for
// a long time does not grow.
func TestSparseFileIsRewritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	b := openBolt(t, path)
	var big Change
	var gone []job.RunID
	for i := range 40 {
		j := testJob(fmt.Sprintf("job-%d", i), 1)
		j.Spec.Env = map[string]string{"DATA": strings.Repeat("x", 1<<20)}
		big.Jobs, big.Tasks, gone = append(big.Jobs, j), append(big.Tasks, j.Tasks...), append(gone, j.RunID())
	}
	commitChange(t, b, big)
	keep := testJob("keep", 3)
	commitChange(t, b, Change{FrameworkID: "f1", Removed: gone, Jobs: []*job.Job{keep}, Tasks: keep.Tasks})
	closeJournal(t, b)
	large := sizeOf(t, path)
	b = openBolt(t, path)
	if small := sizeOf(t, path); large < 40<<20 || small > 1<<20 {
		t.Errorf("%d bytes before, %d after", large, small)
	}
	if diff := cmp.Diff(JournalContents{FrameworkID: "f1", Jobs: []*job.Job{keep}}, loadContents(t, b)); diff != "" {
		t.Error(diff)
	}
	// 300 jobs are added and removed; 10 exist at a time.
	var last []job.RunID
	sizes := map[int]int64{}
	for i := range 300 {
		j := testJob(fmt.Sprintf("job-%d", i), 4)
		c := Change{Jobs: []*job.Job{j}, Tasks: j.Tasks}
		if last = append(last, j.RunID()); len(last) > 10 {
			c.Removed, last = last[:1], last[1:]
		}
		commitChange(t, b, c)
		sizes[i] = sizeOf(t, path)
	}
	if sizes[299] > 2*sizes[50] {
		t.Errorf("%d bytes after 50 jobs, %d after 300", sizes[50], sizes[299])
	}
	closeJournal(t, b)
}
