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
	"mesos-gpu/internal/zktest"
	"mesos-gpu/job"
)

func put(name string) Change {
	j := testJob(name, 1)
	return Change{Jobs: []*job.Job{j}, Tasks: j.Tasks}
}

func names(all Contents) string {
	var names []string
	for _, j := range all.Jobs {
		names = append(names, j.Spec.Name)
	}
	return strings.Join(names, " ")
}

// Whoever opened it last writes; the one before changes nothing more, with a
// small change or a large one.
func TestDeposedLeaderIsFenced(t *testing.T) {
	server := zktest.Start(t)
	for name, late := range map[string]Change{"small": put("late"), "large": {Jobs: []*job.Job{largeJob("late", 3<<20)}, Tasks: testJob("late", 3).Tasks}} {
		path := "/journal-" + name
		first := openZK(t, session(t, server.Addr()), path)
		commit(t, first, put("a"))
		second := openZK(t, session(t, server.Addr()), path)
		if err := first.Commit(within(t), late); !errors.Is(err, ErrFenced) {
			t.Errorf("%s: the deposed one got %v", name, err)
		}
		commit(t, second, put("b"))
		if err := first.Commit(within(t), put("later")); !errors.Is(err, ErrFenced) {
			t.Errorf("%s: and then %v", name, err)
		}
		third := openZK(t, second.session, path)
		if got := names(load(t, third)); got != "a b" {
			t.Errorf("%s: journal holds %q", name, got)
		}
		if parts, err := third.children(within(t), partsNode); err != nil || len(parts) > 0 {
			t.Errorf("%s: left behind %v, %v", name, parts, err)
		}
	}
}

// A scheduler whose candidacy has ended does not depose the next.
func TestWithoutItsCandidacyNobodyLeads(t *testing.T) {
	s := session(t, zktest.Start(t).Addr())
	_, err := OpenZooKeeper(within(t), ZooKeeperConfig{Session: s, Path: "/journal", Candidate: "/gone", Log: quiet()})
	if !errors.Is(err, ErrFenced) || !strings.Contains(err.Error(), "/gone") {
		t.Errorf("got %v", err)
	}
	first := openZK(t, s, "/journal")
	_, err = OpenZooKeeper(within(t), ZooKeeperConfig{Session: s, Path: "/journal", Candidate: "/gone", Log: quiet()})
	if !errors.Is(err, ErrFenced) {
		t.Errorf("got %v", err)
	}
	commit(t, first, put("a"))
}

var errCrash = errors.New("crash")

// A crash at every step of a large commit leaves all of it or nothing, and the
// next leader removes the rest.
func TestCrashWithinALargeChange(t *testing.T) {
	t.Parallel()
	s := session(t, zktest.Start(t).Addr())
	j := largeJob("large", 3<<20)
	for step := range 8 {
		path := fmt.Sprintf("/journal-%d", step)
		z := openZK(t, s, path)
		commit(t, z, put("a"))
		left := step
		z.fault = func(string) error {
			if left--; left < 0 {
				return errCrash
			}
			return nil
		}
		want := "a"
		err := z.Commit(within(t), Change{Jobs: []*job.Job{j}, Tasks: j.Tasks})
		switch {
		case err == nil:
			want = "a large"
		case !errors.Is(err, errCrash):
			t.Fatal(err)
		}
		again := openZK(t, s, path)
		if got := names(load(t, again)); got != want {
			t.Errorf("crash at step %d: %q, want %q", step, got, want)
		}
		parts, perr := again.children(within(t), partsNode)
		if perr != nil || (err != nil) != (len(parts) == 0) {
			t.Errorf("crash at step %d: %d parts, %v", step, len(parts), perr)
		}
		if step == 7 && err != nil {
			t.Error("no step was the last")
		}
	}
}

