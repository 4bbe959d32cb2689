package quota

import (
	"cmp"
	"strings"
	"testing"

	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// jobOfUser returns a job of a user that is not a gang.
func jobOfUser(name, role, owner string, r gpu.Request) *job.Spec {
	return &job.Spec{Name: name, Role: role, Owner: owner, Request: r, Tasks: 1}
}

// userTracker limits all users of team, ann otherwise than the others, and the users of team/a more than those of team.
func userTracker() *Tracker {
	return NewTracker([]RoleEntitlement{
		{
			Role:       "team",
			EachUser:   UserLimits{GPUs: Quota{AllTypes: 6}, RunningJobs: 2},
			NamedUsers: map[string]UserLimits{"ann": {GPUs: Quota{AllTypes: 4, "V100": 2}}},
		},
		{Role: "team/a", EachUser: UserLimits{GPUs: Quota{AllTypes: 3}, RunningJobs: 1}},
		{Role: "free"},
	}, nil)
}

// A count is 0 for no limit, or between 1 and a million.
func TestUserLimitsAreValidated(t *testing.T) {
	if none := (UserLimits{}); !none.IsZero() || none.Validate() != nil {
		t.Errorf("no limits: zero is %t, %v", none.IsZero(), none.Validate())
	}
	if gpus := (UserLimits{GPUs: Quota{AllTypes: 0}}); gpus.IsZero() {
		t.Error("a limit of no GPUs is no limit")
	}
	for key, limits := range map[string]func(n int) UserLimits{
		"running_jobs":           func(n int) UserLimits { return UserLimits{RunningJobs: n} },
		"waiting_jobs":           func(n int) UserLimits { return UserLimits{WaitingJobs: n} },
		"submissions_per_minute": func(n int) UserLimits { return UserLimits{SubmissionsPerMinute: n} },
	} {
		for n, valid := range map[int]bool{-1: false, 0: true, 1: true, maxUserLimit: true, maxUserLimit + 1: false} {
			l := limits(n)
			if err := l.Validate(); (err == nil) != valid || err != nil && !strings.HasPrefix(err.Error(), key+" ") {
				t.Errorf("%s %d: %v", key, n, err)
			}
			if l.IsZero() != (n == 0) {
				t.Errorf("%s %d: zero is %t", key, n, l.IsZero())
			}
		}
	}
}

// Usage of users is counted only if an entry limits GPUs or running jobs. Without, no limit applies and nothing fails.
func TestUsersAreCountedIfLimited(t *testing.T) {
	for _, c := range []struct {
		name  string
		entry RoleEntitlement
		want  bool
	}{
		{"no limits", RoleEntitlement{Role: "team", Quota: Quota{AllTypes: 1}}, false},
		{"GPUs of each user", RoleEntitlement{Role: "team", EachUser: UserLimits{GPUs: Quota{AllTypes: 1}}}, true},
		{"running jobs of each user", RoleEntitlement{Role: "team", EachUser: UserLimits{RunningJobs: 1}}, true},
		{"GPUs of a named user", RoleEntitlement{Role: "team", NamedUsers: map[string]UserLimits{"ann": {GPUs: Quota{AllTypes: 1}}}}, true},
		{"limits that others apply", RoleEntitlement{Role: "team", EachUser: UserLimits{WaitingJobs: 1, SubmissionsPerMinute: 1}}, false},
	} {
		tracker := NewTracker([]RoleEntitlement{{Role: "other"}, c.entry}, nil)
		if got := tracker.LimitsUsers(); got != c.want {
			t.Errorf("%s: users are limited: %t", c.name, got)
		}
		spec := jobOfUser("j", "free", "ann", requestOf(1))
		tracker.AddUserUsage(spec, map[string]int{"V100": 1}, nil, 1)
		tracker.AddUserMilliGPUs(spec, "V100", 500)
		tracker.AddReservation(spec, map[string]int{"V100": 1}, nil)
		if counted := tracker.AddRunningJob(spec); counted != c.want {
			t.Errorf("%s: the job is counted: %t", c.name, counted)
		}
		tracker.RemoveRunningJob(spec)
		tracker.AddDemand(spec, 2)
		if got := tracker.DemandWithin("free", AllTypes); got != 2000 {
			t.Errorf("%s: the demand in another role is %d, want 2000", c.name, got)
		}
		if tracker.RunningJobsLimit(spec) != nil || tracker.IsBlockedByUser(spec) {
			t.Errorf("%s: a limit applies in another role", c.name)
		}
	}
}

// A user's limits count what the user holds in the role of the entry and in the roles below it. Other users, jobs without
// an owner and other roles do not count.
func TestRestrictToLimitsOfUser(t *testing.T) {
	for _, c := range []struct {
		name, role, user string
		types            []string
		tasks            int
		limit            string // what is said of the limit if no task may start
	}{
		{"type at its limit", "team", "ann", []string{"V100"}, 0, "user ann may hold 2 V100 in role team and holds 2"},
		{"another type", "team", "ann", []string{"T4"}, 1, ""},
		{"all types in the role below", "team/a", "ann", []string{"T4"}, 1, ""},
		{"a user without an entry", "team", "ben", nil, 4, ""},
		{"a user without an entry, in the role below", "team/a", "ben", nil, 1, ""},
		{"a user who holds nothing", "team/a", "eve", nil, 3, ""},
		{"no owner", "team/a", "", nil, job.MaxTasks, ""},
		{"a role without limits", "free", "ann", nil, job.MaxTasks, ""},
		{"a role above the limits", "teams", "ann", nil, job.MaxTasks, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			tracker := userTracker()
			add := func(role, owner string, types map[string]int, shares ...gpu.DeviceShare) {
				spec := jobOfUser("j", role, owner, requestOf(1))
				tracker.AddUserUsage(spec, types, shares, 1)
			}
			add("team", "ann", map[string]int{"V100": 1}, gpu.DeviceShare{Type: "V100", MilliDevices: 500})
			tracker.AddUserMilliGPUs(jobOfUser("j", "team/a", "ann", requestOf(1)), "V100", 500)
			tracker.AddUserMilliGPUs(jobOfUser("j", "team/a", "ann", requestOf(1)), "", 1000)
			add("team/a", "ben", map[string]int{"T4": 2})
			add("team", "", map[string]int{"T4": 9})
			add("free", "ann", map[string]int{"V100": 9})
			add("teams", "ann", map[string]int{"V100": 9})
			tracker.AddUserMilliGPUs(jobOfUser("j", "team", "", requestOf(1)), "V100", 9000)
			_, tasks, limit := tracker.Restrict(User{c.role, c.user}, requestOf(1, c.types...))
			got := ""
			if limit != nil {
				got = limit.describe()
			}
			if tasks != c.tasks || got != c.limit {
				t.Errorf("%d tasks, limited by %q, want %d by %q", tasks, got, c.tasks, c.limit)
			}
			add("team", "ann", map[string]int{"V100": 1}) // and what is removed is free again
			tracker.AddUserUsage(jobOfUser("j", "team", "ann", requestOf(1)), map[string]int{"V100": 1}, nil, -1)
			if _, again, _ := tracker.Restrict(User{c.role, c.user}, requestOf(1, c.types...)); again != c.tasks {
				t.Errorf("%d tasks after usage was added and removed, want %d", again, c.tasks)
			}
		})
	}
}

