package journal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/internal/zkconn"
	"mesos-gpu/internal/testing/zktest"
	"mesos-gpu/job"
)

func putJob(name string) Change {
	j := testJob(name, 1)
	return Change{Jobs: []*job.Job{j}, Tasks: j.Tasks}
}

func jobNames(all JournalContents) string {
	var names []string
	for _, j := range all.Jobs {
		names = append(names, j.Spec.Name)
	}
	return strings.Join(names, " ")
}

// Only the scheduler that opened the journal last can write; the previous one cannot change
// anything, neither with a small change nor with a large one.
func TestDeposedLeaderIsFenced(t *testing.T) {
	server := zktest.StartServer(t)
	for name, late := range map[string]Change{"small": putJob("late"), "large": {Jobs: []*job.Job{largeJob("late", 3<<20)}, Tasks: testJob("late", 3).Tasks}} {
		path := "/journal-" + name
		first := openZooKeeper(t, newSession(t, server.Addr()), path)
		commitChange(t, first, putJob("a"))
		if err := first.ConfirmLeading(testTimeout(t)); err != nil {
			t.Errorf("%s: while it leads: %v", name, err)
		}
		second := openZooKeeper(t, newSession(t, server.Addr()), path)
		if err := first.ConfirmLeading(testTimeout(t)); !errors.Is(err, ErrFenced) {
			t.Errorf("%s: the deposed one leads: %v", name, err)
		}
		if err := first.Commit(testTimeout(t), late); !errors.Is(err, ErrFenced) {
			t.Errorf("%s: the deposed one got %v", name, err)
		}
		commitChange(t, second, putJob("b"))
		if err := first.Commit(testTimeout(t), putJob("later")); !errors.Is(err, ErrFenced) {
			t.Errorf("%s: and then %v", name, err)
		}
		third := openZooKeeper(t, second.session, path)
		if got := jobNames(loadContents(t, third)); got != "a b" {
			t.Errorf("%s: journal holds %q", name, got)
		}
		if parts, err := third.listChildren(testTimeout(t), partsNode); err != nil || len(parts) > 0 {
			t.Errorf("%s: left behind %v, %v", name, parts, err)
		}
	}
}

// A scheduler whose candidate znode is gone cannot take the epoch from the next leader.
func TestEndedCandidacyCannotTakeEpoch(t *testing.T) {
	s := newSession(t, zktest.StartServer(t).Addr())
	_, err := OpenZooKeeper(testTimeout(t), ZooKeeperConfig{Session: s, Path: "/journal", Candidate: "/gone", Log: discardLog()})
	if !errors.Is(err, ErrFenced) || !strings.Contains(err.Error(), "/gone") {
		t.Errorf("got %v", err)
	}
	first := openZooKeeper(t, s, "/journal")
	_, err = OpenZooKeeper(testTimeout(t), ZooKeeperConfig{Session: s, Path: "/journal", Candidate: "/gone", Log: discardLog()})
	if !errors.Is(err, ErrFenced) {
		t.Errorf("got %v", err)
	}
	commitChange(t, first, putJob("a"))
}

var errCrash = errors.New("crash")

// After a crash at any step of a large commit, all of it or nothing is recorded, and the
// next leader removes the rest.
func TestCrashDuringLargeCommit(t *testing.T) {
	t.Parallel()
	s := newSession(t, zktest.StartServer(t).Addr())
	j := largeJob("large", 3<<20)
	for step := range 8 {
		path := fmt.Sprintf("/journal-%d", step)
		z := openZooKeeper(t, s, path)
		commitChange(t, z, putJob("a"))
		left := step
		z.faultHook = func(string) error {
			if left--; left < 0 {
				return errCrash
			}
			return nil
		}
		want := "a"
		err := z.Commit(testTimeout(t), Change{Jobs: []*job.Job{j}, Tasks: j.Tasks})
		switch {
		case err == nil:
			want = "a large"
		case !errors.Is(err, errCrash):
			t.Fatal(err)
		}
		again := openZooKeeper(t, s, path)
		if got := jobNames(loadContents(t, again)); got != want {
			t.Errorf("crash at step %d: %q, want %q", step, got, want)
		}
		parts, perr := again.listChildren(testTimeout(t), partsNode)
		if perr != nil || (err != nil) != (len(parts) == 0) {
			t.Errorf("crash at step %d: %d parts, %v", step, len(parts), perr)
		}
		if step == 7 && err != nil {
			t.Error("no step was the last")
		}
	}
}