// Compaction, and a crash at each of its steps, change nothing of what is
// loaded, and old entries go.
func TestCompaction(t *testing.T) {
	t.Parallel()
	s := session(t, zktest.Start(t).Addr())
	for _, crash := range []string{"", "stage", "snapshot", "remove"} {
		path := "/journal-" + crash
		z := openZK(t, s, path)
		for i := range 20 {
			commit(t, z, put(fmt.Sprintf("job-%02d", i)))
		}
		large := largeJob("large", 2<<20)
		commit(t, z, Change{FrameworkID: "f1", Jobs: []*job.Job{large}, Tasks: large.Tasks})
		want := load(t, z)
		z.fault = func(step string) error {
			if step == crash {
				return errCrash
			}
			return nil
		}
		z.compact.start(z)
		z.compact.running.Wait()
		done := <-z.compact.finished
		z.compact.end(z, done)
		if (crash != "") != errors.Is(done.err, errCrash) {
			t.Errorf("crash %q: %v", crash, done.err)
		}
		if crash == "" {
			if n, err := z.numbers(within(t)); err != nil || len(n) != 0 {
				t.Errorf("%d log entries are left, %v", len(n), err)
			}
		}
		z.fault = func(string) error { return nil }
		commit(t, z, put("after"))
		z = openZK(t, s, path)
		after := testJob("after", 1)
		want.Jobs = slices.Insert(want.Jobs, 0, after)
		if diff := cmp.Diff(want, load(t, z)); diff != "" {
			t.Errorf("crash %q: %s", crash, diff)
		}
		if n, err := z.numbers(within(t)); err != nil || (crash == "" || crash == "remove") != (len(n) == 1) {
			t.Errorf("crash %q: %d log entries, %v", crash, len(n), err)
		}
	}
}

// The log of a long-lived scheduler is compacted by itself, beside commits.
func TestLogDoesNotGrowWithoutBound(t *testing.T) {
	t.Parallel()
	s := session(t, zktest.Start(t).Addr())
	z := openZK(t, s, "/journal")
	z.compact.limit = 100
	j := testJob("train", 1)
	commit(t, z, Change{Jobs: []*job.Job{j}, Tasks: j.Tasks})
	for i := range 1000 {
		j.Tasks[0].Attempt = i
		commit(t, z, Change{Tasks: j.Tasks})
	}
	closed(t, z)
	n, err := z.numbers(within(t))
	if err != nil || len(n) >= 300 {
		t.Errorf("%d log entries, %v", len(n), err)
	}
	z = openZK(t, s, "/journal")
	if got := load(t, z).Jobs[0].Tasks[0].Attempt; got != 999 {
		t.Errorf("attempt %d", got)
	}
}

// Commits whose answers get lost are neither lost nor done twice: connections
// break and the server restarts while they run.
func TestUnknownOutcomes(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	proxy := zktest.NewProxy(t, server.Addr())
	z := openZK(t, session(t, proxy.Addr()), "/journal")
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
				proxy.Break()
			}
		}
	}()
	var want []string
	for began := time.Now(); time.Since(began) < 6*time.Second; {
		name := fmt.Sprintf("job-%06d", len(want))
		if err := z.Commit(within(t), put(name)); err != nil {
			t.Fatal(err)
		}
		want = append(want, name)
	}
	close(stop)
	<-stopped
	again := openZK(t, session(t, server.Addr()), "/journal")
	if got := names(load(t, again)); got != strings.Join(want, " ") {
		t.Errorf("%d were committed, there are %d", len(want), len(strings.Fields(got)))
	}
	if again.next != int64(len(want)+1) {
		t.Errorf("log goes up to %d after %d commits", again.next-1, len(want))
	}
}

// The answer to a commit is lost, and when the scheduler asks again another
// leads: it is told exactly whether the change is recorded.
func TestUnknownOutcomeOfADeposedLeader(t *testing.T) {
	s := session(t, zktest.Start(t).Addr())
	first := openZK(t, s, "/journal")
	data := []byte("what first wrote")
	if err := first.guarded(first.create(entryNode(1), data)); err != nil {
		t.Fatal(err)
	}
	if err := first.readBack(data); err != nil {
		t.Errorf("it is there: %v", err)
	}
	if err := first.readBack([]byte("another's")); !errors.Is(err, ErrFenced) {
		t.Errorf("another's is there: %v", err)
	}
	first.next = 2
	if err := first.readBack(data); !errors.Is(err, ErrFenced) {
		t.Errorf("none is there: %v", err)
	}
	if _, err := s.Conn.Set("/journal/head", []byte(`{"schema":2,"next":9}`), -1); err != nil {
		t.Fatal(err)
	}
	if err := first.readBack(data); !errors.Is(err, ErrUnknown) {
		t.Errorf("it may be in a snapshot: %v", err)
	}
}

