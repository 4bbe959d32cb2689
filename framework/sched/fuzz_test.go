package sched

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/sched/pending"
	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// FuzzStep applies arbitrary events of Mesos and of users to a State, in any order, and checks the State's
// invariants.
func FuzzStep(f *testing.F) {
	f.Add([]byte{0, 0, 1, 9, 2, 3, 3, 1, 3, 2, 3, 5, 6, 9})
	f.Add([]byte{0, 0, 1, 30, 2, 77, 4, 1, 5, 20, 3, 6, 7, 0, 5, 60, 0, 0, 2, 14})
	f.Add([]byte{0, 0, 1, 255, 2, 255, 3, 200, 3, 100, 8, 0, 9, 1, 10, 1, 5, 30})
	f.Add([]byte{0, 0, 1, 9, 2, 3, 18, 0, 2, 3, 11, 0, 18, 4, 3, 2, 10, 0, 0, 0, 18, 2, 5, 20, 2, 9, 11, 0}) // cordons
	f.Add([]byte{0, 0, 1, 9, 19, 1, 2, 3, 11, 0, 10, 0, 19, 0, 5, 30, 19, 7})                                // quotas
	f.Add([]byte{0, 0, 1, 10, 2, 44, 11, 0, 1, 65, 2, 104, 11, 0, 3, 5, 5, 20, 10, 1, 0, 0, 1, 12, 2, 44})   // shares
	f.Add([]byte{
		1, 55, 1, 51, 15, 48, 6, 49,
	}) // a service that was scaled down while it waited for another job
	f.Add([]byte{0, 0, 1, 3, 2, 69, 11, 0, 3, 5, 20, 46, 10, 0, 0, 0, 5, 9, 2, 69, 11, 0, 20, 10})           // updates of a service
	f.Add([]byte{0, 0, 1, 4, 2, 69, 11, 0, 3, 6, 3, 7, 3, 27, 20, 14, 2, 69, 11, 0, 20, 14})                 // tasks that failed run again
	f.Add([]byte{0, 0, 1, 9, 17, 8, 2, 3, 11, 0, 17, 10, 11, 0, 17, 12, 3, 5, 10, 0, 17, 13, 17, 15, 11, 0}) // holds
	f.Add([]byte("*0+!Aa01Y0000000"))                                                                        // unmet demand for resources other than GPUs
	f.Fuzz(func(t *testing.T, data []byte) {
		data = data[:min(len(data), 400)] // longer inputs only take more time
		w := &fuzzWorld{
			t:        t,
			recorded: newRecordedState(),
			st:       New(fuzzConfig(), RecoveredState{}),
			twin:     New(fuzzConfig(), RecoveredState{}),
			now:      time.Unix(1_700_000_000, 0),
			states:   map[string]job.State{},
			open:     map[string]Offer{},
			cordons:  map[string]bool{},
		}
		for len(data) >= 2 {
			w.apply(data[0], data[1])
			data = data[2:]
		}
		w.now = w.now.Add(time.Minute)
		w.step(Cycle{})
		if len(w.open) > 0 && w.st.IsConnected() {
			t.Fatalf("%d offers are never answered", len(w.open))
		}
	})
}

func fuzzConfig() SchedulerSettings {
	return SchedulerSettings{
		MaxAttempts:   3,
		MaxEndedTasks: 2,
		Policy:        Policy{Policy: placement.Policy{Roles: []queue.Role{{Name: "*", Quota: quota.Quota{quota.AllTypes: 6, "V100": 5}}, {Name: "b", Weight: 2}}}},
	}
}

// fuzzWorld is what the simulated master and users know.
type fuzzWorld struct {
	t    *testing.T
	st   *State
	twin *State // gets the same events and has no agent cache
	// recorded is what st and the States before it recorded.
	recorded *recordedState
	kept     int // cycles in which st used its cache
	now      time.Time
	offers   int
	ids      []string // all task ids ever seen
	states   map[string]job.State
	open     map[string]Offer // not answered yet
	// cordons are the cordoned hosts, true if drained. quota is the quota set for the first role, "" for none.
	cordons map[string]bool
	quota   string
}