// Compaction, and a crash at any of its steps, does not change the loaded contents, and
// old entries are removed.
func TestCompactionSurvivesCrashes(t *testing.T) {
	t.Parallel()
	s := newSession(t, zktest.StartServer(t).Addr())
	for _, crash := range []string{"", "stage", "snapshot", "remove"} {
		path := "/journal-" + crash
		z := openZooKeeper(t, s, path)
		for i := range 20 {
			commitChange(t, z, putJob(fmt.Sprintf("job-%02d", i)))
		}
		large := largeJob("large", 2<<20)
		commitChange(t, z, Change{FrameworkID: "f1", Jobs: []*job.Job{large}, Tasks: large.Tasks})
		want := loadContents(t, z)
		z.faultHook = func(step string) error {
			if step == crash {
				return errCrash
			}
			return nil
		}
		z.compact.startSnapshot(z)
		z.compact.running.Wait()
		done := <-z.compact.finished
		z.compact.finishSnapshot(z, done)
		if (crash != "") != errors.Is(done.err, errCrash) {
			t.Errorf("crash %q: %v", crash, done.err)
		}
		if crash == "" {
			if n, err := z.entryNumbers(testTimeout(t)); err != nil || len(n) != 0 {
				t.Errorf("%d log entries remain, %v", len(n), err)
			}
		}
		z.faultHook = func(string) error { return nil }
		commitChange(t, z, putJob("after"))
		z = openZooKeeper(t, s, path)
		after := testJob("after", 1)
		want.Jobs = slices.Insert(want.Jobs, 0, after)
		if diff := diffContents(want, loadContents(t, z)); diff != "" {
			t.Errorf("crash %q: %s", crash, diff)
		}
		if n, err := z.entryNumbers(testTimeout(t)); err != nil || (crash == "" || crash == "remove") != (len(n) == 1) {
			t.Errorf("crash %q: %d log entries, %v", crash, len(n), err)
		}
	}
}

// The log is compacted automatically, concurrently with commits.
func TestLogIsCompactedAutomatically(t *testing.T) {
	t.Parallel()
	s := newSession(t, zktest.StartServer(t).Addr())
	z := openZooKeeper(t, s, "/journal")
	z.compact.limit = 100
	j := testJob("train", 1)
	commitChange(t, z, Change{Jobs: []*job.Job{j}, Tasks: j.Tasks})
	for i := range 1000 {
		j.Tasks[0].Attempt = i
		commitChange(t, z, Change{Tasks: j.Tasks})
	}
	closeJournal(t, z)
	n, err := z.entryNumbers(testTimeout(t))
	if err != nil || len(n) >= 300 {
		t.Errorf("%d log entries, %v", len(n), err)
	}
	z = openZooKeeper(t, s, "/journal")
	if got := loadContents(t, z).Jobs[0].Tasks[0].Attempt; got != 999 {
		t.Errorf("attempt %d", got)
	}
}

// Commits whose answers are lost, because of broken connections and a restart of the
// server, are neither lost nor applied twice.
func TestLostAnswersNeitherLoseNorRepeatCommits(t *testing.T) {
	t.Parallel()
	server := zktest.StartServer(t)
	proxy := zktest.NewProxy(t, server.Addr())
	z := openZooKeeper(t, newSession(t, proxy.Addr()), "/journal")
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(150 * time.Millisecond):
			}
			if i == 4 {
				server.Kill()
				server.Restart()
			} else {
				proxy.BreakConnections()
			}
		}
	}()
	var want []string
	for began := time.Now(); time.Since(began) < 6*time.Second; {
		name := fmt.Sprintf("job-%06d", len(want))
		if err := z.Commit(testTimeout(t), putJob(name)); err != nil {
			t.Fatal(err)
		}
		want = append(want, name)
	}
	close(stop)
	<-stopped
	again := openZooKeeper(t, newSession(t, server.Addr()), "/journal")
	if got := jobNames(loadContents(t, again)); got != strings.Join(want, " ") {
		t.Errorf("%d were committed, there are %d", len(want), len(strings.Fields(got)))
	}
	if again.next != int64(len(want)+1) {
		t.Errorf("log goes up to %d after %d commits", again.next-1, len(want))
	}
}

