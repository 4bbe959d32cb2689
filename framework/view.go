package framework

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/sched"
	"mesos-gpu/job"
)

// view is a copy of what the journal holds, for readers: they take nothing of
// the loop's time, and a standby has no loop. It is a journal.Replica.
type view struct {
	mu          sync.RWMutex
	frameworkID string
	jobs        map[string]*entry
	tasks       map[string]*job.Task
	past        attempts
	order       []*entry // by submission; some may be gone
	gone        int
	own         map[string][]byte // the scheduler's own documents
	asOf        time.Time
	hub         *hub
	news        *news
}

// entry is a job in a view.
type entry struct {
	job.Job
	live int // tasks that have not ended
	gone bool
}

// shown is the entry for somebody who reads it while the view goes on. What
// its tasks hold is shared: that is replaced, never changed.
func (e *entry) shown() api.JobView {
	j := e.Job
	j.Tasks = slices.Clone(j.Tasks)
	return api.ViewOf(&j, "")
}

// lives reports whether the job may still have tasks.
func (e *entry) lives() bool { return e.live > 0 || !e.Terminal() }

func newView(all journal.Contents) *view {
	v := &view{hub: newHub()}
	v.fill(all)
	return v
}

func (v *view) fill(all journal.Contents) {
	v.frameworkID = all.FrameworkID
	v.jobs, v.tasks = make(map[string]*entry, len(all.Jobs)), make(map[string]*job.Task, len(all.Jobs))
	v.order, v.gone = nil, 0
	v.own, v.past = map[string][]byte{}, attempts{}
	v.keep(all.Documents)
	for _, j := range all.Jobs {
		e := v.add(j)
		copy(e.Tasks, j.Tasks)
		for i := range e.Tasks {
			v.tasks[e.Tasks[i].ID] = &e.Tasks[i]
			if e.Tasks[i].State.Live() {
				e.live++
			}
		}
	}
	slices.SortFunc(v.order, bySubmission)
}

func bySubmission(a, b *entry) int {
	return cmp.Or(a.Submitted.Compare(b.Submitted), cmp.Compare(a.Spec.Name, b.Spec.Name))
}

// add makes an entry whose tasks are not there yet.
func (v *view) add(j *job.Job) *entry {
	e := &entry{Job: job.Job{Spec: j.Spec, Submitted: j.Submitted, Tasks: make([]job.Task, j.Spec.Tasks)}}
	v.jobs[j.Spec.Name] = e
	v.order = append(v.order, e)
	return e
}

// Reset replaces all.
func (v *view) Reset(all journal.Contents) {
	v.mu.Lock()
	defer v.mu.Unlock()
	before, cordoned := v.tasks, sched.Cordons(v.own)
	v.fill(all)
	if !maps.Equal(cordoned, sched.Cordons(v.own)) {
		v.hub.restock()
	}
	for _, e := range v.order {
		for i := range e.Tasks {
			v.tell(before[e.Tasks[i].ID], &e.Tasks[i])
		}
	}
}

// Apply adds a change and tells those who listen what it says of tasks.
func (v *view) Apply(c journal.Change) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.apply(c, v.tell)
}

// record adds a change, of which moves are all that happened to tasks, and late
// the ends of attempts that had been given up.
func (v *view) record(c journal.Change, moves []sched.Move, late []job.Task) {
	v.mu.Lock()
	defer v.mu.Unlock()
	moved := append(v.moved(c, moves), late...)
	v.apply(c, func(*job.Task, *job.Task) {})
	if v.news != nil && len(c.Removed)+len(c.Jobs)+len(c.Tasks)+len(moved) > 0 {
		v.news.add(namesIn(c), moved)
	}
	for _, m := range moves {
		v.hub.publish(eventOf(m))
	}
}

// watch has n collect the jobs that are there, and what happens from now on.
func (v *view) watch(n *news) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.news = n
	n.add(slices.Collect(maps.Keys(v.jobs)), nil)
}

func namesIn(c journal.Change) []string {
	names := append(make([]string, 0, len(c.Removed)+len(c.Jobs)+len(c.Tasks)), c.Removed...)
	for _, j := range c.Jobs {
		names = append(names, j.Spec.Name)
	}
	for i := range c.Tasks {
		names = append(names, c.Tasks[i].Job)
	}
	return names
}

