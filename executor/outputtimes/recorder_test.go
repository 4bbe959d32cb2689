package outputtimes

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"mesos-gpu/internal/outputindex"
)

func readEntries(t *testing.T, sandbox string) []outputindex.Entry {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(sandbox, outputindex.FileName))
	if err != nil {
		t.Fatal(err)
	}
	return outputindex.ParseEntries(text)
}

// The file stays small, its last entry is the newest one, and the older ones are in order.
func TestOldEntriesAreThinnedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sandbox := t.TempDir()
		r, err := Create(sandbox)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		begin := time.Now()
		var ends outputindex.Positions
		const writes = 100_000
		for i := range writes {
			time.Sleep(time.Millisecond)
			ends[i%2] += 100
			if err := r.Record(ends, outputindex.Positions{}); err != nil {
				t.Fatal(err)
			}
		}
		info, err := os.Stat(filepath.Join(sandbox, outputindex.FileName))
		if err != nil || info.Size() > maxFileBytes+1000 {
			t.Fatalf("the file has %d bytes: %v", info.Size(), err)
		}
		entries := readEntries(t, sandbox)
		last := entries[len(entries)-1]
		if last.Ends != ends || !last.Time.Equal(begin.Add(writes*time.Millisecond)) {
			t.Errorf("the last entry is %v", last)
		}
		if len(entries) < 8000 {
			t.Errorf("only %d entries are left", len(entries))
		}
		for _, e := range entries { // each write had 100 bytes and took 1 ms
			if want := begin.Add(time.Duration((e.Ends[0]+e.Ends[1])/100) * time.Millisecond); !e.Time.Equal(want) {
				t.Fatalf("%v: written at %v", e, want)
			}
		}
	})
}

// A link or a folder that the task puts in the file's place is replaced, not followed.
func TestLinksAreNotFollowed(t *testing.T) {
	sandbox, outside := t.TempDir(), filepath.Join(t.TempDir(), "passwd")
	for _, name := range []string{outputindex.FileName, outputindex.FileName + stagedSuffix} {
		if err := os.Symlink(outside, filepath.Join(sandbox, name)); err != nil {
			t.Fatal(err)
		}
	}
	r, err := Create(sandbox)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Record(outputindex.Positions{5, 0}, outputindex.Positions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(outside); !os.IsNotExist(err) {
		t.Errorf("the file outside exists: %v", err)
	}
	if entries := readEntries(t, sandbox); len(entries) != 1 {
		t.Errorf("%v", entries)
	}
}

func TestEqualEntriesAreNotRepeated(t *testing.T) {
	sandbox := t.TempDir()
	r, err := Create(sandbox)
	if err != nil {
		t.Fatal(err)
	}
	for _, ends := range []outputindex.Positions{{1, 0}, {1, 0}, {1, 2}} {
		if err := r.Record(ends, outputindex.Positions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.Record(outputindex.Positions{9, 9}, outputindex.Positions{}); err != nil {
		t.Fatal(err)
	}
	if entries := readEntries(t, sandbox); len(entries) != 2 {
		t.Errorf("%v", entries)
	}
}
