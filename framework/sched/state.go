// Package sched is the scheduler's state machine: Step takes one event and returns the operations to send to Mesos. It
// is a pure function of its events: no I/O, no clock, no log, so that the simulator, the fuzzer and production run the
// same code. Which job goes first, what a role may hold, where tasks run and why jobs wait are decided by the packages
// queue, quota, placement and pending.
package sched

import (
	"cmp"
	"slices"
	"time"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/pending"
	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/job"
)

// State is the scheduler's view of jobs, tasks, offers and agents. It changes only in Step, and belongs to one
// goroutine. Job pointers inside it are not shared; accessors return copies.
type State struct {
	// cfg has its defaults filled in. PolicyChanged and SetQuota change cfg.Policy.
	cfg SchedulerSettings
	// frameworkID is the id that the master assigned, "" before the first subscription. connected is true from Subscribed
	// to Disconnected.
	frameworkID string
	connected   bool
	now         time.Time // of the last Step
	// subscribedAt is when the current subscription started.
	subscribedAt time.Time

	// jobs are all remembered jobs by name, live and ended. tasks has the current attempt of each of their tasks, by id.
	jobs  map[string]*job.Job
	tasks map[string]taskRef
	// queue are the names of jobs that have not ended, in the order of submission. ended are the others, in the order in
	// which they ended; endedTasks is the number of their tasks.
	queue      []string
	ended      []string
	endedTasks int
	// lastSubmitted is the submission of the newest job: the next one is later, even if the clock is not.
	lastSubmitted time.Time
	// liveTasks is the number of tasks that have not ended.
	liveTasks  int
	clientKeys map[clientKey]string // names of jobs that were submitted with a client key
	// dependents are, by job, the jobs that wait for its end.
	dependents map[string][]string

	// deadlines are, by task id, what is due for placed tasks. A task without a deadline has no entry.
	deadlines map[string]*taskDeadlines
	// reconciliation is the current round of reconciliation. Each subscription starts a new one.
	reconciliation reconcileRound

	// offers are the held offers. Disconnected makes them void.
	offers       offerPool
	offerDemands map[string]*offerDemand // by role
	// lastOffered is what each agent had free when its last offer arrived or left, less what was launched since.
	lastOffered map[placement.AgentKey]agentSnapshot
	// listedAgents are the agents of the master's last list, nil before the first. sharedDevices are those of them that
	// tasks share, by agent.
	listedAgents  map[string]Agent
	sharedDevices map[string][]SharedDevice
	// freed are places of ended tasks that Mesos has not offered again.
	freed []freedPlace
	// returnedAt is when an agent's offers were last returned for another role.
	returnedAt map[string]time.Time
	// cache keeps agents and memory from cycle to cycle. It does not affect plans.
	cache agentCache
	// demandKeys are the demand keys of queued jobs, computed when they are first placed. A new policy clears them.
	demandKeys map[string]string
	// taskMix counts the tasks of the remembered jobs by demand, for policies that use typical tasks.
	taskMix taskMix
	// planCount is the number of plans made since New.
	planCount int
	// reservationReasons are, by job, the reasons of jobs that the last plan kept off reserved resources.
	// quotaBlockedRoles are the roles with a job that a quota blocked in it.
	reservationReasons map[string]placement.PendingReason
	quotaBlockedRoles  map[string]bool
	// explanations is nil after an offer, an agent, a cordon or the policy has changed.
	explanations *pending.Explainer

	cordons map[string]CordonState // by host
	// configuredRoles are the roles as configured. operatorQuotas are the quotas that operators have set at run time,
	// which replace the configured ones in cfg.Policy.Roles.
	configuredRoles []queue.Role
	operatorQuotas  map[string]quota.Quota
	// documents are all stored documents, including the scheduler's own. documentBytes is their total size.
	documents     documentStore
	documentBytes int
	// endedAttempts is an index of the documents that record ended attempts.
	endedAttempts endedAttempts

	// changes, changedJobs and dirtyTasks are what TakeChanges returns: dirtyTasks are task indexes by job, changedJobs
	// the jobs in changes.
	changes     StateChanges
	changedJobs map[*job.Job]bool
	dirtyTasks  map[string]map[int]bool
}

type taskRef struct {
	job   *job.Job
	index int
}

func (r taskRef) get() *job.Task { return &r.job.Tasks[r.index] }