// What the plan reserves for a user's tasks counts against the user's limits, and in the order of users.
func TestReservationsCountForUser(t *testing.T) {
	tracker := userTracker()
	ann, nobody := jobOfUser("j", "team", "ann", requestOf(1)), jobOfUser("k", "team", "", requestOf(1))
	tracker.AddUserUsage(ann, map[string]int{"V100": 1}, nil, 1)
	tracker.AddReservation(ann, map[string]int{"V100": 1}, nil)
	tracker.AddReservation(nobody, nil, []gpu.DeviceShare{{Type: "V100", MilliDevices: 250}})
	_, tasks, limit := tracker.RestrictJob(ann, requestOf(1, "V100"), 1)
	if tasks != 0 || limit == nil || limit.describe() != "user ann may hold 2 V100 in role team and holds 1, with 1 reserved for the user" {
		t.Errorf("%d tasks by the limit %+v", tasks, limit)
	}
	if _, n := tracker.RestrictClaim(ann, requestOf(1, "V100"), 1); n != 0 {
		t.Errorf("%d more tasks may be reserved for", n)
	}
	if a, n := tracker.UserShare(UserOf(ann), 0, 0), tracker.UserShare(UserOf(nobody), 7, 0); a != 2000 || n != 250 {
		t.Errorf("the users' shares are %g and %g, want 2000 and 250", a, n)
	}
}

