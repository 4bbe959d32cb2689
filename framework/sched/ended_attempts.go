package sched

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"mesos-gpu/job"
)

// MaxAttemptsPerJob limits the ended attempts kept for a job with fewer tasks; maxAttemptsOfAll limits those of all
// jobs. A service that fails for days has thousands.
const MaxAttemptsPerJob, maxAttemptsOfAll = 100, 10_000

// endedAttempts is an index of attempts that were followed by another one. Their output is still on their agents and
// shows why they ended. Each is a document of its own, so that a late update changes no record of the task.
type endedAttempts struct {
	// documents has one document for each attempt.
	documents *documentStore
	// beforeDrop is called with the record of each attempt that is forgotten while its job is known.
	beforeDrop func(id string, text []byte)
	// byJob are the attempts of each run of a job, byRole those of each role.
	byJob  map[job.RunID]*jobAttempts
	byRole map[string]*roleAttempts
	// count is the number of attempts in byJob.
	count int
}

type jobAttempts struct {
	role string
	// ids are oldest first.
	ids []string
}

type roleAttempts struct {
	// order are the attempts of the role's jobs, oldest first. It includes attempts whose document is deleted, which are
	// removed when they are the oldest or make up half of the list.
	order []endedAttempt
	// count is the number of attempts that are not deleted.
	count int
}

type endedAttempt struct {
	job job.RunID
	id  string
}

// ParseAttempt decodes an ended attempt from one of the scheduler's documents. The task is zero if the document is empty
// or unreadable.
func ParseAttempt(key string, value []byte) (id string, t job.Task, ok bool) {
	id, ok = strings.CutPrefix(key, attemptPrefix)
	if ok && json.Unmarshal(value, &t) != nil {
		t = job.Task{}
	}
	t.Run = t.RunID().Run // attempts of older releases have none
	return id, t, ok
}

// CompareAttempts orders attempts by when they ended.
func CompareAttempts(a, b job.Task) int {
	return cmp.Or(a.Changed.Compare(b.Changed), cmp.Compare(a.Attempt, b.Attempt), cmp.Compare(a.Index, b.Index))
}

// keep records an attempt that was launched and has ended. If there are too many, it forgets the oldest one of the job,
// and of the role with the most.
func (a *endedAttempts) keep(t job.Task, j *job.Job) {
	if t.AgentID == "" {
		return
	}
	a.documents.writeJSONDocument(attemptPrefix+t.ID, t)
	a.add(t, j.Spec.Role)
	if len(a.byJob[t.RunID()].ids) > max(MaxAttemptsPerJob, 2*len(j.Tasks)) {
		a.dropOldest(t.RunID())
	}
	for a.count > maxAttemptsOfAll {
		role := j.Spec.Role
		for other, r := range a.byRole {
			if n := a.byRole[role].count; r.count > n || r.count == n && other < role && role != j.Spec.Role {
				role = other
			}
		}
		largest := a.byRole[role]
		oldest := largest.order[0]
		largest.order = largest.order[1:]
		if !a.isDropped(oldest) {
			a.dropOldest(oldest.job)
		}
	}
	if r := a.byRole[j.Spec.Role]; len(r.order) > 2*max(r.count, MaxAttemptsPerJob) {
		r.order = slices.DeleteFunc(r.order, a.isDropped)
	}
}

func (a *endedAttempts) isDropped(one endedAttempt) bool {
	return a.documents.Document(attemptPrefix+one.id) == nil
}

func (a *endedAttempts) add(t job.Task, role string) {
	run := t.RunID()
	if a.byJob[run] == nil {
		a.byJob[run] = &jobAttempts{role: role}
	}
	if a.byRole[role] == nil {
		a.byRole[role] = &roleAttempts{}
	}
	of, all := a.byJob[run], a.byRole[role]
	of.ids = append(of.ids, t.ID)
	all.order = append(all.order, endedAttempt{run, t.ID})
	all.count++
	a.count++
}

// dropOldest forgets the oldest attempt of a job.
func (a *endedAttempts) dropOldest(run job.RunID) {
	of := a.byJob[run]
	a.beforeDrop(of.ids[0], a.documents.Document(attemptPrefix+of.ids[0]))
	a.documents.writeDocument(attemptPrefix+of.ids[0], nil)
	of.ids = of.ids[1:]
	a.byRole[of.role].count--
	a.count--
}

// dropJob forgets all attempts of a job.
func (a *endedAttempts) dropJob(run job.RunID) {
	for a.byJob[run] != nil && len(a.byJob[run].ids) > 0 {
		a.dropOldest(run)
	}
	delete(a.byJob, run)
}

// moveJob counts the attempts of a job for another role, as if they had been added to it.
func (a *endedAttempts) moveJob(run job.RunID, role string) {
	of := a.byJob[run]
	if of == nil || of.role == role {
		return
	}
	from := a.byRole[of.role]
	from.count -= len(of.ids)
	from.order = slices.DeleteFunc(from.order, func(one endedAttempt) bool { return one.job == run })
	if a.byRole[role] == nil {
		a.byRole[role] = &roleAttempts{}
	}
	to := a.byRole[role]
	to.count += len(of.ids)
	for _, id := range of.ids {
		to.order = append(to.order, endedAttempt{run, id})
	}
	of.role = role
}

// recordLateEnd records how an attempt that was given up as lost has ended. It returns false if the update is about
// another task or is no end.
func (a *endedAttempts) recordLateEnd(u TaskUpdate) (t job.Task, late bool) {
	key := attemptPrefix + u.TaskID
	text := a.documents.Document(key)
	if text == nil || u.State == "" || u.State == job.Lost || u.State.IsLive() {
		return t, false
	}
	if _, t, _ = ParseAttempt(key, text); t.State != job.Lost {
		return t, false
	}
	t.State, t.Message, t.Reason, t.ExitCode = u.State, u.Message, u.Reason, u.ExitCode
	a.documents.writeJSONDocument(key, t)
	return t, true
}

// restore reads the recorded attempts, deletes those of unknown jobs, and returns the others, oldest first.
func (a *endedAttempts) restore(jobs *job.RunTable[*job.Job]) (known []job.Task) {
	var unknown []string
	for key, text := range a.documents.DocumentsIn(attemptPrefix) {
		_, t, _ := ParseAttempt(key, text)
		if _, ok := jobs.FindRun(t.RunID()); ok && key == attemptPrefix+t.ID {
			known = append(known, t)
		} else {
			unknown = append(unknown, key)
		}
	}
	for _, key := range unknown {
		a.documents.writeDocument(key, nil)
	}
	slices.SortFunc(known, CompareAttempts)
	for _, t := range known {
		j, _ := jobs.FindRun(t.RunID())
		a.add(t, j.Spec.Role)
	}
	return known
}
