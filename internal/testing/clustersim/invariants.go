package clustersim

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/readmodel"
	"mesos-gpu/framework/sched"
	"mesos-gpu/internal/minimesos/events"
	"mesos-gpu/job"
)

// invariants compares the scheduler with what really happened in the cluster.
type invariants struct {
	world     *World
	converged bool

	// attempts are the attempts that reached an agent, by task id. updates are the statuses of agents, by uuid.
	attempts map[string]*attemptTruth
	updates  map[string]agentStatus
	nextUUID int
	// budgets is what is used of the roles' budgets.
	budgets *budgetTruth
	// tasks are the durable tasks by run and index.
	tasks map[job.RunID]map[int]job.Task
	// killRequested are the attempts whose kill was recorded, for whatever reason: their failure does not count.
	killRequested map[string]bool
	// givenUp are the attempts that were given up because their agent stayed unreachable or did not have them: others have
	// replaced them, or a user or a timeout had stopped them. What the agent reports afterwards does not count.
	givenUp map[string]bool
	// unreachable are the attempts whose agent was away when their state was recorded last, or before their kill was.
	unreachable map[string]bool
	turns       int
	// reclaimedJob lost a task in the last commit to a role that deserved its GPUs, "" for none.
	reclaimedJob string
	// state is the state of the running process after its last turn.
	state *sched.State
	// compared are the contents of the journal when it had comparedSize bytes. It only grows, but for a torn write at its
	// end that the next process drops.
	compared     journal.JournalContents
	comparedSize int
	reader       journal.LogReader
}

// agentStatus is the task and the state of a status that an agent has sent.
type agentStatus struct {
	task  string
	state mesos.TaskState
}

// attemptTruth is the real state of an attempt.
type attemptTruth struct {
	state mesos.TaskState
	// vanished attempts ended with their machine, and were never reported.
	vanished bool
	// acknowledged is whether the scheduler has acknowledged its end.
	acknowledged bool
}

// isLive reports whether an attempt has not reached its agent, or has not reported an end there.
func (inv *invariants) isLive(id string) bool {
	a := inv.attempts[id]
	return a == nil || a.state == mesos.TASK_RUNNING
}

func newInvariants(w *World) *invariants {
	return &invariants{
		world:         w,
		budgets:       newBudgetTruth(w),
		attempts:      map[string]*attemptTruth{},
		updates:       map[string]agentStatus{},
		tasks:         map[job.RunID]map[int]job.Task{},
		killRequested: map[string]bool{},
		unreachable:   map[string]bool{},
		givenUp:       map[string]bool{},
	}
}

// checkCommit checks a durable change: gangs are whole, no role exceeds its quota and no user a limit.
func (inv *invariants) checkCommit(by *process, change *journal.Change) {
	w := inv.world
	if w.plan.budgets {
		inv.budgets.applyChange(by, change)
	}
	for _, run := range change.Removed {
		delete(inv.tasks, run)
	}
	launched, touched := false, map[job.RunID]bool{}
	reclaimed := map[string]map[job.RunID]int{} // the GPUs of a gang or of the largest task, by the role that loses it and by job
	for i := range change.Tasks {
		t := change.Tasks[i]
		run := t.RunID()
		if inv.tasks[run] == nil {
			inv.tasks[run] = map[int]job.Task{}
		}
		before := inv.tasks[run][t.Index]
		if before.Attempt > t.Attempt || before.ID == t.ID && before.State != t.State && !before.State.IsLive() {
			w.failf("%s went from %s of attempt %d to %s of attempt %d", t.ID, before.State, before.Attempt, t.State, t.Attempt)
		}
		inv.tasks[run][t.Index] = t
		touched[run] = true
		if !t.KillRequested.IsZero() {
			inv.killRequested[t.ID] = true
		}
		isUnreported := before.State == job.Launching || before.State == job.Staging
		if before.ID != t.ID && (before.State == job.Unreachable || isUnreported && inv.isLive(before.ID)) {
			inv.givenUp[before.ID] = true
		}
		switch {
		case t.State == job.Unreachable:
			inv.unreachable[t.ID] = true
		case inv.unreachable[t.ID] && (t.State == job.Killed || t.State == job.Failed && t.KillReason == job.KillByTimeout):
			inv.givenUp[t.ID] = true
		case t.State != job.Killing: // a kill is requested while the agent stays away
			delete(inv.unreachable, t.ID)
		}
		if j := w.users.jobs[run.Name]; j != nil && j.held && t.State == job.Launching && before.State != job.Launching {
			w.failf("%s is launched although its job is held", t.ID)
		}
		if !t.KillRequested.IsZero() && (before.ID != t.ID || before.KillRequested.IsZero()) &&
			t.KillReason == job.KillByPreemption && strings.Contains(t.Message, "deserves the GPUs") {
			inv.addReclaimed(reclaimed, &t)
			inv.reclaimedJob = t.Job
			w.note("reclaimed", t.ID, t.Message, 0)
			w.Reclaims++
		}
		inv.checkPreemption(&before, &t)
		launched = launched || t.State == job.Launching && before.State != job.Launching
		w.note("recorded", t.ID, string(t.State), t.Failures)
	}
	for run := range touched {
		inv.checkJob(run)
	}
	for name, units := range reclaimed {
		inv.checkReclaimed(name, units)
	}
	inv.checkUserLimits()
	if launched && w.plan.quota > 0 {
		held := inv.heldBy(role, func(*job.Task) bool { return true })
		if held > 1000*w.plan.quota {
			w.failf("the role holds %d thousandths of GPUs, its quota is %d", held, 1000*w.plan.quota)
		}
	}
}