func (w *fuzzWorld) apply(kind, arg byte) {
	switch kind % 21 {
	case 0:
		w.step(Subscribed{FrameworkID: "f" + fmt.Sprint(arg%2)})
	case 1:
		w.step(SubmitJob{Spec: fuzzSpec(arg)})
	case 2:
		w.step(OffersReceived{Offers: w.fuzzOffers(arg)})
	case 3, 4:
		w.step(w.fuzzUpdate(arg, kind%21 == 4))
	case 5:
		w.now = w.now.Add(time.Duration(arg) * time.Second)
		w.step(Tick{})
	case 6:
		w.step(KillJob{Job: fuzzSpec(arg).Name, Force: arg%5 == 0})
	case 7:
		w.step(Disconnected{})
	case 8:
		w.step(AgentsListed{Agents: []Agent{{ID: "a0", GPUs: int(arg % 5), Types: []string{"V100"}}}})
	case 9:
		if len(w.ids) > 0 {
			w.step(AcceptFailed{TaskIDs: []string{w.ids[int(arg)%len(w.ids)]}})
		}
	case 10:
		w.restart()
	case 11, 12:
		w.step(Cycle{})
	case 13:
		for id := range w.open {
			if int(arg)%len(w.open) == 0 {
				delete(w.open, id)
				w.step(OfferRescinded{OfferID: id})
				break
			}
		}
	case 15:
		w.step(ScaleService{Job: fuzzSpec(arg).Name, Tasks: int(arg / 3 % 7)})
	case 16:
		if n := len(w.ids); n > 0 {
			w.step(StopTasks{TaskIDs: []string{w.ids[int(arg/2)%n], w.ids[int(arg)%n]}, Retire: arg%2 == 0})
			w.step(EndBackoff{TaskIDs: []string{w.ids[int(arg/3)%n]}})
		}
	case 18:
		w.fuzzCordon(fmt.Sprintf("a%d", arg%2), arg/2%3)
	case 19:
		w.fuzzQuota(arg)
	case 17:
		w.fuzzHold(arg)
		w.fuzzEdit(arg)
		w.step(PutDocument{Key: "k", Value: make([]byte, arg%3)})
		if name := fuzzSpec(arg / 3).Name; arg%2 == 0 {
			w.step(ClientConnected{Job: name})
		} else {
			w.step(ClientDisconnected{Job: name})
		}
	case 20:
		switch spec := fuzzSpec(arg / 3); arg % 3 {
		case 0:
			w.step(ForgetJob{Job: spec.Name})
		case 1:
			w.step(UpdateService{Job: spec.Name, Spec: spec})
		case 2:
			if j, ok := w.st.jobs.Find(spec.Name); ok {
				w.step(SubmitJob{Spec: j.SubmittableSpec(), RetryRun: j.RunID()})
			}
		}
	case 14:
		if arg%2 == 0 {
			w.step(AgentLost{AgentID: "a0"})
			for id, o := range w.open {
				if o.AgentID == "a0" {
					delete(w.open, id)
				}
			}
		} else {
			w.step(InverseOffersReceived{Offers: []InverseOffer{{ID: "i", AgentID: "a0", Start: w.now.Add(time.Duration(arg) * time.Minute)}}})
		}
	}
}

func (w *fuzzWorld) fuzzCordon(agent string, verb byte) {
	if verb == 1 {
		delete(w.cordons, agent)
		w.step(UncordonHost{Host: agent})
		return
	}
	w.cordons[agent] = w.cordons[agent] || verb == 2
	w.step(CordonHost{Host: agent, Drain: verb == 2})
	for _, r := range w.st.newPlacementInput().Running {
		if verb == 2 && r.AgentID == agent && !r.Ending {
			w.t.Fatalf("%s still runs on %s, which is drained", r.TaskID, agent)
		}
	}
}

