package sched

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/job"
)

// jobTable holds all remembered jobs, live and ended, with its indexes.
type jobTable struct {
	// jobs are all remembered runs of jobs. A run that has not ended is the newest one of its job.
	jobs job.RunTable[*job.Job]
	// sharedTasks are the jobs that have not ended and whose Tasks others may read. The first change replaces them by a
	// copy. Tasks of jobs that have ended are not changed.
	sharedTasks map[*job.Job]bool
	// tasks has the current attempt of each task of these jobs, by task id. A retry replaces the entry of the attempt
	// before it.
	tasks map[string]taskRef
	// queue are the jobs that have not ended, in the order of submission. Each is the newest run of its owner and name.
	queue submissionList
	// ended are the other jobs.
	ended endedJobs
	// placed are the jobs of queue with tasks that hold places.
	placed placedJobs
	// updating are the services with placed tasks of earlier versions.
	updating map[*job.Job]bool
	// liveTasks counts the tasks that have not ended, liveBytes the texts of the jobs in queue.
	liveTasks, liveBytes UsageByOwner
	// liveJobs counts the jobs in queue.
	liveJobs UsageByOwner
	// lastSubmitted is the submission of the newest job: the next one is later, even if the clock is not.
	lastSubmitted time.Time
	// lastNumber is the highest number of a job, also of forgotten ones.
	lastNumber int
	// clientKeys are the remembered jobs that were submitted with a client key. A later job with the same key replaces the
	// entry.
	clientKeys map[clientKey]*job.Job
	// dependents are, by run, the jobs that wait for its end. An entry is removed when the run ends.
	dependents map[job.RunID][]*job.Job
}

func newJobTable() jobTable {
	return jobTable{
		sharedTasks: map[*job.Job]bool{},
		tasks:       map[string]taskRef{},
		placed:      placedJobs{tasks: map[*job.Job]int{}},
		updating:    map[*job.Job]bool{},
		clientKeys:  map[clientKey]*job.Job{},
		dependents:  map[job.RunID][]*job.Job{},
	}
}

// taskRef refers to a task by its job and index, whichever attempt of it is the current one.
type taskRef struct {
	// index is an index of job.Tasks. The reference stays valid when the task gets a new attempt.
	job   *job.Job
	index int
}

// get returns the task for reading. State.changeTask returns it for a change, after which the result of get may be outdated.
func (r taskRef) get() *job.Task { return &r.job.Tasks[r.index] }

// compare orders tasks by the name and run of their job, then by index.
func (r taskRef) compare(other taskRef) int {
	if r.job != other.job {
		return job.CompareRuns(r.job.RunID(), other.job.RunID())
	}
	return cmp.Compare(r.index, other.index)
}

// clientKey identifies a submission. Keys of different owners are distinct.
type clientKey struct{ owner, key string }

func clientKeyOf(spec *job.Spec) (c clientKey, ok bool) {
	if spec.ClientKey == nil {
		return c, false
	}
	return clientKey{spec.Owner, spec.ClientKey.Key}, true
}

// addJob adds a job without its tasks to all but the queue and the ended jobs, as the newest run of its owner and name. Jobs must
// be added in the order of submission.
func (t *jobTable) addJob(j *job.Job) {
	t.jobs.Add(j)
	t.lastSubmitted, t.lastNumber = j.Submitted, max(t.lastNumber, j.Number)
	if c, ok := clientKeyOf(j.Spec); ok {
		t.clientKeys[c] = j
	}
}

// enqueueJob adds a job that has not ended to the queue. textBytes is the length of its texts.
func (t *jobTable) enqueueJob(j *job.Job, textBytes int) {
	t.queue.add(j)
	t.liveBytes.Add(j.Spec, textBytes)
	t.liveJobs.Add(j.Spec, 1)
}

// endJob moves a job from the queue to the ended jobs, and returns false if it was not in the queue.
func (t *jobTable) endJob(j *job.Job) bool {
	if !t.queue.remove(j) {
		return false
	}
	delete(t.updating, j)
	delete(t.sharedTasks, j)
	textBytes := j.Spec.TextBytes()
	t.liveBytes.Add(j.Spec, -textBytes)
	t.liveJobs.Add(j.Spec, -1)
	t.ended.add(j, textBytes)
	return true
}

// unshareTasks gives a job tasks of its own, before they change.
func (t *jobTable) unshareTasks(j *job.Job) {
	if t.sharedTasks[j] {
		j.Tasks = slices.Clone(j.Tasks)
		delete(t.sharedTasks, j)
	}
}

func compareSubmission(a, b *job.Job) int {
	return cmp.Or(a.Submitted.Compare(b.Submitted), cmp.Compare(a.Spec.Name, b.Spec.Name))
}