// checkPreemption checks that only tasks are preempted whose job allows it, or follows all others because a budget is used up.
func (inv *invariants) checkPreemption(before, t *job.Task) {
	if t.KillRequested.IsZero() || before.ID == t.ID && !before.KillRequested.IsZero() || t.KillReason != job.KillByPreemption ||
		strings.Contains(t.Message, ": role ") {
		return
	}
	j := inv.world.users.jobs[t.Job]
	if j == nil || !j.spec.Preemptible && !inv.budgets.isLowered(t) {
		inv.world.failf("%s is preempted (%s), its job does not allow that", t.ID, t.Message)
	}
}

// addReclaimed adds a task that ends for a role that deserves its GPUs.
func (inv *invariants) addReclaimed(reclaimed map[string]map[job.RunID]int, t *job.Task) {
	name, run := inv.deservingRoleOf(t.RunID()), t.RunID()
	if reclaimed[name] == nil {
		reclaimed[name] = map[job.RunID]int{}
	}
	if j := inv.world.users.jobs[run.Name]; j != nil && j.spec.Gang { // all of its tasks end
		reclaimed[name][run] += milliGPUs(t)
		return
	}
	reclaimed[name][run] = max(reclaimed[name][run], milliGPUs(t))
}

// checkReclaimed checks that a role has lent GPUs of what was reclaimed from it: before the last task or gang ended, it held
// more than it deserves. Tasks without GPUs may end although their role has lent nothing.
func (inv *invariants) checkReclaimed(name string, units map[job.RunID]int) {
	held := inv.heldBy(name, func(t *job.Task) bool { return t.KillRequested.IsZero() })
	deserved, largest := 1000*inv.world.deservedGPUs()[name], slices.Max(slices.Collect(maps.Values(units)))
	if inv.budgets.isRoleLowered(name) {
		deserved = 0
	}
	if largest > 0 && held+largest <= deserved {
		inv.world.failf("%v are reclaimed from role %s, which deserves %d thousandths of GPUs and is left with %d", units, name, deserved, held)
	}
}

// roleOf returns the role of a recorded job.
func (inv *invariants) roleOf(run job.RunID) string {
	if j := inv.world.users.jobs[run.Name]; j != nil {
		return j.spec.Role
	}
	return ""
}

// deservingRoleOf returns the role of a recorded job, or the role above it that deserves GPUs for both.
func (inv *invariants) deservingRoleOf(run job.RunID) string {
	if name := inv.roleOf(run); name != groupRole {
		return name
	}
	return role
}

// heldBy returns the thousandths of GPUs that placed tasks of a role and of the roles below it hold, of those that count.
func (inv *invariants) heldBy(name string, counts func(*job.Task) bool) (held int) {
	for run, tasks := range inv.tasks {
		if !isWithin(inv.roleOf(run), name) {
			continue
		}
		for _, t := range tasks {
			if t.State.IsPlaced() && counts(&t) {
				held += milliGPUs(&t)
			}
		}
	}
	return held
}

func milliGPUs(t *job.Task) (milli int) {
	for _, n := range t.GPUTypes {
		milli += 1000 * n
	}
	for _, s := range t.Shares {
		milli += s.MilliDevices
	}
	return milli
}