// taskDeadlines are the times at which something is due for a placed task. Zero times are not due.
type taskDeadlines struct {
	confirmBy time.Time // the launch is reconciled; zero once it is confirmed
	killAt    time.Time // the next KILL is sent; zero while no end is requested
	killsSent int
	timeoutAt time.Time // the task exceeds its job's timeout
	giveUpAt  time.Time // the agent of an unreachable task is given up
}

func (t *taskDeadlines) isIdle() bool {
	return t.confirmBy.IsZero() && t.killAt.IsZero() && t.timeoutAt.IsZero() && t.giveUpAt.IsZero()
}

// StateChanges is what has happened since the last call of TakeChanges.
type StateChanges struct {
	// FrameworkID is set if it is new.
	FrameworkID string
	// Jobs are new, or have more tasks or fewer unmet dependencies than before. Removed are forgotten jobs. A name may
	// be in both: the old job is removed first.
	Jobs    []*job.Job
	Removed []string
	// Tasks are the changed tasks in their present state, each once.
	Tasks []job.Task
	// Documents are the changed documents by key. An empty one is deleted.
	Documents map[string][]byte
	// Transitions are the changes of task states, in order.
	Transitions []StateTransition
	// LateEnds are attempts that were given up as lost and have reported their end since.
	LateEnds []job.Task
}

// StateTransition is one change of a task's state.
type StateTransition struct {
	Time    time.Time
	Job     string
	TaskID  string
	Index   int
	State   job.State
	Message string
	// Role is the role of the job. Cause is why an attempt that was launched, or waited too long, ended in a state other
	// than FINISHED.
	Role  string
	Cause EndCause
	// ExitCode is set if the task's process exited.
	ExitCode *int
	// Repeated reports that the state is the same as before and only the message is new.
	Repeated bool
}

// IsEmpty reports whether there is nothing to record.
func (c *StateChanges) IsEmpty() bool {
	return c.FrameworkID == "" && len(c.Jobs) == 0 && len(c.Removed) == 0 && len(c.Tasks) == 0 && len(c.Documents) == 0
}

// RecoveredState is what a journal has recorded of an earlier State.
type RecoveredState struct {
	FrameworkID string
	Jobs        []*job.Job
	Documents   map[string][]byte
}

// New returns a State that continues a recovered one. It takes over the recovered jobs.
func New(cfg SchedulerSettings, past RecoveredState) *State {
	cfg.setDefaults()
	s := &State{
		cfg: cfg, frameworkID: past.FrameworkID,
		jobs: map[string]*job.Job{}, clientKeys: map[clientKey]string{}, demandKeys: map[string]string{}, tasks: map[string]taskRef{}, deadlines: map[string]*taskDeadlines{},
		documents: documentStore{}, endedAttempts: endedAttempts{byJob: map[string][]string{}}, dependents: map[string][]string{}, lastOffered: map[placement.AgentKey]agentSnapshot{}, dirtyTasks: map[string]map[int]bool{},
		cordons: map[string]CordonState{}, operatorQuotas: map[string]quota.Quota{}, configuredRoles: cfg.Policy.Roles,
		offerDemands: map[string]*offerDemand{}, offers: offerPool{offers: map[string]heldOffer{}}, returnedAt: map[string]time.Time{}, taskMix: taskMix{kinds: map[string]*fit.TypicalTask{}},
	}
	for _, role := range s.roleNames() {
		s.offerDemandFor(role)
	}
	for key, value := range past.Documents {
		s.storeDocument(key, value)
	}
	s.restoreOperatorSettings()
	jobs := slices.Clone(past.Jobs)
	for _, j := range jobs {
		j.Spec.Role = s.roleOf(&j.Spec) // jobs of older releases have no role
	}
	slices.SortFunc(jobs, func(a, b *job.Job) int {
		return cmp.Or(a.Submitted.Compare(b.Submitted), cmp.Compare(a.Spec.Name, b.Spec.Name))
	})
	for _, j := range jobs {
		s.jobs[j.Spec.Name] = j
		s.addClientKey(&j.Spec)
		s.taskMix.addJob(&j.Spec, s.cfg.Policy.Overhead, 1)
		s.lastSubmitted = j.Submitted
		for i := range j.Tasks {
			s.restoreTask(j, i)
		}
		if !j.IsTerminal() {
			s.queue = append(s.queue, j.Spec.Name)
			for _, d := range j.Spec.UnmetDependencies() {
				s.dependents[d.Job] = append(s.dependents[d.Job], j.Spec.Name)
			}
		} else {
			s.ended = append(s.ended, j.Spec.Name)
			s.endedTasks += len(j.Tasks)
		}
	}
	s.restoreAttempts()
	slices.SortStableFunc(s.ended, func(a, b string) int { return lastEndOf(s.jobs[a]).Compare(lastEndOf(s.jobs[b])) })
	return s
}