// Users of a role are compared by what they hold, or by their recent usage where the role has a half-life.
func TestUserShare(t *testing.T) {
	tracker := NewTracker(nil, nil)
	for _, role := range []string{"past", "present"} {
		tracker.AddUserUsage(jobOfUser("j", role, "ann", requestOf(1)), map[string]int{"V100": 1}, []gpu.DeviceShare{{Type: "T4", MilliDevices: 250}}, 1)
		tracker.AddUserMilliGPUs(jobOfUser("j", role, "ann", requestOf(1)), "", 500)
	}
	if got := tracker.UserShare(User{"past", "ann"}, 1000, 0); got != 1750 {
		t.Errorf("without recent usage: %g, want 1750", got)
	}
	tracker.SetRecentUsage(&RecentUsage{
		Average:     map[User]float64{{"past", "ann"}: 600, {"present", "ann"}: 600},
		Held:        map[User]int{{"past", "ann"}: 2200},
		WithoutPast: map[string]bool{"present": true},
	})
	for role, want := range map[string]float64{"past": 700, "present": 1750} {
		if got := tracker.UserShare(User{role, "ann"}, 1000, 0); got != want {
			t.Errorf("%s: %g, want %g", role, got, want)
		}
	}
}

// A user may run only so many jobs in a role and the roles below it. A job that runs already may start more tasks.
func TestRunningJobsLimit(t *testing.T) {
	for _, c := range []struct {
		name    string
		running []*job.Spec
		spec    *job.Spec
		want    string
	}{
		{"nothing runs", nil, jobOfUser("j", "team", "ben", requestOf(1)), ""},
		{"one below the limit", []*job.Spec{jobOfUser("a", "team", "ben", requestOf(1))}, jobOfUser("j", "team", "ben", requestOf(1)), ""},
		{
			"at the limit",
			[]*job.Spec{jobOfUser("a", "team", "ben", requestOf(1)), jobOfUser("b", "team/a", "ben", requestOf(1))},
			jobOfUser("j", "team", "ben", requestOf(1)), "user ben may run 2 jobs in role team and runs 2",
		},
		{
			"at the limit of the role below", []*job.Spec{jobOfUser("a", "team/a", "ben", requestOf(1))},
			jobOfUser("j", "team/a", "ben", requestOf(1)), "user ben may run 1 job in role team/a and runs 1",
		},
		{"a job that runs", []*job.Spec{jobOfUser("j", "team/a", "ben", requestOf(1))}, jobOfUser("j", "team/a", "ben", requestOf(1)), ""},
		{"jobs of another user", []*job.Spec{jobOfUser("a", "team/a", "eve", requestOf(1))}, jobOfUser("j", "team/a", "ben", requestOf(1)), ""},
		{
			"jobs of other roles",
			[]*job.Spec{jobOfUser("a", "free", "ben", requestOf(1)), jobOfUser("b", "teams", "ben", requestOf(1))},
			jobOfUser("j", "team", "ben", requestOf(1)), "",
		},
		{
			"own limits without one on jobs",
			[]*job.Spec{jobOfUser("a", "team", "ann", requestOf(1)), jobOfUser("b", "team", "ann", requestOf(1))},
			jobOfUser("j", "team", "ann", requestOf(1)), "",
		},
		{"no owner", []*job.Spec{jobOfUser("a", "team/a", "", requestOf(1))}, jobOfUser("j", "team/a", "", requestOf(1)), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			tracker := userTracker()
			for _, spec := range c.running {
				first := tracker.AddRunningJob(spec)
				if second := tracker.AddRunningJob(spec); first != (spec.Owner != "") || second {
					t.Errorf("%s is new: %t, then %t", spec.Name, first, second)
				}
			}
			limit := tracker.RunningJobsLimit(c.spec)
			got := ""
			if limit != nil {
				why := tracker.KeepRest(c.spec, 1, limit)
				if again, never := tracker.Explain(c.spec, 1, limit); again != why || never || why.Needs != "a running job of user "+c.spec.Owner+" to end" {
					t.Errorf("explained as %+v and %+v", why, again)
				}
				got = why.Available
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if blocked := tracker.IsBlockedByUser(c.spec); blocked != (c.want != "") {
				t.Errorf("the job is blocked by its user: %t", blocked)
			}
			for _, spec := range c.running {
				tracker.RemoveRunningJob(spec)
			}
			if tracker.RunningJobsLimit(c.spec) != nil {
				t.Error("a limit applies after the jobs have ended")
			}
		})
	}
}

