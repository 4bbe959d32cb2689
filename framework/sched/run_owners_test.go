package sched

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"mesos-gpu/job"
)

// nameWorld is a State in which several users submit jobs of one name.
type nameWorld struct {
	*testing.T
	st  *State
	now time.Time
}

func newNameWorld(t *testing.T, cfg SchedulerSettings) *nameWorld {
	w := &nameWorld{T: t, st: New(cfg, RecoveredState{}), now: time.Unix(1_700_000_000, 0)}
	w.step(Subscribed{FrameworkID: "f"})
	return w
}

func (w *nameWorld) step(e Event) {
	w.now = w.now.Add(time.Second)
	w.st.Step(w.now, e)
}

// submit submits a job of an owner that must be admitted.
func (w *nameWorld) submit(owner, name string, change ...func(*job.Spec)) {
	w.Helper()
	spec := testSpec(name)
	spec.Owner = owner
	for _, f := range change {
		f(&spec)
	}
	spec.SetDefaults()
	if err := w.st.Admit(&spec); err != nil {
		w.Fatal(err)
	}
	w.step(SubmitJob{Spec: spec})
}

func (w *nameWorld) run(name string) *job.Job {
	w.Helper()
	j, ok := w.st.Job(name)
	if !ok {
		w.Fatalf("there is no job %s", name)
	}
	return j
}

// Runs are kept and forgotten for each owner: a user cannot remove the history of another one by taking the name.
func TestRunsAreKeptPerOwner(t *testing.T) {
	w := newNameWorld(t, SchedulerSettings{KeepRuns: 2})
	for range 3 {
		for _, owner := range []string{"alice", "bob"} {
			w.submit(owner, "a")
			w.step(KillJob{Job: "a"})
		}
	}
	if got := runNames(w.st); got != "a@3 a@4 a@5 a@6" {
		t.Errorf("the State has %s", got)
	}
	w.step(ForgetJob{Job: "a"})
	if got := runNames(w.st); got != "a@3 a@5" {
		t.Errorf("after bob's runs are forgotten the State has %s", got)
	}
	if run, live, ok := w.st.NewestOfOwner("alice", "a"); run != (job.RunID{Name: "a", Run: 5}) || live || !ok {
		t.Errorf("alice's newest run is %s, live: %t, %t", run, live, ok)
	}
	if _, _, ok := w.st.NewestOfOwner("bob", "a"); ok {
		t.Error("bob still has a run")
	}
}

// Two users have jobs of one name at the same time, which wait, start and end each for itself. A user has one.
func TestLiveJobsOfOneName(t *testing.T) {
	w := newNameWorld(t, SchedulerSettings{})
	ask := func(cpus float64) func(*job.Spec) { return func(s *job.Spec) { s.CPUs, s.Request.GPUs = cpus, 0 } }
	w.submit("alice", "a", ask(1))
	w.submit("bob", "a", ask(64))
	w.submit("bob", "b", func(s *job.Spec) { s.After = []job.Dependency{{Job: "a", Outcome: job.OutcomeEnded}} })
	again := testSpec("a")
	again.Owner = "bob"
	var live *JobNotEndedError
	if err := w.st.Admit(&again); !errors.As(err, &live) {
		t.Errorf("a second job of bob: %v", err)
	}
	if order := w.st.QueueOrder(); !slices.Equal(order, []job.RunID{{Name: "a", Run: 1}, {Name: "a", Run: 2}, firstRun("b")}) {
		t.Errorf("the queue is %v", order)
	}
	w.step(OffersReceived{Offers: []Offer{{ID: "o", AgentID: "x", Hostname: "x", Free: Amount{CPUs: 8, MemMiB: 10_000}}}})
	w.step(Cycle{})
	if one, two := w.run("a@1").State(), w.run("a@2").State(); one != job.Launching || two != job.Waiting {
		t.Errorf("alice's job is %s, bob's %s", one, two)
	}
	reasons := w.st.PendingReasons()
	if r := reasons[job.RunID{Name: "a", Run: 2}]; len(reasons) != 2 || !strings.Contains(r.Text(), "64.1 CPUs") {
		t.Errorf("the reasons are %v", reasons)
	}
	w.step(HoldJob{Job: "a@2", By: "bob"})
	if w.run("a@1").Hold != nil || w.run("a@2").Hold == nil {
		t.Error("the hold of bob's job concerns alice's")
	}
	// After a restart both are there, and alice's end leaves bob's dependency unmet.
	w.st = New(SchedulerSettings{}, RecoveredState{Jobs: w.st.Jobs()})
	w.step(Subscribed{FrameworkID: "f"})
	w.step(KillJob{Job: "a@1"})
	w.step(TaskUpdate{TaskID: w.run("a@1").Tasks[0].ID, State: job.Killed, UUID: []byte{1}})
	if one, two := w.run("a@1"), w.run("a@2"); !one.IsTerminal() || two.IsTerminal() || w.run("b").Spec.After[0].Met {
		t.Errorf("alice's job is %s, bob's %s, b depends on %+v", one.State(), two.State(), w.run("b").Spec.After)
	}
	w.submit("alice", "a")
	w.step(KillJob{Job: "a@2"})
	if j := w.run("a"); j.Run != 3 || j.IsTerminal() || !w.run("b").Spec.After[0].Met {
		t.Errorf("the newest run is %d, %s, b depends on %+v", j.Run, j.State(), w.run("b").Spec.After)
	}
}

