// Package readmodel is an in-memory copy of the journal that serves reads, on the
// leader and on a standby: jobs, tasks, earlier attempts, cordons, the event stream
// and the changes that an extension follows. It applies only recorded changes and
// makes no decisions.
package readmodel

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/notification"
	"mesos-gpu/framework/request"
	"mesos-gpu/framework/sched"
	"mesos-gpu/job"
)

// Model is a copy of the journal's contents for concurrent readers. Reads take no time
// of the leader's loop, and a standby has no loop. It implements journal.Replica.
//
// What its methods return is copied or is never modified later. A change replaces the maps and slices inside of jobs and
// tasks and does not write to them, so that copies may share them.
type Model struct {
	// mu protects all fields. Writers are the loop of the leader, or the follower of a standby.
	mu sync.RWMutex
	// frameworkID is the id that the master assigned, "" before the first registration.
	frameworkID string
	// jobs are all recorded runs of jobs, including ended ones.
	jobs job.RunTable[*jobEntry]
	// tasks are the current attempts of all jobs' tasks by task id. They point into jobs.
	tasks map[string]*job.Task
	// attempts are the earlier attempts that the journal still stores.
	attempts attemptHistory
	// bySubmission contains the jobs in the order of their submission. A removed job stays
	// in it, marked as removed, until half of the entries are removed; removedCount counts
	// these.
	bySubmission []*jobEntry
	removedCount int
	// byGroup contains the newest runs of each owner's jobs with a Group by group, sorted by name. A
	// run's group never changes.
	byGroup map[string][]*jobEntry
	// ownDocuments are the scheduler's own documents by key. The model does not contain
	// those of extensions.
	ownDocuments map[string][]byte
	// notifications contains the undelivered notifications, by id. Entries are replaced, never modified.
	notifications map[string]*notification.Notification
	// notificationsChanged has an element after notifications have changed.
	notificationsChanged chan struct{}
	// asOf is the time before which every committed change is in the model. A standby
	// advances it; it stays zero on the leader, which applies every change itself.
	asOf time.Time
	// hub publishes the changes to event streams.
	hub *eventHub
	// changes collects the changes for the extension; nil if there is no extension.
	changes *ChangeFeed
}

// jobEntry is a job in the model.
type jobEntry struct {
	job.Job
	// liveTasks counts the tasks that have not ended. It saves reading all tasks of ended jobs.
	liveTasks int
	// sharesTasks is set if Tasks may be those of the State. A change copies them.
	sharesTasks bool
	// removed is set when the job is forgotten but still in Model.bySubmission.
	removed bool
	// superseded is set while its owner has a newer run of the name. Lists of jobs omit such entries.
	superseded bool
}

// copyTasks returns a copy that stays valid while the model changes. It shares the tasks'
// slices and maps, which are replaced and never modified.
func (e *jobEntry) copyTasks() job.Job {
	j := e.Job
	j.Tasks = slices.Clone(j.Tasks)
	return j
}

// maxViewTasks is how many tasks a view of a job contains. Answers read the others in parts,
// so that jobs with many tasks are not copied for each client.
const maxViewTasks = 1000

// jobView returns the job with a copy of its first tasks.
func (e *jobEntry) jobView() api.JobView {
	view := api.NewJobView(&e.Job, "")
	view.Tasks = slices.Clone(e.Tasks[:min(len(e.Tasks), maxViewTasks)])
	view.OmittedTasks = len(e.Tasks) - len(view.Tasks)
	return view
}

// isLive reports whether the job has or may still get running tasks.
func (e *jobEntry) isLive() bool { return e.liveTasks > 0 || !e.IsTerminal() }

// New returns a model of the journal's contents. It shares the tasks with the caller, who must copy them before a change.
func New(all journal.JournalContents) *Model {
	v := &Model{hub: newHub(), notificationsChanged: make(chan struct{}, 1)}
	v.replaceAll(all)
	return v
}