// removeJob forgets an ended job.
func (t *jobTable) removeJob(j *job.Job) {
	for i := range j.Tasks {
		delete(t.tasks, j.Tasks[i].ID)
	}
	t.jobs.Remove(j)
	if c, ok := clientKeyOf(j.Spec); ok && t.clientKeys[c] == j {
		delete(t.clientKeys, c)
	}
	t.ended.remove(j)
}

// placedJobs is the index of jobs with tasks that hold places. With a long queue these are few of all jobs.
type placedJobs struct {
	// tasks is how many such tasks each of the jobs has.
	tasks map[*job.Job]int
	// jobs are the same jobs in the order of submission.
	jobs submissionList
}

// countTask adds n, 1 or -1, to the number of a job's tasks that hold places.
func (p *placedJobs) countTask(j *job.Job, n int) {
	before := p.tasks[j]
	if p.tasks[j] = before + n; before > 0 && before+n > 0 {
		return
	}
	if before == 0 {
		p.jobs.add(j)
		return
	}
	delete(p.tasks, j)
	p.jobs.remove(j)
}

// placedTasks yields the tasks that hold places, in the order of submission. The caller may move them to other states.
func (t *jobTable) placedTasks() iter.Seq[taskRef] {
	return func(yield func(taskRef) bool) {
		for _, j := range slices.Collect(t.placed.jobs.all()) {
			for i := range j.Tasks {
				if j.Tasks[i].State.IsPlaced() && !yield(taskRef{j, i}) {
					return
				}
			}
		}
	}
}

// IsPlaced reports whether a task holds a place.
func (t *jobTable) IsPlaced(taskID string) bool {
	ref, ok := t.tasks[taskID]
	return ok && ref.get().State.IsPlaced()
}

// agentsByGroup returns the agents of each group's placed tasks, one entry a task.
func (t *jobTable) agentsByGroup() map[queue.GroupKey][]string {
	groups := map[queue.GroupKey][]string{}
	for ref := range t.placedTasks() {
		if ref.job.Spec.Group != "" {
			key := queue.GroupKeyOf(ref.job.Spec)
			groups[key] = append(groups[key], ref.get().AgentID)
		}
	}
	return groups
}

// jobsInGroup returns the queued jobs whose tasks the constraints of a job count.
func (t *jobTable) jobsInGroup(j *job.Job) []*job.Job {
	if j.Spec.Group == "" {
		return []*job.Job{j}
	}
	var list []*job.Job
	for other := range t.queue.all() {
		if queue.GroupKeyOf(other.Spec) == queue.GroupKeyOf(j.Spec) {
			list = append(list, other)
		}
	}
	return list
}

// CountQueuedJobs returns the number of jobs that have not ended.
func (t *jobTable) CountQueuedJobs() int { return t.queue.count }

// Job returns a copy of the run NAME@RUN, or of the newest one for NAME alone.
func (t *jobTable) Job(name string) (*job.Job, bool) {
	j, ok := t.jobs.Find(name)
	if !ok {
		return nil, false
	}
	return j.Clone(), true
}

// Jobs returns copies of all runs of jobs, oldest first.
func (t *jobTable) Jobs() []*job.Job {
	all := make([]*job.Job, 0, t.jobs.Len())
	for j := range t.jobs.All() {
		all = append(all, j.Clone())
	}
	slices.SortFunc(all, compareSubmission)
	return all
}

// Task returns a copy of a task.
func (t *jobTable) Task(id string) (job.Task, bool) {
	ref, ok := t.tasks[id]
	if !ok {
		return job.Task{}, false
	}
	return *ref.get(), true
}

// JobByClientKey returns the job that was submitted with the spec's owner and client key, as long as it is remembered.
// The caller must not change it.
func (t *jobTable) JobByClientKey(spec *job.Spec) (*job.Job, bool) {
	c, ok := clientKeyOf(spec)
	if !ok {
		return nil, false
	}
	j, ok := t.clientKeys[c]
	return j, ok
}

// NewestOfOwner returns the newest run of the job of an owner, and whether it has not ended; false if none is remembered.
func (t *jobTable) NewestOfOwner(owner, name string) (run job.RunID, live, ok bool) {
	j, ok := t.jobs.NewestOfOwner(owner, name)
	if !ok {
		return run, false, false
	}
	return j.RunID(), !j.IsTerminal(), true
}

// stateOf returns the state of the run NAME@RUN, or of the newest one for NAME alone; false if there is no such run.
func (t *jobTable) stateOf(name string) (job.State, bool) {
	j, ok := t.jobs.Find(name)
	if !ok {
		return "", false
	}
	return j.State(), true
}