// A change of an ended run is refused, and never made to the run that has the name now.
func TestChangesConcernTheNamedRun(t *testing.T) {
	w := newNameWorld(t, SchedulerSettings{})
	service := func(s *job.Spec) { s.Service = &job.Service{} }
	w.submit("alice", "a", service)
	first := *w.run("a").Spec
	w.step(KillJob{Job: "a"})
	w.submit("bob", "a", service)
	changed := first
	changed.Priority = 7
	for what, err := range map[string]error{
		"edit":   w.st.AdmitEdit("a@1", &changed),
		"update": w.st.AdmitUpdate("a@1", &changed),
		"hold":   w.st.AdmitHold("a@1"),
		"scale":  w.st.AdmitScale("a@1", 3),
	} {
		if err == nil || errors.As(err, new(*JobEndedError)) == strings.Contains(err.Error(), "has ended") {
			t.Errorf("%s of the ended run: %v", what, err)
		}
	}
	for _, e := range []Event{
		EditJob{Job: "a@1", Spec: changed}, UpdateService{Job: "a@1", Spec: changed}, HoldJob{Job: "a@1"}, ScaleService{Job: "a@1", Tasks: 3},
		RequeueJob{Job: "a@1", Hold: true}, KillJob{Job: "a@1"},
	} {
		w.step(e)
		if j := w.run("a@2"); j.IsTerminal() || j.Spec.Priority != 0 || j.Spec.Owner != "bob" || j.Spec.Tasks != 1 || j.Hold != nil || j.Version != 0 {
			t.Fatalf("%#v has changed the second run: %+v", e, j)
		}
	}
	other := *w.run("a@2").Spec
	other.Priority = 9
	w.step(EditJob{Job: "a@2", Spec: other})
	if p := w.run("a").Spec.Priority; p != 9 || w.run("a@1").Spec.Priority != 0 {
		t.Errorf("the second run has priority %d after its edit", p)
	}
}

