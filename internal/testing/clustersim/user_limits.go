package clustersim

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/job"
)

// groupRole is a role below role. Only worlds whose jobs have owners have it.
const groupRole = role + "/vision"

// limitedUsers own the jobs of worlds with limits of users or budgets. No limit applies to jobs without an owner.
var limitedUsers = []string{"ann", "ben"}

// userLimits contains the limits of users by role. The limits of the user "" apply to the users without an entry.
type userLimits map[string]map[string]quota.UserLimits

// hasOwners reports whether jobs have owners.
func (p *plan) hasOwners() bool { return p.limitsUsers || p.budgets || p.readers }

// of returns what limits a user in the entry of a role.
func (l userLimits) of(user, role string) quota.UserLimits {
	if own, ok := l[role][user]; ok {
		return own
	}
	return l[role][""]
}

// setIn sets the limits in the scheduler's settings of a role.
func (l userLimits) setIn(r *queue.Role) {
	for user, limits := range l[r.Name] {
		if user == "" {
			r.EachUser = limits
			continue
		}
		if r.NamedUsers == nil {
			r.NamedUsers = map[string]quota.UserLimits{}
		}
		r.NamedUsers[user] = limits
	}
}

// newUserRandom returns the source of owners and of limits of users. Worlds without limits draw nothing from it.
func newUserRandom(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0x7573657273)) }

// drawOwner gives a job an owner, and moves some to the role below.
func drawOwner(r *rand.Rand, s *job.Spec) {
	if i := r.IntN(2*len(limitedUsers) + 1); i > 0 {
		s.Owner = limitedUsers[i%len(limitedUsers)]
	}
	if s.Role == role && r.IntN(3) == 0 {
		s.Role = groupRole
	}
}

// drawUserLimits draws limits within which each job can run alone, beside all services of its user, which do not end.
func (load *workload) drawUserLimits(r *rand.Rand) {
	limits := userLimits{}
	for _, name := range load.world.roles() {
		limits[name] = map[string]quota.UserLimits{}
		for _, user := range append([]string{""}, limitedUsers...) {
			gpus, services := load.needsOf(user, name)
			l := quota.UserLimits{}
			if r.IntN(3) > 0 {
				l.GPUs = quota.Quota{[]string{quota.AllTypes, "V100"}[r.IntN(2)]: gpus + r.IntN(3)}
			}
			if r.IntN(2) == 0 {
				l.RunningJobs = services + 1 + r.IntN(2)
			}
			if user == "" || r.IntN(3) == 0 {
				limits[name][user] = l
			}
		}
	}
	load.limits = limits
}

// needsOf returns the most GPUs that one job of a user holds at once, at least 1, and the number of the user's services,
// in a role and the roles below it. The user "" stands for all users.
func (load *workload) needsOf(user, name string) (gpus, services int) {
	gpus = 1
	for _, j := range load.jobs {
		s := &j.spec
		if user != "" && s.Owner != user || !isWithin(s.Role, name) {
			continue
		}
		need := s.Request.GPUs
		if s.Gang {
			need *= s.Tasks
		}
		gpus = max(gpus, need)
		if s.Service != nil {
			services++
		}
	}
	return gpus, services
}

// isWithin reports whether a role is another one or below it. The checks do not share the scheduler's functions.
func isWithin(name, parent string) bool { return strings.HasPrefix(name+"/", parent+"/") }

// checkUserLimits checks that each user holds no more GPUs than the limits of each role allow, and runs no more jobs.
func (inv *invariants) checkUserLimits() {
	w := inv.world
	for name := range w.users.limits {
		for _, user := range limitedUsers {
			limits := w.users.limits.of(user, name)
			held, running := inv.usageOf(user, name)
			for gpuType, most := range limits.GPUs {
				switch milli := held[gpuType]; {
				case milli > 1000*most:
					w.failf("user %s holds %d thousandths of %s in role %s, the limit is %d", user, milli, gpuType, name, 1000*most)
				case milli == 1000*most:
					w.LimitsReached++
				}
			}
			switch most := limits.RunningJobs; {
			case most == 0:
			case running > most:
				w.failf("user %s runs %d jobs in role %s, the limit is %d", user, running, name, most)
			case running == most:
				w.LimitsReached++
			}
		}
	}
}

// limitReasonsEvery is the number of turns between two looks at the reasons why jobs wait for their user's limits.
const limitReasonsEvery = 64

// checkLimitReasons checks that jobs wait for a user's limit because of what the user holds or runs.
func (inv *invariants) checkLimitReasons() {
	w := inv.world
	if w.users.limits == nil || inv.turns%limitReasonsEvery != 0 {
		return
	}
	for run, reason := range inv.state.PendingReasons() {
		if reason.BlockedBy != placement.BlockedByQuota {
			continue // what goes first is what the last plan has found
		}
		// For example "user ann may run 2 jobs in role batch and runs 2", or "may hold 2 V100 in role batch and holds 2".
		words := strings.FieldsFunc(reason.Text(), func(r rune) bool { return strings.ContainsRune(" ,;", r) })
		at := slices.Index(words, "may")
		if at < 2 || len(words) < at+10 || words[at-2] != "user" || words[at+7] != "and" {
			continue
		}
		held, running := inv.usageOf(words[at-1], words[at+6])
		truth, unit := float64(running), words[at+3]
		switch {
		case words[at+1] == "run":
		case strings.HasPrefix(unit, "GPU"):
			truth = float64(held[quota.AllTypes]) / quota.MilliPerGPU
		default:
			truth = float64(held[unit]) / quota.MilliPerGPU
		}
		if shown, err := strconv.ParseFloat(words[at+9], 64); err != nil || shown != truth {
			w.failf("%s waits for %q, the user has %g", run, reason.Text(), truth)
		}
	}
}

// usageOf returns the thousandths of GPUs that placed tasks of a user hold in a role and the roles below it, by type and
// for all types, and the number of the user's jobs with placed tasks.
func (inv *invariants) usageOf(user, name string) (held map[string]int, running int) {
	held = map[string]int{}
	for run, tasks := range inv.tasks {
		j := inv.world.users.jobs[run.Name]
		if j == nil || j.spec.Owner != user || !isWithin(j.spec.Role, name) {
			continue
		}
		placed := false
		for _, t := range tasks {
			if !t.State.IsPlaced() {
				continue
			}
			placed = true
			held[quota.AllTypes] += milliGPUs(&t)
			for gpuType, n := range t.GPUTypes {
				held[gpuType] += 1000 * n
			}
			for _, s := range t.Shares {
				held[s.Type] += s.MilliDevices
			}
		}
		if placed {
			running++
		}
	}
	return held, running
}
