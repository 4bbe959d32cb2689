package queue

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"mesos-gpu/framework/sched/budget"
	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/job"
)

// Role is a Mesos role in which the scheduler runs jobs.
type Role struct {
	// Name may have slashes: a role includes those below it in its quota.
	Name string
	// Weight is the role's part of the GPUs where roles compete. 0 means 1.
	Weight float64
	// Quota limits what the role's tasks hold.
	Quota quota.Quota
	// Deserved has the GPUs that the role gets while it demands them. Other roles may use the GPUs that it does not demand.
	Deserved quota.Quota
	// DeservedHost has the CPUs and memory that the role gets while it demands them, for its tasks with and without GPUs.
	DeservedHost quota.HostQuota
	// EachUser limits each user of the role and of the roles below it. Users with an entry in NamedUsers have those limits
	// instead. WaitingJobs is how many jobs of the role and of the roles below it may wait without a placed task, 0 for any number.
	EachUser    quota.UserLimits
	NamedUsers  map[string]quota.UserLimits
	WaitingJobs int
	// Budget limits the GPU time that the role and the roles below it use in a month; nil for none.
	Budget *budget.Budget
	// HalfLife is after how long GPU time of the past counts half in the fair share of the role, of the roles below it without
	// one, and of their users. 0 means that of the role above, or else the scheduler's.
	HalfLife time.Duration
	// OneQueue places the jobs of all users of the role in one order. Otherwise the user who holds the least is served first.
	OneQueue bool
	// Order is the order of jobs with equal priority. "" means OldestFirst.
	Order Order
	// Patience is how long a job lets shorter ones go first under ShortestFirst. 0 means DefaultPatience.
	Patience time.Duration
	// Strict forbids backfill: no job of the role starts before an earlier one that waits.
	Strict bool
	// FitPolicy is the name of the policy that ranks agents for the role's jobs. "" means the default policy.
	FitPolicy string
	// KeepRuns is how many runs of a job are remembered, with the newest one. KeepEnded is how long a run is remembered
	// after its end. 0 means the scheduler's default.
	KeepRuns  int
	KeepEnded time.Duration
	// DefaultFor lists the users and groups whose jobs belong to the role if they name none.
	DefaultFor Members
	// Notify sends notifications about all jobs of the role and of the roles below it.
	Notify []job.NotificationRule
}

// Members are users and groups by the names of the access file.
type Members struct {
	Users  []string `yaml:"users"`
	Groups []string `yaml:"groups"`
}

// Order is the order in which a role's jobs of equal priority are placed.
type Order string

const (
	// OldestFirst places jobs in the order of their submission. It is the default.
	OldestFirst Order = "fifo"
	// ShortestFirst places jobs by their expected run time; jobs without one come last, oldest first. It minimizes the
	// mean wait if run times are true (W. E. Smith, "Various optimizers for single-stage production", 1956).
	ShortestFirst Order = "shortest"
)

// DefaultPatience is how long jobs let shorter ones go first under ShortestFirst.
const DefaultPatience = 24 * time.Hour

// maxPatience is longer than the longest run time that a job may declare.
const maxPatience = 366 * 24 * time.Hour

// hasOneQueue reports whether the users of the role are not compared. In a role without backfill, jobs start in the order
// of their submission, unless a half-life is set for the shares of its users.
func (r *Role) hasOneQueue(usage *quota.Tracker) bool {
	recent := usage.RecentUsage()
	return r.OneQueue || r.Strict && (recent == nil || recent.WithoutPast[r.Name])
}

// UserLimits returns the limits of a user by the entry of this role.
func (r *Role) UserLimits(user string) *quota.UserLimits {
	e := quota.RoleEntitlement{EachUser: r.EachUser, NamedUsers: r.NamedUsers}
	return e.LimitsOf(user)
}

// HalfLifeOf returns the half-life of a role or of the nearest role above it that has one, 0 if none has.
func HalfLifeOf(roles []Role, role string) time.Duration {
	for name := role; ; {
		if i := slices.IndexFunc(roles, func(r Role) bool { return r.Name == name }); i >= 0 && roles[i].HalfLife > 0 {
			return roles[i].HalfLife
		}
		at := strings.LastIndexByte(name, '/')
		if at < 0 {
			return 0
		}
		name = name[:at]
	}
}

// ValidateHalfLife checks a half-life of the fair share. 0 means none.
func ValidateHalfLife(half time.Duration) error {
	if half != 0 && half < time.Minute {
		return fmt.Errorf("half-life %s is not 0 or at least 1m", half)
	}
	return nil
}

// Entitlements returns the weights and quotas of the roles, in their order.
func Entitlements(roles []Role) []quota.RoleEntitlement {
	list := make([]quota.RoleEntitlement, len(roles))
	for i, r := range roles {
		list[i] = quota.RoleEntitlement{
			Role:         r.Name,
			Weight:       r.Weight,
			Quota:        r.Quota,
			Deserved:     r.Deserved,
			DeservedHost: r.DeservedHost,
			EachUser:     r.EachUser,
			NamedUsers:   r.NamedUsers,
		}
	}
	return list
}

// MesosWeights returns the weights that roles need in Mesos for its offers to follow their shares. It returns nil if no role has a
// weight: the weights in Mesos, which other frameworks share, are then the operator's.
func MesosWeights(roles []Role) map[string]float64 {
	if !slices.ContainsFunc(roles, func(r Role) bool { return r.Weight > 0 }) {
		return nil
	}
	weights := map[string]float64{}
	for _, r := range roles {
		if r.Name != "" {
			weights[r.Name] = cmp.Or(r.Weight, 1)
		}
	}
	return weights
}