// A dependency is on a run: the user's own job of the name, or else the only visible one. It stays one on that run, also after
// a restart and after another user has submitted the name.
func TestDependenciesAreOnRuns(t *testing.T) {
	w := newNameWorld(t, SchedulerSettings{})
	w.submit("alice", "a")
	w.step(KillJob{Job: "a"})
	w.submit("bob", "a")
	after := func(d job.Dependency) func(*job.Spec) { return func(s *job.Spec) { s.After = []job.Dependency{d} } }
	w.submit("alice", "own", after(job.Dependency{Job: "a", Outcome: job.OutcomeEnded}))
	w.submit("bob", "live", after(job.Dependency{Job: "a", Outcome: job.OutcomeEnded}))
	w.submit("carl", "other", after(job.Dependency{Job: "bob/a", Outcome: job.OutcomeEnded}))
	for name, want := range map[string]job.Dependency{
		"own":   {Job: "a", Outcome: job.OutcomeEnded, Run: "a@1", Met: true},
		"live":  {Job: "a", Outcome: job.OutcomeEnded, Run: "a@2"},
		"other": {Job: "bob/a", Outcome: job.OutcomeEnded, Run: "a@2"},
	} {
		if got := w.run(name).Spec.After[0]; got != want {
			t.Errorf("%s depends on %+v, want %+v", name, got, want)
		}
	}
	spec := testSpec("ambiguous")
	spec.Owner, spec.After = "carl", []job.Dependency{{Job: "a"}}
	var ambiguous *AmbiguousDependencyError
	if err := w.st.Admit(&spec); !errors.As(err, &ambiguous) || strings.Join(ambiguous.Candidates, " ") != "alice/a bob/a" {
		t.Errorf("carl's dependency: %v", err)
	}
	var missing *MissingDependencyError
	if err := w.st.AdmitBy(&spec, func(string) bool { return false }); !errors.As(err, &missing) || missing.Near != "" {
		t.Errorf("a dependency on jobs that carl may not see: %v", err)
	}
	w.st = New(SchedulerSettings{}, RecoveredState{Jobs: w.st.Jobs()})
	w.step(Subscribed{FrameworkID: "f"})
	if r := w.st.PendingReasons()[firstRun("other")]; !strings.Contains(r.Text(), "bob/a") {
		t.Errorf("the reason is %q", r.Text())
	}
	w.step(KillJob{Job: "a@2"})
	w.submit("alice", "a")
	for _, name := range []string{"live", "other"} {
		if d := w.run(name).Spec.After[0]; !d.Met || d.Run != "a@2" {
			t.Errorf("%s still waits: %+v", name, d)
		}
	}
}

// Jobs of journals of earlier releases depend on the newest run of a name, which alone may be live.
func TestDependenciesOfEarlierJournals(t *testing.T) {
	w := newNameWorld(t, SchedulerSettings{})
	w.submit("alice", "a")
	w.submit("bob", "b", func(s *job.Spec) { s.After = []job.Dependency{{Job: "a", Outcome: job.OutcomeEnded}} })
	jobs := w.st.Jobs()
	spec := *jobs[1].Spec
	spec.After = []job.Dependency{{Job: "a", Outcome: job.OutcomeEnded}}
	jobs[1].Spec = &spec
	w.st = New(SchedulerSettings{}, RecoveredState{Jobs: jobs})
	w.step(Subscribed{FrameworkID: "f"})
	w.step(KillJob{Job: "a"})
	if d := w.run("b").Spec.After[0]; !d.Met {
		t.Errorf("the job still waits: %+v", d)
	}
}

// A client that is connected to NAME@RUN keeps that run from its idle timeout, however it has named the run.
func TestConnectionsCountByRun(t *testing.T) {
	for _, name := range []string{"a", "a@1"} {
		w := newNameWorld(t, SchedulerSettings{})
		w.submit("alice", "a", func(s *job.Spec) { s.IdleTimeout = time.Minute })
		w.step(OffersReceived{Offers: []Offer{{ID: "o", AgentID: "a", AgentURL: "http://a", Free: Amount{CPUs: 9, MemMiB: 9999}}}})
		w.step(Cycle{})
		id := w.run("a").Tasks[0].ID
		w.step(TaskUpdate{TaskID: id, AgentID: "a", State: job.Running, UUID: []byte{1}})
		w.step(ClientConnected{Job: name})
		w.now = w.now.Add(time.Hour)
		w.step(Tick{})
		if s := w.run("a").Tasks[0].State; s != job.Running {
			t.Errorf("with a client of %s the task is %s", name, s)
		}
		w.step(ClientDisconnected{Job: name})
		w.now = w.now.Add(time.Hour)
		w.step(Tick{})
		if s := w.run("a").Tasks[0].State; s != job.Killing {
			t.Errorf("without a client the task is %s", s)
		}
	}
}
