package sched

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// FuzzStep feeds a State whatever Mesos and people could say, in any order,
// and holds it to what it promises.
func FuzzStep(f *testing.F) {
	f.Add([]byte{0, 0, 1, 9, 2, 3, 3, 1, 3, 2, 3, 5, 6, 9})
	f.Add([]byte{0, 0, 1, 30, 2, 77, 4, 1, 5, 20, 3, 6, 7, 0, 5, 60, 0, 0, 2, 14})
	f.Add([]byte{0, 0, 1, 255, 2, 255, 3, 200, 3, 100, 8, 0, 9, 1, 10, 1, 5, 30})
	f.Add([]byte{0, 0, 1, 9, 2, 3, 18, 0, 2, 3, 11, 0, 18, 4, 3, 2, 10, 0, 0, 0, 18, 2, 5, 20, 2, 9, 11, 0}) // cordons
	f.Add([]byte{0, 0, 1, 9, 19, 1, 2, 3, 11, 0, 10, 0, 19, 0, 5, 30, 19, 7})                                // quotas
	f.Add([]byte{0, 0, 1, 10, 2, 44, 11, 0, 1, 65, 2, 104, 11, 0, 3, 5, 5, 20, 10, 1, 0, 0, 1, 12, 2, 44})   // shares
	f.Add([]byte{1, 55, 1, 51, 15, 48, 6, 49})                                                               // a service that shrank while it waited for another job
	f.Fuzz(func(t *testing.T, data []byte) {
		data = data[:min(len(data), 400)] // longer ones find no more, only slower
		w := &world{t: t, st: New(fuzzConfig(), Past{}), twin: New(fuzzConfig(), Past{}), now: time.Unix(1_700_000_000, 0), states: map[string]job.State{}, open: map[string]Offer{}, cordons: map[string]bool{}}
		for len(data) >= 2 {
			w.apply(data[0], data[1])
			data = data[2:]
		}
		w.now = w.now.Add(time.Minute)
		w.step(Cycle{})
		if len(w.open) > 0 && w.st.Connected() {
			t.Fatalf("%d offers are never answered", len(w.open))
		}
	})
}

func fuzzConfig() Config {
	return Config{MaxAttempts: 3, KeepEnded: 2, Policy: Policy{Roles: []Role{{Name: "*", Quota: Quota{AllTypes: 6, "V100": 5}}, {Name: "b", Weight: 2}}}}
}

// world is what the fuzzer's master and people know.
type world struct {
	t      *testing.T
	st     *State
	twin   *State // is told the same, and keeps no fleet
	kept   int    // cycles in which st kept its own
	now    time.Time
	offers int
	ids    []string // all task ids ever seen
	states map[string]job.State
	open   map[string]Offer // not answered yet
	// cordons are the agents that are cordoned, true where drained; quota is
	// what was set for the first role, "" nothing.
	cordons map[string]bool
	quota   string
}

func (w *world) apply(kind, arg byte) {
	switch kind % 21 {
	case 0:
		w.step(Subscribed{FrameworkID: "f" + fmt.Sprint(arg%2)})
	case 1:
		w.step(Submit{Spec: fuzzSpec(arg)})
	case 2:
		w.step(Offers{Offers: w.fuzzOffers(arg)})
	case 3, 4:
		w.step(w.fuzzUpdate(arg, kind%21 == 4))
	case 5:
		w.now = w.now.Add(time.Duration(arg) * time.Second)
		w.step(Tick{})
	case 6:
		w.step(Kill{Job: fuzzSpec(arg).Name, Force: arg%5 == 0})
	case 7:
		w.step(Disconnected{})
	case 8:
		w.step(Agents{Agents: []Agent{{ID: "a0", GPUs: int(arg % 5), Types: []string{"V100"}}}})
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
				w.step(Rescind{OfferID: id})
				break
			}
		}
	case 15:
		w.step(Scale{Job: fuzzSpec(arg).Name, Tasks: int(arg / 3 % 7)})
	case 16:
		if n := len(w.ids); n > 0 {
			w.step(Stop{TaskIDs: []string{w.ids[int(arg/2)%n], w.ids[int(arg)%n]}, Retire: arg%2 == 0})
			w.step(Wake{TaskIDs: []string{w.ids[int(arg/3)%n]}})
		}
	case 18:
		w.fuzzCordon(fmt.Sprintf("a%d", arg%2), arg/2%3)
	case 19:
		w.fuzzQuota(arg)
	case 17:
		w.step(Put{Key: "k", Value: make([]byte, arg%3)})
	case 20:
		w.step(Forget{Job: fuzzSpec(arg).Name})
	case 14:
		if arg%2 == 0 {
			w.step(AgentLost{AgentID: "a0"})
			for id, o := range w.open {
				if o.AgentID == "a0" {
					delete(w.open, id)
				}
			}
		} else {
			w.step(InverseOffers{Offers: []InverseOffer{{ID: "i", AgentID: "a0", Start: w.now.Add(time.Duration(arg) * time.Minute)}}})
		}
	}
}