// tell publishes the difference between two states of a task.
func (v *view) tell(before, now *job.Task) {
	if before == nil || before.State != now.State || !before.Changed.Equal(now.Changed) {
		v.hub.publish(api.Event{Time: now.Changed, Job: now.Job, Task: now.ID, State: now.State, Message: now.Message})
	}
}

func (v *view) apply(c journal.Change, tell func(before, now *job.Task)) {
	if c.FrameworkID != "" {
		v.frameworkID = c.FrameworkID
	}
	v.keep(c.Documents)
	if cordons(c) {
		v.hub.restock()
	}
	for _, name := range c.Removed {
		v.remove(name)
	}
	for _, j := range c.Jobs {
		if e := v.jobs[j.Spec.Name]; e != nil {
			v.change(e, j)
			continue
		}
		e := v.add(j)
		if n := len(v.order); n > 1 && bySubmission(v.order[n-2], e) > 0 {
			slices.SortFunc(v.order, bySubmission) // a clock went back between two schedulers
		}
	}
	for i := range c.Tasks {
		t := &c.Tasks[i]
		e := v.jobs[t.Job]
		if e == nil || t.Index < 0 || t.Index >= len(e.Tasks) {
			continue // of a job that the same change removes
		}
		slot := &e.Tasks[t.Index]
		if slot.ID != "" && slot.State.Live() {
			e.live--
		}
		if t.State.Live() {
			e.live++
		}
		var before *job.Task
		if slot.ID == t.ID {
			copied := *slot
			before = &copied
		}
		delete(v.tasks, slot.ID)
		*slot = *t
		v.tasks[t.ID] = slot
		tell(before, slot)
	}
}

// keep takes in the scheduler's own of some documents.
func (v *view) keep(documents map[string][]byte) {
	for key, value := range documents {
		id, t, attempt := sched.AttemptIn(key, value)
		switch {
		case attempt:
			v.past.keep(id, t)
		case !sched.Own(key):
		case len(value) == 0:
			delete(v.own, key)
		default:
			v.own[key] = value
		}
	}
}

// cordons are the hosts whose agents get no tasks.
func (v *view) cordons() map[string]sched.Cordoned {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return sched.Cordons(v.own)
}

// live is what a scheduler would go on from, without what has ended.
func (v *view) live() sched.Past {
	v.mu.RLock()
	defer v.mu.RUnlock()
	past := sched.Past{FrameworkID: v.frameworkID, Documents: maps.Clone(v.own)}
	for _, e := range v.order {
		if !e.gone && e.lives() {
			past.Jobs = append(past.Jobs, e.Clone())
		}
	}
	return past
}

// change takes another specification of a job, with which it may have more
// tasks.
func (v *view) change(e *entry, j *job.Job) {
	e.Spec = j.Spec
	if more := j.Spec.Tasks - len(e.Tasks); more > 0 {
		e.Tasks = append(e.Tasks, make([]job.Task, more)...)
		for i := range e.Tasks[:len(e.Tasks)-more] {
			v.tasks[e.Tasks[i].ID] = &e.Tasks[i]
		}
	}
}

func (v *view) remove(name string) {
	e := v.jobs[name]
	if e == nil {
		return
	}
	for i := range e.Tasks {
		delete(v.tasks, e.Tasks[i].ID)
	}
	delete(v.jobs, name)
	e.gone = true
	if v.gone++; v.gone > len(v.order)/2 {
		v.order = slices.DeleteFunc(v.order, func(e *entry) bool { return e.gone })
		v.gone = 0
	}
}

// Fresh notes when the view was certainly up to date.
func (v *view) Fresh(asked time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.asOf = asked
}

func (v *view) fresh() time.Time {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.asOf
}

func (v *view) framework() string {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.frameworkID
}

func (v *view) count() int {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return len(v.jobs)
}

func (v *view) Job(name string) (api.JobView, error) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	e := v.jobs[name]
	if e == nil {
		return api.JobView{}, api.UnknownJob(name)
	}
	view := e.shown()
	if slices.ContainsFunc(e.Tasks, func(t job.Task) bool { return t.Attempt > 1 }) {
		view.Attempts = v.past.of(name)
	}
	return view, nil
}

func (v *view) job(name string) (job.Job, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	e := v.jobs[name]
	if e == nil {
		return job.Job{}, false
	}
	return *e.Clone(), true
}

