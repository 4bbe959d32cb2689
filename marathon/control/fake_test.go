package control

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"mesos-gpu/job"
	"mesos-gpu/marathon"
)

// errLost ends the leadership of a fake cluster.
var errLost = errors.New("another scheduler leads")

// fakeCluster is a ClusterBackend in memory that acts at once: tasks run when they are submitted, and end when they are
// stopped.
type fakeCluster struct {
	mu   sync.Mutex
	jobs map[string]*job.Job
	// groups are the names of the jobs that were submitted, by group.
	groups    map[string]map[string]bool
	documents map[string][]byte
	// agentFields are the maps that AgentFields has returned, by agent.
	agentFields map[string]map[string]string
	changed     map[string]bool
	moves       []job.Task
	wake        chan struct{}
	attempts    int

	// calls are the calls that change something, such as "submit web.abc 3".
	calls []string
	// early are jobs that were submitted before their apps were recorded.
	early []string
	// deny, if set, returns the error of each such call before it changes anything. After errLost all calls fail.
	deny func(call string) error
	lost chan struct{}
	led  sync.Once
	// leads is closed when a Controller reads the changes for the first time.
	leads chan struct{}
	held  bool // tasks wait and do not run
	ports []int
	// addresses are those of all tasks; empty if agents report none.
	addresses []string
	// explained are the jobs for which ExplainWaiting was called.
	explained []string
	// refuses are apps whose jobs are not admitted; uncheckable, if set, is why admission cannot be checked.
	refuses     map[string]bool
	uncheckable error
}

func newFakeCluster() *fakeCluster {
	return &fakeCluster{
		jobs:        map[string]*job.Job{},
		groups:      map[string]map[string]bool{},
		agentFields: map[string]map[string]string{},
		documents:   map[string][]byte{},
		changed:     map[string]bool{},
		wake:        make(chan struct{}, 1),
		lost:        make(chan struct{}),
		leads:       make(chan struct{}),
	}
}

// newSuccessor returns the cluster for the next scheduler, in the same state.
func (f *fakeCluster) newSuccessor() *fakeCluster {
	f.mu.Lock()
	defer f.mu.Unlock()
	next := newFakeCluster()
	for name, j := range f.jobs {
		next.addJob(j.Clone())
		next.changed[name] = true
	}
	next.documents, next.attempts, next.held, next.ports = maps.Clone(f.documents), f.attempts, f.held, f.ports
	return next
}

// addJob records a job, and its group.
func (f *fakeCluster) addJob(j *job.Job) {
	f.jobs[j.Spec.Name] = j
	if f.groups[j.Spec.Group] == nil {
		f.groups[j.Spec.Group] = map[string]bool{}
	}
	f.groups[j.Spec.Group][j.Spec.Name] = true
}

// addUserJob adds a running job that the controller did not submit. Callers hold mu.
func (f *fakeCluster) addUserJob(spec job.Spec) {
	spec.Tasks = 1
	j := &job.Job{Spec: new(spec)}
	j.Tasks = []job.Task{f.newTask(j, 0, 1)}
	f.addJob(j)
	f.notifyChange(spec.Name)
}