// replaceAll sets the contents without publishing events. The caller holds the lock.
func (m *Model) replaceAll(all journal.JournalContents) {
	m.frameworkID = all.FrameworkID
	m.jobs, m.tasks = job.RunTable[*jobEntry]{}, make(map[string]*job.Task, len(all.Jobs))
	m.bySubmission, m.removedCount, m.byGroup = nil, 0, map[string][]*jobEntry{}
	m.ownDocuments, m.attempts, m.notifications = map[string][]byte{}, attemptHistory{}, map[string]*notification.Notification{}
	m.applyDocuments(all.Documents)
	for _, j := range slices.SortedFunc(slices.Values(all.Jobs), func(a, b *job.Job) int { return job.CompareRuns(a.RunID(), b.RunID()) }) {
		e := m.addJob(j)
		e.Tasks, e.sharesTasks = j.Tasks, true
		m.indexTasks(e)
		for i := range e.Tasks {
			if e.Tasks[i].State.IsLive() {
				e.liveTasks++
			}
		}
	}
	slices.SortFunc(m.bySubmission, compareSubmission)
}

// compareSubmission orders jobs by their submission, those submitted at the same time by name. It is a total order,
// which cursors and event streams use as a position.
func compareSubmission(a, b *jobEntry) int {
	return cmp.Or(a.Submitted.Compare(b.Submitted), cmp.Compare(a.Spec.Name, b.Spec.Name))
}

// addJob adds an entry without tasks, as the newest run of its owner and name.
func (m *Model) addJob(j *job.Job) *jobEntry {
	e := &jobEntry{Job: *j}
	e.Run, e.Tasks = j.RunID().Run, nil
	if old, ok := m.jobs.NewestOfOwner(j.Spec.Owner, j.Spec.Name); ok {
		old.superseded = true
		m.removeFromGroup(old)
	}
	m.jobs.Add(e)
	m.bySubmission = append(m.bySubmission, e)
	m.addToGroup(e)
	return e
}

// ReplaceAll replaces the contents and publishes an event for each task that differs. A standby calls it when it starts
// to follow and after it has missed changes. Tasks that no longer exist have no event.
func (m *Model) ReplaceAll(all journal.JournalContents) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before, cordoned := m.tasks, sched.ParseCordons(m.ownDocuments)
	m.replaceAll(all)
	if !maps.Equal(cordoned, sched.ParseCordons(m.ownDocuments)) {
		m.hub.publishInventoryChange()
	}
	for _, e := range m.bySubmission {
		for i := range e.Tasks {
			m.publishDifference(before[e.Tasks[i].ID], &e.Tasks[i])
		}
	}
}

// ApplyChange applies a change and publishes an event for each task that it changes.
func (m *Model) ApplyChange(c journal.Change) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.applyChange(c, m.publishDifference)
}

// ApplyRecorded applies a change on the leader. moves are all state transitions of
// tasks in it; late are the ends of attempts that had been considered lost; shared are jobs
// whose tasks the State copies before it changes one, so that the model may share them.
func (m *Model) ApplyRecorded(c journal.Change, moves []sched.StateTransition, late []job.Task, shared []*job.Job) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.changes != nil {
		moved := append(m.taskMoves(c, moves), late...)
		if specs := m.changedSpecs(c, moved); len(specs) > 0 {
			defer m.changes.addChanges(specs, moved)
		}
	}
	m.applyChange(c, func(*job.Task, *job.Task) {})
	for _, j := range shared {
		m.shareTasks(j)
	}
	for _, move := range moves {
		m.publishEvent(api.TaskEvent{
			Time:    move.Time,
			Job:     move.Job,
			Task:    move.TaskID,
			Run:     move.RunID().Run,
			State:   move.State,
			Message: move.Message,
		}, move.Index)
	}
}

// WatchChanges makes n collect all existing jobs and all later changes.
func (m *Model) WatchChanges(n *ChangeFeed) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.changes = n
	specs := map[string]*job.Spec{}
	for _, e := range m.bySubmission {
		if !e.removed && !e.superseded {
			specs[e.RunID().String()] = e.Spec
		}
	}
	n.addChanges(specs, nil)
}

