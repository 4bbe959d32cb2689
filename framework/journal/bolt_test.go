package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/job"
)

func TestFileIsLockedByOneProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	b := openBolt(t, path)
	_, err := OpenBolt(path)
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), path) {
		t.Errorf("second opener got %v, want ErrLocked with the file's name", err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := openBolt(t, path).Close(); err != nil {
		t.Errorf("open after the first process closed the journal: %v", err)
	}
}

// TestFailedWriteMayBeRecorded: if writing to the disk fails, the outcome is unknown; a change that cannot be encoded is not
// recorded.
func TestFailedWriteMayBeRecorded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	b := openBolt(t, path)
	commitChange(t, b, putJob("a"))
	if err := b.Commit(t.Context(), Change{Documents: map[string][]byte{strings.Repeat("x", bolt.MaxKeySize+1): []byte("v")}}); err == nil ||
		errors.Is(err, ErrUnknown) {
		t.Errorf("a key that is too long: %v", err)
	}
	failWrites(t, path)
	if err := b.Commit(t.Context(), putJob("b")); !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), path) {
		t.Errorf("a write that fails: %v", err)
	}
	_ = b.Close()
}

// failWrites makes each write to the file that this process has open fail.
func failWrites(t *testing.T, path string) {
	t.Helper()
	readOnly, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer readOnly.Close()
	file, err := readOnly.Stat()
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil {
			t.Fatal(err)
		}
		if open, err := os.Stat("/proc/self/fd/" + e.Name()); err != nil || !os.SameFile(open, file) || fd == int(readOnly.Fd()) {
			continue
		}
		if err := unix.Dup3(int(readOnly.Fd()), fd, unix.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
	}
}

func TestNewerSchemaIsRejected(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	b, newer := openBolt(t, path), strconv.Itoa(Schema+1)
	err := b.db.Update(func(tx *bolt.Tx) error { return tx.Bucket(metaBucket()).Put(schemaKey(), []byte(newer)) })
	if err != nil || b.Close() != nil {
		t.Fatal(err)
	}
	before := readFileBytes(t, path)
	_, err = OpenBolt(path)
	if !errors.Is(err, ErrNewer) || !strings.Contains(err.Error(), "version "+newer) || !strings.Contains(err.Error(), "install") {
		t.Errorf("got %v, want ErrNewer with both versions and what to do", err)
	}
	if !bytes.Equal(before, readFileBytes(t, path)) {
		t.Error("the refused journal was changed")
	}
}

func readFileBytes(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestCorruptFileIsRejectedUnchanged damages a valid journal in many ways: OpenBolt or Load
// rejects each, or the damage is harmless, and the file is not modified.
func TestCorruptFileIsRejectedUnchanged(t *testing.T) {
	good := filepath.Join(t.TempDir(), "good.db")
	b := openBolt(t, good)
	j := testJob("train", 500)
	commitChange(t, b, Change{FrameworkID: "f1", Jobs: []*job.Job{j}, Tasks: j.Tasks})
	want := loadContents(t, b)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	data := readFileBytes(t, good)
	cases := map[string][]byte{
		"text":      []byte(strings.Repeat("not a journal\n", 1000)),
		"short":     []byte("x"),
		"zeros":     make([]byte, 64<<10),
		"truncated": data[:len(data)/2],
		"no metas":  append(make([]byte, 8192), data[8192:]...),
	}
	for page := 2; page < len(data)/4096; page++ {
		flipped := bytes.Clone(data)
		at := page * 4096
		if page%2 == 1 { // possibly in the middle of a text
			at += 2000
		}
		for i := range 64 {
			flipped[at+i] ^= 0xff
		}
		cases["page "+string(rune('0'+page%10))+strings.Repeat("+", page/10)] = flipped
	}
	refused := 0
	for name, damaged := range cases {
		path := filepath.Join(t.TempDir(), "journal.db")
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := openAndLoad(path)
		switch {
		case err == nil:
			if diff := diffContents(want, got); diff != "" {
				t.Errorf("%s: loaded other contents: %s", name, diff)
			}
		case !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), path):
			t.Errorf("%s: got %v, want ErrCorrupt with the file's name", name, err)
		default:
			refused++
			if !bytes.Equal(damaged, readFileBytes(t, path)) {
				t.Errorf("%s: the refused file was changed", name)
			}
		}
	}
	if refused < 5 {
		t.Errorf("only %d of %d damaged files were refused", refused, len(cases))
	}
}

