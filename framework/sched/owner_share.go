package sched

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"mesos-gpu/job"
)

// jobOwner identifies the role and the user whose limits a job counts against. Owner is "" without an access file and for jobs of extensions.
type jobOwner struct{ role, owner string }

func ownerOf(spec *job.Spec) jobOwner { return jobOwner{spec.Role, spec.Owner} }

// UsageByOwner counts something that is limited for the whole scheduler, such as live tasks, by role and by owner within
// a role. A zero UsageByOwner has counted nothing.
type UsageByOwner struct {
	total int
	// byRole and byOwner have no counters that are 0.
	byRole  map[string]*int
	byOwner map[jobOwner]*int
	// last are the counters of the owner that was counted last, which usually is the next one too. They are nil while
	// that owner has no counter.
	last struct {
		key         jobOwner
		role, owner *int
	}
}

// Add adds n, which may be negative, for the role and the owner of a job.
func (u *UsageByOwner) Add(spec *job.Spec, n int) {
	k := ownerOf(spec)
	if u.last.role == nil || u.last.key != k {
		u.selectOwner(k)
	}
	u.total += n
	*u.last.role += n
	*u.last.owner += n
	if *u.last.owner != 0 {
		return
	}
	if delete(u.byOwner, k); *u.last.role == 0 {
		delete(u.byRole, k.role)
	}
	u.last.role, u.last.owner = nil, nil
}

// selectOwner sets last to the counters of an owner, and creates them if there are none.
func (u *UsageByOwner) selectOwner(k jobOwner) {
	if u.byRole == nil {
		u.byRole, u.byOwner = map[string]*int{}, map[jobOwner]*int{}
	}
	if u.byRole[k.role] == nil {
		u.byRole[k.role] = new(int)
	}
	if u.byOwner[k] == nil {
		u.byOwner[k] = new(int)
	}
	u.last.key, u.last.role, u.last.owner = k, u.byRole[k.role], u.byOwner[k]
}

// ofOwner returns what was counted for an owner, and for its role.
func (u *UsageByOwner) ofOwner(k jobOwner) (role, owner int) {
	if u.last.role != nil && u.last.key == k {
		return *u.last.role, *u.last.owner
	}
	if n := u.byRole[k.role]; n != nil {
		role = *n
	}
	if n := u.byOwner[k]; n != nil {
		owner = *n
	}
	return role, owner
}

// Total returns the sum of all roles.
func (u *UsageByOwner) Total() int { return u.total }

// SharedLimit is a limit that submitters share: a role may use part of what the other roles leave free of it, and an
// owner part of what the others in the role leave free of that. So there is always something left for others.
type SharedLimit struct {
	// Max is the limit. Noun names the counted objects, in the plural.
	Max  int
	Noun string
	// Percent is the part. Of 100, nothing is left.
	Percent int
	// SeveralRoles is false if all jobs have one role, which may then use all.
	SeveralRoles bool
}

// Check returns an error if the usage may not grow by n for the role and owner of a job. It permits whatever adds
// nothing: a part becomes smaller than its use when others submit, or when the setting changes.
func (l SharedLimit) Check(u *UsageByOwner, spec *job.Spec, n int) error {
	return l.check(u, ownerOf(spec), n)
}

func (l *SharedLimit) check(u *UsageByOwner, k jobOwner, n int) error {
	if n <= 0 {
		return nil
	}
	if u.total+n > l.Max {
		return &LimitError{Holder: "the scheduler", Noun: l.Noun, Used: u.total, Requested: n, Limit: l.Max}
	}
	byRole, byOwner := u.ofOwner(k)
	part, inPart := l.Max, u.total // the role's part, and what of it is used
	if l.SeveralRoles {
		part, inPart = (l.Max-(u.total-byRole))*l.Percent/100, byRole
		if inPart+n > part {
			return &LimitError{Holder: fmt.Sprintf("role %q", k.role), Noun: l.Noun, Used: inPart, Requested: n, Limit: part, Others: "other roles", Percent: l.Percent}
		}
	}
	if k.owner == "" {
		return nil
	}
	if part = (part - (inPart - byOwner)) * l.Percent / 100; byOwner+n > part {
		return &LimitError{
			Holder:    fmt.Sprintf("%s in role %q", k.owner, k.role),
			Noun:      l.Noun,
			Used:      byOwner,
			Requested: n,
			Limit:     part,
			Others:    "other users",
			Percent:   l.Percent,
		}
	}
	return nil
}

// LimitError reports that a request exceeds a limit which submitters share, or one of the roles file on jobs that wait.
type LimitError struct {
	// Holder has Used of what Noun names; Requested more would pass Limit.
	Holder, Noun           string
	Used, Requested, Limit int
	// CountsWaitingJobs means that the limit is the roles file's limit of waiting jobs.
	// User is the limited user, "" for a limit of the role.
	CountsWaitingJobs bool
	User              string
	// Others names the roles or users for which a part is kept, "" if the limit is the whole scheduler's.
	Others  string
	Percent int
}