// whose are a job's role and owner. An id has the time of its job's
// submission at the end.
func (v *view) whose(name, task string) (role, owner string, err error) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	e := v.jobs[name]
	if e == nil {
		return "", "", api.UnknownJob(name)
	}
	if task != "" && !strings.HasSuffix(task, "."+strconv.FormatInt(e.Submitted.UnixNano(), 36)) {
		return "", "", api.UnknownTask(task)
	}
	return e.Spec.Role, e.Spec.Owner, nil
}

func (v *view) Task(id string) (job.Task, error) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if t := v.tasks[id]; t != nil {
		return *t, nil
	}
	if t, ok := v.past.tasks[id]; ok {
		return t, nil
	}
	return job.Task{}, api.UnknownTask(id)
}

// mostAtOnce bounds for how many jobs a list makes room before it has found
// one.
const mostAtOnce = 1000

// list copies the jobs asked for, and no others: not even where a page ends
// tells of one that its reader may not see.
func (v *view) list(q api.JobQuery) (list api.JobList, err error) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	rest, err := v.after(q)
	if err != nil {
		return list, err
	}
	list.Jobs = make([]api.JobView, 0, max(min(q.Limit, len(v.jobs), mostAtOnce), 0))
	for _, e := range rest {
		switch {
		case e.gone, !q.For.May(access.View, e.Spec.Role), q.State == api.LiveJobs && !e.lives(), q.State == api.EndedJobs && e.lives():
			continue
		case q.Limit > 0 && len(list.Jobs) == q.Limit:
			list.Next = cursorOf(&list.Jobs[q.Limit-1].Job)
			return list, nil
		}
		list.Jobs = append(list.Jobs, e.shown())
	}
	return list, nil
}

// after goes through the jobs that follow the query's place, in its order.
func (v *view) after(q api.JobQuery) (iter.Seq2[int, *entry], error) {
	from, to := 0, len(v.order)
	if q.After != "" {
		place, err := parseCursor(q.After)
		if err != nil {
			return nil, err
		}
		at, found := slices.BinarySearchFunc(v.order, place, bySubmission)
		from, to = at, at
		if found {
			from++
		}
	}
	if q.Newest {
		return slices.Backward(v.order[:to]), nil
	}
	return slices.All(v.order[from:]), nil
}

// cursorOf is a place in the list that stays when its job goes.
func cursorOf(j *job.Job) string {
	return strconv.FormatInt(j.Submitted.UnixNano(), 36) + "." + j.Spec.Name
}

func parseCursor(text string) (*entry, error) {
	when, name, ok := strings.Cut(text, ".")
	nanos, err := strconv.ParseInt(when, 36, 64)
	if !ok || err != nil {
		return nil, api.NoPlace(text)
	}
	return &entry{Job: job.Job{Spec: job.Spec{Name: name}, Submitted: time.Unix(0, nanos)}}, nil
}

// holders tells the task that holds a device, or the tasks that share it.
func (v *view) holders() map[string]string {
	v.mu.RLock()
	defer v.mu.RUnlock()
	holder := map[string]string{}
	for _, e := range v.order {
		if e.gone || e.live == 0 {
			continue
		}
		for i := range e.Tasks {
			if t := &e.Tasks[i]; t.State.Placed() {
				for _, id := range t.DeviceIDs {
					if holder[id] != "" {
						holder[id] += ", "
					}
					holder[id] += t.ID
				}
			}
		}
	}
	return holder
}

// events are the states of now, or what has happened since q.After, and a
// listener to all changes after them.
func (v *view) events(q api.EventQuery) (now []api.Event, l *listener, err error) {
	v.mu.RLock() // nobody publishes meanwhile
	defer v.mu.RUnlock()
	one := v.jobs[q.Job]
	if q.Job != "" && one == nil {
		return nil, nil, api.UnknownJob(q.Job)
	}
	missed, known := v.hub.since(q)
	switch {
	case known:
		return missed, v.hub.join(q.Job), nil
	case one != nil:
		now = appendStates(nil, &one.Job, q.Live)
	default:
		for _, e := range v.order {
			if !e.gone {
				now = appendStates(now, &e.Job, q.Live)
			}
		}
	}
	if len(now) > 0 {
		now[len(now)-1].ID = v.hub.place()
	}
	return now, v.hub.join(q.Job), nil
}
