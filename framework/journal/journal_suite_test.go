package journal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"
	"pgregory.net/rapid"

	"mesos-gpu/framework/internal/zkconn"
	"mesos-gpu/gpu"
	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/internal/testing/zktest"
	"mesos-gpu/job"
)

// journalStore is one location at which a journal can be opened repeatedly.
type journalStore struct {
	open func(t testing.TB) Journal
}

// forEachJournal runs the test with each implementation.
func forEachJournal(t *testing.T, test func(t *testing.T, at journalStore)) {
	t.Parallel()
	t.Run("bolt", func(t *testing.T) { test(t, boltStore(t)) })
	t.Run("zookeeper", func(t *testing.T) { test(t, zkStore(t)) })
}

func boltStore(t testing.TB) journalStore {
	path := filepath.Join(testneeds.MemoryDir(t), "journal.db")
	return journalStore{func(t testing.TB) Journal { return openBolt(t, path) }}
}

func zkStore(t testing.TB) journalStore {
	s := newSession(t, zktest.StartServer(t).Addr())
	return journalStore{func(t testing.TB) Journal { return openZooKeeper(t, s, "/test/journal") }}
}

func discardLog() logrus.FieldLogger {
	log := logrus.New()
	log.SetOutput(io.Discard)
	return log
}

