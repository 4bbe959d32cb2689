package sched

import (
	"cmp"
	"fmt"
	"slices"

	"mesos-gpu/job"
)

// jobOwner is whose limits a job counts against. Owner is "" without an access file and for jobs of extensions.
type jobOwner struct{ role, owner string }

func ownerOf(spec *job.Spec) jobOwner { return jobOwner{spec.Role, spec.Owner} }

// UsageByOwner counts something that is limited for the whole scheduler, such as live tasks, by role and by owner within
// a role. A zero UsageByOwner has counted nothing.
type UsageByOwner struct {
	total   int
	byRole  map[string]int
	byOwner map[jobOwner]int
}

// Add adds n, which may be negative, for the role and the owner of a job.
func (u *UsageByOwner) Add(spec *job.Spec, n int) {
	if u.byRole == nil {
		u.byRole, u.byOwner = map[string]int{}, map[jobOwner]int{}
	}
	k := ownerOf(spec)
	u.total += n
	if u.byRole[k.role] += n; u.byRole[k.role] == 0 {
		delete(u.byRole, k.role)
	}
	if u.byOwner[k] += n; u.byOwner[k] == 0 {
		delete(u.byOwner, k)
	}
}

// Total returns the sum of all roles.
func (u *UsageByOwner) Total() int { return u.total }

// SharedLimit is a limit that submitters share: a role may use part of what the other roles leave free of it, and an
// owner part of what the others in the role leave free of that. So there is always something left for others.
type SharedLimit struct {
	// Max is the limit. Noun is what it counts, in the plural.
	Max  int
	Noun string
	// Percent is the part. Of 100, nothing is left.
	Percent int
	// SeveralRoles is false if all jobs have one role, which may then use all.
	SeveralRoles bool
}

// Check returns an error if the usage may not grow by n for the role and owner of a job.
func (l SharedLimit) Check(u *UsageByOwner, spec *job.Spec, n int) error {
	k, e := ownerOf(spec), LimitError{Noun: l.Noun, Requested: n, Percent: l.Percent}
	if e.Used, e.Limit = u.total, l.Max; e.Used+n > e.Limit {
		e.Holder = "the scheduler"
		return &e
	}
	if l.SeveralRoles {
		e.Used = u.byRole[k.role]
		if e.Limit = (l.Max - (u.total - e.Used)) * l.Percent / 100; e.Used+n > e.Limit {
			e.Holder, e.Others = fmt.Sprintf("role %q", k.role), "other roles"
			return &e
		}
	}
	if k.owner != "" {
		rest := e.Limit - (u.byRole[k.role] - u.byOwner[k])
		if !l.SeveralRoles {
			rest = l.Max - (u.total - u.byOwner[k])
		}
		e.Used = u.byOwner[k]
		if e.Limit = rest * l.Percent / 100; e.Used+n > e.Limit {
			e.Holder, e.Others = fmt.Sprintf("%s in role %q", k.owner, k.role), "other users"
			return &e
		}
	}
	return nil
}

// LimitError reports that a request exceeds a limit which submitters share.
type LimitError struct {
	// Holder has Used of what Noun names; Requested more would pass Limit.
	Holder, Noun           string
	Used, Requested, Limit int
	// Others are those who must keep a part, "" if the limit is that of the whole scheduler.
	Others  string
	Percent int
}

func (e *LimitError) Error() string {
	limit := fmt.Sprintf("the limit of %d", e.Limit)
	if e.Others != "" {
		limit = fmt.Sprintf("%d, which is %d %% of what %s leave free", e.Limit, e.Percent, e.Others)
	}
	return fmt.Sprintf("%s has %d %s, %d more would pass %s: wait for some to end, or end some", e.Holder, e.Used, e.Noun, e.Requested, limit)
}

// sharedLimit returns a limit of the scheduler's settings.
func (s *State) sharedLimit(limit int, noun string) SharedLimit {
	return SharedLimit{Max: limit, Noun: noun, Percent: s.cfg.LimitShare, SeveralRoles: len(s.cfg.Policy.Roles) > 1}
}

// ScheduleLimit returns the limit of schedules, or of the bytes of their documents.
func (s *State) ScheduleLimit(limit int, noun string) SharedLimit { return s.sharedLimit(limit, noun) }

// Nouns of the limits of live jobs.
const (
	nounLiveTasks = "tasks that have not ended"
	nounSpecBytes = "bytes of jobs that have not ended"
)

// admitUsage returns an error if the tasks and the text of a job exceed a limit.
func (s *State) admitUsage(spec *job.Spec, tasks, bytes int) error {
	if err := s.sharedLimit(s.cfg.MaxLiveTasks, nounLiveTasks).Check(&s.liveTasks, spec, tasks); err != nil {
		return err
	}
	return s.sharedLimit(s.cfg.MaxSpecBytes, nounSpecBytes).Check(&s.liveBytes, spec, bytes)
}

// endedJobs are the remembered jobs that have ended. Each role and owner has a list of its own, so that the jobs of
// whoever has the most are forgotten first.
type endedJobs struct {
	// names are in the order in which the jobs ended. count is the number of all.
	names map[jobOwner][]string
	count int
	// tasks and bytes are those of the jobs. The settings limit both.
	tasks, bytes UsageByOwner
}

func (e *endedJobs) add(j *job.Job) {
	if e.names == nil {
		e.names = map[jobOwner][]string{}
	}
	k := ownerOf(&j.Spec)
	e.names[k] = append(e.names[k], j.Spec.Name)
	e.count++
	e.tasks.Add(&j.Spec, len(j.Tasks))
	e.bytes.Add(&j.Spec, j.Spec.TextBytes())
}

func (e *endedJobs) remove(j *job.Job) {
	k := ownerOf(&j.Spec)
	list := e.names[k]
	for i, name := range list {
		if name != j.Spec.Name {
			continue
		}
		copy(list[1:i+1], list[:i]) // the oldest are removed first, so the shorter part is moved
		if e.names[k] = list[1:]; len(list) == 1 {
			delete(e.names, k)
		}
		e.count--
		e.tasks.Add(&j.Spec, -len(j.Tasks))
		e.bytes.Add(&j.Spec, -j.Spec.TextBytes())
		return
	}
}

// oldestOfLargest returns the job that ended first of the owner with the most of the usage, in the role with the most of
// it. It passes over one job, which is the newest of its owner; "" means that there is no other.
func (e *endedJobs) oldestOfLargest(u *UsageByOwner, except string) (name string) {
	var largest jobOwner
	for k, list := range e.names {
		if list[0] == except {
			continue
		}
		if name == "" || compareUsage(u, k, largest) > 0 {
			name, largest = list[0], k
		}
	}
	return name
}

func compareUsage(u *UsageByOwner, a, b jobOwner) int {
	return cmp.Or(
		cmp.Compare(u.byRole[a.role], u.byRole[b.role]), cmp.Compare(a.role, b.role),
		cmp.Compare(u.byOwner[a], u.byOwner[b]), cmp.Compare(a.owner, b.owner),
	)
}

// newestNames returns the names of the jobs that ended last, at most n of each owner, sorted.
func (e *endedJobs) newestNames(n int) []string {
	var all []string
	for _, list := range e.names {
		all = append(all, list[max(0, len(list)-n):]...)
	}
	slices.Sort(all)
	return all
}
