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

// State is all that the scheduler knows. Step is the only way it changes.
// It belongs to one goroutine.
type State struct {
	cfg                SchedulerSettings
	frameworkID        string
	connected          bool
	now                time.Time // of the last step
	jobs               map[string]*job.Job
	tasks              map[string]taskRef
	clientKeys         map[clientKey]string // names of jobs with a client key
	demandKeys         map[string]string    // demandNumberOf the jobs in the queue that have waited
	queue              []string             // names of jobs that have not ended, oldest first
	ended              []string             // names of the others, in the order they ended
	endedTasks         int                  // tasks of those
	lastSubmitted      time.Time            // submission of the newest job
	liveTasks          int                  // tasks that have not ended
	deadlines          map[string]*taskDeadlines
	reconciliation     reconcileRound
	offerDemands       map[string]*offerDemand // by role
	offers             offerPool
	lastOffered        map[placement.AgentKey]agentSnapshot // as last offered, less what was taken
	cache              agentCache
	listedAgents       map[string]Agent                   // as the master last listed them; nil before
	sharedDevices      map[string][]SharedDevice          // of those, what they share
	reservationReasons map[string]placement.PendingReason // of jobs that no agent was short for
	taskMix            taskMix
	returnedAt         map[string]time.Time   // when an agent's offers were given back for another role
	freed              []freedPlace           // tasks whose places have not been offered again
	planCount          int                    // made so far
	quotaBlockedRoles  map[string]bool        // roles with a job that a quota held back
	dependents         map[string][]string    // by job, those who wait for its end
	explanations       *pending.Explainer     // what Reasons has counted; nil: to be counted anew
	cordons            map[string]CordonState // by host
	configuredRoles    []queue.Role           // the table of roles without what operators have set
	operatorQuotas     map[string]quota.Quota // what they have set, by role
	subscribedAt       time.Time              // when the subscription began
	documents          documentStore
	endedAttempts      endedAttempts
	// documentBytes is how large they are together.
	documentBytes int
	changes       StateChanges
	changedJobs   map[*job.Job]bool // those in changes.Jobs
	dirtyTasks    map[string]map[int]bool
}

type taskRef struct {
	job   *job.Job
	index int
}

func (r taskRef) get() *job.Task { return &r.job.Tasks[r.index] }

// taskDeadlines is what is due for one placed task.
type taskDeadlines struct {
	confirmBy time.Time // zero once the launch is confirmed
	killAt    time.Time // zero while nobody wants it killed
	killsSent int
	timeoutAt time.Time // when it has run for too long
	giveUpAt  time.Time // when it has been unreachable for too long
}

func (t *taskDeadlines) isIdle() bool {
	return t.confirmBy.IsZero() && t.killAt.IsZero() && t.timeoutAt.IsZero() && t.giveUpAt.IsZero()
}

// StateChanges is what has happened since Drain was last called.
type StateChanges struct {
	// FrameworkID is set where it is new.
	FrameworkID string
	// Jobs are new, or have more tasks than before, or wait for fewer others;
	// Removed are forgotten. A
	// name may be in both: removed first, then new.
	Jobs    []*job.Job
	Removed []string
	// Tasks are as they now are, each once.
	Tasks []job.Task
	// Documents are those put, by key; an empty one is forgotten.
	Documents map[string][]byte
	// Transitions are the changes of state, in order.
	Transitions []StateTransition
	// LateEnds are attempts that were given up and have ended after all.
	LateEnds []job.Task
}

// StateTransition is a task's change of state.
type StateTransition struct {
	Time    time.Time
	Job     string
	TaskID  string
	Index   int
	State   job.State
	Message string
	// Role is the job's. Cause is why an attempt that was launched, or waited
	// for too long, has ended otherwise than FINISHED.
	Role  string
	Cause EndCause
	// ExitCode is set where the task's process has ended by itself.
	ExitCode *int
	// Repeated says that it was in that state already, and only why is new.
	Repeated bool
}

// IsEmpty reports whether nothing needs to be recorded.
func (c *StateChanges) IsEmpty() bool {
	return c.FrameworkID == "" && len(c.Jobs) == 0 && len(c.Removed) == 0 && len(c.Tasks) == 0 && len(c.Documents) == 0
}

// RecoveredState is what a journal remembers of an earlier State.
type RecoveredState struct {
	FrameworkID string
	Jobs        []*job.Job
	Documents   map[string][]byte
}

// New makes a State that goes on from the past, whose jobs it takes over.
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
		j.Spec.Role = s.roleOf(&j.Spec) // jobs of older releases have none
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

// updateDeadlines sets what is due for a placed task, from what is recorded of it.
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

// unreachableTimeout is how long the agent of a job's task may be away; below 0 is for
// ever.
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

// FrameworkID is the id the master gave, or "".
func (s *State) FrameworkID() string { return s.frameworkID }

// IsConnected reports whether there is a subscription.
func (s *State) IsConnected() bool { return s.connected }

// CountHeldOffers counts the offers in hand.
func (s *State) CountHeldOffers() int { return len(s.offers.offers) }

// CountPlans counts how often it has gone through the offers in hand and all that
// waits.
func (s *State) CountPlans() int { return s.planCount }

// CountQueuedJobs counts the jobs that have not ended.
func (s *State) CountQueuedJobs() int { return len(s.queue) }

// Job returns a copy of the job of that name.
func (s *State) Job(name string) (*job.Job, bool) {
	j, ok := s.jobs[name]
	if !ok {
		return nil, false
	}
	return j.Clone(), true
}

// Task returns a copy of the task of that id.
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

// TakeChanges hands over what has changed since the last call. The caller records
// it before it performs the operations that Step returned.
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
