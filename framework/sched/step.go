package sched

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"mesos-gpu/job"
)

// Step applies one event and returns the operations it calls for, in order.
// What Drain then returns must be recorded before they are performed.
func (s *State) Step(now time.Time, ev Event) []Op {
	s.now = now
	var ops []Op
	switch e := ev.(type) {
	case Subscribed:
		ops = s.subscribed(now, e)
	case Disconnected:
		s.disconnected()
	case Offers:
		s.offered(now, e.Offers)
	case InverseOffers:
		ops = s.answerInverse(e.Offers)
	case Rescind:
		s.rescind(e.OfferID)
	case Update:
		ops = s.update(now, e)
	case Submit:
		s.submit(now, e.Spec)
	case Kill:
		ops = s.kill(now, e)
	case Forget:
		s.forgetEnded(e.Job)
	case Scale:
		ops = s.scale(now, e)
	case Stop:
		ops = s.stop(now, e)
	case Wake:
		s.wake(now, e)
	case Put:
		s.put(e)
	case AcceptFailed:
		s.acceptFailed(now, e.TaskIDs)
	case Agents:
		s.setAgents(e.Agents)
	case OperationUpdate:
		if len(e.UUID) > 0 {
			ops = []Op{AcknowledgeOperation(e)}
		}
	case AgentLost:
		s.agentLost(e.AgentID)
	case PolicyChanged:
		ops = s.setPolicy(e.Policy)
	case Counted:
		s.write(CountedKey, e.Value)
	case Cordon:
		ops = s.cordon(now, e)
	case Uncordon:
		s.uncordon(e)
	case SetQuota:
		s.setQuota(e)
	case Tick:
		ops = s.tick(now)
	case Cycle:
		ops = s.cycle(now)
	}
	return append(ops, s.balance(now)...)
}

// move takes a task to another state, if the table of its life allows.
func (s *State) move(now time.Time, ref taskRef, next job.State, message string) bool {
	t := ref.task()
	if t.State == next || !t.State.May(next) {
		return false
	}
	if t.State == job.Waiting {
		s.demandOf(ref.job.Spec.Role).waiting--
	}
	t.State, t.Changed, t.Message = next, now, message
	if next == job.Running && t.Started.IsZero() {
		t.Started = now
	}
	if !next.Live() {
		t.Ended = now
		s.live--
		delete(s.timers, t.ID)
		delete(s.reconcile.open, t.ID)
		s.pool.stale = true // a quota or a gang may have room now
	}
	s.watch(ref)
	s.touch(ref)
	s.note(now, t)
	return true
}

// touch remembers that the task must be recorded.
func (s *State) touch(ref taskRef) {
	name := ref.job.Spec.Name
	if s.dirty[name] == nil {
		s.dirty[name] = map[int]bool{}
	}
	s.dirty[name][ref.index] = true
}

// recordJob remembers that the job must be recorded.
func (s *State) recordJob(j *job.Job) {
	if s.changed[j] {
		return
	}
	if s.changed == nil {
		s.changed = map[*job.Job]bool{}
	}
	s.changed[j] = true
	s.changes.Jobs = append(s.changes.Jobs, j)
}

func (s *State) note(now time.Time, t *job.Task) {
	s.changes.Moves = append(s.changes.Moves, Move{Time: now, Job: t.Job, TaskID: t.ID, Index: t.Index, State: t.State, Message: t.Message, Role: s.jobs[t.Job].Spec.Role})
}

// Admit says what is in the way of a job; nil if it may be submitted.
// It is for the caller of Submit, which ignores a job that may not.
func (s *State) Admit(spec *job.Spec) error {
	return s.AdmitBy(spec, func(string) bool { return true })
}

// AdmitBy is Admit for somebody who sees the jobs of some roles: the others
// are not there to wait for.
func (s *State) AdmitBy(spec *job.Spec, sees func(role string) bool) error {
	if err := spec.Validate(); err != nil {
		return err
	}
	if j, ok := s.jobs[spec.Name]; ok && !j.Terminal() {
		return &LiveError{Name: spec.Name, State: j.State()}
	}
	if !slices.Contains(s.roleNames(), s.roleOf(spec)) {
		return fmt.Errorf("role %q: the scheduler has jobs of %s", spec.Role, strings.Join(s.roleNames(), ", "))
	}
	if err := s.cfg.Policy.allowedFor(s.roleOf(spec)).check(spec); err != nil {
		return err
	}
	if spec.Schedule != nil {
		return errors.New("schedule: this is a schedule, not a job: submit it as such, to /v1/schedules")
	}
	if err := s.admitAfter(spec, sees); err != nil {
		return err
	}
	if s.live+spec.Tasks > s.cfg.MaxLive {
		return &FullError{Live: s.live, More: spec.Tasks, Most: s.cfg.MaxLive}
	}
	return nil
}