func (w *fuzzWorld) fuzzEdit(arg byte) {
	j, ok := w.st.Job(fuzzSpec(arg / 5).Name)
	if !ok {
		return
	}
	spec := *j.Spec
	switch arg % 5 {
	case 0:
		spec.Priority = int(arg / 7 % 5)
	case 1:
		spec.Role = []string{"*", "b"}[arg/7%2]
	case 2:
		spec.Request.Types.Include = []string{"V100", "K80"}[:arg/7%3]
	case 3:
		spec.Retries, spec.MaxParallel = int(arg/7%3), int(arg/7%4)
	case 4:
		spec.Timeout, spec.Labels = time.Duration(arg/7%4)*time.Minute, map[string]string{"arg": fmt.Sprint(arg / 7 % 3)}
	}
	if spec.Validate() == nil {
		w.step(EditJob{Job: spec.Name, Spec: spec})
	}
}

func (w *fuzzWorld) fuzzHold(arg byte) {
	name := fuzzSpec(arg / 8).Name
	target := []job.HoldTarget{{Kind: job.HeldUser, Name: "u"}, {Kind: job.HeldRole, Name: "*"}, {Kind: job.HeldRole, Name: "b"}}[arg/8%3]
	switch arg % 8 {
	case 0, 1:
		w.step(HoldJob{Job: name, By: "u"})
	case 2, 3:
		w.step(ReleaseJob{Job: name})
	case 4:
		w.step(RequeueJob{Job: name, By: "u", Hold: arg/24%2 == 0})
	case 5, 6:
		w.step(HoldJobsOf{Target: target, By: "v", Drain: arg%8 == 6})
	case 7:
		w.step(ReleaseJobsOf{Target: target})
	}
}

func (w *fuzzWorld) fuzzQuota(arg byte) {
	e := SetQuota{Role: "*"}
	if w.quota = ""; arg%3 > 0 {
		e.Quota = quota.Quota{quota.AllTypes: int(arg / 3 % 8)}
		w.quota = e.Quota.String()
	}
	w.step(e)
}

func fuzzSpec(arg byte) job.Spec {
	s := job.Spec{Name: fmt.Sprintf("j%d", arg%3), Tasks: int(arg/3%3) + 1, Command: []string{"true"}}
	if arg%4 == 0 {
		s.ClientKey = &job.ClientKey{Key: fmt.Sprint(arg % 5)}
	}
	s.Request.GPUs = int(arg / 9 % 4)
	if s.Request.GPUs > 0 && arg > 200 {
		s.Request.Types = gpu.TypeSelector{Include: []string{"K80"}}
	}
	switch { // by the devices that fuzzOffers shares
	case s.Request.GPUs == 0 || arg%5 > 2:
	case arg%5 == 0:
		s.Request.Share = gpu.ShareRequest{MemMiB: int64(arg) * 30, Cores: int(arg % 4 * 20)}
	case arg%5 == 1:
		s.Request.Share = gpu.ShareRequest{MemPercent: 1 + int(arg)%100}
	default:
		s.Request.Share = gpu.ShareRequest{Cores: gpu.AllCores}
	}
	s.Gang, s.Preemptible, s.Priority, s.Retries = arg%7 == 0, arg%5 == 0, int(arg%4), int(arg%3)
	s.RunTime, s.MaxWait = time.Duration(arg%6)*time.Minute, time.Duration(arg%11)*time.Minute
	if arg%8 == 1 {
		s.Timeout = s.RunTime + time.Minute
	}
	if arg%8 == 5 {
		s.IdleTimeout = time.Duration(1+arg%4) * time.Minute
	}
	if arg%3 == 2 {
		s.Role = "b"
	}
	if arg%4 == 3 {
		s.Service, s.Group = &job.Service{ReplaceAfter: time.Duration(arg%3) * time.Minute}, "g"
		s.Constraints = []job.Constraint{{Field: "hostname", Operator: job.MaxPer, Value: "2"}}
		s.Gang, s.Retries, s.Timeout, s.RunTime, s.MaxWait, s.IdleTimeout = false, 0, 0, 0, 0, 0
	}
	s.Request.Types.Same = s.Gang && s.Request.GPUs > 0 && arg%2 == 0
	if s.Service == nil && !s.Gang && arg%9 > 5 {
		s.MaxParallel = int(arg%9) - 5
	}
	if arg%13 > 8 {
		s.After = []job.Dependency{{Job: fmt.Sprintf("j%d", (arg+1)%3), Outcome: []job.DependencyOutcome{
			job.OutcomeFinished, job.OutcomeEnded, job.OutcomeFailed,
		}[arg/13%3]}}
	}
	s.Owner = []string{"", "u", "v"}[arg/6%3]
	if s.Preemptible && arg%2 == 0 {
		s.Warn, s.MinRunTime = &job.Warning{Signal: "USR1", Before: time.Duration(arg%5+1) * time.Second}, time.Duration(arg%3)*time.Minute
	}
	if s.Timeout > 0 && arg%16 == 1 {
		s.OnTimeout = job.RequeueOnTimeout
	}
	s.SetDefaults()
	return s
}

