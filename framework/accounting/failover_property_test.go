package accounting_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"mesos-gpu/framework/accounting"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/leader"
	"mesos-gpu/framework/metrics"
	"mesos-gpu/framework/readmodel"
	"mesos-gpu/framework/sched"
	"mesos-gpu/internal/testing/frameworktest"
	"mesos-gpu/job"
)

// ledgerStart is when the first scheduler starts.
var ledgerStart = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// errCrash is the crash of a scheduler at a commit.
var errCrash = errors.New("crash")

// ledgerJournal is a journal in memory. It adds up how long devices and jobs are held by what it records, independently of
// the accounting.
type ledgerJournal struct {
	runs      map[job.RunID]*job.Job
	documents map[string][]byte
	framework string
	// held are the devices of placed tasks and when they were placed.
	held map[string]job.Task
	// ended are the tasks whose end is recorded. byDevice and byJob are seconds.
	ended           map[string]bool
	byDevice, byJob map[string]float64
	// crash is what happens at the next commit: the change is not recorded, or it is and nothing else happens.
	crash string
	// follow is a standby.
	follow *standby
}

// standby follows the journal with its own accounting.
type standby struct {
	model    *readmodel.Model
	recorder *accounting.Recorder
}

func (l *ledgerJournal) CheckSpace() error { return nil }

func (l *ledgerJournal) ConfirmLeading(context.Context) error { return nil }
func (l *ledgerJournal) Close() error                         { return nil }

func (l *ledgerJournal) Load(context.Context) (journal.JournalContents, error) {
	all := journal.JournalContents{FrameworkID: l.framework, Documents: map[string][]byte{}}
	for _, j := range l.runs {
		all.Jobs = append(all.Jobs, j.Clone())
	}
	for key, value := range l.documents {
		all.Documents[key] = value
	}
	return all, nil
}

func (l *ledgerJournal) Commit(_ context.Context, c journal.Change) error {
	crash := l.crash
	l.crash = ""
	if crash == "before" {
		return errCrash
	}
	if c.FrameworkID != "" {
		l.framework = c.FrameworkID
	}
	for _, id := range c.Removed {
		delete(l.runs, id)
	}
	for _, j := range c.Jobs {
		if old := l.runs[j.RunID()]; old != nil {
			old.Spec = j.Spec
			continue
		}
		l.runs[j.RunID()] = &job.Job{Spec: j.Spec, Run: j.Run, Submitted: j.Submitted, Tasks: make([]job.Task, j.Spec.Tasks)}
	}
	for i := range c.Tasks {
		t := c.Tasks[i]
		if j := l.runs[t.RunID()]; j != nil {
			j.Tasks[t.Index] = t
		}
		l.addTask(t)
	}
	for key, value := range c.Documents {
		if _, t, ok := sched.ParseAttempt(key, value); ok {
			l.addTask(t)
		}
		if e, ok := sched.ParseAttemptEnd(key, value); ok {
			l.addTask(e.Task)
		}
		if len(value) == 0 {
			delete(l.documents, key)
		} else {
			l.documents[key] = value
		}
	}
	if l.follow != nil {
		l.follow.model.ApplyChange(c)
		l.follow.recorder.ObserveChange(l.follow.model, c)
	}
	if crash == "after" {
		return errCrash
	}
	return nil
}

// addTask adds up the time of a task at its end.
func (l *ledgerJournal) addTask(t job.Task) {
	if t.State.IsPlaced() {
		if _, known := l.held[t.ID]; !known {
			l.held[t.ID] = t
		}
		return
	}
	start, known := l.held[t.ID]
	if !known || t.State.IsLive() || l.ended[t.ID] {
		return
	}
	l.ended[t.ID] = true
	seconds := t.Ended.Sub(start.Launched).Seconds()
	for _, id := range start.DeviceIDs {
		l.byDevice[id] += seconds
		l.byJob[t.Job] += seconds
	}
}

// schedulerRun is a scheduler that crashes and is followed by others.
type schedulerRun struct {
	t        *rapid.T
	journal  *ledgerJournal
	loop     *leader.Loop
	recorder *accounting.Recorder
	stop     func()
	path     string
	now      time.Time
	// free are the devices that agents offer.
	free map[string]bool
}

func recorderAt(path string) (*accounting.Recorder, func()) {
	r := accounting.New(accounting.RecorderConfig{Path: path, Clock: func() time.Time { return ledgerStart }, Log: frameworktest.DiscardLog()})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	return r, func() {
		cancel()
		<-ended
	}
}