// denyCalls sets deny and clears calls.
func (f *fakeCluster) denyCalls(deny func(call string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls, f.deny = nil, deny
}

// recordCall records a call before its change. It returns with mu locked.
func (f *fakeCluster) recordCall(format string, args ...any) error {
	f.mu.Lock()
	select {
	case <-f.lost:
		return errLost
	default:
	}
	call := fmt.Sprintf(format, args...)
	if f.deny != nil {
		if err := f.deny(call); err != nil {
			if errors.Is(err, errLost) {
				close(f.lost)
			}
			return err
		}
	}
	f.calls = append(f.calls, call)
	return nil
}

func (f *fakeCluster) notifyChange(name string, moves ...job.Task) {
	f.changed[name], f.moves = true, append(f.moves, moves...)
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

func (f *fakeCluster) DescribeScheduler(context.Context) (url, id, role string, err error) {
	return "http://127.0.0.1:1", "f1", "*", nil
}

func (f *fakeCluster) MasterURL() string { return "http://127.0.0.1:5050" }

// ExplainWaiting returns the same reason for each job with waiting tasks.
func (f *fakeCluster) ExplainWaiting(_ context.Context, names ...string) (map[string]job.WaitReason, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	texts := map[string]job.WaitReason{}
	f.explained = append(f.explained, names...)
	for _, name := range names {
		if j := f.jobs[name]; j != nil && slices.ContainsFunc(j.Tasks, func(t job.Task) bool { return t.State == job.Waiting }) {
			texts[name] = job.WaitReason{
				Text:       "an agent; no agent is known yet",
				Exclusions: []job.ExclusionCount{{Cause: job.ExcludedByRole, Agents: 1}, {Cause: job.ExcludedByMemory, Agents: 1, Excluded: 1}},
			}
		}
	}
	return texts, nil
}

// AbdicateLeadership ends the leadership.
func (f *fakeCluster) AbdicateLeadership() { close(f.lost) }

// setHealth reports a result of the health checks of the job's first task. failure is nil for a success and for what is
// no check's result.
func (f *fakeCluster) setHealth(name string, healthy bool, message string, failure *job.HealthFailure) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := &f.jobs[name].Tasks[0]
	t.Healthy, t.Message = &healthy, message
	if failure != nil || healthy {
		t.HealthFailure = failure
	}
	f.notifyChange(name)
}

func (f *fakeCluster) SubmitJobs(_ context.Context, specs ...job.Spec) error {
	names := ""
	for _, s := range specs {
		names += fmt.Sprintf(" %s %d", s.Name, s.Tasks)
	}
	err := f.recordCall("submit%s", names)
	defer f.mu.Unlock()
	if err != nil {
		return err
	}
	for _, s := range specs {
		if j, ok := f.jobs[s.Name]; ok && !j.IsTerminal() {
			return fmt.Errorf("job %q is there", s.Name)
		}
	}
	for _, s := range specs {
		if app := string(f.documents["marathon/app"+s.Group]); !strings.Contains(app, s.Labels[marathon.VersionLabel]) {
			f.early = append(f.early, s.Name)
		}
		j := &job.Job{Spec: new(s), Submitted: time.Now()}
		f.addJob(j)
		for range s.Tasks {
			j.Tasks = append(j.Tasks, f.newTask(j, len(j.Tasks), 1))
		}
		f.notifyChange(s.Name)
	}
	return nil
}

// CheckAdmission rejects the jobs of apps in refuses.
func (f *fakeCluster) CheckAdmission(_ context.Context, specs ...job.Spec) (rejected, err error) {
	for _, s := range specs {
		if f.refuses[s.Group] {
			rejected = fmt.Errorf("%s wants what its operator has not allowed", s.Group)
		}
	}
	return rejected, f.uncheckable
}

func (f *fakeCluster) newTask(j *job.Job, index, attempt int) job.Task {
	f.attempts++
	t := job.Task{
		ID: fmt.Sprintf("%s.%d.%d.%s", j.Spec.Name, index, attempt, strconv.FormatInt(j.Submitted.UnixNano(), 36)), Job: j.Spec.Name, Index: index, Attempt: attempt,
		State: job.Waiting, Changed: time.Now(),
	}
	if !f.held {
		f.runTask(j, &t)
	}
	return t
}

func (f *fakeCluster) runTask(j *job.Job, t *job.Task) {
	t.State, t.Started, t.Hostname, t.AgentID, t.Ports = job.Running, time.Now(), "127.0.0.1", "a1", f.ports
	t.AgentURL, t.Addresses = "http://10.0.0.1:5051/slave(1)", f.addresses
	if j.Spec.HealthCheck != nil {
		t.Healthy = new(true)
	}
}

// endFirstTask ends the first task of the job, whose next attempt waits. It returns the id of the attempt that ended.
func (f *fakeCluster) endFirstTask(name string, as job.State, why string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	j := f.jobs[name]
	held := f.held
	f.held = true
	old, t := j.Tasks[0], f.newTask(j, 0, j.Tasks[0].Attempt+1)
	f.held = held
	old.State, old.Message, old.Changed = as, why, time.Now()
	t.Failures, t.Message = 1, fmt.Sprintf("attempt %d has %s and is started again", old.Attempt, as)
	j.Tasks[0] = t
	f.notifyChange(name, old, t)
	return old.ID
}

// specWithTasks returns a copy of a specification with another number of tasks.
func specWithTasks(spec *job.Spec, tasks int) *job.Spec {
	c := *spec
	c.Tasks = tasks
	return &c
}

// byUser returns " by NAME", "" without a user.
func byUser(name string) string {
	if name == "" {
		return ""
	}
	return " by " + name
}

func (f *fakeCluster) ScaleJob(_ context.Context, name string, tasks int, by string) error {
	err := f.recordCall("scale %s %d%s", name, tasks, byUser(by))
	defer f.mu.Unlock()
	if err != nil {
		return err
	}
	j, ok := f.jobs[name]
	if !ok || j.IsTerminal() || j.WantedTasks() > tasks {
		return fmt.Errorf("job %q cannot run %d", name, tasks)
	}
	for i := range j.Tasks {
		if j.WantedTasks() < tasks && j.Tasks[i].IsRetired() {
			j.Tasks[i] = f.newTask(j, i, j.Tasks[i].Attempt+1)
		}
	}
	for j.WantedTasks() < tasks {
		j.Tasks = append(j.Tasks, f.newTask(j, len(j.Tasks), 1))
	}
	j.Spec = specWithTasks(j.Spec, tasks)
	f.notifyChange(name)
	return nil
}

func (f *fakeCluster) StopTasks(_ context.Context, ids []string, retire bool, by string) error {
	err := f.recordCall("stop %d %t%s", len(ids), retire, byUser(by))
	defer f.mu.Unlock()
	if err != nil {
		return err
	}
	for name, j := range f.jobs {
		for i := range j.Tasks {
			t := &j.Tasks[i]
			switch {
			case !slices.Contains(ids, t.ID) || !t.State.IsLive():
				continue
			case retire:
				f.endTask(t, job.KillByScaling)
				j.Spec = specWithTasks(j.Spec, j.Spec.Tasks-1)
			case t.State == job.Waiting: // it does not run
				continue
			default:
				j.Tasks[i] = f.newTask(j, i, t.Attempt+1)
			}
			f.notifyChange(name)
		}
	}
	return nil
}

func (f *fakeCluster) EndBackoff(_ context.Context, ids []string) error {
	err := f.recordCall("wake %d", len(ids))
	defer f.mu.Unlock()
	if err != nil {
		return err
	}
	for name, j := range f.jobs {
		for i := range j.Tasks {
			if t := &j.Tasks[i]; slices.Contains(ids, t.ID) && t.State == job.Waiting {
				f.runTask(j, t)
				f.notifyChange(name, *t)
			}
		}
	}
	return nil
}

func (f *fakeCluster) endTask(t *job.Task, why job.KillReason) {
	t.State, t.KillRequested, t.KillReason, t.Changed = job.Killed, time.Now(), why, time.Now()
}

func (f *fakeCluster) KillJobs(_ context.Context, by string, names ...string) error {
	err := f.recordCall("kill %v%s", names, byUser(by))
	defer f.mu.Unlock()
	if err != nil {
		return err
	}
	for _, name := range names {
		j, ok := f.jobs[name]
		if !ok {
			continue
		}
		for i := range j.Tasks {
			if t := &j.Tasks[i]; t.State.IsLive() || t.IsRetired() {
				f.endTask(t, job.KillByUser)
			}
		}
		f.notifyChange(name)
	}
	return nil
}

func (f *fakeCluster) FindJob(name string) (job.Job, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	j, ok := f.jobs[name]
	if !ok {
		return job.Job{}, false
	}
	return *j.Clone(), true
}

func (f *fakeCluster) ListGroupJobs(group string) (list []job.Job) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name := range f.groups[group] {
		if j, ok := f.jobs[name]; ok && j.Spec.Group == group {
			one := *j
			one.Tasks = slices.Clone(j.Tasks)
			list = append(list, one)
		}
	}
	slices.SortFunc(list, func(a, b job.Job) int { return strings.Compare(a.Spec.Name, b.Spec.Name) })
	return list
}