func (w *world) fuzzCordon(agent string, verb byte) {
	if verb == 1 {
		delete(w.cordons, agent)
		w.step(Uncordon{Host: agent})
		return
	}
	w.cordons[agent] = w.cordons[agent] || verb == 2
	w.step(Cordon{Host: agent, Drain: verb == 2})
	for _, r := range w.st.readyQueue(w.now).Running {
		if verb == 2 && r.AgentID == agent && !r.Ending {
			w.t.Fatalf("%s is left on %s, which is drained", r.TaskID, agent)
		}
	}
}

func (w *world) fuzzQuota(arg byte) {
	e := SetQuota{Role: "*"}
	if w.quota = ""; arg%3 > 0 {
		e.Quota = Quota{AllTypes: int(arg / 3 % 8)}
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
		s.Request.Types = gpu.Types{Include: []string{"K80"}}
	}
	switch { // of what fuzzOffers shares
	case s.Request.GPUs == 0 || arg%5 > 2:
	case arg%5 == 0:
		s.Request.Share = gpu.Share{MemMiB: int64(arg) * 30, Cores: int(arg % 4 * 20)}
	case arg%5 == 1:
		s.Request.Share = gpu.Share{MemPercent: 1 + int(arg)%100}
	default:
		s.Request.Share = gpu.Share{Cores: gpu.AllCores}
	}
	s.Gang, s.Preemptible, s.Priority, s.Retries = arg%7 == 0, arg%5 == 0, int(arg%4), int(arg%3)
	s.RunTime, s.MaxWait = time.Duration(arg%6)*time.Minute, time.Duration(arg%11)*time.Minute
	if arg%8 == 1 {
		s.Timeout = s.RunTime + time.Minute
	}
	if arg%3 == 2 {
		s.Role = "b"
	}
	if arg%4 == 3 {
		s.Service, s.Group = &job.Service{ReplaceAfter: time.Duration(arg%3) * time.Minute}, "g"
		s.Constraints = []job.Constraint{{Field: "hostname", Operator: job.MaxPer, Value: "2"}}
		s.Gang, s.Retries, s.Timeout, s.RunTime, s.MaxWait = false, 0, 0, 0, 0
	}
	if s.Service == nil && !s.Gang && arg%9 > 5 {
		s.MaxParallel = int(arg%9) - 5
	}
	if arg%13 > 8 {
		s.After = []job.Dependency{{Job: fmt.Sprintf("j%d", (arg+1)%3), Outcome: []job.Outcome{job.Finish, job.End, job.Fail}[arg/13%3]}}
	}
	s.SetDefaults()
	return s
}

func (w *world) fuzzOffers(arg byte) []Offer {
	var offers []Offer
	for i := range int(arg%3) + 1 {
		w.offers++
		o := Offer{ID: fmt.Sprintf("o%d", w.offers), AgentID: fmt.Sprintf("a%d", (int(arg)+i)%2), AgentURL: "http://a", Types: []string{"V100"}, Role: []string{"*", "b"}[arg/2%2]}
		o.Ports = []PortRange{{First: 10 * w.offers, Last: 10*w.offers + 5}}
		o.Free = Amount{CPUs: float64(arg / 3 % 8), MemMiB: 2048, DiskMiB: 10}
		o.GPUs = int(arg / 24 % 5)
		if arg%2 == 0 {
			for d := range o.GPUs {
				o.DeviceIDs = append(o.DeviceIDs, fmt.Sprintf("GPU-%s-%d", o.ID, d))
			}
			for d := range int(arg/5) % 3 {
				o.Shared = append(o.Shared, Shared{UUID: fmt.Sprintf("GPU-%s-shared-%d", o.ID, d), MemMiB: int64(arg) * 60, Cores: int(arg) % 130})
			}
		}
		offers = append(offers, o)
		if w.st.Connected() {
			w.open[o.ID] = o
		}
	}
	return offers
}