// The answer to a commit is lost, and when the scheduler retries, another one leads: the
// error shows exactly whether the change is recorded.
func TestUnknownOutcomeOfADeposedLeader(t *testing.T) {
	s := newSession(t, zktest.StartServer(t).Addr())
	first := openZooKeeper(t, s, "/journal")
	data := []byte("what first wrote")
	if err := first.multiIfLeading(first.createRequest(entryNodeName(1), data)); err != nil {
		t.Fatal(err)
	}
	if err := first.readBack(data); err != nil {
		t.Errorf("the change is recorded, but the error is %v", err)
	}
	if err := first.readBack([]byte("another's")); !errors.Is(err, ErrFenced) {
		t.Errorf("another leader's change is recorded, but the error is %v", err)
	}
	first.next = 2
	if err := first.readBack(data); !errors.Is(err, ErrFenced) {
		t.Errorf("none is there: %v", err)
	}
	if _, err := s.Conn.Set("/journal/head", []byte(`{"schema":2,"next":9,"snapshot":{"id":"snap-2-9"}}`), -1); err != nil {
		t.Fatal(err)
	}
	if err := first.readBack(data); !errors.Is(err, ErrUnknown) {
		t.Errorf("the change may be in a snapshot, but the error is %v", err)
	}
}

// The schema of an older journal is upgraded before anything is written: the older release
// must not follow a journal that it cannot read.
func TestOlderSchemaIsUpgradedBeforeWriting(t *testing.T) {
	s := newSession(t, zktest.StartServer(t).Addr())
	closeJournal(t, openZooKeeper(t, s, "/journal"))
	if _, err := s.Conn.Set("/journal"+headNode, []byte(`{"schema":2,"next":1}`), -1); err != nil {
		t.Fatal(err)
	}
	z := openZooKeeper(t, s, "/journal")
	data, _, err := s.Conn.Get("/journal" + headNode)
	if want := fmt.Sprintf(`"schema":%d,`, Schema); err != nil || !strings.Contains(string(data), want) {
		t.Errorf("head %s, %v: want %s", data, err, want)
	}
	commitChange(t, z, Change{Documents: map[string][]byte{"k": []byte("v")}})
	closeJournal(t, z)
	z = openZooKeeper(t, s, "/journal")
	if all := loadContents(t, z); string(all.Documents["k"]) != "v" {
		t.Errorf("loaded %+v", all)
	}
	closeJournal(t, z)
}

// A commit that cannot reach ZooKeeper fails when the session is lost, not before.
func TestLostSessionLeavesTheOutcomeUnknown(t *testing.T) {
	server := zktest.StartServer(t)
	proxy := zktest.NewProxy(t, server.Addr())
	s, err := zkconn.Dial(testTimeout(t), zkconn.TargetFolder{Hosts: []string{proxy.Addr()}, Path: "/x"}, 5*time.Second, discardLog())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	z := openZooKeeper(t, s, "/journal")
	proxy.CutNetwork()
	if err := z.Commit(testTimeout(t), putJob("a")); !errors.Is(err, ErrUnknown) || !errors.Is(err, zkconn.ErrLost) {
		t.Errorf("got %v", err)
	}
	if s.IsHeld() {
		t.Error("the session is held")
	}
}

