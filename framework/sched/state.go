package sched

import (
	"cmp"
	"slices"
	"time"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/job"
)

// State is all that the scheduler knows. Step is the only way it changes.
// It belongs to one goroutine.
type State struct {
	cfg         Config
	frameworkID string
	connected   bool
	now         time.Time // of the last step
	jobs        map[string]*job.Job
	tasks       map[string]taskRef
	claims      map[claim]string  // names of jobs with a client key
	wishes      map[string]string // wishOf the jobs in the queue that have waited
	queue       []string          // names of jobs that have not ended, oldest first
	ended       []string          // names of the others, in the order they ended
	endedTasks  int               // tasks of those
	newest      time.Time         // submission of the newest job
	live        int               // tasks that have not ended
	timers      map[string]*timer
	reconcile   reconciliation
	demands     map[string]*demand // by role
	pool        pool
	agents      map[agentKey]seen // as last offered, less what was taken
	fleet       fleet
	cluster     map[string]Agent    // as the master last listed them; nil before
	shared      map[string][]Shared // of those, what they share
	turns       map[string]Reason   // of jobs that no agent was short for
	workload    workload
	yielded     map[string]time.Time // when an agent's offers were given back for another role
	leaving     []leaving            // tasks whose places have not been offered again
	plans       int                  // made so far
	bound       map[string]bool      // roles with a job that a quota held back
	dependents  map[string][]string  // by job, those who wait for its end
	explained   *explained           // what Reasons has counted; nil: to be counted anew
	cordons     map[string]Cordoned  // by host
	given       []Role               // the table of roles without what operators have set
	quotas      map[string]Quota     // what they have set, by role
	since       time.Time            // when the subscription began
	documents   documents
	former      formerAttempts
	// documentBytes is how large they are together.
	documentBytes int
	changes       Changes
	changed       map[*job.Job]bool // those in changes.Jobs
	dirty         map[string]map[int]bool
}

type taskRef struct {
	job   *job.Job
	index int
}

func (r taskRef) task() *job.Task { return &r.job.Tasks[r.index] }

// timer is what is due for one placed task.
type timer struct {
	confirm time.Time // zero once the launch is confirmed
	kill    time.Time // zero while nobody wants it killed
	kills   int
	timeout time.Time // when it has run for too long
	gone    time.Time // when it has been unreachable for too long
}

func (t *timer) idle() bool {
	return t.confirm.IsZero() && t.kill.IsZero() && t.timeout.IsZero() && t.gone.IsZero()
}

// Changes is what has happened since Drain was last called.
type Changes struct {
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
	// Moves are the changes of state, in order.
	Moves []Move
	// Late are attempts that were given up and have ended after all.
	Late []job.Task
}

// Move is a task's change of state.
type Move struct {
	Time    time.Time
	Job     string
	TaskID  string
	Index   int
	State   job.State
	Message string
	// Role is the job's. Cause is why an attempt that was launched, or waited
	// for too long, has ended otherwise than FINISHED.
	Role  string
	Cause Cause
	// ExitCode is set where the task's process has ended by itself.
	ExitCode *int
	// Again says that it was in that state already, and only why is new.
	Again bool
}

// Empty reports whether nothing needs to be recorded.
func (c *Changes) Empty() bool {
	return c.FrameworkID == "" && len(c.Jobs) == 0 && len(c.Removed) == 0 && len(c.Tasks) == 0 && len(c.Documents) == 0
}

// Past is what a journal remembers of an earlier State.
type Past struct {
	FrameworkID string
	Jobs        []*job.Job
	Documents   map[string][]byte
}