func (w *fuzzWorld) fuzzOffers(arg byte) []Offer {
	var offers []Offer
	for i := range int(arg%3) + 1 {
		w.offers++
		o := Offer{
			ID:       fmt.Sprintf("o%d", w.offers),
			AgentID:  fmt.Sprintf("a%d", (int(arg)+i)%2),
			Hostname: fmt.Sprintf("a%d", (int(arg)+i)%2),
			AgentURL: "http://a",
			Types:    []string{"V100"},
			Role:     []string{"*", "b"}[arg/2%2],
		}
		o.Ports = []PortRange{{First: 10 * w.offers, Last: 10*w.offers + 5}}
		o.Free = Amount{CPUs: float64(arg / 3 % 8), MemMiB: 2048, DiskMiB: 10}
		o.GPUs = int(arg / 24 % 5)
		if arg%2 == 0 {
			for d := range o.GPUs {
				o.DeviceIDs = append(o.DeviceIDs, fmt.Sprintf("GPU-%s-%d", o.ID, d))
			}
			for d := range int(arg/5) % 3 {
				o.Shared = append(o.Shared, SharedDevice{UUID: fmt.Sprintf("GPU-%s-shared-%d", o.ID, d), MemMiB: int64(arg) * 60, Cores: int(arg) % 130})
			}
		}
		offers = append(offers, o)
		if w.st.IsConnected() {
			w.open[o.ID] = o
		}
	}
	return offers
}

func (w *fuzzWorld) fuzzUpdate(arg byte, silent bool) TaskUpdate {
	states := job.States()
	u := TaskUpdate{TaskID: "stranger", AgentID: "a0", State: states[int(arg)%len(states)], Reconciled: silent}
	if u.State == job.Waiting || u.State == job.Launching {
		u.State = job.Staging // Mesos has no such states
	}
	if n := len(w.ids); n > 0 && arg < 250 {
		u.TaskID = w.ids[int(arg)/len(states)%n]
	}
	if !silent {
		u.UUID = binary.BigEndian.AppendUint16(nil, uint16(arg)+1)
	}
	return u
}

// restart creates a State from what was recorded, as a new process would.
func (w *fuzzWorld) restart() {
	w.st = New(fuzzConfig(), RecoveredState{w.st.FrameworkID(), w.st.Jobs(), w.st.Documents()})
	w.twin = New(fuzzConfig(), RecoveredState{w.twin.FrameworkID(), w.twin.Jobs(), w.twin.Documents()})
	clear(w.open)
}