func testTimeout(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// newSession returns a session that survives stalls of this machine or of ZooKeeper.
func newSession(t testing.TB, addr string) *zkconn.Session {
	t.Helper()
	s, err := zkconn.Dial(testTimeout(t), zkconn.TargetFolder{Hosts: []string{addr}, Path: "/test"}, zktest.MaxSession, discardLog())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func openZooKeeper(t testing.TB, s *zkconn.Session, path string) *ZooKeeperJournal {
	t.Helper()
	z, err := OpenZooKeeper(testTimeout(t), ZooKeeperConfig{Session: s, Path: path, Log: discardLog()})
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func openBolt(t testing.TB, path string) *BoltJournal {
	t.Helper()
	b, err := OpenBolt(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func testJob(name string, tasks int) *job.Job {
	return testRun(job.RunID{Name: name, Run: 1}, tasks)
}

func testRun(run job.RunID, tasks int) *job.Job {
	code, name := 3, run.Name
	j := &job.Job{
		Spec: &job.Spec{
			Name:    name,
			Tasks:   tasks,
			CPUs:    1,
			MemMiB:  256,
			Request: gpu.Request{GPUs: 2, Types: gpu.TypeSelector{Include: []string{"V100"}}},
			Command: []string{"true"},
		},
		Run: run.Run, Submitted: time.Unix(1_700_000_000, 5).UTC(), Tasks: []job.Task{},
	}
	for i := range tasks {
		j.Tasks = append(j.Tasks, job.Task{
			ID:        name + ".x",
			Job:       name,
			Run:       run.Run,
			Index:     i,
			Attempt:   1,
			State:     job.Waiting,
			DeviceIDs: []string{"GPU-a"},
			ExitCode:  &code,
			Changed:   time.Unix(9, 0).UTC(),
		})
	}
	return j
}

func commitChange(t testing.TB, j Journal, c Change) {
	t.Helper()
	if err := j.Commit(context.Background(), c); err != nil {
		t.Fatal(err)
	}
}

func loadContents(t testing.TB, j Journal) JournalContents {
	t.Helper()
	all, err := j.Load(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func closeJournal(t testing.TB, j Journal) {
	t.Helper()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestCommittedChangesAreLoaded(t *testing.T) {
	forEachJournal(t, func(t *testing.T, at journalStore) {
		b := at.open(t)
		if all := loadContents(t, b); all.FrameworkID != "" || len(all.Jobs) != 0 {
			t.Fatalf("new journal holds %+v", all)
		}
		one, two := testJob("one", 300), testJob("one.more", 2)
		commitChange(t, b, Change{FrameworkID: "f1", Jobs: []*job.Job{one, two}, Tasks: append(one.Tasks[:300:300], two.Tasks...)})
		one.Tasks[299].State = job.Running
		commitChange(t, b, Change{Tasks: one.Tasks[299:]})
		want := JournalContents{FrameworkID: "f1", Jobs: []*job.Job{one, two}}
		if diff := cmp.Diff(want, loadContents(t, b)); diff != "" {
			t.Errorf("before the journal is closed (-want +got):\n%s", diff)
		}
		closeJournal(t, b)

		b = at.open(t)
		if diff := cmp.Diff(want, loadContents(t, b)); diff != "" {
			t.Errorf("after reopening (-want +got):\n%s", diff)
		}
		// Removals apply before additions: the name is reused, with fewer tasks.
		again := testJob("one", 1)
		commitChange(t, b, Change{Removed: []job.RunID{{Name: "one", Run: 1}, {Name: "unknown", Run: 1}}, Jobs: []*job.Job{again}, Tasks: again.Tasks})
		if diff := cmp.Diff(JournalContents{FrameworkID: "f1", Jobs: []*job.Job{again, two}}, loadContents(t, b)); diff != "" {
			t.Errorf("after reuse of a name (-want +got):\n%s", diff)
		}
		closeJournal(t, b)
		if err := b.Commit(context.Background(), Change{FrameworkID: "f2"}); err == nil || !strings.Contains(err.Error(), "write journal") {
			t.Errorf("commit after close: %v", err)
		}
	})
}

// A change that cannot be written completely has no effect.
func TestFailedCommitLeavesNothing(t *testing.T) {
	forEachJournal(t, func(t *testing.T, at journalStore) {
		b := at.open(t)
		one := testJob("one", 2)
		commitChange(t, b, Change{FrameworkID: "f1", Jobs: []*job.Job{one}, Tasks: one.Tasks})
		good, bad := testJob("good", 1), testJob("bad", 1)
		bad.Spec.CPUs = math.NaN() // not representable in JSON
		err := b.Commit(context.Background(), Change{
			FrameworkID: "f2",
			Removed:     []job.RunID{{Name: "one", Run: 1}},
			Jobs:        []*job.Job{good, bad},
			Tasks:       append(good.Tasks, bad.Tasks...),
		})
		if err == nil {
			t.Fatal("NaN was written")
		}
		closeJournal(t, b)
		b = at.open(t)
		if diff := cmp.Diff(JournalContents{FrameworkID: "f1", Jobs: []*job.Job{one}}, loadContents(t, b)); diff != "" {
			t.Error(diff)
		}
		closeJournal(t, b)
	})
}

// incompressibleText returns a text that does not compress, so that a change has its full size.
func incompressibleText(n int) string {
	var b strings.Builder
	for x := uint64(88172645463325252); b.Len() < n; {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		fmt.Fprintf(&b, "%x", x)
	}
	return b.String()[:n]
}

func largeJob(name string, size int) *job.Job {
	j := testJob(name, 3)
	j.Spec.Env = map[string]string{"DATA": incompressibleText(size)}
	return j
}

// diffContents is cmp.Diff, which takes seconds for large contents, unless they are equal.
func diffContents(want, got JournalContents) string {
	if reflect.DeepEqual(want, got) {
		return ""
	}
	return cmp.Diff(want, got)
}

// A change can be many times larger than one request to ZooKeeper.
func TestLargeChange(t *testing.T) {
	forEachJournal(t, func(t *testing.T, at journalStore) {
		b := at.open(t)
		var c Change
		for i := range 8 {
			j := largeJob(fmt.Sprintf("job-%d", i), 1<<20)
			c.Jobs, c.Tasks = append(c.Jobs, j), append(c.Tasks, j.Tasks...)
		}
		commitChange(t, b, c)
		closeJournal(t, b)
		b = at.open(t)
		if diff := diffContents(JournalContents{Jobs: c.Jobs}, loadContents(t, b)); diff != "" {
			t.Error("another came back")
		}
		closeJournal(t, b)
	})
}

func TestMissingTaskIsRejected(t *testing.T) {
	forEachJournal(t, func(t *testing.T, at journalStore) {
		b := at.open(t)
		j := testJob("train", 2)
		commitChange(t, b, Change{Jobs: []*job.Job{j}, Tasks: j.Tasks[:1]})
		if _, err := b.Load(context.Background()); !errors.Is(err, ErrCorrupt) {
			t.Errorf("got %v, want ErrCorrupt", err)
		}
		closeJournal(t, b)
	})
}

// mapModel is a simple reference implementation of a journal.
type mapModel struct {
	frameworkID string
	jobs        map[job.RunID]*job.Job
	documents   map[string][]byte
}

func (m *mapModel) apply(c Change) {
	if c.FrameworkID != "" {
		m.frameworkID = c.FrameworkID
	}
	for _, run := range c.Removed {
		delete(m.jobs, run)
	}
	for _, j := range c.Jobs {
		now := j.Clone()
		if old := m.jobs[j.RunID()]; old != nil {
			now.Tasks = append(old.Tasks, make([]job.Task, j.Spec.Tasks-len(old.Tasks))...)
		}
		m.jobs[j.RunID()] = now
	}
	for _, t := range c.Tasks {
		m.jobs[t.RunID()].Tasks[t.Index] = t
	}
	for key, value := range c.Documents {
		if m.documents[key] = value; len(value) == 0 {
			delete(m.documents, key)
		}
	}
}

func (m *mapModel) contents() JournalContents {
	all := JournalContents{FrameworkID: m.frameworkID}
	if len(m.documents) > 0 {
		all.Documents = m.documents
	}
	for _, j := range m.jobs {
		all.Jobs = append(all.Jobs, j)
	}
	slices.SortFunc(all.Jobs, func(a, b *job.Job) int { return strings.Compare(formatRunKey(a.RunID()), formatRunKey(b.RunID())) })
	return all
}

// change draws a random change that a scheduler might make.
func (m *mapModel) change(t *rapid.T) Change {
	var c Change
	if rapid.IntRange(0, 9).Draw(t, "framework") == 0 {
		c.FrameworkID = rapid.StringMatching("f[0-9]").Draw(t, "id")
	}
	for range rapid.IntRange(0, 3).Draw(t, "jobs") {
		name := rapid.SampledFrom([]string{"a", "a.b", "a-b", "b", "c", "aa"}).Draw(t, "name")
		run := job.RunID{Name: name, Run: rapid.SampledFrom([]int{1, 1, 2, 10}).Draw(t, "run")}
		if slices.ContainsFunc(c.Jobs, func(j *job.Job) bool { return j.RunID() == run }) {
			continue
		}
		if m.jobs[run] != nil {
			c.Removed = append(c.Removed, run)
			if rapid.Bool().Draw(t, "gone") {
				continue
			}
		}
		j := testRun(run, rapid.IntRange(1, 4).Draw(t, "tasks"))
		j.Submitted = time.Unix(rapid.Int64Range(1, 1<<30).Draw(t, "submitted"), 0).UTC()
		for _, kind := range rapid.SliceOfN(rapid.SampledFrom(job.ChangeKinds()), 0, 2).Draw(t, "changes") {
			j.AddChange(job.Change{Time: j.Submitted, Kind: kind, State: job.Running, By: "ada", From: 1, To: 2, Version: 3, Keys: "env", Reason: "load"})
		}
		c.Jobs, c.Tasks = append(c.Jobs, j), append(c.Tasks, j.Tasks...)
	}
	for run, j := range m.jobs {
		if slices.Contains(c.Removed, run) || !rapid.Bool().Draw(t, "touch") {
			continue
		}
		if rapid.IntRange(0, 3).Draw(t, "grow") == 0 && len(j.Tasks) < 12 {
			more := testRun(run, len(j.Tasks)+1)
			more.Submitted, more.Spec.CPUs = j.Submitted, 2
			more.Version, more.OldSpecs = j.Version+1, map[int]*job.Spec{j.Version: j.Spec}
			c.Jobs, c.Tasks = append(c.Jobs, more), append(c.Tasks, more.Tasks[len(j.Tasks)])
		}
		task := j.Tasks[rapid.IntRange(0, len(j.Tasks)-1).Draw(t, "index")]
		task.State = rapid.SampledFrom(job.States()).Draw(t, "state")
		task.Message = rapid.StringN(0, 20, 100).Draw(t, "message")
		c.Tasks = append(c.Tasks, task)
	}
	if rapid.Bool().Draw(t, "document") {
		key := rapid.SampledFrom([]string{"k", "a/b", "a"}).Draw(t, "key")
		c.Documents = map[string][]byte{key: []byte(rapid.StringN(0, 3, 12).Draw(t, "value"))}
	}
	return c
}

// TestRandomChanges commits 2,000 changes in 100 series, reopens the journal at random, and
// compares the contents with a map.
func TestRandomChanges(t *testing.T) {
	forEachJournal(t, func(t *testing.T, at journalStore) {
		b := at.open(t)
		m := &mapModel{jobs: map[job.RunID]*job.Job{}, documents: map[string][]byte{}}
		changes := 0
		rapid.Check(t, func(r *rapid.T) {
			for range 20 {
				c := m.change(r)
				m.apply(c)
				commitChange(t, b, c)
				changes++
			}
			if rapid.Bool().Draw(r, "reopen") {
				closeJournal(t, b)
				b = at.open(t)
			}
			if diff := diffContents(m.contents(), loadContents(t, b)); diff != "" {
				r.Fatalf("after %d changes (-want +got):\n%s", changes, diff)
			}
		})
		if changes < 2000 && !testing.Short() { // a short run has a fifth of the series
			t.Errorf("only %d changes", changes)
		}
		closeJournal(t, b)
	})
}