// A job is blocked by its user if it may start no task, or not all tasks of a gang, because of a limit of the user. Limits
// of roles do not count.
func TestIsBlockedByUser(t *testing.T) {
	gang := func(spec *job.Spec, tasks int) *job.Spec {
		spec.Gang, spec.Tasks = true, tasks
		return spec
	}
	many := func(spec *job.Spec, tasks int) *job.Spec {
		spec.Tasks = tasks
		return spec
	}
	for _, c := range []struct {
		name string
		held int // T4 of the user
		spec *job.Spec
		want bool
	}{
		{"room for one task", 3, jobOfUser("j", "team", "ann", requestOf(1)), false},
		{"no room", 4, jobOfUser("j", "team", "ann", requestOf(1)), true},
		{"too large a task", 3, jobOfUser("j", "team", "ann", requestOf(2)), true},
		{"room for some of the tasks", 3, many(jobOfUser("j", "team", "ann", requestOf(1)), 9), false},
		{"room for a part of a gang", 3, gang(jobOfUser("j", "team", "ann", requestOf(1)), 2), true},
		{"room for a gang", 2, gang(jobOfUser("j", "team", "ann", requestOf(1)), 2), false},
		{"room for a part of a gang of one type", 3, gang(jobOfUser("j", "team", "ann", ofSameType(requestOf(1))), 2), true},
		{"a type at the limit, another one is free", 0, jobOfUser("j", "team", "ann", requestOf(3)), false},
		{"no owner", 9, jobOfUser("j", "team", "", requestOf(1)), false},
		{"the role's quota is used up", 0, jobOfUser("j", "full", "ann", requestOf(1)), false},
		{"the role's quota has room for a part of a gang", 0, gang(jobOfUser("j", "small", "ann", requestOf(1)), 3), false},
		{"the role's quota has room for less than the user's", 0, gang(jobOfUser("j", "both", "ann", requestOf(1)), 4), false},
		{"the user's limit has room for less than the role's", 0, gang(jobOfUser("j", "both", "ben", requestOf(1)), 4), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			tracker := NewTracker([]RoleEntitlement{
				{Role: "team", NamedUsers: map[string]UserLimits{"ann": {GPUs: Quota{AllTypes: 4, "V100": 2}}}},
				{Role: "full", Quota: Quota{AllTypes: 0}, EachUser: UserLimits{GPUs: Quota{AllTypes: 1}}},
				{Role: "small", Quota: Quota{AllTypes: 2}},
				{
					Role: "both", Quota: Quota{AllTypes: 2},
					NamedUsers: map[string]UserLimits{"ann": {GPUs: Quota{AllTypes: 3}}, "ben": {GPUs: Quota{AllTypes: 1}}},
				},
			}, nil)
			tracker.AddUserUsage(jobOfUser("k", "team", cmp.Or(c.spec.Owner, "nobody"), requestOf(1)), map[string]int{"T4": c.held}, nil, 1)
			if got := tracker.IsBlockedByUser(c.spec); got != c.want {
				t.Errorf("blocked: %t, want %t", got, c.want)
			}
		})
	}
}