func (w *fuzzWorld) step(ev Event) {
	w.now = w.now.Add(1)
	connected := w.st.IsConnected()
	switch ev.(type) {
	case Subscribed, Disconnected:
		clear(w.open)
	}
	before := w.st.agentCache.cluster
	ops := w.st.Step(w.now, ev)
	w.checkOperated()
	w.checkClaims()
	w.checkPlacedJobs()
	w.checkAttempts()
	if _, tick := ev.(Tick); tick {
		w.checkLineup()
	}
	if _, cycle := ev.(Cycle); cycle && before != nil && before == w.st.agentCache.cluster {
		w.kept++
	}
	w.twin.agentCache, w.twin.queueCache = agentCache{}, queueCache{}
	if diff := cmp.Diff(w.twin.Step(w.now, ev), ops); diff != "" {
		w.t.Fatalf("%T: operations without (-) and with (+) the agent cache differ:\n%s", ev, diff)
	}
	w.twin.TakeChanges()
	changes := w.st.TakeChanges()
	w.recorded.apply(changes)
	w.recorded.compare(w.t, w.st, ev)
	w.checkMoves(changes)
	w.checkOps(ev, ops, connected)
	w.checkJobs()
	waiting, live := 0, 0
	for _, j := range w.st.Jobs() {
		for i := range j.Tasks {
			if j.Tasks[i].State == job.Waiting {
				waiting++
			}
			if j.Tasks[i].State.IsLive() {
				live++
			}
		}
	}
	counted := 0
	for _, d := range w.st.offerDemands {
		counted += d.waiting
	}
	reasons, kept := w.st.PendingReasons(), 0
	if counted != waiting || w.st.liveTasks.total != live || len(reasons) > waiting {
		w.t.Fatalf("%d tasks wait, counted %d, %d reasons; %d live, counted %d", waiting, counted, len(reasons), live, w.st.liveTasks.total)
	}
	for _, j := range w.st.Jobs() {
		run := j.RunID()
		if one := w.st.PendingReasons(run); one[run] != reasons[run] || len(one) > 1 {
			w.t.Fatalf("%s alone waits for %v, among all for %q", run, one, reasons[run])
		}
		if j.IsTerminal() {
			kept += len(j.Tasks)
		} else if newest, _, _ := w.st.NewestOfOwner(j.Spec.Owner, run.Name); newest != run {
			w.t.Fatalf("%s has not ended, and the newest run of its owner is %s", run, newest)
		}
	}
	for run, jobs := range w.st.dependents {
		for _, j := range jobs {
			if j.IsTerminal() || !slices.ContainsFunc(j.Spec.UnmetDependencies(), func(d job.Dependency) bool { return d.NeedsEndOf(run) }) {
				w.t.Fatalf("%s is noted as waiting for %s", j.RunID(), run)
			}
		}
	}
	w.checkUsageByOwner()
	if kept != w.st.ended.tasks.total {
		w.t.Fatalf("%d tasks have ended, counted %d", kept, w.st.ended.tasks.total)
	}
}

// checkUsageByOwner compares the counters of shared limits with a recount.
func (w *fuzzWorld) checkUsageByOwner() {
	var tasks, bytes, jobs, endedTasks, endedBytes UsageByOwner
	for _, j := range w.st.Jobs() {
		for i := range j.Tasks {
			if j.Tasks[i].State.IsLive() {
				tasks.Add(j.Spec, 1)
			}
		}
		if j.IsTerminal() {
			endedTasks.Add(j.Spec, len(j.Tasks))
			endedBytes.Add(j.Spec, j.Spec.TextBytes())
		} else {
			bytes.Add(j.Spec, j.Spec.TextBytes())
			jobs.Add(j.Spec, 1)
		}
	}
	equal := func(a, b *int) bool { return *a == *b }
	for _, c := range [][2]UsageByOwner{
		{w.st.liveTasks, tasks},
		{w.st.liveBytes, bytes},
		{w.st.liveJobs, jobs},
		{w.st.ended.tasks, endedTasks},
		{w.st.ended.bytes, endedBytes},
	} {
		if c[0].total != c[1].total || !maps.EqualFunc(c[0].byRole, c[1].byRole, equal) || !maps.EqualFunc(c[0].byOwner, c[1].byOwner, equal) {
			w.t.Fatalf("counted %d, want %d; or of a role or owner", c[0].total, c[1].total)
		}
	}
}

