package sched

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"mesos-gpu/framework/sched/admission"
	"mesos-gpu/job"
)

// Step applies one event and returns the resulting operations, in order. The caller records what TakeChanges returns
// before it performs them.
func (s *State) Step(now time.Time, ev Event) []Operation {
	s.now = now
	var ops []Operation
	switch e := ev.(type) {
	case Subscribed:
		ops = s.handleSubscribed(now, e)
	case Disconnected:
		s.handleDisconnected()
	case OffersReceived:
		s.addOffers(now, e.Offers)
	case InverseOffersReceived:
		ops = s.answerInverseOffers(e.Offers)
	case OfferRescinded:
		s.rescindOffer(e.OfferID)
	case TaskUpdate:
		ops = s.handleTaskUpdate(now, e)
	case SubmitJob:
		s.submitJob(now, e.Spec)
	case KillJob:
		ops = s.killJob(now, e)
	case ForgetJob:
		s.forgetEndedJob(e.Job)
	case ScaleService:
		ops = s.scaleService(now, e)
	case StopTasks:
		ops = s.stopTasks(now, e)
	case EndBackoff:
		s.endBackoff(now, e)
	case PutDocument:
		s.putDocument(e)
	case AcceptFailed:
		s.handleAcceptFailed(now, e.TaskIDs)
	case AgentsListed:
		s.setAgents(e.Agents)
	case OperationUpdated:
		if len(e.UUID) > 0 {
			ops = []Operation{AcknowledgeOperation(e)}
		}
	case AgentLost:
		s.removeAgent(e.AgentID)
	case PolicyChanged:
		ops = s.setPolicy(e.Policy)
	case CountersChanged:
		s.writeDocument(CountersKey, e.Value)
	case CordonHost:
		ops = s.cordonHost(now, e)
	case UncordonHost:
		s.uncordonHost(e)
	case SetQuota:
		s.setQuota(e)
	case Tick:
		ops = s.handleTick(now)
	case Cycle:
		ops = s.placeWaiting(now)
	}
	return append(ops, s.reviveOrSuppress(now)...)
}

// transition moves a task to another state, and returns false if its life cycle does not allow that.
func (s *State) transition(now time.Time, ref taskRef, next job.State, message string) bool {
	t := ref.get()
	if t.State == next || !t.State.CanBecome(next) {
		return false
	}
	if t.State == job.Waiting {
		s.offerDemandFor(ref.job.Spec.Role).waiting--
	}
	t.State, t.Changed, t.Message = next, now, message
	if next == job.Running && t.Started.IsZero() {
		t.Started = now
	}
	if !next.IsLive() {
		t.Ended = now
		s.liveTasks--
		delete(s.deadlines, t.ID)
		delete(s.reconciliation.unanswered, t.ID)
		s.offers.stale = true // a quota or a gang may have room now
	}
	s.updateDeadlines(ref)
	s.markTaskDirty(ref)
	s.recordTransition(now, t)
	return true
}

// markTaskDirty makes TakeChanges return the task.
func (s *State) markTaskDirty(ref taskRef) {
	name := ref.job.Spec.Name
	if s.dirtyTasks[name] == nil {
		s.dirtyTasks[name] = map[int]bool{}
	}
	s.dirtyTasks[name][ref.index] = true
}

// markJobChanged makes TakeChanges return the job.
func (s *State) markJobChanged(j *job.Job) {
	if s.changedJobs[j] {
		return
	}
	if s.changedJobs == nil {
		s.changedJobs = map[*job.Job]bool{}
	}
	s.changedJobs[j] = true
	s.changes.Jobs = append(s.changes.Jobs, j)
}

func (s *State) recordTransition(now time.Time, t *job.Task) {
	s.changes.Transitions = append(s.changes.Transitions, StateTransition{Time: now, Job: t.Job, TaskID: t.ID, Index: t.Index, State: t.State, Message: t.Message, Role: s.jobs[t.Job].Spec.Role})
}

// Admit returns why a job may not be submitted, nil if it may. Callers check it before SubmitJob, which ignores a job
// that may not.
func (s *State) Admit(spec *job.Spec) error {
	if err := spec.Validate(); err != nil {
		return err
	}
	return s.AdmitCompleted(spec)
}

// AdmitCompleted is Admit for a job that job.Spec.Complete has accepted.
func (s *State) AdmitCompleted(spec *job.Spec) error {
	return s.AdmitBy(spec, func(string) bool { return true })
}

// AdmitBy is AdmitCompleted for a user who sees only the jobs of some roles. A job
// cannot depend on jobs that its user does not see.
func (s *State) AdmitBy(spec *job.Spec, sees func(role string) bool) error {
	if j, ok := s.jobs[spec.Name]; ok && !j.IsTerminal() {
		return &JobNotEndedError{Name: spec.Name, State: j.State()}
	}
	if !slices.Contains(s.roleNames(), s.roleOf(spec)) {
		return fmt.Errorf("role %q: the scheduler has jobs of %s", spec.Role, strings.Join(s.roleNames(), ", "))
	}
	if err := admission.PermissionsFor(s.roleOf(spec), &s.cfg.Policy.Permissions, s.cfg.Policy.RolePermissions).CheckSpec(spec); err != nil {
		return err
	}
	if spec.Schedule != nil {
		return errors.New("schedule: this is a schedule, not a job: submit it as such, to /v1/schedules")
	}
	if err := s.admitDependencies(spec, sees); err != nil {
		return err
	}
	if s.liveTasks+spec.Tasks > s.cfg.MaxLiveTasks {
		return &TooManyTasksError{Live: s.liveTasks, Requested: spec.Tasks, Limit: s.cfg.MaxLiveTasks}
	}
	return nil
}