// start starts a scheduler with what the journal has.
func (s *schedulerRun) start() {
	s.recorder, s.stop = recorderAt(s.path)
	past, err := s.journal.Load(context.Background())
	if err != nil {
		s.t.Fatal(err)
	}
	cfg := leader.LoopConfig{
		Sched:      sched.SchedulerSettings{MaxEndedTasks: 3, KeepRuns: 1, MaxAttempts: 3, UnreachableTimeout: time.Minute},
		Counters:   metrics.NewSchedulerCounters(),
		Clock:      func() time.Time { return s.now },
		Log:        frameworktest.DiscardLog(),
		Accounting: s.recorder,
	}
	s.loop = leader.NewLoop(cfg, past, s.journal, s.post)
	s.recorder.ObserveAll(s.loop.Model)
	s.step(sched.Subscribed{FrameworkID: "f"})
}

func (s *schedulerRun) post(op sched.Operation) {
	if a, ok := op.(sched.AcceptOffers); ok {
		for _, l := range a.Launches {
			for _, id := range l.DeviceIDs {
				s.free[id] = false
			}
		}
	}
}

// step applies events; after a crash the next scheduler starts.
func (s *schedulerRun) step(events ...sched.Event) {
	err := s.loop.RunBatch(context.Background(), func(_ *sched.State, apply func(sched.Event)) {
		for _, e := range events {
			apply(e)
		}
	})
	if err != nil {
		s.stop() // at any point of its writes
		s.start()
	}
}

// confirm reports to the loop what the accounting has stored.
func (s *schedulerRun) confirm() {
	var ids []string
	end := s.recorder.Lead(func(some []string) { ids = append(ids, some...) })
	s.recorder.ObserveAll(s.loop.Model)
	awaitStored(s.t, s.recorder)
	end()
	s.step(sched.AttemptsAccounted{TaskIDs: ids})
}

func (s *schedulerRun) offer() {
	for agent := range 2 {
		var ids []string
		for n := range 2 {
			if id := fmt.Sprintf("GPU-%d-%d", agent, n); s.free[id] {
				ids = append(ids, id)
			}
		}
		if len(ids) > 0 {
			url := fmt.Sprint("http://agent", agent)
			s.step(sched.OffersReceived{Offers: []sched.Offer{{ID: rapid.StringN(20, 20, -1).Draw(s.t, "offer"),
				AgentID: fmt.Sprint("a", agent), Hostname: fmt.Sprint("h", agent), AgentURL: url, GPUs: len(ids), DeviceIDs: ids,
				Types: []string{"V100"}, Unreserved: true, Free: sched.Amount{CPUs: 8, MemMiB: 1 << 14}}}})
			s.step(sched.Disconnected{}, sched.Subscribed{FrameworkID: "f"}) // unused offers are void
		}
	}
}

// end ends a task on its agent, and repeats the status until a scheduler has recorded it.
func (s *schedulerRun) end(id string, state job.State) {
	code := 0
	for range 3 { // a scheduler may crash at each of the statuses
		s.step(sched.TaskUpdate{TaskID: id, AgentID: s.journal.held[id].AgentID, State: job.Running})
		s.step(sched.TaskUpdate{TaskID: id, AgentID: s.journal.held[id].AgentID, State: state, ExitCode: &code, UUID: []byte("x")})
		if s.journal.ended[id] {
			break
		}
	}
	for _, device := range s.journal.held[id].DeviceIDs {
		s.free[device] = true
	}
}

// placed returns the tasks that are recorded as placed, sorted.
func (l *ledgerJournal) placed() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(l.held)), func(id string) bool { return l.ended[id] })
}

// TestSumsAreEqualThroughFailovers: whenever schedulers crash, the sums over jobs and over devices are those by the
// journal's records, each end counts once, and a standby has the same.
func TestSumsAreEqualThroughFailovers(t *testing.T) {
	dir := t.TempDir()
	n, seconds := 0, 0.0
	rapid.Check(t, func(t *rapid.T) {
		n++
		seconds += runFailovers(t, filepath.Join(dir, fmt.Sprint(n)))
	})
	if seconds < 1000 {
		t.Errorf("all runs together have %g s of GPU time", seconds)
	}
}