// checkOperated checks that cordons and quotas of operators are in effect, also after a restart.
func (w *fuzzWorld) checkOperated() {
	drained := map[string]bool{}
	for host, c := range w.st.cordons {
		drained[host] = c.Drain
	}
	if !maps.Equal(drained, w.cordons) {
		w.t.Fatalf("cordoned are %v, want %v", drained, w.cordons)
	}
	role := w.st.RoleUsages()[0]
	if role.QuotaOverridden != (w.quota != "") || role.QuotaOverridden && role.Quota.String() != w.quota {
		w.t.Fatalf("the quota is %q (set %t), want %q", role.Quota, role.QuotaOverridden, w.quota)
	}
}

// checkPlacedJobs checks that the index has exactly the jobs with tasks that hold places, in order.
func (w *fuzzWorld) checkPlacedJobs() {
	var want []*job.Job
	for j := range w.st.queue.all() {
		placed := 0
		for i := range j.Tasks {
			if j.Tasks[i].State.IsPlaced() {
				placed++
			}
		}
		if placed > 0 {
			want = append(want, j)
		}
		if w.st.placed.tasks[j] != placed {
			w.t.Fatalf("%d tasks of %s are counted as placed, want %d", w.st.placed.tasks[j], j.Spec.Name, placed)
		}
	}
	if !slices.Equal(want, slices.Collect(w.st.placed.jobs.all())) || len(want) != len(w.st.placed.tasks) {
		w.t.Fatalf("%d jobs are indexed as placed, want %d", w.st.placed.jobs.count, len(want))
	}
}

// checkClaims checks that each client key belongs to an existing job with that key.
func (w *fuzzWorld) checkClaims() {
	for c, j := range w.st.clientKeys {
		if kept, ok := w.st.jobs.Find(j.RunID().String()); !ok || kept != j || j.Spec.ClientKey == nil || j.Spec.ClientKey.Key != c.key || j.Spec.Owner != c.owner {
			w.t.Fatalf("key %q of %q is of job %q, which is there %t", c.key, c.owner, j.RunID(), ok)
		}
	}
}

// checkAttempts checks that each recorded attempt has ended and belongs to a job.
func (w *fuzzWorld) checkAttempts() {
	documents, byRole := 0, map[string]int{}
	for key, text := range w.st.DocumentsIn(attemptPrefix) {
		documents++
		id, t, _ := ParseAttempt(key, text)
		if j, ok := w.st.jobs.Find(t.RunID().String()); !ok || t.State.IsLive() || t.ID != id || t.Index >= len(j.Tasks) ||
			t.Attempt >= j.Tasks[t.Index].Attempt || !slices.Contains(w.st.endedAttempts.byJob[t.RunID()].ids, id) {
			w.t.Fatalf("stored as an ended attempt: %+v", t)
		}
		j, _ := w.st.jobs.Find(t.RunID().String())
		byRole[j.Spec.Role]++
	}
	for role, r := range w.st.endedAttempts.byRole {
		if r.count != byRole[role] || r.count > len(r.order) {
			w.t.Fatalf("role %s has %d attempts, counted %d in a list of %d", role, byRole[role], r.count, len(r.order))
		}
	}
	if w.st.endedAttempts.count != documents {
		w.t.Fatalf("%d attempts are stored, counted %d", documents, w.st.endedAttempts.count)
	}
}

// checkLineup checks that QueueOrder contains each job with waiting tasks once, and that UnmetDemand counts no more
// tasks than wait.
func (w *fuzzWorld) checkLineup() {
	waiting, runs := map[string]int{}, map[job.RunID]bool{}
	for _, j := range w.st.Jobs() {
		for i := range j.Tasks {
			if j.Tasks[i].State == job.Waiting {
				waiting[j.Spec.Name]++
				runs[j.RunID()] = true
			}
		}
	}
	line := w.st.QueueOrder()
	if slices.SortFunc(line, job.CompareRuns); !slices.Equal(line, slices.SortedFunc(maps.Keys(runs), job.CompareRuns)) {
		w.t.Fatalf("in line are %v, waiting %v", line, runs)
	}
	lacks, _ := w.st.UnmetDemand()
	for _, l := range lacks {
		most := 0
		for _, name := range l.Jobs {
			most += waiting[name]
		}
		if l.Tasks < 1 || l.Tasks > most || (l.GPUs > 0) != slices.Contains(l.Missing, pending.MissingGPUs) {
			w.t.Fatalf("%d tasks of %v lack %d GPUs, %d wait", l.Tasks, l.Jobs, l.GPUs, most)
		}
	}
}