func (e *LimitError) Error() string {
	limit := fmt.Sprintf("the limit of %d", e.Limit)
	if e.Others != "" {
		limit = fmt.Sprintf("%d, which is %d %% of what %s leave free", e.Limit, e.Percent, e.Others)
	}
	if e.CountsWaitingJobs {
		return fmt.Sprintf("%s has %d %s, %d more would pass %s: wait for some to start, or kill some", e.Holder, e.Used, e.Noun, e.Requested, limit)
	}
	return fmt.Sprintf("%s has %d %s, %d more would pass %s: wait for some to end, or end some", e.Holder, e.Used, e.Noun, e.Requested, limit)
}

// SharedLimit returns a limit with the present roles and the settings' part.
func (s *State) SharedLimit(limit int, noun string) SharedLimit {
	return SharedLimit{Max: limit, Noun: noun, Percent: s.cfg.LimitShare, SeveralRoles: len(s.cfg.Policy.Roles) > 1}
}

// Nouns of the limits of live jobs.
const (
	nounLiveTasks = "tasks that have not ended"
	nounSpecBytes = "bytes of jobs that have not ended"
)

// admitUsage returns an error if the tasks and the texts of an owner's job exceed a limit.
func (s *State) admitUsage(k jobOwner, tasks, bytes int) error {
	l := s.SharedLimit(s.cfg.MaxLiveTasks, nounLiveTasks)
	if err := l.check(&s.liveTasks, k, tasks); err != nil {
		return err
	}
	l.Max, l.Noun = s.cfg.MaxSpecBytes, nounSpecBytes
	return l.check(&s.liveBytes, k, bytes)
}

// endedJobs are the remembered jobs that have ended. Each role and owner has a list of its own, so that jobs of
// the largest are forgotten first.
type endedJobs struct {
	// lists are not empty.
	lists map[jobOwner]*endedList
	// tasks and bytes count the tasks and the size of the jobs. The settings limit both.
	tasks, bytes UsageByOwner
}

// endedList has the ended jobs of one owner, in the order in which they ended. Those before first are removed.
type endedList struct {
	jobs  []endedJob
	first int
}

type endedJob struct {
	job       *job.Job
	ended     time.Time
	textBytes int
}

func (l *endedList) all() []endedJob { return l.jobs[l.first:] }

func (e *endedJobs) add(j *job.Job, textBytes int) {
	if e.lists == nil {
		e.lists = map[jobOwner]*endedList{}
	}
	k := ownerOf(j.Spec)
	l := e.lists[k]
	if l == nil {
		l = &endedList{}
		e.lists[k] = l
	}
	l.jobs = append(l.jobs, endedJob{j, lastEndOf(j), textBytes})
	e.tasks.Add(j.Spec, len(j.Tasks))
	e.bytes.Add(j.Spec, textBytes)
}

func (e *endedJobs) remove(j *job.Job) {
	k := ownerOf(j.Spec)
	l := e.lists[k]
	if l == nil {
		return
	}
	i := slices.IndexFunc(l.all(), func(one endedJob) bool { return one.job == j })
	if i < 0 {
		return
	}
	e.tasks.Add(j.Spec, -len(j.Tasks))
	e.bytes.Add(j.Spec, -l.all()[i].textBytes)
	copy(l.all()[1:i+1], l.all()[:i]) // the oldest are removed first, so the shorter part is moved
	l.jobs[l.first] = endedJob{}
	switch l.first++; {
	case l.first == len(l.jobs):
		delete(e.lists, k)
	case 2*l.first >= len(l.jobs):
		l.jobs, l.first = slices.Delete(l.jobs, 0, l.first), 0
	}
}

// oldestOfLargest returns the job that ended first of the owner with the most of the usage, in the role with the most of
// it. It passes over one job, which is the newest of its owner; nil means that there is no other.
func (e *endedJobs) oldestOfLargest(u *UsageByOwner, except *job.Job) (found *job.Job) {
	var largest jobOwner
	for k, l := range e.lists {
		switch oldest := l.all()[0].job; {
		case oldest == except:
		case found == nil, compareUsage(u, k, largest) > 0:
			found, largest = oldest, k
		}
	}
	return found
}

// compareUsage orders owners by the usage of their role, then by their own. Names make the order total.
func compareUsage(u *UsageByOwner, a, b jobOwner) int {
	inRoleA, ownA := u.ofOwner(a)
	inRoleB, ownB := u.ofOwner(b)
	if a.role != b.role {
		return cmp.Or(cmp.Compare(inRoleA, inRoleB), cmp.Compare(a.role, b.role))
	}
	return cmp.Or(cmp.Compare(ownA, ownB), cmp.Compare(a.owner, b.owner))
}

// newestJobs returns, sorted by name, the jobs that ended last: about n, the same number of each owner.
func (e *endedJobs) newestJobs(n int) []*job.Job {
	var jobs []*job.Job
	for _, l := range e.lists {
		all := l.all()
		for _, one := range all[max(0, len(all)-max(1, n/len(e.lists))):] {
			jobs = append(jobs, one.job)
		}
	}
	slices.SortFunc(jobs, func(a, b *job.Job) int { return job.CompareRuns(a.RunID(), b.RunID()) })
	return jobs
}