// A job that waits for a limit of its user names the user, the limit and what the user holds.
func TestExplainLimitOfUser(t *testing.T) {
	tracker := userTracker()
	spec := jobOfUser("j", "team", "ann", requestOf(2, "T4"))
	tracker.AddUserUsage(spec, map[string]int{"T4": 3}, nil, 1)
	_, _, limit := tracker.Restrict(UserOf(spec), spec.Request)
	want := LimitExplanation{Needs: "room in the limit of user ann for 2 more", Available: "user ann may hold 4 GPUs in role team and holds 3"}
	if got := tracker.KeepRest(spec, 1, limit); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if _, tasks, _ := tracker.Restrict(User{"team", "ann"}, requestOf(1, "T4")); tasks != 0 {
		t.Errorf("%d tasks of a later job of the user may start: the rest is kept for the first one", tasks)
	}
	if _, tasks, _ := tracker.Restrict(User{"team", "ben"}, requestOf(1, "T4")); tasks != 6 {
		t.Errorf("%d tasks of another user may start, want 6", tasks)
	}
}

// What the user's limits do not permit is no demand: neither for one job nor for several together, and of each type by
// the limits that count it.
func TestDemandIsWithinLimitsOfUser(t *testing.T) {
	for _, c := range []struct {
		name  string
		held  int // V100 of ann in team
		add   []User
		tasks int
		types []string
		want  map[string]int // of the role team with the roles below it
	}{
		{"within the limits", 0, []User{{"team", "ann"}}, 2, []string{"V100"}, map[string]int{"V100": 2000, AllTypes: 2000}},
		{"above the type's limit", 0, []User{{"team", "ann"}}, 3, []string{"V100"}, map[string]int{"V100": 2000, AllTypes: 3000}},
		{"above both limits", 0, []User{{"team", "ann"}}, 5, []string{"V100"}, map[string]int{"V100": 2000, AllTypes: 4000}},
		{"what is held counts", 1, []User{{"team", "ann"}}, 5, []string{"V100"}, map[string]int{"V100": 1000, AllTypes: 3000}},
		{"held above the limit", 5, []User{{"team", "ann"}}, 5, []string{"V100"}, map[string]int{"V100": 0, AllTypes: 0}},
		{"of two jobs together", 0, []User{{"team", "ann"}, {"team/a", "ann"}}, 3, []string{"T4"}, map[string]int{"T4": 4000, AllTypes: 4000}},
		{"the limit of the role below", 0, []User{{"team/a", "ann"}}, 9, []string{"T4"}, map[string]int{"T4": 3000, AllTypes: 3000}},
		{"other users", 0, []User{{"team", "ann"}, {"team", "ben"}}, 9, []string{"T4"}, map[string]int{"T4": 10000, AllTypes: 10000}},
		{"no owner", 0, []User{{"team", ""}}, 9, []string{"T4"}, map[string]int{"T4": 9000, AllTypes: 9000}},
		{"another role", 0, []User{{"team", "ann"}, {"free", "ann"}}, 4, []string{"T4"}, map[string]int{"T4": 4000, AllTypes: 4000}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tracker := userTracker()
			tracker.entitlements = append(tracker.entitlements, RoleEntitlement{Role: "types", Quota: Quota{"V100": 99, "T4": 99}})
			tracker.AddUserUsage(jobOfUser("j", "team", "ann", requestOf(1)), map[string]int{"V100": c.held}, nil, 1)
			r := requestOf(1, c.types...)
			for _, u := range c.add {
				tracker.AddDemand(&job.Spec{Role: u.Role, Owner: u.Name, Request: r}, c.tasks)
			}
			for gpuType, want := range c.want {
				if got := tracker.DemandWithin("team", gpuType); got != want {
					t.Errorf("%d thousandths of %s are demanded, want %d", got, gpuType, want)
				}
			}
		})
	}
}