// checkJobs checks that no task is lost or fails more often than allowed, and that no gang has both placed and
// waiting tasks.
func (w *fuzzWorld) checkJobs() {
	for _, j := range w.st.Jobs() {
		placed, waiting, kills := 0, 0, 0
		for i := range j.Tasks {
			t := &j.Tasks[i]
			if j.Spec.Service == nil && (t.Losses >= 3 || t.Failures > j.Spec.Retries) {
				w.t.Fatalf("%s was lost %d times and failed %d of %d", t.ID, t.Losses, t.Failures, j.Spec.Retries)
			}
			switch {
			case t.State == job.Waiting:
				waiting++
			case t.State.IsPlaced() && t.KillRequested.IsZero():
				placed++
			case t.State.IsPlaced():
				kills++
			}
		}
		if j.Spec.Tasks != len(j.Tasks) {
			w.t.Fatalf("%s has %d tasks, its specification %d", j.Spec.Name, len(j.Tasks), j.Spec.Tasks)
		}
		if most := j.Spec.MaxParallel; most > 0 && placed+kills > most {
			w.t.Fatalf("%d tasks of %s hold places, at most %d may", placed+kills, j.Spec.Name, most)
		}
		w.checkAfter(j, placed+kills)
		if j.Spec.Gang && placed > 0 && waiting > 0 {
			w.t.Fatalf("gang %s has %d tasks placed, %d that wait, %d that end", j.Spec.Name, placed, waiting, kills)
		}
	}
}

// checkAfter checks that a job depends on existing jobs that have not ended, and holds no place until they end.
func (w *fuzzWorld) checkAfter(j *job.Job, placed int) {
	if j.IsTerminal() {
		return
	}
	for _, d := range j.Spec.UnmetDependencies() {
		if other, ok := w.st.Job(d.Job); !ok || other.IsTerminal() || placed > 0 {
			w.t.Fatalf("%s holds %d places and waits for %s, which there is: %t", j.Spec.Name, placed, d, ok)
		}
	}
}

// checkMoves checks that each transition is in the table of task states.
func (w *fuzzWorld) checkMoves(c StateChanges) {
	for _, m := range c.Transitions {
		before, known := w.states[m.TaskID]
		if !known {
			w.ids = append(w.ids, m.TaskID)
			before = job.Waiting
		}
		if !known && m.State == job.Finished && m.Repeated { // in an earlier run
			before = job.Running
		}
		if known && before == m.State && m.State.IsLive() || !before.CanBecome(m.State) {
			w.t.Fatalf("%s went from %s to %s", m.TaskID, before, m.State)
		}
		w.states[m.TaskID] = m.State
	}
}

func (w *fuzzWorld) checkOps(ev Event, ops []Operation, connected bool) {
	_, subscribed := ev.(Subscribed)
	acked := 0
	answer := func(id string) {
		if _, ok := w.open[id]; !ok {
			w.t.Fatalf("offer %s is answered twice, or was never made", id)
		}
		delete(w.open, id)
	}
	for _, op := range ops {
		if !connected && !subscribed {
			if _, ok := op.(AcknowledgeUpdate); !ok {
				if _, ok := op.(KillTask); !ok {
					w.t.Fatalf("%s without a subscription", op)
				}
			}
		}
		switch o := op.(type) {
		case AcceptOffers:
			w.checkAccept(&o)
			for _, id := range o.OfferIDs {
				answer(id)
			}
			for _, l := range o.Launches {
				if w.states[l.TaskID] != job.Launching {
					w.t.Fatalf("%s is launched in state %s", l.TaskID, w.states[l.TaskID])
				}
			}
		case DeclineOffers:
			for _, d := range o.Offers {
				answer(d.OfferID)
			}
		case AcknowledgeUpdate:
			acked++
			if len(o.UUID) == 0 {
				w.t.Fatalf("acknowledged %s without uuid", o.TaskID)
			}
		}
	}
	if u, ok := ev.(TaskUpdate); ok && (acked == 1) != (len(u.UUID) > 0) {
		w.t.Fatalf("update %+v was acknowledged %d times", u, acked)
	}
}