// changedSpecs returns the specifications of the runs that a change modifies or removes, and
// of those of the moved tasks, by run. The end of an earlier run's record changes no job. The
// caller must not have applied the change yet.
func (m *Model) changedSpecs(c journal.Change, moved []job.Task) map[string]*job.Spec {
	specs := map[string]*job.Spec{}
	for _, id := range c.Removed {
		if e, ok := m.jobs.FindRun(id); ok && !e.superseded {
			specs[id.String()] = e.Spec
		}
	}
	for _, list := range [][]job.Task{c.Tasks, moved} {
		for i := range list {
			if e, ok := m.jobs.FindRun(list[i].RunID()); ok {
				specs[e.RunID().String()] = e.Spec
			}
		}
	}
	for _, j := range c.Jobs {
		specs[j.RunID().String()] = j.Spec
	}
	return specs
}

// publishDifference publishes an event if the task's state has changed.
func (m *Model) publishDifference(before, now *job.Task) {
	if before == nil || before.State != now.State || !before.Changed.Equal(now.Changed) {
		m.publishEvent(stateEvent(now), now.Index)
	}
}

// stateEvent returns the event with the present state of a task.
func stateEvent(t *job.Task) api.TaskEvent {
	return api.TaskEvent{Time: t.Changed, Job: t.Job, Run: t.RunID().Run, Task: t.ID, State: t.State, Message: t.Message}
}

// publishEvent publishes an event of the task of an index. It precedes all others if the job is no longer recorded.
func (m *Model) publishEvent(ev api.TaskEvent, index int) {
	stored := storedEvent{TaskEvent: ev, place: taskPlace{job: ev.Job, index: index}}
	if e, ok := m.jobs.FindRun(job.RunID{Name: ev.Job, Run: ev.Run}); ok {
		stored.owner, stored.place.submitted = e.Spec.Owner, e.Submitted
	}
	m.hub.publishEvent(stored)
}

// applyChange applies a change in the order that journal.Change describes, and calls publish for each task with its
// previous record, nil if it is a new attempt. The caller holds the lock.
func (m *Model) applyChange(c journal.Change, publish func(before, now *job.Task)) {
	if c.FrameworkID != "" {
		m.frameworkID = c.FrameworkID
	}
	m.applyDocuments(c.Documents)
	if len(sched.ParseCordons(c.Documents)) > 0 { // agents are cordoned, drained or uncordoned
		m.hub.publishInventoryChange()
	}
	for _, id := range c.Removed {
		m.removeJob(id)
	}
	for _, j := range c.Jobs {
		if e, ok := m.jobs.FindRun(j.RunID()); ok {
			m.updateSpec(e, j)
			continue
		}
		e := m.addJob(j)
		e.Tasks = make([]job.Task, j.Spec.Tasks)
		if n := len(m.bySubmission); n > 1 && compareSubmission(m.bySubmission[n-2], e) > 0 {
			slices.SortFunc(m.bySubmission, compareSubmission) // the new leader's clock is behind the old one's
		}
	}
	for i := range c.Tasks {
		t := &c.Tasks[i]
		e, ok := m.jobs.FindRun(t.RunID())
		if !ok || t.Index < 0 || t.Index >= len(e.Tasks) {
			continue // the same change removes the job
		}
		m.unshareTasks(e)
		slot := &e.Tasks[t.Index]
		if slot.ID != "" && slot.State.IsLive() {
			e.liveTasks--
		}
		if t.State.IsLive() {
			e.liveTasks++
		}
		var before *job.Task
		if slot.ID == t.ID {
			copied := *slot
			before = &copied
		}
		delete(m.tasks, slot.ID)
		*slot = *t
		m.tasks[t.ID] = slot
		publish(before, slot)
	}
}