func (inv *invariants) checkJob(run job.RunID) {
	if inv.world.apps != nil && strings.HasPrefix(run.Name, appJobs) {
		inv.checkAppInstances()
		return
	}
	j := inv.world.users.jobs[run.Name]
	if j == nil {
		inv.world.failf("job %s is recorded, no user submitted it", run)
		return
	}
	placed, ending, waiting := 0, 0, 0
	for _, t := range inv.tasks[run] {
		switch {
		case t.State == job.Waiting:
			waiting++
		case t.State.IsPlaced() && t.KillRequested.IsZero():
			placed++
		case t.State.IsPlaced():
			ending++
		}
	}
	if j.spec.Gang && placed > 0 && waiting > 0 {
		inv.world.failf("gang %s has %d tasks placed, %d that wait, %d that end", run, placed, waiting, ending)
	}
	if most := j.spec.MaxParallel; most > 0 && placed+ending > most {
		inv.world.failf("%d tasks of %s hold places, at most %d may", placed+ending, run, most)
	}
}

// checkAccepted checks that launches are recorded before the master receives them.
func (inv *invariants) checkAccepted(infos []mesos.TaskInfo) {
	for i := range infos {
		if state := inv.world.disk.recorded[infos[i].TaskID.Value]; state == "" || state == job.Waiting {
			inv.world.failf("task %s is launched, recorded is %q", infos[i].TaskID.Value, state)
		}
	}
}

// checkAcknowledged checks that the end of a task is recorded before it is acknowledged.
func (inv *invariants) checkAcknowledged(id, uuid string) {
	u := inv.updates[uuid]
	if u.task != id {
		inv.world.failf("%s acknowledges an update that no agent sent", id)
		return
	}
	if !events.IsTerminal(u.state) || u.state == mesos.TASK_DROPPED { // the agent does not have it, which is no proof of its end
		return
	}
	if a := inv.attempts[id]; a != nil {
		a.acknowledged = true
	}
	name, index, attempt, _ := job.ParseTaskID(id)
	if inv.world.disk.recorded[id].IsLive() && inv.world.disk.attempts[name+"."+strconv.Itoa(index)] <= attempt {
		inv.world.failf("%s of %s is acknowledged, recorded is %s", u.state, id, inv.world.disk.recorded[id])
	}
}

// newUUID returns the uuid of a new status of an agent.
func (inv *invariants) newUUID(task string, state mesos.TaskState) string {
	inv.nextUUID++
	uuid := fmt.Sprintf("%016d", inv.nextUUID)
	inv.updates[uuid] = agentStatus{task, state}
	return uuid
}

// stateOf returns the state in a status of an agent.
func (inv *invariants) stateOf(uuid string) mesos.TaskState {
	if u, ok := inv.updates[uuid]; ok {
		return u.state
	}
	return mesos.TASK_STAGING
}

func (inv *invariants) taskStarted(id string, n *agentNode) {
	inv.world.note("task started", id, n.host, 0)
	if inv.attempts[id] != nil {
		inv.world.failf("attempt %s is started twice", id)
	}
	inv.attempts[id] = &attemptTruth{state: mesos.TASK_RUNNING}
}

func (inv *invariants) taskEnded(id string, state mesos.TaskState) {
	inv.world.note("task ended", id, state.String(), 0)
	inv.attempts[id].state = state
}

// taskRefused notes an attempt that its machine did not start: its failure counts for nothing.
func (inv *invariants) taskRefused(id string) {
	inv.world.note("task refused", id, "", 0)
	inv.attempts[id] = &attemptTruth{state: mesos.TASK_DROPPED}
}

func (inv *invariants) taskVanished(id string) {
	if a := inv.attempts[id]; a.state == mesos.TASK_RUNNING {
		a.vanished = true
	}
}

// checkRestored checks what a new process reads: each accepted job is there.
func (inv *invariants) checkRestored(past *journal.JournalContents) {
	there := map[string]bool{}
	for _, j := range past.Jobs {
		there[j.Spec.Name] = true
	}
	for _, name := range inv.world.users.acceptedJobs() {
		if !there[name] {
			inv.world.failf("job %s was accepted, the journal does not have it", name)
		}
	}
	inv.state = nil
}

// compareEvery is the number of turns between two comparisons of state, read model and journal.
const compareEvery = 64

// readEvery is the number of turns between two looks of readers, each of readsAtOnce requests.
const readEvery, readsAtOnce = 48, 2

// checkTurn compares the state with the read model and the journal now and then.
func (inv *invariants) checkTurn(p *process) {
	inv.state = p.state
	inv.turns++
	inv.budgets.check(p, inv.turns)
	inv.checkLimitReasons()
	if inv.turns%compareEvery == 0 {
		inv.compare(p.loop.Model)
	}
	if w := inv.world; w.readers != nil && inv.turns%readEvery == 0 {
		w.readers.look(p, readsAtOnce)
	}
	if inv.reclaimedJob != "" {
		if w := inv.world; w.readers != nil {
			w.readers.lookAtReclaim(p, inv.reclaimedJob)
		}
		inv.reclaimedJob = ""
	}
}