// checkAccept checks that launched tasks use only what one agent offers to one role, and no device twice.
func (w *fuzzWorld) checkAccept(a *AcceptOffers) {
	gpus, cpus := 0, 0.0
	devices, shared := map[string]bool{}, map[string]*SharedDevice{}
	if _, cordoned := w.cordons[a.AgentID]; cordoned {
		w.t.Fatalf("%s is accepted although it is cordoned", a)
	}
	for _, id := range a.OfferIDs {
		o := w.open[id]
		if o.AgentID != a.AgentID || o.Role != a.Role {
			w.t.Fatalf("offer %s of %s to %q is accepted for %s and %q", id, o.AgentID, o.Role, a.AgentID, a.Role)
		}
		gpus, cpus = gpus+o.GPUs, cpus+o.Free.CPUs
		for _, d := range o.DeviceIDs {
			devices[d] = true
		}
		for _, s := range o.Shared {
			shared[s.UUID] = &s
		}
	}
	for _, l := range a.Launches {
		if j := w.st.tasks[l.TaskID].job; w.st.holds.IsHeld(j) {
			w.t.Fatalf("%s is launched although it is held", l.TaskID)
		}
		cpus -= l.Spec.CPUs + l.Overhead.CPUs
		if !l.Spec.Request.Share.IsWhole() {
			w.checkParts(&l, shared)
			continue
		}
		gpus -= l.Spec.Request.GPUs
		for _, d := range l.DeviceIDs {
			if !devices[d] {
				w.t.Fatalf("%s takes device %s, which is not there any more", l.TaskID, d)
			}
			delete(devices, d)
		}
	}
	if gpus < 0 || cpus < -1e-9 {
		w.t.Fatalf("agent %s is %d GPUs and %g cpus short", a.AgentID, -gpus, -cpus)
	}
}

// checkParts checks that a task gets as many different shared devices as it requested, and of each at most the free amount,
// and a whole device if it requested exclusive use.
func (w *fuzzWorld) checkParts(l *placement.TaskLaunch, shared map[string]*SharedDevice) {
	if len(l.Shares) != l.Spec.Request.GPUs || len(l.DeviceIDs) != len(l.Shares) || len(l.GPUTypes) > 0 {
		w.t.Fatalf("%s requests %d shares, got %v of %v and whole %v", l.TaskID, l.Spec.Request.GPUs, l.Shares, l.DeviceIDs, l.GPUTypes)
	}
	seen := map[string]bool{}
	for i, p := range l.Shares {
		s := shared[p.UUID]
		if s == nil || seen[p.UUID] || p.UUID != l.DeviceIDs[i] {
			w.t.Fatalf("%s takes %v, which is not shared, or twice", l.TaskID, p)
		}
		seen[p.UUID] = true
		s.MemMiB, s.Cores = s.MemMiB-p.MemMiB, s.Cores-p.Cores
		if s.MemMiB < 0 || s.Cores < 0 || p.MilliDevices < 1 || p.MilliDevices > quota.MilliPerGPU {
			w.t.Fatalf("%s takes %+v, which leaves %+v", l.TaskID, p, s)
		}
		if alone := l.Spec.Request.Share.IsExclusive(); alone && (s.MemMiB > 0 || s.Cores > 0) {
			w.t.Fatalf("%s is to be alone and leaves %+v", l.TaskID, s)
		}
	}
}