// ValidateRoles returns all errors of a table of roles.
func ValidateRoles(roles []Role) error {
	var errs []error
	seen, userRole, groupRole := map[string]bool{}, map[string]string{}, map[string]string{}
	for _, r := range roles {
		for _, user := range r.DefaultFor.Users {
			if other, ok := userRole[user]; ok {
				errs = append(errs, fmt.Errorf("role %q: default_for: user %q has the default role %q already", r.Name, user, other))
			}
			userRole[user] = r.Name
		}
		for _, group := range r.DefaultFor.Groups {
			if other, ok := groupRole[group]; ok {
				errs = append(errs, fmt.Errorf("role %q: default_for: group %q has the default role %q already", r.Name, group, other))
			}
			groupRole[group] = r.Name
		}
		if err := job.ValidateRole(r.Name); err != nil && r.Name != "" {
			errs = append(errs, err)
		}
		if seen[r.Name] {
			errs = append(errs, fmt.Errorf("role %q appears twice", r.Name))
		}
		seen[r.Name] = true
		errs = append(errs, r.validateOrder(), r.validateUserLimits())
		if err := ValidateRetention(r.KeepRuns, r.KeepEnded); err != nil {
			errs = append(errs, fmt.Errorf("role %q: %w", r.Name, err))
		}
		if err := ValidateHalfLife(r.HalfLife); err != nil {
			errs = append(errs, fmt.Errorf("role %q: %w", r.Name, err))
		}
		if err := job.ValidateNotificationRules(r.Notify); err != nil {
			errs = append(errs, fmt.Errorf("role %q: %w", r.Name, err))
		}
		if r.Budget != nil {
			if err := r.Budget.Validate(); err != nil {
				errs = append(errs, fmt.Errorf("role %q: budget: %w", r.Name, err))
			}
		}
		if !(r.Weight >= 0 && r.Weight <= 1e6) {
			errs = append(errs, fmt.Errorf("role %q: weight %g is not between 0 and 1000000", r.Name, r.Weight))
		}
	}
	errs = append(errs, quota.ValidateDeserved(Entitlements(roles)))
	return errors.Join(errs...)
}

func (r *Role) validateUserLimits() error {
	var errs []error
	if r.WaitingJobs < 0 {
		errs = append(errs, fmt.Errorf("role %q: waiting_jobs %d is negative", r.Name, r.WaitingJobs))
	}
	if err := r.EachUser.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("role %q: user: %w", r.Name, err))
	}
	for _, name := range slices.Sorted(maps.Keys(r.NamedUsers)) {
		l := r.NamedUsers[name]
		if err := l.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("role %q: user %q: %w", r.Name, name, err))
		}
	}
	return errors.Join(errs...)
}

// maxKeepRuns limits the runs of a job that are remembered: finding one takes time proportional to their number.
const maxKeepRuns = 1000

// ValidateRetention checks how many runs of a job are remembered, and for how long. 0 means a default.
func ValidateRetention(runs int, age time.Duration) error {
	switch {
	case runs < 0 || runs > maxKeepRuns:
		return fmt.Errorf("keep_runs %d is not between 1 and %d", runs, maxKeepRuns)
	case age < 0:
		return fmt.Errorf("keep_ended %s is negative", age)
	}
	return nil
}

func (r *Role) validateOrder() error {
	switch {
	case r.Order != "" && r.Order != OldestFirst && r.Order != ShortestFirst:
		return fmt.Errorf("role %q: order %q is not one of %s, %s", r.Name, r.Order, OldestFirst, ShortestFirst)
	case r.Patience < 0 || r.Patience > maxPatience:
		return fmt.Errorf("role %q: patience %s is not between 0 and %s", r.Name, r.Patience, maxPatience)
	case r.Patience > 0 && r.Order != ShortestFirst:
		return fmt.Errorf("role %q: patience is for order %s", r.Name, ShortestFirst)
	case r.FitPolicy != "":
		if err := fit.ValidatePolicyName(r.FitPolicy, fit.PolicyNames()); err != nil {
			return fmt.Errorf("role %q: %w", r.Name, err)
		}
	}
	return nil
}

// sortJobs sorts indexes of jobs of this role, oldest first, into placement order: by priority, then by the role's
// order. Jobs that compare equal stay in place.
func (r *Role) sortJobs(now time.Time, jobs []WaitingJob, indexes []int) {
	type position struct {
		priority int
		rank     time.Duration
		index    int
	}
	patience := cmp.Or(r.Patience, DefaultPatience)
	positions := make([]position, len(indexes))
	for n, index := range indexes {
		j := &jobs[index]
		positions[n] = position{priority: j.Spec.Priority, index: index}
		if r.Order == ShortestFirst {
			positions[n].rank = shortestFirstRank(now, patience, j)
		}
	}
	slices.SortFunc(positions, func(a, b position) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.rank, b.rank), cmp.Compare(a.index, b.index))
	})
	for n := range positions {
		indexes[n] = positions[n].index
	}
}

// shortestFirstRank is lower for a job that is placed earlier: below zero for a job that has waited for its patience,
// then its expected run time; jobs without one come last.
func shortestFirstRank(now time.Time, patience time.Duration, j *WaitingJob) time.Duration {
	switch runs := j.ExpectedRunTime(); {
	case !j.Submitted.IsZero() && now.Sub(j.Submitted) >= patience:
		return -1
	case runs > 0:
		return runs
	default:
		return maxPatience
	}
}