func runFailovers(t *rapid.T, dir string) (total float64) {
	l := &ledgerJournal{
		runs:      map[job.RunID]*job.Job{},
		documents: map[string][]byte{},
		held:      map[string]job.Task{},
		ended:     map[string]bool{},
		byDevice:  map[string]float64{},
		byJob:     map[string]float64{},
	}
	follower, stopFollower := recorderAt(filepath.Join(dir, "standby.db"))
	l.follow = &standby{readmodel.New(journal.JournalContents{}), follower}
	follower.ObserveAll(l.follow.model)
	s := &schedulerRun{t: t, now: ledgerStart, journal: l, path: filepath.Join(dir, "leader.db"), free: map[string]bool{}}
	for agent := range 2 {
		for n := range 2 {
			s.free[fmt.Sprintf("GPU-%d-%d", agent, n)] = true
		}
	}
	s.start()
	names := []string{"a", "b", "a.0", "c"}
	for range rapid.IntRange(5, 40).Draw(t, "steps") {
		s.now = s.now.Add(time.Duration(rapid.IntRange(0, 100_000).Draw(t, "pause")) * time.Millisecond)
		l.crash = rapid.SampledFrom([]string{"", "", "", "", "before", "after"}).Draw(t, "crash")
		switch rapid.IntRange(0, 6).Draw(t, "action") {
		case 0, 1:
			spec := frameworktest.JobSpec(rapid.SampledFrom(names).Draw(t, "job"), rapid.IntRange(1, 2).Draw(t, "tasks"), rapid.IntRange(1, 2).Draw(t, "gpus"))
			spec.Retries = rapid.IntRange(0, 2).Draw(t, "retries")
			spec.SetDefaults()
			s.step(sched.SubmitJob{Spec: spec})
			s.offer()
		case 2:
			s.offer()
		case 3, 4:
			if all := l.placed(); len(all) > 0 {
				s.end(rapid.SampledFrom(all).Draw(t, "task"), rapid.SampledFrom([]job.State{job.Finished, job.Failed, job.Lost, job.Killed}).Draw(t, "end"))
			}
		case 5:
			s.step(sched.KillJob{Job: rapid.SampledFrom(names).Draw(t, "killed")})
		case 6:
			s.confirm()
		}
		s.step(sched.Tick{})
	}
	l.crash = ""
	s.confirm()
	for key := range l.documents {
		if strings.HasPrefix(key, "scheduler/ended/") {
			t.Errorf("%s is still in the journal", key)
		}
	}
	for who, r := range map[string]*accounting.Recorder{"leader": s.recorder, "standby": follower} {
		compareAttempts(t, who, r, l)
		compareSums(t, who, r, "device", l.byDevice)
		compareSums(t, who, r, "job", l.byJob)
	}
	s.stop()
	stopFollower()
	for _, seconds := range l.byJob {
		total += seconds
	}
	return total
}

// awaitStored waits until what a recorder has observed is stored.
func awaitStored(t *rapid.T, r *accounting.Recorder) {
	if _, err := r.Report(context.Background(), &accounting.Query{}); err != nil {
		t.Fatal(err)
	}
}

func compareAttempts(t *rapid.T, who string, r *accounting.Recorder, l *ledgerJournal) {
	list, _, err := r.ListAttempts(context.Background(), &accounting.Query{}, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	stored := map[string]bool{}
	for _, one := range list {
		if stored[one.Task] {
			t.Errorf("%s: %s is stored twice", who, one.Task)
		}
		stored[one.Task] = true
	}
	for id := range l.ended {
		if !stored[id] {
			t.Errorf("%s: %s is not stored: it ended %+v", who, id, l.held[id])
		}
	}
}

func compareSums(t *rapid.T, who string, r *accounting.Recorder, by string, want map[string]float64) {
	report, err := r.Report(context.Background(), &accounting.Query{AccountingQuery: api.AccountingQuery{By: []string{by}}})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, g := range report.Groups {
		got[g.Keys[by]] = g.GPUSeconds
	}
	for key, seconds := range want {
		if math.Abs(got[key]-seconds) > 1e-6 {
			t.Errorf("%s: %s %s has %g GPU seconds, want %g", who, by, key, got[key], seconds)
		}
		delete(got, key)
	}
	for key, seconds := range got {
		if seconds != 0 {
			t.Errorf("%s: %s %s has %g GPU seconds, want none", who, by, key, seconds)
		}
	}
}