// dumpZnodes returns the data of all znodes except the epoch, which changes at each opening.
func dumpZnodes(t *testing.T, s *zkconn.Session, path string) map[string]string {
	t.Helper()
	all := map[string]string{}
	data, _, err := s.Conn.Get(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(path, epochNode) {
		all[path] = string(data)
	}
	children, _, err := s.Conn.Children(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range children {
		maps.Copy(all, dumpZnodes(t, s, path+"/"+c))
	}
	return all
}

func TestCorruptZnodesAreRejected(t *testing.T) {
	t.Parallel()
	s := newSession(t, zktest.StartServer(t).Addr())
	set := func(name, data string) func(path string) error {
		return func(path string) error { _, err := s.Conn.Set(path+name, []byte(data), -1); return err }
	}
	flip := func(name string, at int) func(path string) error {
		return func(path string) error {
			data, _, err := s.Conn.Get(path + name)
			if err == nil {
				data[(at+len(data))%len(data)] ^= 1
				_, err = s.Conn.Set(path+name, data, -1)
			}
			return err
		}
	}
	remove := func(name string) func(path string) error {
		return func(path string) error { return s.Conn.Delete(path+name, -1) }
	}
	cases := map[string]struct {
		damage func(path string) error
		want   error
	}{
		"newer":            {set(headNode, fmt.Sprintf(`{"schema":%d,"next":1}`, Schema+1)), ErrNewer},
		"older than any":   {set(headNode, `{"schema":1,"next":1}`), ErrCorrupt},
		"head":             {set(headNode, `{"schema":2,`), ErrCorrupt},
		"head removed":     {remove(headNode), ErrCorrupt},
		"entry removed":    {remove(entryNodeName(3)), ErrCorrupt},
		"entry's header":   {flip(entryNodeName(3), 0), ErrCorrupt},
		"entry's text":     {flip(entryNodeName(4), -10), ErrCorrupt},
		"entry's name":     {func(path string) error { _, err := s.Conn.Create(path+logNode+"/x", nil, 0, s.ACL); return err }, ErrCorrupt},
		"snapshot":         {flip(partsNode+"/snap-1-3.0", 100), ErrCorrupt},
		"snapshot removed": {remove(partsNode + "/snap-1-3.0"), ErrCorrupt},
		"part":             {flip(partsNode+"/log-1-5.1", 100), ErrCorrupt},
		"part removed":     {remove(partsNode + "/log-1-5.1"), ErrCorrupt},
		"epoch":            {set(epochNode, "x"), ErrCorrupt},
	}
	for name, tt := range cases {
		t.Run(name, func(t *testing.T) {
			path := "/" + strings.NewReplacer(" ", "-", "'", "").Replace(name)
			z := openZooKeeper(t, s, path)
			commitChange(t, z, putJob("a"))
			commitChange(t, z, putJob("b"))
			z.compact.startSnapshot(z)
			z.compact.finishSnapshot(z, <-z.compact.finished)
			commitChange(t, z, putJob("c"))
			commitChange(t, z, putJob("d"))
			large := largeJob("e", 1<<20)
			commitChange(t, z, Change{Jobs: []*job.Job{large}, Tasks: large.Tasks})
			if err := tt.damage(path); err != nil {
				t.Fatal(err)
			}
			before := dumpZnodes(t, s, path)
			_, err := OpenZooKeeper(testTimeout(t), ZooKeeperConfig{Session: s, Path: path, Log: discardLog()})
			if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), path) ||
				!strings.Contains(err.Error(), "install") && !strings.Contains(err.Error(), "backup") {
				t.Errorf("got %v, want %v with what to do", err, tt.want)
			}
			if diff := cmp.Diff(before, dumpZnodes(t, s, path)); diff != "" {
				t.Errorf("the refused journal was changed: %s", diff)
			}
		})
	}
}

// testReplica is a Replica on which a test can wait for a confirmation.
type testReplica struct {
	mu    sync.Mutex
	model mapModel
	fresh time.Time
	reset int
	more  chan struct{}
}

func newTestReplica() *testReplica {
	return &testReplica{model: mapModel{jobs: map[job.RunID]*job.Job{}, documents: map[string][]byte{}}, more: make(chan struct{}, 1)}
}

func (m *testReplica) ReplaceAll(all JournalContents) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.model = mapModel{frameworkID: all.FrameworkID, jobs: map[job.RunID]*job.Job{}, documents: map[string][]byte{}}
	m.reset++
	m.model.apply(Change{Jobs: all.Jobs, Documents: all.Documents})
}

func (m *testReplica) ApplyChange(c Change) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.model.apply(c)
}

func (m *testReplica) ConfirmUpToDate(asked time.Time) {
	m.mu.Lock()
	m.fresh = asked
	m.mu.Unlock()
	select {
	case m.more <- struct{}{}:
	default:
	}
}

func (m *testReplica) RefreshRequests() <-chan struct{} { return nil }

// awaitUpToDate waits until the replica contains everything committed before the call and returns its contents.
func (m *testReplica) awaitUpToDate(t *testing.T) JournalContents {
	t.Helper()
	now := time.Now()
	limit := time.After(time.Minute)
	for {
		m.mu.Lock()
		fresh, all := m.fresh.After(now), m.model.contents()
		m.mu.Unlock()
		if fresh {
			return all
		}
		select {
		case <-m.more:
		case <-limit:
			t.Fatal("the follower is not fresh again")
		}
	}
}