func (inv *invariants) compare(model *readmodel.Model) {
	if size := len(inv.world.disk.synced); size != inv.comparedSize {
		past, err := inv.reader.Decode(inv.world.disk.readFrames())
		if err != nil {
			inv.world.failf("the journal cannot be restored: %v", err)
			return
		}
		sortJobs(past.Jobs)
		inv.compared, inv.comparedSize = past, size
	}
	state := journal.JournalContents{FrameworkID: inv.state.FrameworkID(), Jobs: inv.state.Jobs(), Documents: inv.state.Documents()}
	sortJobs(state.Jobs)
	inv.compareContents("the journal", &inv.compared, &state)
	inv.compareModel(model, &state)
}

// compareModel compares the jobs of a read model with the state's, which are sorted.
func (inv *invariants) compareModel(model *readmodel.Model, state *journal.JournalContents) {
	shown := journal.JournalContents{FrameworkID: model.CurrentFrameworkID(), Documents: state.Documents}
	for _, j := range state.Jobs {
		if copied, ok := model.CopyJob(j.RunID().String()); ok {
			shown.Jobs = append(shown.Jobs, &copied)
		}
	}
	inv.compareContents("a read model", &shown, state)
	if count := model.JobCount(); count != len(state.Jobs) {
		inv.world.failf("a read model has %d jobs, the state %d", count, len(state.Jobs))
	}
}

// compareStandby compares the read model of the standbys with the journal.
func (inv *invariants) compareStandby(past *journal.JournalContents) {
	sorted := journal.JournalContents{FrameworkID: past.FrameworkID, Jobs: slices.Clone(past.Jobs), Documents: past.Documents}
	sortJobs(sorted.Jobs)
	inv.compareModel(inv.world.disk.standby, &sorted)
}

func sortJobs(jobs []*job.Job) {
	slices.SortFunc(jobs, func(a, b *job.Job) int { return job.CompareRuns(a.RunID(), b.RunID()) })
}

// compareContents compares contents with the state's. Both have their jobs sorted.
func (inv *invariants) compareContents(what string, contents, state *journal.JournalContents) {
	sameJob := func(a, b *job.Job) bool {
		// Equal values have equal encodings, and are compared faster.
		return reflect.DeepEqual(a, b) || bytes.Equal(inv.encode(a), inv.encode(b))
	}
	if contents.FrameworkID != state.FrameworkID || !slices.EqualFunc(contents.Jobs, state.Jobs, sameJob) ||
		!maps.EqualFunc(contents.Documents, state.Documents, bytes.Equal) {
		inv.world.failf("%s differs from the state:\n%q %q %q\n%q %q %q", what, contents.FrameworkID, inv.encode(contents.Jobs...), contents.Documents,
			state.FrameworkID, inv.encode(state.Jobs...), state.Documents)
	}
}

// encode returns jobs and their tasks as one text.
func (inv *invariants) encode(jobs ...*job.Job) []byte {
	change := journal.Change{Jobs: jobs}
	for _, j := range jobs {
		change.Tasks = append(change.Tasks, j.Tasks...)
	}
	text, err := journal.EncodeChange(change)
	if err != nil {
		inv.world.failf("encode: %v", err)
	}
	return text
}

// awaitConvergence ends the run when the cluster has converged, and fails after the deadline.
func (inv *invariants) awaitConvergence(deadline time.Duration) {
	w := inv.world
	missing := inv.missing()
	switch {
	case missing == "":
		inv.converged = true
	case w.now > deadline:
		w.failf("not converged %s after the last fault: %s", convergeWithin, missing)
	default:
		w.after(10*time.Second, "look", func() { inv.awaitConvergence(deadline) })
	}
}