// applyDocuments applies the documents that belong to the scheduler and ignores those of extensions.
func (m *Model) applyDocuments(documents map[string][]byte) {
	for key, value := range documents {
		id, t, attempt := sched.ParseAttempt(key, value)
		notificationID, n, isNotification := notification.Parse(key, value)
		switch {
		case attempt:
			m.attempts.applyRecord(id, t)
		case isNotification:
			m.applyNotification(notificationID, n)
		case !sched.IsReservedDocument(key):
		case len(value) == 0:
			delete(m.ownDocuments, key)
		default:
			m.ownDocuments[key] = value
		}
	}
}

// CordonedHosts returns the cordoned hosts, whose agents get no new tasks.
func (m *Model) CordonedHosts() map[string]sched.CordonState {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return sched.ParseCordons(m.ownDocuments)
}

// StrayAttempts returns the attempts that their jobs have given up and whose end is not proven, by task id.
func (m *Model) StrayAttempts() []sched.StrayAttempt {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return sched.ParseStrays(m.ownDocuments)
}

// LiveContents returns the state from which a scheduler would recover, without ended jobs.
func (m *Model) LiveContents() sched.RecoveredState {
	m.mu.RLock()
	defer m.mu.RUnlock()
	past := sched.RecoveredState{FrameworkID: m.frameworkID, Documents: maps.Clone(m.ownDocuments)}
	for _, e := range m.bySubmission {
		if !e.removed && e.isLive() {
			past.Jobs = append(past.Jobs, e.Clone())
		}
	}
	return past
}

// updateSpec replaces a job's specification, which may increase the number of its
// tasks. A longer list of tasks may be at another address, so that the index of tasks is set again.
func (m *Model) updateSpec(e *jobEntry, j *job.Job) {
	e.Spec, e.Version, e.OldSpecs, e.Changes, e.Hold, e.Revision, e.Notified = j.Spec, j.Version, j.OldSpecs, j.Changes, j.Hold, j.Revision, j.Notified
	if e.Number != j.Number { // it was submitted to a release without numbers
		e.Number = j.Number
		m.jobs.IndexNumber(e)
	}
	if more := j.Spec.Tasks - len(e.Tasks); more > 0 {
		e.Tasks, e.sharesTasks = append(slices.Clip(e.Tasks), make([]job.Task, more)...), false
		m.indexTasks(e)
	}
}

// removeJob removes a run. If it was its owner's newest one of the name, the run before it takes its place in lists.
func (m *Model) removeJob(id job.RunID) {
	e, ok := m.jobs.FindRun(id)
	if !ok {
		return
	}
	for i := range e.Tasks {
		delete(m.tasks, e.Tasks[i].ID)
	}
	m.jobs.Remove(e)
	m.removeFromGroup(e)
	if before, ok := m.jobs.NewestOfOwner(e.Spec.Owner, id.Name); ok && before.superseded {
		before.superseded = false
		m.addToGroup(before)
	}
	e.removed = true
	if m.removedCount++; m.removedCount > len(m.bySubmission)/2 {
		m.bySubmission = slices.DeleteFunc(m.bySubmission, func(e *jobEntry) bool { return e.removed })
		m.removedCount = 0
	}
}

// ConfirmUpToDate records that the model contains every change committed before asked.
func (m *Model) ConfirmUpToDate(asked time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asOf = asked
}

// ConfirmedAt returns the time of the latest ConfirmUpToDate, zero before the first.
func (m *Model) ConfirmedAt() time.Time {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.asOf
}

// CurrentFrameworkID returns the recorded framework id, "" before the first registration.
func (m *Model) CurrentFrameworkID() string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.frameworkID
}

// JobCount returns the number of recorded runs of jobs, including ended ones.
func (m *Model) JobCount() int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.jobs.Len()
}

// JobView returns the run NAME@RUN of a job, or the newest one for NAME alone, with its
// earlier attempts, or 404. Other methods that take a name find runs likewise.
func (m *Model) JobView(name string) (api.JobView, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	e, ok := m.jobs.Find(name)
	if !ok {
		return api.JobView{}, api.UnknownJob(name)
	}
	view := e.jobView()
	if slices.ContainsFunc(e.Tasks, func(t job.Task) bool { return t.Attempt > 1 }) {
		view.Attempts = m.attempts.latestAttempts(e.RunID())
	}
	return view, nil
}