func (s *State) restoreTask(j *job.Job, i int) {
	t := &j.Tasks[i]
	s.tasks[t.ID] = taskRef{j, i}
	if t.State.IsLive() {
		s.liveTasks++
	}
	if t.State == job.Waiting {
		s.offerDemandFor(j.Spec.Role).waiting++
	}
	s.updateDeadlines(taskRef{j, i})
}

// updateDeadlines sets the deadlines of a placed task from its recorded fields.
func (s *State) updateDeadlines(ref taskRef) {
	t := ref.get()
	if !t.State.IsPlaced() {
		return
	}
	tm := s.deadlines[t.ID]
	if tm == nil {
		tm = &taskDeadlines{}
		s.deadlines[t.ID] = tm
	}
	tm.timeoutAt, tm.giveUpAt = time.Time{}, time.Time{}
	switch {
	case !t.KillRequested.IsZero():
		if tm.killAt.IsZero() {
			tm.killAt = t.KillRequested
		}
	case ref.job.Spec.Timeout > 0 && !t.Started.IsZero():
		tm.timeoutAt = t.Started.Add(ref.job.Spec.Timeout)
	}
	if patience := s.unreachableTimeout(&ref.job.Spec); t.State == job.Unreachable && patience > 0 {
		tm.giveUpAt = t.Changed.Add(patience)
	}
	if tm.isIdle() {
		delete(s.deadlines, t.ID)
	}
}

// unreachableTimeout returns how long the agent of a job's task may be unreachable; below 0 means forever.
func (s *State) unreachableTimeout(spec *job.Spec) time.Duration {
	if v := spec.Service; v != nil && v.ReplaceAfter != 0 {
		return v.ReplaceAfter
	}
	return s.cfg.UnreachableTimeout
}

func lastEndOf(j *job.Job) time.Time {
	var last time.Time
	for i := range j.Tasks {
		if t := j.Tasks[i].Ended; t.After(last) {
			last = t
		}
	}
	return last
}

// FrameworkID returns the id that the master assigned, "" before the first subscription.
func (s *State) FrameworkID() string { return s.frameworkID }

// IsConnected reports whether the scheduler is subscribed.
func (s *State) IsConnected() bool { return s.connected }

// CountHeldOffers returns the number of held offers.
func (s *State) CountHeldOffers() int { return len(s.offers.offers) }

// CountPlans returns how many plans have been made.
func (s *State) CountPlans() int { return s.planCount }

// CountQueuedJobs returns the number of jobs that have not ended.
func (s *State) CountQueuedJobs() int { return len(s.queue) }

// Job returns a copy of a job.
func (s *State) Job(name string) (*job.Job, bool) {
	j, ok := s.jobs[name]
	if !ok {
		return nil, false
	}
	return j.Clone(), true
}

// Task returns a copy of a task.
func (s *State) Task(id string) (job.Task, bool) {
	ref, ok := s.tasks[id]
	if !ok {
		return job.Task{}, false
	}
	return *ref.get(), true
}

// Jobs returns copies of all jobs, oldest first.
func (s *State) Jobs() []*job.Job {
	all := make([]*job.Job, 0, len(s.jobs))
	for _, j := range s.jobs {
		all = append(all, j.Clone())
	}
	slices.SortFunc(all, func(a, b *job.Job) int {
		return cmp.Or(a.Submitted.Compare(b.Submitted), cmp.Compare(a.Spec.Name, b.Spec.Name))
	})
	return all
}

// TakeChanges returns what has changed since the last call. The caller records it before it performs the operations
// that Step returned.
func (s *State) TakeChanges() StateChanges {
	c := s.changes
	names := make([]string, 0, len(s.dirtyTasks))
	for name := range s.dirtyTasks {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		j, ok := s.jobs[name]
		if !ok {
			continue // removed since
		}
		for i := range j.Tasks {
			if s.dirtyTasks[name][i] {
				c.Tasks = append(c.Tasks, j.Tasks[i])
			}
		}
	}
	s.changes, s.changedJobs, s.dirtyTasks = StateChanges{}, nil, map[string]map[int]bool{}
	return c
}
