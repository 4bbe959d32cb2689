package journal

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"mesos-gpu/internal/zktest"
	"mesos-gpu/job"
)

// The journals in testdata/upgrade were written by the release before the marker of a
// journal file, before the number of the last change in ZooKeeper and before runs of jobs.
// They hold the same contents.
func contentsBeforeUpgrade() JournalContents {
	one, three := testJob("one", 3), testJob("three", 1)
	one.Tasks[2].State = job.Finished
	three.Spec.Constraints = []job.Constraint{{Field: "@hostname", Operator: job.Like, Value: "gpu-[0-9]+"}}
	return JournalContents{FrameworkID: "f1", Jobs: []*job.Job{one, three}, Documents: map[string][]byte{"k": []byte("v")}}
}

func readFixture(t *testing.T, name string) []byte {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "upgrade", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// checkUpgrade checks that the contents are loaded, and that they and a new change are there
// after the journal is opened again.
func checkUpgrade(t *testing.T, open func() Journal) {
	t.Helper()
	want := contentsBeforeUpgrade()
	j := open()
	if diff := diffContents(want, loadContents(t, j)); diff != "" {
		t.Fatalf("loaded other contents: %s", diff)
	}
	two, again := testJob("two", 1), testRun(job.RunID{Name: "one", Run: 2}, 2)
	commitChange(t, j, Change{Jobs: []*job.Job{two, again}, Tasks: append(two.Tasks, again.Tasks...)})
	closeJournal(t, j)
	want.Jobs = []*job.Job{want.Jobs[0], again, want.Jobs[1], two}
	j = open()
	if diff := diffContents(want, loadContents(t, j)); diff != "" {
		t.Errorf("after a change: loaded other contents: %s", diff)
	}
	closeJournal(t, j)
}

// A file without a marker is opened, and has one from the first change on.
func TestFileOfReleaseBeforeIsOpened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	if err := os.WriteFile(path, readFixture(t, "journal.db.gz"), 0o600); err != nil {
		t.Fatal(err)
	}
	checkUpgrade(t, func() Journal { return openBolt(t, path) })
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenBolt(path); !errors.Is(err, ErrEmptied) {
		t.Errorf("emptied after the upgrade: got %v, want ErrEmptied", err)
	}
}

// A journal in ZooKeeper without the number of its last change is opened and followed, and
// has the number from the first change on.
func TestZnodesOfReleaseBeforeAreOpened(t *testing.T) {
	t.Parallel()
	s := newSession(t, zktest.StartServer(t).Addr())
	znodes := map[string][]byte{}
	if err := json.Unmarshal(readFixture(t, "znodes.json.gz"), &znodes); err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(znodes)) {
		if _, err := s.Conn.Create("/journal"+name, znodes[name], 0, s.ACL); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	copied, ended := newTestReplica(), make(chan error, 1)
	go func() { ended <- FollowJournal(ctx, s, "/journal", copied) }()
	follows := func(want int) {
		t.Helper()
		if all := copied.awaitUpToDate(t); len(all.Jobs) != want {
			t.Errorf("the follower has %d jobs, want %d", len(all.Jobs), want)
		}
	}
	follows(2)
	checkUpgrade(t, func() Journal { return openZooKeeper(t, s, "/journal") })
	follows(4)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Follow returned %v", err)
	}
	if last, err := (znodeStore{session: s, path: "/journal"}).lastEntry(testTimeout(t)); err != nil || last != 5 {
		t.Errorf("last entry %d, %v, want 5", last, err)
	}
}