// ResolveJob returns the run that a requester means by a reference. It is 404 or, if the reference may mean several jobs, 409.
func (m *Model) ResolveJob(by *access.Grant, reference string) (found request.FoundJob, err error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	e, exact, ok, candidates := m.jobs.Resolve(reference, by.UserName(), func(role string) bool { return by.HasPermission(access.View, role) })
	switch {
	case ok:
		return request.FoundJob{Run: e.RunID(), Owner: e.Spec.Owner, IsSingleRun: exact}, nil
	case len(candidates) == 0:
		return found, api.UnknownJob(reference)
	}
	return found, api.AmbiguousJob(reference, job.QualifiedNames(candidates))
}

// ListTasks returns at most limit tasks of a job, from an index on. It returns none if there is
// no such task, or the job was not submitted at that time.
func (m *Model) ListTasks(name string, submitted time.Time, from, limit int) []job.Task {
	m.mu.RLock()
	defer m.mu.RUnlock()
	e, ok := m.jobs.Find(name)
	if !ok || !e.Submitted.Equal(submitted) || from >= len(e.Tasks) {
		return nil
	}
	return slices.Clone(e.Tasks[from:min(from+limit, len(e.Tasks))])
}

// CopyJob returns a copy of a job; false if it does not exist.
func (m *Model) CopyJob(name string) (job.Job, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	e, ok := m.jobs.Find(name)
	if !ok {
		return job.Job{}, false
	}
	return *e.Clone(), true
}

// CopyNewestRun returns a copy of the newest run of an owner's job; false if it does not exist.
func (m *Model) CopyNewestRun(owner, name string) (job.Job, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	e, ok := m.jobs.NewestOfOwner(owner, name)
	if !ok {
		return job.Job{}, false
	}
	return *e.Clone(), true
}

// ListGroupJobs returns the newest runs of the jobs with a Group, sorted by name. The caller must not modify
// them.
func (m *Model) ListGroupJobs(group string) []job.Job {
	m.mu.RLock()
	defer m.mu.RUnlock()
	list := make([]job.Job, 0, len(m.byGroup[group]))
	for _, e := range m.byGroup[group] {
		list = append(list, e.copyTasks())
	}
	return list
}

// FindContainerizer returns the containerizer of a run of a job, "" if it is not known.
func (m *Model) FindContainerizer(run job.RunID) job.Containerizer {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if e, ok := m.jobs.FindRun(run); ok {
		return e.Spec.Containerizer
	}
	return ""
}

// AutoscaledServices returns copies of the services that are scaled by load and have not
// ended.
func (m *Model) AutoscaledServices() []job.Job {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var list []job.Job
	for e := range m.jobs.All() {
		if s := e.Spec.Service; s != nil && s.Autoscaling.IsSet() && !e.IsTerminal() {
			list = append(list, *e.Clone())
		}
	}
	return list
}

// OwnerOf returns the role and owner of a job or, if task is not empty, of the run to which
// the task belongs: ids end with the run's submission time.
func (m *Model) OwnerOf(name, task string) (role, owner string, err error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	e, ok := m.jobs.Find(name)
	if !ok {
		return "", "", api.UnknownJob(name)
	}
	if task == "" {
		return e.Spec.Role, e.Spec.Owner, nil
	}
	for _, e := range m.jobs.RunsOf(e.Spec.Name) {
		if strings.HasSuffix(task, "."+strconv.FormatInt(e.Submitted.UnixNano(), 36)) {
			return e.Spec.Role, e.Spec.Owner, nil
		}
	}
	return "", "", api.UnknownTask(task)
}

// FindTask returns a task, or an earlier attempt that is still stored; else 404.
func (m *Model) FindTask(id string) (job.Task, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if t := m.tasks[id]; t != nil {
		return *t, nil
	}
	if t, ok := m.attempts.tasks[id]; ok {
		return t, nil
	}
	return job.Task{}, api.UnknownTask(id)
}

// maxListCapacity limits the initial capacity of a list of jobs.
const maxListCapacity = 1000
