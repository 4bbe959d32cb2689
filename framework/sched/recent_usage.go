package sched

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// usagePrefix, followed by a role, a space and a user, is the key of what the user's ended tasks have used.
const usagePrefix = reservedPrefix + "usage/"

// usedGPUs is the usage of the ended tasks of a user in a role, as it counted at one time. GPU seconds count half after
// each half-life since.
type usedGPUs struct {
	Role       string    `json:"role"`
	User       string    `json:"user,omitempty"`
	GPUSeconds float64   `json:"gpu_seconds"`
	At         time.Time `json:"at"`
}

// usageLedger has the usage of ended tasks. It is kept only while fair share has a half-life.
type usageLedger struct {
	byUser map[quota.User]usedGPUs
	// prunedAt is when users without usage were last forgotten.
	prunedAt time.Time
}

// decay returns the part of usage that counts after some time.
func decay(age, halfLife time.Duration) float64 {
	return math.Exp2(-float64(max(age, 0)) / float64(halfLife))
}

// decayedSeconds returns what a second of each moment counts that a task has run for some time until now.
func decayedSeconds(runs, halfLife time.Duration) float64 {
	return halfLife.Seconds() / math.Ln2 * (1 - decay(runs, halfLife))
}

// restoreUsage reads the usage of ended tasks from the documents.
func (s *State) restoreUsage() {
	s.used = usageLedger{byUser: map[quota.User]usedGPUs{}}
	for key, value := range s.documents[reservedPrefix] {
		var u usedGPUs
		if strings.HasPrefix(key, usagePrefix) && json.Unmarshal(value, &u) == nil {
			s.used.byUser[quota.User{Role: u.Role, Name: u.User}] = u
		}
	}
}

// milliGPUsOf returns the GPUs that a placed task holds, in thousandths.
func milliGPUsOf(t *job.Task, spec *job.Spec) (milli int) {
	unshared, _ := gpu.ExcludeShared(spec.Request.GPUs, nil, t.Shares)
	milli = unshared * quota.MilliPerGPU
	for i := range t.Shares {
		milli += t.Shares[i].MilliDevices
	}
	return milli
}

// recordUsage adds what a task has used that gives up its place.
func (s *State) recordUsage(ref taskRef) {
	t := ref.get()
	spec := ref.job.SpecOf(t)
	half := s.halfLifeOf(spec.Role)
	milli := milliGPUsOf(t, spec)
	if half <= 0 || milli == 0 || t.Launched.IsZero() {
		return
	}
	key := quota.User{Role: spec.Role, Name: spec.Owner}
	u := s.used.byUser[key]
	u.Role, u.User = key.Role, key.Name
	u.GPUSeconds = u.GPUSeconds*decay(s.now.Sub(u.At), half) + float64(milli)/quota.MilliPerGPU*decayedSeconds(s.now.Sub(t.Launched), half)
	u.At = s.now
	s.used.byUser[key] = u
	s.writeJSONDocument(usageKey(key), u)
	s.pruneUsage(half)
}

func usageKey(u quota.User) string { return usagePrefix + u.Role + " " + u.Name }

// pruneUsage forgets, at most once in a half-life, users whose ended tasks count less than a GPU second, or whose role has
// no half-life any more.
func (s *State) pruneUsage(half time.Duration) {
	if s.now.Sub(s.used.prunedAt) < half {
		return
	}
	s.used.prunedAt = s.now
	for _, key := range slices.SortedFunc(maps.Keys(s.used.byUser), quota.User.Compare) {
		u, own := s.used.byUser[key], s.halfLifeOf(key.Role)
		if own <= 0 || u.GPUSeconds*decay(s.now.Sub(u.At), own) < 1 {
			delete(s.used.byUser, key)
			s.writeDocument(usageKey(key), nil)
		}
	}
}

// halfLifeOf returns the half-life of a role: its own, that of the nearest role above with one, or else that of the
// settings. 0 means that only what its tasks hold counts.
func (s *State) halfLifeOf(role string) time.Duration {
	if half := queue.HalfLifeOf(s.cfg.Policy.Roles, role); half > 0 {
		return half
	}
	return s.cfg.HalfLife
}

// HasHalfLife reports whether the past counts for any role.
func (s *State) HasHalfLife() bool {
	return s.cfg.HalfLife > 0 || slices.ContainsFunc(s.cfg.Policy.Roles, func(r queue.Role) bool { return r.HalfLife > 0 })
}

// RecentUsage returns what users have used of late, nil if fair share has no half-life.
func (s *State) RecentUsage() *quota.RecentUsage {
	if !s.HasHalfLife() {
		return nil
	}
	r := &quota.RecentUsage{Average: map[quota.User]float64{}, Held: map[quota.User]int{}, WithoutPast: map[string]bool{}}
	halves := map[string]time.Duration{}
	halfOf := func(role string) time.Duration {
		half, known := halves[role]
		if !known {
			half = s.halfLifeOf(role)
			halves[role] = half
		}
		return half
	}
	for i := range s.cfg.Policy.Roles {
		if role := s.cfg.Policy.Roles[i].Name; halfOf(role) <= 0 {
			r.WithoutPast[role] = true
		}
	}
	seconds := make(map[quota.User]float64, len(s.used.byUser))
	for key, u := range s.used.byUser {
		if half := halfOf(key.Role); half > 0 {
			seconds[key] = u.GPUSeconds * decay(s.now.Sub(u.At), half)
		}
	}
	refs := slices.SortedFunc(s.placedTasks(), func(a, b taskRef) int { return strings.Compare(a.get().ID, b.get().ID) }) // sums depend on their order
	for _, ref := range refs {
		t := ref.get()
		spec := ref.job.SpecOf(t)
		milli := milliGPUsOf(t, spec)
		if milli == 0 {
			continue
		}
		key := quota.User{Role: spec.Role, Name: spec.Owner}
		r.Held[key] += milli
		if half := halfOf(spec.Role); half > 0 {
			seconds[key] += float64(milli) / quota.MilliPerGPU * decayedSeconds(s.now.Sub(t.Launched), half)
		} else {
			r.Average[key] += float64(milli) // the limit for a half-life of 0
		}
	}
	for key, n := range seconds {
		r.Average[key] = n * quota.MilliPerGPU / (halfOf(key.Role).Seconds() / math.Ln2)
	}
	return r
}
