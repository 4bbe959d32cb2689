package forecast

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"mesos-gpu/framework/sched/prediction"
	"mesos-gpu/job"
)

func exact(d time.Duration) prediction.Prediction { return prediction.Exact(d) }

// gpus is an amount of whole GPUs.
func gpus(n int64) Resources { return Resources{WholeGPUs: 1000 * n} }

// onAll accepts n agents.
func onAll(n int) []bool { return slices.Repeat([]bool{true}, n) }

// waiting returns a job with one task that takes whole GPUs on any of two agents.
func waiting(name string, n int64, runs time.Duration) WaitingJob {
	return WaitingJob{
		Run: job.RunID{Name: name}, Tasks: 1, Needs: gpus(n), Milli: int(1000 * n), Accepts: onAll(2), DemandKey: fmt.Sprint(n), RunTime: exact(runs),
		Announced: runs, HasPlace: true,
	}
}

// requireStarts compares the expected waits of jobs; -1 is for a job without an estimate.
func requireStarts(t *testing.T, in *Input, want map[string]time.Duration) {
	t.Helper()
	got := in.Starts()
	for name, d := range want {
		if e, ok := got[job.RunID{Name: name}]; ok != (d >= 0) || ok && e.Expected != d {
			t.Errorf("%s starts after %+v (%v), want %s", name, e, ok, d)
		}
	}
}

// TestStartsFollowEndsOfTasks: with known run times the estimates are exact: jobs start when tasks end, a gang when
// enough have ended, and a job for one agent when there is room.
func TestStartsFollowEndsOfTasks(t *testing.T) {
	in := Input{
		Agents: []Agent{{Host: "a"}, {Host: "b"}},
		Running: []OccupyingTask{
			{Agent: 0, Holds: gpus(4), Ran: time.Hour, RunTime: exact(2 * time.Hour)},
			{Agent: 0, Holds: gpus(4), RunTime: exact(3 * time.Hour)},
			{Agent: 1, Holds: gpus(1), EndsIn: 10 * time.Second},
		},
	}
	gang := waiting("gang", 4, time.Hour)
	gang.Tasks, gang.Gang, gang.DemandKey = 2, true, "gang"
	onA := waiting("on a", 1, 4*time.Hour)
	onA.Accepts, onA.DemandKey, onA.Role = []bool{true, false}, "a", "other"
	in.Waiting = []WaitingJob{gang, waiting("small", 1, time.Minute), onA, waiting("never", 9, time.Hour)}
	requireStarts(t, &in, map[string]time.Duration{"small": 10 * time.Second, "on a": time.Hour, "gang": 5 * time.Hour, "never": -1})
	got := in.Starts()
	for name, want := range map[string][]string{"small": {"b"}, "on a": {"a"}, "gang": {"a"}} {
		if !slices.Equal(got[job.RunID{Name: name}].Agents, want) {
			t.Errorf("%s starts on %q, want %q", name, got[job.RunID{Name: name}].Agents, want)
		}
	}
}

// TestStartsNeedAllResources: CPUs, memory and shared GPUs count like whole GPUs, also for tasks without GPUs.
func TestStartsNeedAllResources(t *testing.T) {
	in := Input{
		Agents: []Agent{{Free: Resources{WholeGPUs: 4000, CPUs: 1000}}, {Free: Resources{CPUs: 1000}}},
		Running: []OccupyingTask{
			{Agent: 0, Holds: Resources{CPUs: 4000}, RunTime: exact(time.Hour)},
			{Agent: 1, Holds: Resources{CPUs: 1000, SharedGPUs: 500}, EndsIn: time.Minute},
		},
	}
	for i, needs := range []Resources{{WholeGPUs: 1000, CPUs: 2000}, {SharedGPUs: 300}, {CPUs: 2000}, {WholeGPUs: 1000}} {
		in.Waiting = append(in.Waiting, WaitingJob{
			Run: job.RunID{Name: fmt.Sprint(i)}, Role: fmt.Sprint(i), Tasks: 1, Needs: needs, Accepts: onAll(2), DemandKey: fmt.Sprint(needs), RunTime: exact(time.Hour), HasPlace: true,
		})
	}
	requireStarts(t, &in, map[string]time.Duration{"0": time.Hour, "1": time.Minute, "2": time.Minute, "3": 0})
}

// TestStartsRespectRoom: a role at its limit starts no job until one of its own tasks ends.
func TestStartsRespectRoom(t *testing.T) {
	j, k := waiting("j", 1, time.Hour), waiting("k", 1, time.Hour)
	j.Role, k.Role = "r", "s"
	in := Input{
		Agents:   []Agent{{Free: gpus(4)}, {}},
		Running:  []OccupyingTask{{Role: "r", Holds: gpus(1), Milli: 1000, RunTime: exact(time.Hour)}},
		Waiting:  []WaitingJob{j, k},
		RoleRoom: map[string]int{"r": 0},
	}
	requireStarts(t, &in, map[string]time.Duration{"j": time.Hour, "k": 0})
}

