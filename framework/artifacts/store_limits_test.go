package artifacts

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mesos-gpu/job"
)

// storesUnderTest returns a store with the limits in a folder and one in a bucket.
func storesUnderTest(t *testing.T, limits Limits) map[string]*Store {
	t.Helper()
	folder, err := NewStore(t.TempDir(), limits)
	if err != nil {
		t.Fatal(err)
	}
	bucket := startBucketStore(t, limits.Task)
	bucket.limits = limits
	return map[string]*Store{"folder": folder, "bucket": bucket}
}

// taskNumber returns a task with its own folder.
func taskNumber(i int) *job.Task {
	return &job.Task{ID: fmt.Sprintf("train.%d.1.a", i), Job: "train", Run: 1, Index: i}
}

// TestStoreLimits: an owner's artifacts above the limit are left out, a full store delays copies, and both refusals have both
// numbers. Room is free again when the operator has removed artifacts, and the numbers survive a restart.
func TestStoreLimits(t *testing.T) {
	for name, s := range storesUnderTest(t, Limits{Task: 100, Owner: 150, Total: 220}) {
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		text := strings.Repeat("x", 80)
		copyOf := func(i int, owner string) (note string) {
			t.Helper()
			r, err := s.Copy(t.Context(), taskNumber(i), owner, []string{"a"}, fakeSandbox{"a": text}, now)
			switch {
			case err != nil:
				return err.Error()
			case r.Error != "":
				return r.Error
			}
			return fmt.Sprintf("%d bytes", r.Files[0].Bytes)
		}
		expect := func(what, got, want string) {
			t.Helper()
			if !strings.Contains(got, want) {
				t.Errorf("%s: %s: got %q, want %q", name, what, got, want)
			}
		}
		expect("the first", copyOf(0, "alice"), "80 bytes")
		expect("the same again", copyOf(0, "alice"), "80 bytes")
		expect("above the owner's limit", copyOf(1, "alice"), "with a the artifacts of alice have 160 bytes, more than the limit of 150 of one owner")
		expect("another owner", copyOf(2, "bob"), "80 bytes")
		const full = "with a the store of artifacts has 240 bytes, more than its limit of 220"
		expect("above the total", copyOf(3, "carol"), full)
		s = &Store{storage: s.storage, limits: s.limits}
		expect("after a restart", copyOf(3, "carol"), full)
		if s.FindSandbox(t.Context(), taskNumber(3)) != nil {
			t.Errorf("%s: a copy that waits has artifacts", name)
		}
		if err := s.storage.remove(t.Context(), taskFolder(taskNumber(0))); err != nil {
			t.Fatal(err)
		}
		now = now.Add(reportsInterval)
		expect("after the operator has removed some", copyOf(3, "carol"), "80 bytes")
		expect("the owner has room again", copyOf(4, "alice"), full)
	}
}

// TestArtifactsExpire: artifacts and their reports are removed Keep after they were copied, others stay.
func TestArtifactsExpire(t *testing.T) {
	for name, s := range storesUnderTest(t, Limits{Task: 100, Owner: 100, Keep: time.Hour}) {
		start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		for i := range 2 {
			if _, err := s.Copy(t.Context(), taskNumber(i), "alice", []string{"a.json"}, fakeSandbox{"a.json": "{}"}, start.Add(time.Duration(i)*time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
		s = &Store{storage: s.storage, limits: s.limits}
		for _, c := range []struct {
			after time.Duration
			want  string
		}{{time.Hour, "true true"}, {time.Hour + time.Second, "false true"}, {2*time.Hour + time.Second, "false false"}} {
			now := start.Add(c.after)
			if err := s.RemoveExpired(t.Context(), now); err != nil {
				t.Fatal(err)
			}
			got := fmt.Sprint(s.FindSandbox(t.Context(), taskNumber(0)) != nil, s.FindSandbox(t.Context(), taskNumber(1)) != nil)
			if got != c.want || s.IsExpired(start, now) != (c.after > time.Hour) {
				t.Errorf("%s: after %s the artifacts exist: %s, want %s", name, c.after, got, c.want)
			}
		}
		if s.usage.total != 0 || len(s.usage.owners) != 0 {
			t.Errorf("%s: %d bytes are left of %v", name, s.usage.total, s.usage.owners)
		}
		if folder, ok := s.storage.(folderStorage); ok {
			if left, err := os.ReadDir(folder.root); err != nil || len(left) != 0 {
				t.Errorf("left over: %v, %v", left, err)
			}
		}
		if forever := (&Store{storage: s.storage}); forever.RemoveExpired(t.Context(), start) != nil || forever.IsExpired(start, start.AddDate(9, 0, 0)) {
			t.Errorf("%s: artifacts expire without a limit", name)
		}
	}
}

// TestDamagedReportsCountNothing: a report that cannot be parsed, and files of others, do not prevent copies.
func TestDamagedReportsCountNothing(t *testing.T) {
	root := t.TempDir()
	s, err := NewStore(root, Limits{Task: 100, Total: 100})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"train/1/7.json", "notes.json", "a/b/c/d.json"} {
		file := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if names, err := s.storage.listReports(t.Context()); err != nil || len(names) != 1 {
		t.Errorf("found the reports %v, %v", names, err)
	}
	if r, err := s.Copy(t.Context(), taskNumber(0), "alice", []string{"a"}, fakeSandbox{"a": "1"}, time.Now()); err != nil || len(r.Files) != 1 {
		t.Errorf("copied %+v, %v", r, err)
	}
}
