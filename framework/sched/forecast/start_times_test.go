package forecast

import (
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"mesos-gpu/framework/sched/prediction"
)

func anyType(string) bool { return true }

func exact(d time.Duration) prediction.Prediction { return prediction.Exact(d) }

// TestStartsFollowEndsOfTasks: with known run times the estimates are exact: jobs start when tasks end, a gang when
// enough have ended, and a job for a type of GPU when one of that type is free.
func TestStartsFollowEndsOfTasks(t *testing.T) {
	in := Input{
		Agents: []Agent{{ID: "a", GPUType: "A100", Free: 0}, {ID: "b", GPUType: "V100", Free: 0}},
		Running: []OccupyingTask{
			{Agent: 0, Milli: 4000, Ran: time.Hour, RunTime: exact(2 * time.Hour)},
			{Agent: 0, Milli: 4000, RunTime: exact(3 * time.Hour)},
			{Agent: 1, Milli: 1000, EndsIn: 10 * time.Second},
		},
		Waiting: []WaitingJob{
			{Name: "gang", Tasks: 2, Milli: 4000, Gang: true, AcceptsType: anyType, RunTime: exact(time.Hour)},
			{Name: "small", Tasks: 1, Milli: 1000, AcceptsType: anyType, TypesKey: "any", RunTime: exact(time.Minute)},
			{Name: "a100", Tasks: 1, Milli: 1000, AcceptsType: func(s string) bool { return s == "A100" }, TypesKey: "A100", RunTime: exact(4 * time.Hour)},
			{Name: "never", Tasks: 1, Milli: 9000, AcceptsType: anyType, TypesKey: "any", RunTime: exact(time.Hour)},
		},
	}
	got := in.Starts()
	for name, want := range map[string]time.Duration{"small": 10 * time.Second, "a100": time.Hour, "gang": 5 * time.Hour} {
		if e := got[name]; e.Expected != want {
			t.Errorf("%s starts after %+v, want %s", name, e, want)
		}
	}
	if _, ok := got["never"]; ok {
		t.Errorf("a job that never fits starts after %+v", got["never"])
	}
}

// TestStartsOnSharedGPUs: only agents with shared GPUs count for jobs that take parts of GPUs.
func TestStartsOnSharedGPUs(t *testing.T) {
	in := Input{
		Agents:  []Agent{{ID: "whole", Free: 4000}, {ID: "shared", HasShared: true}},
		Running: []OccupyingTask{{Agent: 1, Milli: 500, EndsIn: time.Minute}},
		Waiting: []WaitingJob{
			{Name: "part", Tasks: 1, Milli: 300, AcceptsType: anyType, NeedsShared: true, RunTime: exact(time.Hour)},
			{Name: "whole", Tasks: 1, Milli: 1000, AcceptsType: anyType, RunTime: exact(time.Hour)},
		},
	}
	if got := in.Starts(); got["part"].Expected != time.Minute || got["whole"].Expected != 0 {
		t.Errorf("got %+v", got)
	}
	in.Agents, in.Running = in.Agents[:1], nil
	if e, ok := in.Starts()["part"]; ok {
		t.Errorf("without an agent that shares GPUs the job starts after %+v", e)
	}
}

// TestStartsRespectRoom: a role at its limit starts no job until one of its own tasks ends.
func TestStartsRespectRoom(t *testing.T) {
	in := Input{
		Agents:  []Agent{{Free: 4000}},
		Running: []OccupyingTask{{Role: "r", Milli: 1000, RunTime: exact(time.Hour)}},
		Waiting: []WaitingJob{
			{Name: "j", Role: "r", Tasks: 1, Milli: 1000, AcceptsType: anyType, RunTime: exact(time.Hour)},
			{Name: "k", Role: "s", Tasks: 1, Milli: 1000, AcceptsType: anyType, RunTime: exact(time.Hour)},
		},
		RoleRoom: map[string]int{"r": 0},
	}
	if got := in.Starts(); got["j"].Expected != time.Hour || got["k"].Expected != 0 {
		t.Errorf("got %+v", got)
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
			in.Agents = append(in.Agents, Agent{Free: rapid.IntRange(0, 4).Draw(t, "free") * 1000})
		}
		for range rapid.IntRange(0, 8).Draw(t, "running") {
			in.Running = append(in.Running, OccupyingTask{
				Agent:   rapid.IntRange(0, len(in.Agents)-1).Draw(t, "agent"),
				Milli:   1000,
				Ran:     duration.Draw(t, "ran"),
				RunTime: runs.Draw(t, "total"),
				Endless: rapid.Bool().Draw(t, "endless"),
			})
		}
		for i := range rapid.IntRange(1, 6).Draw(t, "waiting") {
			in.Waiting = append(in.Waiting, WaitingJob{
				Name:        string(rune('a' + i)),
				Tasks:       rapid.IntRange(1, 3).Draw(t, "tasks"),
				Milli:       rapid.SampledFrom([]int{500, 1000, 2000}).Draw(t, "milli"),
				Gang:        rapid.Bool().Draw(t, "gang"),
				AcceptsType: anyType,
				RunTime:     runs.Draw(t, "run"),
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
