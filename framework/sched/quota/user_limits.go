package quota

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// UserLimits limits one user's usage of a role and of the roles below it. Zero fields limit nothing.
type UserLimits struct {
	// GPUs is the most that the user's tasks may hold at once, by type.
	GPUs Quota
	// RunningJobs is how many of the user's jobs may have placed tasks at once, WaitingJobs how many may wait without any.
	RunningJobs, WaitingJobs int
	// SubmissionsPerMinute is how many jobs the user may submit in a minute. The core does not apply it.
	SubmissionsPerMinute int
}

// maxUserLimit is the largest count of a UserLimits.
const maxUserLimit = 1_000_000

// IsZero reports whether nothing is limited.
func (l *UserLimits) IsZero() bool {
	return len(l.GPUs) == 0 && l.RunningJobs == 0 && l.WaitingJobs == 0 && l.SubmissionsPerMinute == 0
}

// Validate returns all errors of the limits.
func (l *UserLimits) Validate() error {
	var errs []error
	for name, n := range l.counts() {
		if n < 0 || n > maxUserLimit {
			errs = append(errs, fmt.Errorf("%s %d is not between 1 and %d", name, n, maxUserLimit))
		}
	}
	return errors.Join(errs...)
}

func (l *UserLimits) counts() map[string]int {
	return map[string]int{"running_jobs": l.RunningJobs, "waiting_jobs": l.WaitingJobs, "submissions_per_minute": l.SubmissionsPerMinute}
}

// UserOf returns the user of a job. Jobs without an owner have none: limits of users do not apply to them.
func UserOf(spec *job.Spec) User { return User{Role: spec.Role, Name: spec.Owner} }

// LimitsOf returns the limits of a user by the entry of one role: those of the user, or else those of all users.
func (e *RoleEntitlement) LimitsOf(user string) *UserLimits {
	if l, ok := e.NamedUsers[user]; ok {
		return &l
	}
	return &e.EachUser
}

// LimitsUsers reports whether users are limited in the GPUs that they hold, in the jobs that they run, or by used-up budgets.
func (t *Tracker) LimitsUsers() bool {
	return t.users != nil || slices.ContainsFunc(t.usedUpBudgets, func(b UsedUpBudget) bool { return b.User != "" })
}

// userUsage counts the GPUs that users hold. It is only counted if an entry limits users.
type userUsage struct {
	// gpus are the thousandths of GPUs that users hold, by user and GPU type. reserved counts GPUs that are reserved for their
	// waiting tasks, demand the GPUs that these request.
	gpus, reserved, demand map[string]map[User]map[string]int
	// jobs are the names of the jobs with placed tasks, by user.
	jobs map[string]map[User]map[string]bool
}

// newUserUsage returns an empty usage, nil if no entry limits users.
func newUserUsage(entitlements []RoleEntitlement) *userUsage {
	limits := func(l UserLimits) bool { return len(l.GPUs) > 0 || l.RunningJobs > 0 }
	for i := range entitlements {
		e := &entitlements[i]
		if limits(e.EachUser) || slices.ContainsFunc(slices.Collect(maps.Values(e.NamedUsers)), limits) {
			return &userUsage{
				gpus:     map[string]map[User]map[string]int{},
				reserved: map[string]map[User]map[string]int{},
				demand:   map[string]map[User]map[string]int{},
				jobs:     map[string]map[User]map[string]bool{},
			}
		}
	}
	return nil
}

// addTo adds thousandths of GPUs of one type to those of a user.
func addTo(all map[string]map[User]map[string]int, u User, gpuType string, milli int) {
	if all[u.Name] == nil {
		all[u.Name] = map[User]map[string]int{}
	}
	if all[u.Name][u] == nil {
		all[u.Name][u] = map[string]int{}
	}
	all[u.Name][u][gpuType] += milli
}

// sumWithin returns what a user holds of a type, or of all types, in a role and the roles below it.
func sumWithin(all map[string]map[User]map[string]int, user, role, gpuType string) (sum int) {
	for u, types := range all[user] {
		if !IsWithinRole(u.Role, role) {
			continue
		}
		for name, milli := range types {
			if CountsProduct(gpuType, name) {
				sum += milli
			}
		}
	}
	return sum
}

// AddUserUsage adds what a task holds to what the job's user holds; sign -1 removes it. AddUsage counts it for the role.
func (t *Tracker) AddUserUsage(spec *job.Spec, types map[string]int, shares []gpu.DeviceShare, sign int) {
	for _, milli := range milliByType(types, shares) {
		t.addHeldByUser(UserOf(spec), sign*milli)
	}
	if t.users == nil || spec.Owner == "" {
		return
	}
	addTaskTo(t.users.gpus, UserOf(spec), types, shares, sign)
}

// addTaskTo adds what a task holds to what a user has.
func addTaskTo(all map[string]map[User]map[string]int, u User, types map[string]int, shares []gpu.DeviceShare, sign int) {
	for gpuType, milli := range milliByType(types, shares) {
		addTo(all, u, gpuType, sign*milli)
	}
}

// addHeldByUser counts GPUs of all types.
func (t *Tracker) addHeldByUser(u User, milli int) {
	if t.lastHeld == nil || t.lastUser != u {
		if t.heldByUser[u] == nil {
			t.heldByUser[u] = new(int)
		}
		t.lastUser, t.lastHeld = u, t.heldByUser[u]
	}
	*t.lastHeld += milli
}