func (w *world) fuzzUpdate(arg byte, silent bool) Update {
	states := job.States()
	u := Update{TaskID: "stranger", AgentID: "a0", State: states[int(arg)%len(states)], Reconciled: silent}
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

// restart makes a State of what was recorded, as a new process would.
func (w *world) restart() {
	w.st = New(fuzzConfig(), Past{w.st.FrameworkID(), w.st.Jobs(), w.st.Documents()})
	w.twin = New(fuzzConfig(), Past{w.twin.FrameworkID(), w.twin.Jobs(), w.twin.Documents()})
	clear(w.open)
}

func (w *world) step(ev Event) {
	w.now = w.now.Add(1)
	connected := w.st.Connected()
	switch ev.(type) {
	case Subscribed, Disconnected:
		clear(w.open)
	}
	before := w.st.fleet.cluster
	ops := w.st.Step(w.now, ev)
	w.checkOperated()
	w.checkClaims()
	w.checkAttempts()
	if _, tick := ev.(Tick); tick {
		w.checkLineup()
	}
	if _, cycle := ev.(Cycle); cycle && before != nil && before == w.st.fleet.cluster {
		w.kept++
	}
	w.twin.fleet = fleet{}
	if diff := cmp.Diff(w.twin.Step(w.now, ev), ops); diff != "" {
		w.t.Fatalf("%T: with agents kept the scheduler does (+) what it does not without (-):\n%s", ev, diff)
	}
	w.twin.Drain()
	w.checkMoves(w.st.Drain())
	w.checkOps(ev, ops, connected)
	w.checkJobs()
	waiting, live := 0, 0
	for _, j := range w.st.Jobs() {
		for i := range j.Tasks {
			if j.Tasks[i].State == job.Waiting {
				waiting++
			}
			if j.Tasks[i].State.Live() {
				live++
			}
		}
	}
	counted := 0
	for _, d := range w.st.demands {
		counted += d.waiting
	}
	reasons, kept := w.st.Reasons(), 0
	if counted != waiting || w.st.live != live || len(reasons) > waiting {
		w.t.Fatalf("%d tasks wait, counted %d, %d reasons; %d live, counted %d", waiting, counted, len(reasons), live, w.st.live)
	}
	for _, j := range w.st.Jobs() {
		name := j.Spec.Name
		if one := w.st.Reasons(name); one[name] != reasons[name] || len(one) > 1 {
			w.t.Fatalf("%s alone waits for %v, among all for %q", name, one, reasons[name])
		}
		if j.Terminal() {
			kept += len(j.Tasks)
		}
	}
	for dep, names := range w.st.dependents {
		for _, name := range names {
			if j, ok := w.st.Job(name); !ok || j.Terminal() || !slices.ContainsFunc(j.Spec.WaitsFor(), func(d job.Dependency) bool { return d.Job == dep }) {
				w.t.Fatalf("%s is noted as waiting for %s", name, dep)
			}
		}
	}
	if kept != w.st.endedTasks {
		w.t.Fatalf("%d tasks have ended, counted %d", kept, w.st.endedTasks)
	}
}

// checkOperated: what operators have said holds, after a restart too.
func (w *world) checkOperated() {
	drained := map[string]bool{}
	for host, c := range w.st.cordons {
		drained[host] = c.Drain
	}
	if !maps.Equal(drained, w.cordons) {
		w.t.Fatalf("cordoned are %v, want %v", drained, w.cordons)
	}
	role := w.st.Standings()[0]
	if role.Set != (w.quota != "") || role.Set && role.Quota.String() != w.quota {
		w.t.Fatalf("the quota is %q (set %t), want %q", role.Quota, role.Set, w.quota)
	}
}

// checkClaims: none is of a job that is not there, or of another key.
func (w *world) checkClaims() {
	for c, name := range w.st.claims {
		j, ok := w.st.jobs[name]
		if !ok || j.Spec.ClientKey == nil || j.Spec.ClientKey.Key != c.key || j.Spec.Owner != c.owner {
			w.t.Fatalf("key %q of %q is of job %q, which is there %t", c.key, c.owner, name, ok)
		}
	}
}

// checkAttempts: each that is remembered has ended, and belongs to a job.
func (w *world) checkAttempts() {
	documents := 0
	for key, text := range w.st.DocumentsIn(attemptPrefix) {
		documents++
		id, t, _ := AttemptIn(key, text)
		if j := w.st.jobs[t.Job]; j == nil || t.State.Live() || t.ID != id || t.Index >= len(j.Tasks) || t.Attempt >= j.Tasks[t.Index].Attempt || !slices.Contains(w.st.former.byJob[t.Job], id) {
			w.t.Fatalf("remembered as an ended attempt: %+v", t)
		}
	}
	if w.st.former.kept != documents {
		w.t.Fatalf("%d attempts are remembered, counted %d", documents, w.st.former.kept)
	}
}

// checkLineup: each job with tasks that wait is in it once, and nothing lacks
// more than waits.
func (w *world) checkLineup() {
	waiting := map[string]int{}
	for _, j := range w.st.Jobs() {
		for i := range j.Tasks {
			if j.Tasks[i].State == job.Waiting {
				waiting[j.Spec.Name]++
			}
		}
	}
	line := w.st.Lineup()
	if slices.Sort(line); !slices.Equal(line, slices.Sorted(maps.Keys(waiting))) {
		w.t.Fatalf("in line are %v, waiting %v", line, waiting)
	}
	lacks, _ := w.st.Lacking()
	for _, l := range lacks {
		most := 0
		for _, name := range l.Jobs {
			most += waiting[name]
		}
		if l.Tasks < 1 || l.Tasks > most || l.GPUs < 1 {
			w.t.Fatalf("%d tasks of %v lack %d GPUs, %d wait", l.Tasks, l.Jobs, l.GPUs, most)
		}
	}
}

// checkJobs: no task is lost or fails more often than allowed, and a gang has
// all of its tasks placed or the rest on their way out.
func (w *world) checkJobs() {
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
			case t.State.Placed() && t.KillWanted.IsZero():
				placed++
			case t.State.Placed():
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

// checkAfter: a job waits for jobs that are there and have not ended, and holds
// no place meanwhile.
func (w *world) checkAfter(j *job.Job, placed int) {
	if j.Terminal() {
		return
	}
	for _, d := range j.Spec.WaitsFor() {
		if other, ok := w.st.Job(d.Job); !ok || other.Terminal() || placed > 0 {
			w.t.Fatalf("%s holds %d places and waits for %s, which there is: %t", j.Spec.Name, placed, d, ok)
		}
	}
}

// checkMoves: each task only goes where the table of its life lets it.
func (w *world) checkMoves(c Changes) {
	for _, m := range c.Moves {
		before, known := w.states[m.TaskID]
		if !known {
			w.ids = append(w.ids, m.TaskID)
			before = job.Waiting
		}
		if known && before == m.State && m.State.Live() || !before.May(m.State) {
			w.t.Fatalf("%s went from %s to %s", m.TaskID, before, m.State)
		}
		w.states[m.TaskID] = m.State
	}
}

func (w *world) checkOps(ev Event, ops []Op, connected bool) {
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
			if _, ok := op.(Acknowledge); !ok {
				if _, ok := op.(KillTask); !ok {
					w.t.Fatalf("%s without a subscription", op)
				}
			}
		}
		switch o := op.(type) {
		case Accept:
			w.checkAccept(&o)
			for _, id := range o.OfferIDs {
				answer(id)
			}
			for _, l := range o.Launches {
				if w.states[l.TaskID] != job.Launching {
					w.t.Fatalf("%s is launched in state %s", l.TaskID, w.states[l.TaskID])
				}
			}
		case Decline:
			for _, d := range o.Offers {
				answer(d.OfferID)
			}
		case Acknowledge:
			acked++
			if len(o.UUID) == 0 {
				w.t.Fatalf("acknowledged %s without uuid", o.TaskID)
			}
		}
	}
	if u, ok := ev.(Update); ok && (acked == 1) != (len(u.UUID) > 0) {
		w.t.Fatalf("update %+v was acknowledged %d times", u, acked)
	}
}