// A follower receives all commits: from before the journal exists, through compactions and
// broken connections.
func TestFollowerSeesAllCommits(t *testing.T) {
	t.Parallel()
	server := zktest.StartServer(t)
	proxy := zktest.NewProxy(t, server.Addr())
	ctx, cancel := context.WithCancel(context.Background())
	m, ended := newTestReplica(), make(chan error, 1)
	following := newSession(t, proxy.Addr())
	go func() { ended <- FollowJournal(ctx, following, "/journal", m) }()
	if all := m.awaitUpToDate(t); len(all.Jobs) != 0 {
		t.Errorf("before there is a journal: %+v", all)
	}
	z := openZooKeeper(t, newSession(t, server.Addr()), "/journal")
	same := func(when string) {
		t.Helper()
		if diff := cmp.Diff(loadContents(t, z), m.awaitUpToDate(t)); diff != "" {
			t.Errorf("%s: %s", when, diff)
		}
	}
	one := testJob("one", 2)
	commitChange(t, z, Change{FrameworkID: "f1", Jobs: []*job.Job{one}, Tasks: one.Tasks})
	same("new job")
	one.Tasks[1].State = job.Running
	commitChange(t, z, Change{Tasks: one.Tasks[1:]})
	same("changed task")
	large := largeJob("large", 2<<20)
	commitChange(t, z, Change{Removed: []job.RunID{{Name: "one", Run: 1}}, Jobs: []*job.Job{large}, Tasks: large.Tasks})
	same("large change")
	compact := func() {
		z.compact.startSnapshot(z)
		z.compact.finishSnapshot(z, <-z.compact.finished)
	}
	compact()
	commitChange(t, z, putJob("two"))
	same("compaction")
	m.mu.Lock()
	resets := m.reset
	m.mu.Unlock()
	// The follower is disconnected while compaction removes entries that it has not read.
	proxy.CutNetwork()
	proxy.BreakConnections()
	commitChange(t, z, putJob("three"))
	compact()
	commitChange(t, z, putJob("four"))
	proxy.HealNetwork()
	same("compaction while away")
	m.mu.Lock()
	if m.reset == resets {
		t.Error("the follower continued in a log that was removed")
	}
	m.mu.Unlock()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Follow returned %v", err)
	}
}

// A follower returns an error for each kind of damage, as the leader does; it neither waits
// for a missing znode nor continues without it.
func TestFollowRejectsCorruptJournal(t *testing.T) {
	t.Parallel()
	s := newSession(t, zktest.StartServer(t).Addr())
	remove := func(name string) func(path string) error {
		return func(path string) error { return s.Conn.Delete(path+name, -1) }
	}
	for name, tt := range map[string]struct {
		damage func(path string) error
		want   error
	}{
		"text": {func(path string) error {
			data, _, err := s.Conn.Get(path + entryNodeName(3))
			if err == nil {
				data[len(data)-3] ^= 1
				_, err = s.Conn.Set(path+entryNodeName(3), data, -1)
			}
			return err
		}, ErrCorrupt},
		"newer": {func(path string) error {
			_, err := s.Conn.Set(path+headNode, []byte(`{"schema":9,"next":1}`), -1)
			return err
		}, ErrNewer},
		"snapshot": {remove(partsNode + "/snap-1-2.0"), ErrCorrupt},
		"entry":    {remove(entryNodeName(2)), ErrCorrupt},
		"part":     {remove(partsNode + "/log-1-4.0"), ErrCorrupt},
		"head":     {remove(headNode), ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			path := "/" + name
			z := openZooKeeper(t, s, path)
			commitChange(t, z, putJob("a"))
			z.compact.startSnapshot(z)
			z.compact.finishSnapshot(z, <-z.compact.finished)
			commitChange(t, z, putJob("b"))
			commitChange(t, z, putJob("c"))
			large := largeJob("d", 1<<20)
			commitChange(t, z, Change{Jobs: []*job.Job{large}, Tasks: large.Tasks})
			if err := tt.damage(path); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			err := FollowJournal(ctx, s, path, newTestReplica())
			if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), path) ||
				!strings.Contains(err.Error(), "install") && !strings.Contains(err.Error(), "backup") {
				t.Errorf("got %v, want %v with what to do", err, tt.want)
			}
		})
	}
}