func (f *fakeCluster) WaitForChange(ctx context.Context) error {
	select {
	case <-f.wake:
		return nil
	case <-f.lost:
		return errLost
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (f *fakeCluster) TakeChanges() (changed map[string]*job.Spec, moves []job.Task) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.led.Do(func() { close(f.leads) })
	changed = map[string]*job.Spec{}
	for name := range f.changed {
		run, spec := job.RunID{Name: name, Run: 1}, &job.Spec{Name: name}
		if j := f.jobs[name]; j != nil {
			run, spec = j.RunID(), j.Spec
		}
		changed[run.String()] = spec
	}
	clear(f.changed)
	moves, f.moves = f.moves, nil
	return changed, moves
}

// AgentFields puts each agent into a region of its own.
func (f *fakeCluster) AgentFields(agentID string) map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	fields := f.agentFields[agentID]
	if fields == nil {
		fields = map[string]string{"@region": "region-" + agentID, "@zone": "zone-1"}
		f.agentFields[agentID] = fields
	}
	return fields
}

func (f *fakeCluster) PutDocuments(_ context.Context, documents map[string][]byte) error {
	err := f.recordCall("put %v", slices.Sorted(maps.Keys(documents)))
	defer f.mu.Unlock()
	if err != nil {
		return err
	}
	for key, value := range documents {
		if len(value) == 0 {
			delete(f.documents, key)
		} else {
			f.documents[key] = value
		}
	}
	return nil
}

func (f *fakeCluster) LoadDocuments(context.Context) (map[string][]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.documents), nil
}

// countRunning counts the running tasks by the last word of their command.
func (f *fakeCluster) countRunning(t testing.TB) map[string]int {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	n := map[string]int{}
	for _, j := range f.jobs {
		for i := range j.Tasks {
			if j.Tasks[i].State == job.Running {
				n[j.Spec.Command[len(j.Spec.Command)-1]]++
			}
		}
	}
	return n
}