// A journal of an older release is marked as this one's before anything is
// written: the older release must not follow what it cannot read.
func TestOlderHeadIsRenewed(t *testing.T) {
	s := session(t, zktest.Start(t).Addr())
	closed(t, openZK(t, s, "/journal"))
	if _, err := s.Conn.Set("/journal"+headNode, []byte(`{"schema":2,"next":1}`), -1); err != nil {
		t.Fatal(err)
	}
	z := openZK(t, s, "/journal")
	data, _, err := s.Conn.Get("/journal" + headNode)
	if want := fmt.Sprintf(`"schema":%d,`, Schema); err != nil || !strings.Contains(string(data), want) {
		t.Errorf("head %s, %v: want %s", data, err, want)
	}
	commit(t, z, Change{Documents: map[string][]byte{"k": []byte("v")}})
	closed(t, z)
	z = openZK(t, s, "/journal")
	if all := load(t, z); string(all.Documents["k"]) != "v" {
		t.Errorf("loaded %+v", all)
	}
	closed(t, z)
}

// A commit that cannot reach ZooKeeper ends with its session, not before.
func TestLostSessionLeavesTheOutcomeUnknown(t *testing.T) {
	server := zktest.Start(t)
	proxy := zktest.NewProxy(t, server.Addr())
	s, err := zkconn.Dial(within(t), zkconn.Target{Hosts: []string{proxy.Addr()}, Path: "/x"}, 5*time.Second, quiet())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	z := openZK(t, s, "/journal")
	proxy.Cut()
	if err := z.Commit(within(t), put("a")); !errors.Is(err, ErrUnknown) || !errors.Is(err, zkconn.ErrLost) {
		t.Errorf("got %v", err)
	}
	if s.Held() {
		t.Error("the session is held")
	}
}

// dump is every znode's data, but for the epoch, which each opener changes.
func dump(t *testing.T, s *zkconn.Session, path string) map[string]string {
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
		maps.Copy(all, dump(t, s, path+"/"+c))
	}
	return all
}

func TestDamageInZooKeeper(t *testing.T) {
	t.Parallel()
	s := session(t, zktest.Start(t).Addr())
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
		"newer":            {set(headNode, `{"schema":7,"next":1}`), ErrNewer},
		"older than any":   {set(headNode, `{"schema":1,"next":1}`), ErrCorrupt},
		"head":             {set(headNode, `{"schema":2,`), ErrCorrupt},
		"head removed":     {remove(headNode), ErrCorrupt},
		"entry removed":    {remove(entryNode(3)), ErrCorrupt},
		"entry's header":   {flip(entryNode(3), 0), ErrCorrupt},
		"entry's text":     {flip(entryNode(4), -10), ErrCorrupt},
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
			z := openZK(t, s, path)
			commit(t, z, put("a"))
			commit(t, z, put("b"))
			z.compact.start(z)
			z.compact.end(z, <-z.compact.finished)
			commit(t, z, put("c"))
			commit(t, z, put("d"))
			large := largeJob("e", 1<<20)
			commit(t, z, Change{Jobs: []*job.Job{large}, Tasks: large.Tasks})
			if err := tt.damage(path); err != nil {
				t.Fatal(err)
			}
			before := dump(t, s, path)
			_, err := OpenZooKeeper(within(t), ZooKeeperConfig{Session: s, Path: path, Log: quiet()})
			if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "install") && !strings.Contains(err.Error(), "backup") {
				t.Errorf("got %v, want %v with what to do", err, tt.want)
			}
			if diff := cmp.Diff(before, dump(t, s, path)); diff != "" {
				t.Errorf("the refused journal was changed: %s", diff)
			}
		})
	}
}