// FullError says that the scheduler has as many tasks as it takes on.
type FullError struct{ Live, More, Most int }

func (e *FullError) Error() string {
	return fmt.Sprintf("%d tasks have not ended, %d more would pass the limit of %d: wait for some to end", e.Live, e.More, e.Most)
}

// LiveError says that a job of the name has not ended.
type LiveError struct {
	Name  string
	State job.State
}

func (e *LiveError) Error() string {
	return fmt.Sprintf("job %q is %s: kill it first, or submit under another name", e.Name, e.State)
}

func (s *State) submit(now time.Time, spec job.Spec) {
	if s.Admit(&spec) != nil {
		return
	}
	// Task ids hold the time of submission, and the queue is in its order: it
	// grows even where the clock does not.
	submitted := now
	if !submitted.After(s.newest) {
		submitted = s.newest.Add(time.Nanosecond)
	}
	s.newest = submitted
	if old, ok := s.jobs[spec.Name]; ok {
		s.forget(old)
	}
	spec.Role = s.roleOf(&spec) // the default may change, the job's role does not
	j := &job.Job{Spec: spec, Submitted: submitted, Tasks: make([]job.Task, spec.Tasks)}
	s.await(j)
	s.jobs[spec.Name] = j
	s.remember(&j.Spec)
	s.queue = append(s.queue, spec.Name)
	s.recordJob(j)
	s.workload.add(&j.Spec, &s.cfg.Policy, 1)
	for i := range j.Tasks {
		s.enqueue(now, taskRef{j, i}, job.Task{Attempt: 1})
	}
}

// enqueue puts an attempt of a task into the queue.
func (s *State) enqueue(now time.Time, ref taskRef, t job.Task) {
	j := ref.job
	s.supersede(j.Tasks[ref.index])
	t.ID, t.Job, t.Index = taskID(j, ref.index, t.Attempt), j.Spec.Name, ref.index
	t.State, t.Changed = job.Waiting, now
	j.Tasks[ref.index] = t
	s.tasks[t.ID] = ref
	s.live++
	s.demand(ref)
	s.demandOf(j.Spec.Role).waiting++
	s.touch(ref)
	s.note(now, &t)
}

// demand wants offers for a task, and a look at those in hand.
func (s *State) demand(ref taskRef) {
	s.demandOf(ref.job.Spec.Role).wanted = true
	s.pool.stale = true
}

// forget drops an ended job.
func (s *State) forget(j *job.Job) {
	for i := range j.Tasks {
		delete(s.tasks, j.Tasks[i].ID)
	}
	delete(s.jobs, j.Spec.Name)
	s.dropAttempts(j.Spec.Name)
	s.disclaim(&j.Spec)
	delete(s.dirty, j.Spec.Name)
	delete(s.turns, j.Spec.Name)
	s.workload.add(&j.Spec, &s.cfg.Policy, -1)
	s.endedTasks -= len(j.Tasks)
	s.ended = slices.DeleteFunc(s.ended, func(n string) bool { return n == j.Spec.Name })
	if s.changed[j] {
		delete(s.changed, j)
		s.changes.Jobs = slices.DeleteFunc(s.changes.Jobs, func(x *job.Job) bool { return x == j })
	}
	s.changes.Removed = append(s.changes.Removed, j.Spec.Name)
}

// forgetEnded drops a job if it has ended.
func (s *State) forgetEnded(name string) {
	if j, ok := s.jobs[name]; ok && j.Terminal() {
		s.forget(j)
	}
}

// dequeue takes a job out of the queue, and reports whether it was there. The
// queue is in the order of submission, and those at its begin end first.
func (s *State) dequeue(j *job.Job) bool {
	i, ok := slices.BinarySearchFunc(s.queue, j, func(name string, j *job.Job) int {
		return cmp.Or(s.jobs[name].Submitted.Compare(j.Submitted), cmp.Compare(name, j.Spec.Name))
	})
	switch {
	case !ok:
		return false
	case i < len(s.queue)/2:
		copy(s.queue[1:i+1], s.queue[:i])
		s.queue = s.queue[1:]
	default:
		s.queue = slices.Delete(s.queue, i, i+1)
	}
	return true
}

// settle moves a job that has ended out of the queue, and forgets those that
// ended longest ago, but not this one.
func (s *State) settle(j *job.Job) {
	if !j.Terminal() {
		return
	}
	if !s.dequeue(j) {
		return
	}
	delete(s.wishes, j.Spec.Name)
	s.ended = append(s.ended, j.Spec.Name)
	s.endedTasks += len(j.Tasks)
	s.abandon(j)
	s.release(s.now, j)
	for len(s.ended) > 1 && s.endedTasks > s.cfg.KeepEnded {
		s.forget(s.jobs[s.ended[0]])
	}
}