// missing returns what has not converged, "" for nothing.
func (inv *invariants) missing() string {
	w := inv.world
	if w.scheduler.process == nil || inv.state == nil || !inv.state.IsConnected() {
		return "the scheduler is not subscribed"
	}
	running := map[string]bool{}
	for _, name := range w.users.names {
		j, wanted := w.users.jobs[name], 0
		if !j.accepted {
			return name + " is not accepted"
		}
		now, ok := inv.state.Job(name)
		if !ok {
			return name + " does not exist"
		}
		for i := range now.Tasks {
			t := &now.Tasks[i]
			switch {
			case !t.State.IsLive():
			case j.spec.Service != nil && t.State == job.Running && t.KillRequested.IsZero():
				running[t.ID] = true
				wanted++
			default:
				return fmt.Sprintf("%s is %s", t.ID, t.State)
			}
		}
		if j.spec.Service != nil && !j.killSent && wanted != j.tasks {
			return fmt.Sprintf("%d tasks of service %s run, %d are wanted", wanted, name, j.tasks)
		}
	}
	if w.apps != nil {
		if missing := w.apps.missing(inv.state, w.scheduler.process, running); missing != "" {
			return missing
		}
	}
	for _, a := range w.agents {
		if !a.ready {
			return a.host + " is not registered"
		}
		if len(a.leftovers) > 0 {
			return "containers are left on " + a.host
		}
		for _, id := range a.taskIDs() {
			if t := a.tasks[id]; !t.ended && !running[id] {
				return id + " runs on " + a.host + " and no job owns it: no KILL or SHUTDOWN has ended it"
			}
			delete(running, id)
		}
		for _, id := range slices.Sorted(maps.Keys(a.executors)) {
			if a.tasks[id] == nil {
				return "the executor of " + id + " is left on " + a.host
			}
		}
		if _, pending := a.updates.NextDue(); pending {
			return a.host + " has unacknowledged updates"
		}
	}
	if len(running) > 0 {
		return fmt.Sprintf("%v run, no agent has them", slices.Sorted(maps.Keys(running)))
	}
	return ""
}

// checkEnd checks that each job ended as declared.
func (inv *invariants) checkEnd() {
	if !inv.converged {
		inv.world.failf("nothing happens any more: %s", inv.missing())
		return
	}
	inv.compare(inv.world.scheduler.process.loop.Model)
	if w := inv.world; w.readers != nil {
		w.readers.lookAtAll(w.scheduler.process)
		w.readers.closeStreams(w.scheduler.process)
	}
	for _, name := range inv.world.users.names {
		j := inv.world.users.jobs[name]
		now, _ := inv.state.Job(name)
		if j.priority != nil && now.Spec.Priority != *j.priority {
			inv.world.failf("%s has the priority %d, its user was answered %d", name, now.Spec.Priority, *j.priority)
		}
		for i := range now.Tasks {
			if j.spec.Service == nil {
				inv.checkEndOfTask(j, &now.Tasks[i])
			}
		}
	}
}

func (inv *invariants) checkEndOfTask(j *userJob, t *job.Task) {
	w, truth := inv.world, mesos.TaskState(-1)
	if a := inv.attempts[t.ID]; a != nil {
		truth = a.state
	}
	timedOut, idle := t.KillReason == job.KillByTimeout, t.KillReason == job.KillByIdle
	wrong := false
	switch t.State {
	case job.Finished:
		wrong = truth != mesos.TASK_FINISHED
	case job.Failed:
		wrong = !timedOut && truth != mesos.TASK_FAILED || j.spec.Timeout == 0 && !j.spec.Gang && t.Failures != j.spec.Retries && !j.killSent && !idle
	case job.Killed:
		wrong = !j.killSent && !j.spec.Gang && !idle
	default:
		wrong = true
	}
	if wrong {
		w.failf("%s is %s (%q, %d failures of %d retries); in truth it is %s", t.ID, t.State, t.Message, t.Failures, j.spec.Retries, truth)
	}
	if j.spec.Gang || t.Losses > 0 {
		return
	}
	failed, reported := 0, 0
	for id, a := range inv.attempts {
		name, index, _, _ := job.ParseTaskID(id)
		if name != t.Job || index != t.Index {
			continue
		}
		if a.state == mesos.TASK_FAILED {
			failed++
			if a.acknowledged && !inv.killRequested[id] {
				reported++
			}
		}
		if a.state == mesos.TASK_FINISHED && a.acknowledged && (t.ID != id || t.State != job.Finished) && !inv.givenUp[id] {
			w.failf("%s has finished, which was acknowledged; its task is %s as %s", id, t.State, t.ID)
		}
	}
	counted := t.Failures
	if t.State == job.Failed {
		counted++
	}
	if j.spec.Timeout == 0 && !j.killSent && (counted > failed || counted < reported) {
		w.failf("%s counts %d failures; %d attempts failed, %d were acknowledged", t.ID, counted, failed, reported)
	}
}

// acceptedJobs returns the names of the jobs whose submission succeeded.
func (load *workload) acceptedJobs() (names []string) {
	for _, name := range load.names {
		if load.jobs[name].accepted {
			names = append(names, name)
		}
	}
	return names
}
