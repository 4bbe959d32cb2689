package artifacts

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mesos-gpu/framework/request"
	"mesos-gpu/framework/taskoutput"
)

// newTail returns the output of a task that has printed text.
func newTail(t *testing.T, text string) *taskoutput.Tail {
	t.Helper()
	tail, err := taskoutput.ReadTail(func(file string, offset, length uint64) ([]byte, uint64, error) {
		if file != "stdout" {
			return nil, 0, request.ErrNoLog
		}
		size := uint64(len(text))
		return []byte(text[min(offset, size):min(offset+length, size)]), size, nil
	}, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return tail
}

// randomText returns a text that cannot be compressed.
func randomText(size int) string {
	text := make([]byte, size)
	for i := range text {
		text[i] = byte(rand.Uint32())
	}
	return string(text)
}

// storedTasks returns which of the tasks have output in a store.
func storedTasks(t *testing.T, s *Store, tasks ...string) string {
	t.Helper()
	var stored []string
	for _, task := range tasks {
		tail, err := s.ReadOutput(t.Context(), task)
		if err != nil {
			t.Fatal(err)
		}
		if has := s.HasOutput(task); has != (tail != nil) {
			t.Errorf("%s: HasOutput returns %v", task, has)
		}
		if tail != nil {
			stored = append(stored, task)
		}
	}
	return strings.Join(stored, " ")
}

// TestOutputMakesRoom: the oldest output of an owner makes room for the owner's newer output, that of all in a full store, and
// output for artifacts. Artifacts are never removed for output.
func TestOutputMakesRoom(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, s := range storesUnderTest(t, Limits{Task: 10_000, Owner: 10_000, Total: 16_000}) {
		minutes := 0
		write := func(task, owner string) error {
			t.Helper()
			minutes++
			return s.WriteOutput(t.Context(), task, owner, newTail(t, randomText(4000)), start.Add(time.Duration(minutes)*time.Minute))
		}
		expect := func(what, want string) {
			t.Helper()
			if got := storedTasks(t, s, "a1", "a2", "a3", "a4", "b1", "b2", "c1"); got != want {
				t.Errorf("%s: %s: stored is %s, want %s", name, what, got, want)
			}
		}
		for _, w := range []struct{ task, owner, want string }{
			{"a1", "alice", "a1"},
			{"b1", "bob", "a1 b1"},
			{"a2", "alice", "a1 a2 b1"},
			{"a3", "alice", "a2 a3 b1"}, // above the owner's limit
			{"c1", "carol", "a2 a3 c1"}, // above the total: the oldest of all
			{"c1", "carol", "a2 a3 c1"}, // again
		} {
			if err := write(w.task, w.owner); err != nil {
				t.Fatal(err)
			}
			expect("after "+w.task, w.want)
		}
		if r, err := s.Copy(t.Context(), taskNumber(0), "alice", []string{"a"}, fakeSandbox{"a": strings.Repeat("x", 9000)}, start); err != nil || r.Error != "" {
			t.Errorf("%s: artifacts are not copied: %+v, %v", name, r, err)
		}
		expect("after artifacts", "c1")
		if err := write("a4", "alice"); !errors.Is(err, ErrNoRoom) || !strings.Contains(err.Error(), "more than the limit of 10000 of one owner") {
			t.Errorf("%s: with only artifacts: %v", name, err)
		}
		expect("without room", "c1")
		if s.FindSandbox(t.Context(), taskNumber(0)) == nil {
			t.Errorf("%s: artifacts were removed", name)
		}
		if r, err := s.Copy(t.Context(), taskNumber(1), "bob", []string{"a"}, fakeSandbox{"a": strings.Repeat("x", 7000)}, start); err != nil || r.Error != "" {
			t.Errorf("%s: artifacts are not copied: %+v, %v", name, r, err)
		}
		if err := write("b2", "dave"); err == nil || errors.Is(err, ErrNoRoom) || !strings.Contains(err.Error(), "--artifacts-total-size") {
			t.Errorf("%s: in a store full of artifacts: %v", name, err)
		}
		expect("in a full store", "")
	}
}

// TestOutputIsLoadedAndRemoved: a new leader counts the output of known tasks and removes the rest, and what a crash has left.
func TestOutputIsLoadedAndRemoved(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, s := range storesUnderTest(t, Limits{Task: 10_000, Owner: 9000}) {
		for i := range 3 {
			if err := s.WriteOutput(t.Context(), fmt.Sprintf("t%d", i), "role r", newTail(t, randomText(4000)), start); err != nil && i < 2 {
				t.Fatal(err)
			}
		}
		if err := s.storage.writeFile(t.Context(), outputFolder+"/.new-17", []byte("x")); err != nil {
			t.Fatal(err)
		}
		s = &Store{storage: s.storage, limits: s.limits}
		for range 2 { // it is the leader again
			if err := s.LoadOutput(t.Context(), func(task string) (string, bool) { return "role r", task == "t2" }); err != nil {
				t.Fatal(err)
			}
		}
		if got := storedTasks(t, s, "t0", "t1", "t2"); got != "t2" || s.usage.owners["role r"] < 4000 || s.usage.owners["role r"] > 5000 {
			t.Errorf("%s: after a restart %s is stored, %v counted", name, got, s.usage.owners)
		}
		if files, err := s.storage.listFiles(t.Context(), outputFolder); err != nil || len(files) != 1 {
			t.Errorf("%s: the storage has %v, %v", name, files, err)
		}
		if err := s.RemoveExpired(t.Context(), start.AddDate(1, 0, 0)); err != nil || storedTasks(t, s, "t2") != "t2" {
			t.Errorf("%s: output expired like artifacts: %v", name, err)
		}
		if err := s.searchReports(t.Context(), start.AddDate(1, 0, 0)); err != nil || !s.HasOutput("t2") {
			t.Errorf("%s: output is forgotten with removed reports: %v", name, err)
		}
		if err := s.RemoveOutput(t.Context(), func(task string) bool { return task == "t2" }); err != nil || storedTasks(t, s, "t2") != "" || s.usage.total != 0 {
			t.Errorf("%s: after the record, %d bytes are counted: %v", name, s.usage.total, err)
		}
	}
	if tail, err := (*Store)(nil).ReadOutput(context.Background(), "t0"); tail != nil || err != nil {
		t.Errorf("without a store: %v, %v", tail, err)
	}
}

// TestOutputIsNoReport: output is neither listed as a report of artifacts nor removed with them.
func TestOutputIsNoReport(t *testing.T) {
	root := t.TempDir()
	s, err := NewStore(root, Limits{Task: 100, Keep: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	if err := s.WriteOutput(t.Context(), "train.0.1.a", "alice", newTail(t, "x\n"), now); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Copy(t.Context(), taskNumber(0), "alice", []string{"a"}, fakeSandbox{"a": "1"}, now); err != nil {
		t.Fatal(err)
	}
	names, err := s.storage.listReports(t.Context())
	if err != nil || !slices.Equal(names, []string{"train/1/0.json"}) {
		t.Errorf("listed %v, %v", names, err)
	}
	if err := s.RemoveExpired(t.Context(), now.Add(2*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(root); err != nil || len(left) != 1 {
		t.Errorf("left are %v, %v", left, err)
	}
	if info, err := os.Stat(filepath.Join(root, outputFolder, "train.0.1.a.gz")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the output: %v, %v", info, err)
	}
}
