package sched

import (
	"slices"
	"time"

	"mesos-gpu/job"
)

// StateChanges lists the changes since the last call of TakeChanges.
type StateChanges struct {
	// FrameworkID is set if it is new.
	FrameworkID string
	// Jobs are new, or have more tasks or fewer unmet dependencies than before. Removed are forgotten runs. A run
	// may be in both: the old one is removed first.
	Jobs    []*job.Job
	Removed []job.RunID
	// Tasks are the changed tasks in their present state, each once.
	Tasks []job.Task
	// Shared are the jobs in Tasks that hold no places: they wait or have ended. Others may read their Tasks, which the State
	// copies before it changes one.
	Shared []*job.Job
	// Documents are the changed documents by key. An empty one is deleted.
	Documents map[string][]byte
	// Transitions are the changes of task states, in order.
	Transitions []StateTransition
	// LateEnds are attempts that were given up as lost and have reported their end since.
	LateEnds []job.Task
	// Conflicts are offers of what attempts hold that are not known to have ended, each once.
	Conflicts []OfferConflict
	// IncompleteAnswers are the answers of agents that lack a running task.
	IncompleteAnswers []IncompleteAnswer
	// UnaccountedLost is how many ended attempts were forgotten before the accounting had stored them, because too many
	// of them waited for that.
	UnaccountedLost int
	// NotificationsDropped is how many notifications were not recorded, because too many of them wait.
	NotificationsDropped int
}

// StateTransition is one change of a task's state.
type StateTransition struct {
	Time    time.Time
	Job     string
	Run     int
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
	// Repeated reports that the state is the same as before and only the message is new, or that the task finished in an
	// earlier run of its job.
	Repeated bool
}

// RunID returns the run to which the task belongs.
func (t *StateTransition) RunID() job.RunID { return job.RunID{Name: t.Job, Run: max(t.Run, 1)} }

// IsEmpty reports whether there is nothing to record.
func (c *StateChanges) IsEmpty() bool {
	return c.FrameworkID == "" && len(c.Jobs) == 0 && len(c.Removed) == 0 && len(c.Tasks) == 0 && len(c.Documents) == 0
}

// changeLog collects the changes that are not recorded yet. Events that change one job or task several times between two
// calls of TakeChanges leave one entry for it.
type changeLog struct {
	// StateChanges has the changes that are final. Tasks and Documents are filled in when the changes are taken.
	StateChanges
	// changedJobs are the jobs in Jobs, nil if there are none. A job that is removed leaves both.
	changedJobs map[*job.Job]bool
	// changedTasks are the tasks that have changed, once for each change. Jobs of some of them may have been removed since.
	changedTasks []taskRef
}

func (c *changeLog) markJob(j *job.Job) {
	if c.changedJobs[j] {
		return
	}
	if c.changedJobs == nil {
		c.changedJobs = map[*job.Job]bool{}
	}
	c.changedJobs[j] = true
	c.Jobs = append(c.Jobs, j)
}

func (c *changeLog) markTask(ref taskRef) {
	c.changedTasks = append(c.changedTasks, ref)
}

// addTransition records the present state of a task as a transition.
func (c *changeLog) addTransition(now time.Time, ref taskRef) {
	t := ref.get()
	c.Transitions = append(c.Transitions, StateTransition{
		Time: now, Job: t.Job, Run: t.Run, TaskID: t.ID, Index: t.Index, State: t.State, Message: t.Message, Role: ref.job.Spec.Role,
	})
}

// lastTransition returns the transition that was added last, so that the caller can complete it.
func (c *changeLog) lastTransition() *StateTransition { return &c.Transitions[len(c.Transitions)-1] }

// removeJob replaces the changes of a job by its removal.
func (c *changeLog) removeJob(j *job.Job) {
	if c.changedJobs[j] {
		delete(c.changedJobs, j)
		c.Jobs = slices.DeleteFunc(c.Jobs, func(other *job.Job) bool { return other == j })
	}
	c.Removed = append(c.Removed, j.RunID())
}

// take returns the changes, the tasks sorted by job and index, and the jobs of these tasks, and empties the log. remembered
// are the tasks of all jobs that are not removed, by id.
func (c *changeLog) take(remembered map[string]taskRef) (taken StateChanges, jobs []*job.Job) {
	changed := slices.DeleteFunc(c.changedTasks, func(ref taskRef) bool { return remembered[ref.get().ID] != ref })
	slices.SortFunc(changed, taskRef.compare)
	changed = slices.Compact(changed)
	taken = c.StateChanges
	taken.Tasks = slices.Grow(taken.Tasks, len(changed))
	for i, ref := range changed {
		taken.Tasks = append(taken.Tasks, *ref.get())
		if i == 0 || changed[i-1].job != ref.job {
			jobs = append(jobs, ref.job)
		}
	}
	clear(changed)
	*c = changeLog{changedTasks: changed[:0]}
	return taken, jobs
}