// TooManyTasksError reports that a request exceeds the limit of live tasks.
type TooManyTasksError struct{ Live, Requested, Limit int }

func (e *TooManyTasksError) Error() string {
	return fmt.Sprintf("%d tasks have not ended, %d more would pass the limit of %d: wait for some to end", e.Live, e.Requested, e.Limit)
}

// JobNotEndedError reports that a job of the same name has not ended.
type JobNotEndedError struct {
	Name  string
	State job.State
}

func (e *JobNotEndedError) Error() string {
	return fmt.Sprintf("job %q is %s: kill it first, or submit under another name", e.Name, e.State)
}

func (s *State) submitJob(now time.Time, spec job.Spec) {
	if s.AdmitCompleted(&spec) != nil {
		return
	}
	// Task ids contain the time of submission, and the queue is sorted by it: it increases even if the clock does not.
	submitted := now
	if !submitted.After(s.lastSubmitted) {
		submitted = s.lastSubmitted.Add(time.Nanosecond)
	}
	s.lastSubmitted = submitted
	if old, ok := s.jobs[spec.Name]; ok {
		s.removeJob(old)
	}
	spec.Role = s.roleOf(&spec) // fixed now, since the default may change
	j := &job.Job{Spec: spec, Submitted: submitted, Tasks: make([]job.Task, spec.Tasks)}
	s.registerDependencies(j)
	s.jobs[spec.Name] = j
	s.addClientKey(&j.Spec)
	s.queue = append(s.queue, spec.Name)
	s.markJobChanged(j)
	s.taskMix.addJob(&j.Spec, s.cfg.Policy.Overhead, 1)
	for i := range j.Tasks {
		s.enqueueAttempt(now, taskRef{j, i}, job.Task{Attempt: 1})
	}
}

// enqueueAttempt starts an attempt of a task: it waits for a place.
func (s *State) enqueueAttempt(now time.Time, ref taskRef, t job.Task) {
	j := ref.job
	s.keepEndedAttempt(j.Tasks[ref.index])
	t.ID, t.Job, t.Index = formatTaskID(j, ref.index, t.Attempt), j.Spec.Name, ref.index
	t.State, t.Changed = job.Waiting, now
	j.Tasks[ref.index] = t
	s.tasks[t.ID] = ref
	s.liveTasks++
	s.requestOffers(ref)
	s.offerDemandFor(j.Spec.Role).waiting++
	s.markTaskDirty(ref)
	s.recordTransition(now, &t)
}

// requestOffers makes Step revive offers for the role of a task, and the next cycle look at the held ones.
func (s *State) requestOffers(ref taskRef) {
	s.offerDemandFor(ref.job.Spec.Role).reviveWanted = true
	s.offers.stale = true
}

// removeJob forgets an ended job and all its records.
func (s *State) removeJob(j *job.Job) {
	for i := range j.Tasks {
		delete(s.tasks, j.Tasks[i].ID)
	}
	delete(s.jobs, j.Spec.Name)
	s.dropAllAttempts(j.Spec.Name)
	s.removeClientKey(&j.Spec)
	delete(s.dirtyTasks, j.Spec.Name)
	delete(s.reservationReasons, j.Spec.Name)
	s.taskMix.addJob(&j.Spec, s.cfg.Policy.Overhead, -1)
	s.endedTasks -= len(j.Tasks)
	s.ended = slices.DeleteFunc(s.ended, func(n string) bool { return n == j.Spec.Name })
	if s.changedJobs[j] {
		delete(s.changedJobs, j)
		s.changes.Jobs = slices.DeleteFunc(s.changes.Jobs, func(x *job.Job) bool { return x == j })
	}
	s.changes.Removed = append(s.changes.Removed, j.Spec.Name)
}

// forgetEndedJob removes a job if it has ended.
func (s *State) forgetEndedJob(name string) {
	if j, ok := s.jobs[name]; ok && j.IsTerminal() {
		s.removeJob(j)
	}
}

// dequeueJob removes a job from the queue, and returns false if it was not there. Jobs at the front end first, so the
// shorter part of the queue is moved.
func (s *State) dequeueJob(j *job.Job) bool {
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

// retireJob removes a job that has ended from the queue, and forgets the jobs that ended longest ago if there are too
// many. It keeps the job itself.
func (s *State) retireJob(j *job.Job) {
	if !j.IsTerminal() {
		return
	}
	if !s.dequeueJob(j) {
		return
	}
	delete(s.demandKeys, j.Spec.Name)
	s.ended = append(s.ended, j.Spec.Name)
	s.endedTasks += len(j.Tasks)
	s.unregisterDependencies(j)
	s.notifyDependents(s.now, j)
	for len(s.ended) > 1 && s.endedTasks > s.cfg.MaxEndedTasks {
		s.removeJob(s.jobs[s.ended[0]])
	}
}