// AddUserMilliGPUs is AddUserUsage for thousandths of GPUs of one type, which is "" where it is unknown.
func (t *Tracker) AddUserMilliGPUs(spec *job.Spec, gpuType string, milli int) {
	t.addHeldByUser(UserOf(spec), milli)
	if t.users != nil && spec.Owner != "" {
		addTo(t.users.gpus, UserOf(spec), gpuType, milli)
	}
}

// UserShare returns the number by which users of a role are compared: the least is served first. It is their recent usage
// if the role has a half-life, otherwise what they hold. received is the amount that the user has received since the recent
// usage was counted, more what the user would receive.
func (t *Tracker) UserShare(u User, received, more int) float64 {
	if t.recent != nil && !t.recent.WithoutPast[u.Role] {
		return t.recent.Share(u, received+more)
	}
	if held := t.heldByUser[u]; held != nil {
		more += *held
	}
	return float64(more)
}

// AddRunningJob counts a job that has placed tasks. It returns false if the job was counted before.
func (t *Tracker) AddRunningJob(spec *job.Spec) bool {
	if t.users == nil || spec.Owner == "" {
		return false
	}
	u := UserOf(spec)
	if t.users.jobs[u.Name] == nil {
		t.users.jobs[u.Name] = map[User]map[string]bool{}
	}
	if t.users.jobs[u.Name][u] == nil {
		t.users.jobs[u.Name][u] = map[string]bool{}
	}
	before := t.users.jobs[u.Name][u][spec.Name]
	t.users.jobs[u.Name][u][spec.Name] = true
	return !before
}

// RemoveRunningJob undoes AddRunningJob.
func (t *Tracker) RemoveRunningJob(spec *job.Spec) {
	if t.users != nil {
		delete(t.users.jobs[spec.Owner][UserOf(spec)], spec.Name)
	}
}

// userLimitsFor returns the limits on GPUs of a user, those of the roles above included, without their usage.
func (t *Tracker) userLimitsFor(u User) (list []Limit) {
	if t.users == nil || u.Name == "" {
		return nil
	}
	for i := range t.entitlements {
		e := &t.entitlements[i]
		if !IsWithinRole(u.Role, e.Role) {
			continue
		}
		gpus := e.LimitsOf(u.Name).GPUs
		for _, name := range slices.Sorted(maps.Keys(gpus)) {
			list = append(list, Limit{Role: e.Role, User: u.Name, Type: name, Max: gpus[name] * MilliPerGPU})
		}
	}
	return list
}

// RunningJobsLimit returns the limit that forbids a job to start because its user runs as many jobs as permitted, or
// nil. A job with placed tasks is not limited.
func (t *Tracker) RunningJobsLimit(spec *job.Spec) *Limit {
	if t.users == nil || spec.Owner == "" || t.users.jobs[spec.Owner][UserOf(spec)][spec.Name] {
		return nil
	}
	for i := range t.entitlements {
		e := &t.entitlements[i]
		limit := e.LimitsOf(spec.Owner).RunningJobs
		if limit == 0 || !IsWithinRole(spec.Role, e.Role) {
			continue
		}
		if held := t.countRunningJobs(spec.Owner, e.Role); held >= limit {
			return &Limit{Role: e.Role, User: spec.Owner, Max: limit, Held: held, CountsJobs: true}
		}
	}
	return nil
}

// countRunningJobs returns how many jobs of a user have placed tasks in a role and the roles below it.
func (t *Tracker) countRunningJobs(user, role string) (n int) {
	for u, names := range t.users.jobs[user] {
		if IsWithinRole(u.Role, role) {
			n += len(names)
		}
	}
	return n
}

// IsBlockedByUser reports whether a limit of the job's user allows no task of it to start. The order of a strict role
// passes over such jobs: one user does not stop the others.
func (t *Tracker) IsBlockedByUser(spec *job.Spec) bool {
	if t.users == nil && len(t.usedUpBudgets) == 0 || spec.Owner == "" {
		return false
	}
	if t.RunningJobsLimit(spec) != nil {
		return true
	}
	tasks := 1
	if spec.Gang {
		tasks = spec.Tasks
	}
	_, allowed, limit := t.RestrictJob(spec, spec.Request, tasks)
	if allowed > 0 && allowed < tasks {
		limit = t.TightestLimit(spec, limit)
	}
	return limit != nil && limit.User != "" && allowed < tasks
}

// limitUserDemand returns which part of a user's demand for one type is within the user's limits, and counts it.
func (t *Tracker) limitUserDemand(u User, gpuType string, milli int) int {
	if t.users == nil || u.Name == "" {
		return milli
	}
	for _, l := range t.userLimitsFor(u) {
		if !includesEntry(l.Type, gpuType) {
			continue
		}
		milli = min(milli, max(l.Max-sumWithin(t.users.gpus, u.Name, l.Role, l.Type)-t.userDemandWithin(u.Name, l.Role, gpuType), 0))
	}
	addTo(t.users.demand, u, gpuType, milli)
	return milli
}

// userDemandWithin returns what a user's waiting tasks want of one type, or in the entry for all types, in a role and the
// roles below it. A task that accepts several types is in each of their entries.
func (t *Tracker) userDemandWithin(user, role, gpuType string) (sum int) {
	for u, types := range t.users.demand[user] {
		if IsWithinRole(u.Role, role) {
			sum += types[gpuType]
		}
	}
	return sum
}