// mirror is a Replica that tells when it is as somebody waits for.
type mirror struct {
	mu    sync.Mutex
	model model
	fresh time.Time
	reset int
	more  chan struct{}
}

func newMirror() *mirror {
	return &mirror{model: model{jobs: map[string]*job.Job{}}, more: make(chan struct{}, 1)}
}

func (m *mirror) Reset(all Contents) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.model = model{frameworkID: all.FrameworkID, jobs: map[string]*job.Job{}}
	m.reset++
	m.model.apply(Change{Jobs: all.Jobs})
}

func (m *mirror) Apply(c Change) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.model.apply(c)
}

func (m *mirror) Fresh(asked time.Time) {
	m.mu.Lock()
	m.fresh = asked
	m.mu.Unlock()
	select {
	case m.more <- struct{}{}:
	default:
	}
}

func (m *mirror) Wanted() <-chan struct{} { return nil }

// await waits until the mirror is fresh as of now and returns its contents.
func (m *mirror) await(t *testing.T) Contents {
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

// A follower sees all that is committed: from before the journal is there,
// through compactions and broken connections.
func TestFollow(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	proxy := zktest.NewProxy(t, server.Addr())
	ctx, cancel := context.WithCancel(context.Background())
	m, ended := newMirror(), make(chan error, 1)
	following := session(t, proxy.Addr())
	go func() { ended <- Follow(ctx, following, "/journal", m) }()
	if all := m.await(t); len(all.Jobs) != 0 {
		t.Errorf("before there is a journal: %+v", all)
	}
	z := openZK(t, session(t, server.Addr()), "/journal")
	same := func(when string) {
		t.Helper()
		if diff := cmp.Diff(load(t, z), m.await(t)); diff != "" {
			t.Errorf("%s: %s", when, diff)
		}
	}
	one := testJob("one", 2)
	commit(t, z, Change{FrameworkID: "f1", Jobs: []*job.Job{one}, Tasks: one.Tasks})
	same("new job")
	one.Tasks[1].State = job.Running
	commit(t, z, Change{Tasks: one.Tasks[1:]})
	same("changed task")
	large := largeJob("large", 2<<20)
	commit(t, z, Change{Removed: []string{"one"}, Jobs: []*job.Job{large}, Tasks: large.Tasks})
	same("large change")
	compact := func() {
		z.compact.start(z)
		z.compact.end(z, <-z.compact.finished)
	}
	compact()
	commit(t, z, put("two"))
	same("compaction")
	m.mu.Lock()
	resets := m.reset
	m.mu.Unlock()
	// Away while the log moves on beyond where it was.
	proxy.Cut()
	proxy.Break()
	commit(t, z, put("three"))
	compact()
	commit(t, z, put("four"))
	proxy.Heal()
	same("compaction while away")
	m.mu.Lock()
	if m.reset == resets {
		t.Error("it went on in a log that is gone")
	}
	m.mu.Unlock()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Follow returned %v", err)
	}
}

func TestFollowRefusesWhatItCannotRead(t *testing.T) {
	s := session(t, zktest.Start(t).Addr())
	z := openZK(t, s, "/journal")
	commit(t, z, put("a"))
	data, _, err := z.get(within(t), entryNode(1))
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)-3] ^= 1
	if _, err := s.Conn.Set("/journal"+entryNode(1), data, -1); err != nil {
		t.Fatal(err)
	}
	if err := Follow(within(t), s, "/journal", newMirror()); !errors.Is(err, ErrCorrupt) {
		t.Errorf("got %v", err)
	}
	if _, err := s.Conn.Set("/journal"+headNode, []byte(`{"schema":9,"next":1}`), -1); err != nil {
		t.Fatal(err)
	}
	if err := Follow(within(t), s, "/journal", newMirror()); !errors.Is(err, ErrNewer) {
		t.Errorf("got %v", err)
	}
}