// TestStartsOnlyWhereTheModelKnowsAll: a job that would start now although the scheduler finds no place for it lacks what
// the model does not know, and has no estimate. Neither has a job with other needs, unless it has a place now.
func TestStartsOnlyWhereTheModelKnowsAll(t *testing.T) {
	blocked, port, portNow := waiting("blocked", 1, time.Hour), waiting("port", 2, time.Hour), waiting("port now", 1, time.Hour)
	blocked.HasPlace, blocked.DemandKey = false, "blocked"
	port.NeedsMore, port.HasPlace, port.DemandKey = true, false, "port"
	portNow.NeedsMore, portNow.DemandKey = true, "port now"
	in := Input{
		Agents:  []Agent{{Free: gpus(1)}, {}},
		Running: []OccupyingTask{{Holds: gpus(4), EndsIn: time.Minute}},
		Waiting: []WaitingJob{blocked, port, portNow, waiting("next", 4, time.Hour)},
	}
	requireStarts(t, &in, map[string]time.Duration{"blocked": -1, "port": -1, "port now": 0, "next": time.Minute})
}

// TestStartsRespectReservations: a job behind the head of its role starts before it only if it ends in time or leaves what
// is reserved; the head has the time of its reservation, if that is earlier.
func TestStartsRespectReservations(t *testing.T) {
	gang := waiting("gang", 4, time.Hour)
	gang.Tasks, gang.Gang, gang.DemandKey = 2, true, "gang"
	in := Input{
		Agents:  []Agent{{Free: gpus(4)}, {Free: gpus(1)}},
		Running: []OccupyingTask{{Agent: 1, Holds: gpus(4), RunTime: exact(time.Hour)}},
		Waiting: []WaitingJob{gang, waiting("short", 1, time.Minute), waiting("long", 2, 10*time.Hour)},
	}
	in.Waiting[2].DemandKey = "long"
	extra := waiting("extra", 1, 10*time.Hour)
	extra.DemandKey, extra.Accepts = "extra", []bool{false, true}
	in.Waiting = append(in.Waiting, extra)
	requireStarts(t, &in, map[string]time.Duration{"gang": time.Hour, "short": 0, "long": 2 * time.Hour, "extra": time.Minute})
	in.StrictRoles = map[string]bool{"": true}
	requireStarts(t, &in, map[string]time.Duration{"gang": time.Hour, "short": time.Hour, "long": 2 * time.Hour})
	in.Waiting[0].StartsBy = time.Minute
	requireStarts(t, &in, map[string]time.Duration{"gang": time.Minute})
}

// TestStartsLimitTasksOnOneAgent: a gang with one task on each agent waits for a second agent.
func TestStartsLimitTasksOnOneAgent(t *testing.T) {
	gang := waiting("gang", 1, time.Hour)
	gang.Tasks, gang.Gang, gang.PerAgent = 2, true, 1
	in := Input{
		Agents:  []Agent{{Host: "a", Free: gpus(4)}, {Host: "b"}},
		Running: []OccupyingTask{{Agent: 1, Holds: gpus(4), RunTime: exact(time.Hour)}},
		Waiting: []WaitingJob{gang},
	}
	requireStarts(t, &in, map[string]time.Duration{"gang": time.Hour})
	if got := in.Starts()[job.RunID{Name: "gang"}].Agents; !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("it starts on %q", got)
	}
}

// TestBoundsContainEachOther: the bounds are ordered, equal inputs give equal estimates, and no input is changed.
func TestBoundsContainEachOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		duration := rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.IntRange(1, 10_000).Draw(t, "seconds")) * time.Second
		})
		runs := rapid.Custom(func(t *rapid.T) prediction.Prediction { return exact(duration.Draw(t, "run")) })
		in := Input{}
		for range rapid.IntRange(1, 4).Draw(t, "agents") {
			in.Agents = append(in.Agents, Agent{Free: gpus(rapid.Int64Range(0, 4).Draw(t, "free"))})
		}
		for range rapid.IntRange(0, 8).Draw(t, "running") {
			in.Running = append(in.Running, OccupyingTask{
				Agent:   rapid.IntRange(0, len(in.Agents)-1).Draw(t, "agent"),
				Holds:   gpus(1),
				Ran:     duration.Draw(t, "ran"),
				RunTime: runs.Draw(t, "total"),
				Endless: rapid.Bool().Draw(t, "endless"),
			})
		}
		for i := range rapid.IntRange(1, 6).Draw(t, "waiting") {
			in.Waiting = append(in.Waiting, WaitingJob{
				DemandKey:  fmt.Sprint(i),
				Run:        job.RunID{Name: string(rune('a' + i))},
				Tasks:      rapid.IntRange(1, 3).Draw(t, "tasks"),
				Needs:      Resources{WholeGPUs: rapid.SampledFrom([]int64{500, 1000, 2000}).Draw(t, "milli")},
				Gang:       rapid.Bool().Draw(t, "gang"),
				Accepts:    onAll(len(in.Agents)),
				PerAgent:   rapid.IntRange(0, 2).Draw(t, "per agent"),
				RunTime:    runs.Draw(t, "run"),
				Announced:  duration.Draw(t, "announced"),
				HasPlace:   rapid.Bool().Draw(t, "has place"),
				IsHeldBack: rapid.Bool().Draw(t, "is held back"),
			})
		}
		first := in.Starts()
		if again := in.Starts(); !reflect.DeepEqual(first, again) {
			t.Fatalf("equal inputs gave %v and %v", first, again)
		}
		for name, e := range first {
			if e.Low90 < 0 || e.Low90 > e.Low50 || e.Low50 > e.Expected || e.Expected > e.High50 || e.High50 > e.High90 {
				t.Fatalf("%s: bounds %+v are not ordered", name, e)
			}
		}
	})
}