// New makes a State that goes on from the past, whose jobs it takes over.
func New(cfg Config, past Past) *State {
	cfg.setDefaults()
	s := &State{
		cfg: cfg, frameworkID: past.FrameworkID,
		jobs: map[string]*job.Job{}, claims: map[claim]string{}, wishes: map[string]string{}, tasks: map[string]taskRef{}, timers: map[string]*timer{},
		documents: documents{}, former: formerAttempts{byJob: map[string][]string{}}, dependents: map[string][]string{}, agents: map[agentKey]seen{}, dirty: map[string]map[int]bool{},
		cordons: map[string]Cordoned{}, quotas: map[string]Quota{}, given: cfg.Policy.Roles,
		demands: map[string]*demand{}, pool: pool{offers: map[string]held{}}, yielded: map[string]time.Time{}, workload: workload{kinds: map[string]*fit.Typical{}},
	}
	for _, role := range s.roleNames() {
		s.demandOf(role)
	}
	for key, value := range past.Documents {
		s.remembers(key, value)
	}
	s.operated()
	jobs := slices.Clone(past.Jobs)
	for _, j := range jobs {
		j.Spec.Role = s.roleOf(&j.Spec) // jobs of older releases have none
	}
	slices.SortFunc(jobs, func(a, b *job.Job) int {
		return cmp.Or(a.Submitted.Compare(b.Submitted), cmp.Compare(a.Spec.Name, b.Spec.Name))
	})
	for _, j := range jobs {
		s.jobs[j.Spec.Name] = j
		s.remember(&j.Spec)
		s.workload.add(&j.Spec, &s.cfg.Policy, 1)
		s.newest = j.Submitted
		for i := range j.Tasks {
			s.recover(j, i)
		}
		if !j.Terminal() {
			s.queue = append(s.queue, j.Spec.Name)
			for _, d := range j.Spec.WaitsFor() {
				s.dependents[d.Job] = append(s.dependents[d.Job], j.Spec.Name)
			}
		} else {
			s.ended = append(s.ended, j.Spec.Name)
			s.endedTasks += len(j.Tasks)
		}
	}
	s.recoverAttempts()
	slices.SortStableFunc(s.ended, func(a, b string) int { return lastEnd(s.jobs[a]).Compare(lastEnd(s.jobs[b])) })
	return s
}

func (s *State) recover(j *job.Job, i int) {
	t := &j.Tasks[i]
	s.tasks[t.ID] = taskRef{j, i}
	if t.State.Live() {
		s.live++
	}
	if t.State == job.Waiting {
		s.demandOf(j.Spec.Role).waiting++
	}
	s.watch(taskRef{j, i})
}

// watch sets what is due for a placed task, from what is recorded of it.
func (s *State) watch(ref taskRef) {
	t := ref.task()
	if !t.State.Placed() {
		return
	}
	tm := s.timers[t.ID]
	if tm == nil {
		tm = &timer{}
		s.timers[t.ID] = tm
	}
	tm.timeout, tm.gone = time.Time{}, time.Time{}
	switch {
	case !t.KillWanted.IsZero():
		if tm.kill.IsZero() {
			tm.kill = t.KillWanted
		}
	case ref.job.Spec.Timeout > 0 && !t.Started.IsZero():
		tm.timeout = t.Started.Add(ref.job.Spec.Timeout)
	}
	if patience := s.patience(&ref.job.Spec); t.State == job.Unreachable && patience > 0 {
		tm.gone = t.Changed.Add(patience)
	}
	if tm.idle() {
		delete(s.timers, t.ID)
	}
}

// patience is how long the agent of a job's task may be away; below 0 is for
// ever.
func (s *State) patience(spec *job.Spec) time.Duration {
	if v := spec.Service; v != nil && v.ReplaceAfter != 0 {
		return v.ReplaceAfter
	}
	return s.cfg.UnreachableTimeout
}

func lastEnd(j *job.Job) time.Time {
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

// Connected reports whether there is a subscription.
func (s *State) Connected() bool { return s.connected }

// Held counts the offers in hand.
func (s *State) Held() int { return len(s.pool.offers) }

// Plans counts how often it has gone through the offers in hand and all that
// waits.
func (s *State) Plans() int { return s.plans }

// Queued counts the jobs that have not ended.
func (s *State) Queued() int { return len(s.queue) }

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
	return *ref.task(), true
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

// Drain hands over what has changed since the last call. The caller records
// it before it performs the operations that Step returned.
func (s *State) Drain() Changes {
	c := s.changes
	names := make([]string, 0, len(s.dirty))
	for name := range s.dirty {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		j, ok := s.jobs[name]
		if !ok {
			continue // removed since
		}
		for i := range j.Tasks {
			if s.dirty[name][i] {
				c.Tasks = append(c.Tasks, j.Tasks[i])
			}
		}
	}
	s.changes, s.changed, s.dirty = Changes{}, nil, map[string]map[int]bool{}
	return c
}
