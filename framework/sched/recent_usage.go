package sched

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/job"
)

// usagePrefix, followed by a role, a space and a user, is the key of what the user's ended tasks have used.
const usagePrefix = reservedPrefix + "usage/"

// usedGPUs is what the ended tasks of a user in a role have used, as it counted at one time. GPU seconds count half after
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
	if len(t.Shares) == 0 {
		return spec.Request.GPUs * quota.MilliPerGPU
	}
	for i := range t.Shares {
		milli += t.Shares[i].MilliDevices
	}
	return milli
}

// recordUsage adds what a task has used that gives up its place.
func (s *State) recordUsage(ref taskRef) {
	half, t, spec := s.cfg.HalfLife, ref.get(), &ref.job.Spec
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
	s.pruneUsage()
}

func usageKey(u quota.User) string { return usagePrefix + u.Role + " " + u.Name }

// pruneUsage forgets, once in each half-life, users whose ended tasks count less than a GPU second.
func (s *State) pruneUsage() {
	if s.now.Sub(s.used.prunedAt) < s.cfg.HalfLife {
		return
	}
	s.used.prunedAt = s.now
	for _, key := range slices.SortedFunc(maps.Keys(s.used.byUser), quota.User.Compare) {
		if u := s.used.byUser[key]; u.GPUSeconds*decay(s.now.Sub(u.At), s.cfg.HalfLife) < 1 {
			delete(s.used.byUser, key)
			s.writeDocument(usageKey(key), nil)
		}
	}
}

// RecentUsage returns what users have used of late, nil if fair share has no half-life.
func (s *State) RecentUsage() *quota.RecentUsage {
	half := s.cfg.HalfLife
	if half <= 0 {
		return nil
	}
	seconds := make(map[quota.User]float64, len(s.used.byUser))
	for key, u := range s.used.byUser {
		seconds[key] = u.GPUSeconds * decay(s.now.Sub(u.At), half)
	}
	r := &quota.RecentUsage{Average: map[quota.User]float64{}, Held: map[quota.User]int{}}
	refs := slices.SortedFunc(s.placedTasks(), func(a, b taskRef) int { return strings.Compare(a.get().ID, b.get().ID) }) // sums depend on their order
	for _, ref := range refs {
		t, spec := ref.get(), &ref.job.Spec
		if milli := milliGPUsOf(t, spec); milli > 0 {
			key := quota.User{Role: spec.Role, Name: spec.Owner}
			seconds[key] += float64(milli) / quota.MilliPerGPU * decayedSeconds(s.now.Sub(t.Launched), half)
			r.Held[key] += milli
		}
	}
	for key, n := range seconds {
		r.Average[key] = n * quota.MilliPerGPU / (half.Seconds() / math.Ln2)
	}
	return r
}