// checkAccept: what is taken is there, of one agent and role, and no device
// is taken twice.
func (w *world) checkAccept(a *Accept) {
	gpus, cpus := 0, 0.0
	devices, shared := map[string]bool{}, map[string]*Shared{}
	if _, cordoned := w.cordons[a.AgentID]; cordoned {
		w.t.Fatalf("%s, though it is cordoned", a)
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
		cpus -= l.Spec.CPUs + l.Overhead.CPUs
		if !l.Spec.Request.Share.Whole() {
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

// checkParts: as many different shared devices as wanted, of each no more
// than is there, and all of it for a task that wants it alone.
func (w *world) checkParts(l *Launch, shared map[string]*Shared) {
	if len(l.Parts) != l.Spec.Request.GPUs || len(l.DeviceIDs) != len(l.Parts) || len(l.GPUTypes) > 0 {
		w.t.Fatalf("%s wants %d parts, gets %v of %v and whole %v", l.TaskID, l.Spec.Request.GPUs, l.Parts, l.DeviceIDs, l.GPUTypes)
	}
	seen := map[string]bool{}
	for i, p := range l.Parts {
		s := shared[p.UUID]
		if s == nil || seen[p.UUID] || p.UUID != l.DeviceIDs[i] {
			w.t.Fatalf("%s takes %v, which is not shared, or twice", l.TaskID, p)
		}
		seen[p.UUID] = true
		s.MemMiB, s.Cores = s.MemMiB-p.MemMiB, s.Cores-p.Cores
		if s.MemMiB < 0 || s.Cores < 0 || p.Milli < 1 || p.Milli > wholeGPU {
			w.t.Fatalf("%s takes %+v, which leaves %+v", l.TaskID, p, s)
		}
		if alone := l.Spec.Request.Share.Exclusive(); alone && (s.MemMiB > 0 || s.Cores > 0) {
			w.t.Fatalf("%s is to be alone and leaves %+v", l.TaskID, s)
		}
	}
}