func openAndLoad(path string) (JournalContents, error) {
	b, err := OpenBolt(path)
	if err != nil {
		return JournalContents{}, err
	}
	all, err := b.Load(context.Background())
	return all, errors.Join(err, b.Close())
}

func TestOtherFilesAreRejected(t *testing.T) {
	dir := t.TempDir()
	if _, err := OpenBolt(dir); err == nil {
		t.Error("a directory was opened")
	}
	if _, err := OpenBolt(filepath.Join(dir, "no", "journal.db")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing directory: got %v", err)
	}
	path := filepath.Join(dir, "other.db")
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(func(tx *bolt.Tx) error { _, err := tx.CreateBucket([]byte("recipes")); return err }); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenBolt(path); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "recipes") {
		t.Errorf("another program's database: got %v", err)
	}
}

// An empty file is a new journal, unless the journal had contents.
func TestEmptiedJournalIsRejected(t *testing.T) {
	for name, empty := range map[string]func(path string) error{
		"0 bytes": func(path string) error { return os.Truncate(path, 0) },
		"missing": os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal.db")
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			b := openBolt(t, path)
			commitChange(t, b, Change{FrameworkID: "f1"})
			closeJournal(t, b)
			if err := empty(path); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				_, err := OpenBolt(path)
				if !errors.Is(err, ErrEmptied) || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "remove "+markerPath(path)+" to begin") {
					t.Fatalf("got %v, want ErrEmptied with the remedy", err)
				}
			}
			if err := os.Remove(markerPath(path)); err != nil {
				t.Fatal(err)
			}
			b = openBolt(t, path)
			if all := loadContents(t, b); all.FrameworkID != "" {
				t.Errorf("a new journal holds %+v", all)
			}
			closeJournal(t, b)
		})
	}
}

// bbolt uses the other meta page if one is damaged, and with it the journal before the last
// change: the damage is reported instead.
func TestDamagedMetaPageIsRejected(t *testing.T) {
	good := filepath.Join(t.TempDir(), "good.db")
	b := openBolt(t, good)
	for i := range 5 {
		commitChange(t, b, Change{FrameworkID: string(rune('a' + i))})
		if err := checkMetaPages(good); err != nil {
			t.Fatalf("after change %d: %v", i, err)
		}
	}
	closeJournal(t, b)
	data := readFileBytes(t, good)
	page := os.Getpagesize()
	swapped := slices.Concat(data[page:2*page], data[:page], data[2*page:])
	cases := map[string][]byte{"swapped": swapped, "copied": slices.Concat(data[:page], data[:page], data[2*page:])}
	for i := range 2 {
		for at := range metaSize {
			flipped := bytes.Clone(data)
			flipped[i*page+metaOffset+at] ^= 4
			cases[fmt.Sprintf("byte %d of page %d", at, i)] = flipped
		}
	}
	path := filepath.Join(testneeds.MemoryDir(t), "journal.db")
	for name, damaged := range cases {
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := openAndLoad(path); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: got %v, want ErrCorrupt", name, err)
		}
	}
}

// Loading a large journal ends when its context does.
func TestLoadEndsWithItsContext(t *testing.T) {
	b := openBolt(t, filepath.Join(t.TempDir(), "journal.db"))
	defer closeJournal(t, b)
	commitChange(t, b, putJob("train"))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := b.Load(ctx); !errors.Is(err, context.Canceled) || errors.Is(err, ErrCorrupt) {
		t.Errorf("got %v", err)
	}
}
