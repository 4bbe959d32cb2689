package queue

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// waitingJobs reads lines NAME ROLE PRIORITY RUN_TIME WAITED, in the order of submission. WAITED is how long before noon
// the job was submitted.
func waitingJobs(t *testing.T, lines ...string) []WaitingJob {
	t.Helper()
	var list []WaitingJob
	for _, line := range lines {
		words := strings.Fields(line)
		s := &job.Spec{Name: words[0], Role: words[1], Priority: len(words[2]) - 1} // "-" is 0, "--" is 1
		runs, err := time.ParseDuration(words[3])
		if err != nil {
			t.Fatal(err)
		}
		waited, err := time.ParseDuration(words[4])
		if err != nil {
			t.Fatal(err)
		}
		s.RunTime = runs
		list = append(list, WaitingJob{Spec: s, Submitted: noon().Add(-waited)})
	}
	return list
}

func noon() time.Time { return time.Unix(1_700_000_000, 0) }

func TestJobOrder(t *testing.T) {
	shortest := []Role{{Name: "a", Order: ShortestFirst, Patience: time.Hour}}
	for _, c := range []struct {
		name  string
		roles []Role
		held  map[string]int // GPUs
		jobs  []string
		gets  int // GPUs that each job receives
		want  string
	}{
		{"oldest first", nil, nil, []string{"one a - 1h 3h", "two a - 1m 2h", "three a - 0 1h"}, 0, "one two three"},
		{"priority first", nil, nil, []string{"low a - 0 3h", "high a -- 0 2h", "highest a --- 0 1h", "high2 a -- 0 1h"}, 0, "highest high high2 low"},
		{"shortest first, unknown run times last", shortest, nil,
			[]string{"unknown a - 0 3m", "long a - 2h 2m", "short a - 1h 1m", "unknown2 a - 0 1m", "short2 a - 1h 1m"}, 0,
			"short short2 long unknown unknown2"},
		{"priority before run time", shortest, nil, []string{"short a - 1h 2m", "high a -- 9h 1m"}, 0, "high short"},
		{"a job that waited for its patience is first", shortest, nil, []string{"old a - 9h 1h", "younger a - 8h 59m", "short a - 1h 1m"}, 0, "old short younger"},
		{"default patience of a day", []Role{{Name: "a", Order: ShortestFirst}}, nil,
			[]string{"old a - 9h 24h", "younger a - 8h 23h", "short a - 1h 1m"}, 0, "old short younger"},
		{"role with the least share first", nil, map[string]int{"a": 2, "b": 1},
			[]string{"a1 a - 0 3h", "b1 b - 0 2h", "a2 a - 0 1h", "c1 c - 0 1h"}, 0, "c1 b1 a1 a2"},
		{"share divided by weight", []Role{{Name: "a", Weight: 4}, {Name: "b"}}, map[string]int{"a": 2, "b": 1}, []string{"b1 b - 0 2h", "a1 a - 0 3h"}, 0, "a1 b1"},
		{"equal shares by name", nil, nil, []string{"b1 b - 0 2h", "a1 a - 0 3h", "b2 b - 0 1h"}, 0, "a1 b1 b2"},
		{"what a job receives counts at once", nil, nil, []string{"a1 a - 0 3h", "a2 a - 0 2h", "b1 b - 0 1h", "b2 b - 0 1h"}, 1, "a1 b1 a2 b2"},
		{"jobs of one role apart in the queue", nil, nil, []string{"a1 a - 0 3h", "b1 b - 0 2h", "a2 a -- 0 1h"}, 0, "a2 a1 b1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			usage := quota.NewTracker(Entitlements(c.roles), nil)
			for role, gpus := range c.held {
				usage.AddUsage(role, map[string]int{"V100": gpus}, nil, 1)
			}
			var got []string
			order := NewJobOrder(noon(), waitingJobs(t, c.jobs...), c.roles, usage)
			for j, ok := order.Next(); ok; j, ok = order.Next() {
				got = append(got, j.Spec.Name)
				usage.AddUsage(j.Spec.Role, map[string]int{"V100": c.gets}, nil, 1)
			}
			if text := strings.Join(got, " "); text != c.want {
				t.Errorf("got %s, want %s", text, c.want)
			}
		})
	}
}

// The users of a role take turns: the one with the least share is next, of jobs with equal priority. The share is what they
// hold, or their recent usage. A role with one queue does not compare users.
func TestJobOrderOfUsers(t *testing.T) {
	jobs := waitingJobs(t, "a1 r - 0 9h", "a2 r - 0 8h", "a3 r - 0 7h", "b1 r - 0 6h", "b2 r - 0 5h", "a4 r -- 0 4h", "c1 q - 0 1h")
	for i := range jobs {
		jobs[i].Spec.Owner = jobs[i].Spec.Name[:1]
	}
	for want, recent := range map[string]*quota.RecentUsage{
		"c1 a4 b1 a1 b2 a2 a3": nil,
		"c1 a4 b1 b2 a1 a2 a3": {Average: map[quota.User]float64{{Role: "r", Name: "a"}: 1000}},
		"a4 b1 a1 b2 a2 a3 c1": {Average: map[quota.User]float64{{Role: "q", Name: "c"}: 5000}},
		"a4 a1 b1 a2 b2 a3 c1": {Average: map[quota.User]float64{{Role: "q", Name: "c"}: 5000}, Held: map[quota.User]int{{Role: "r", Name: "b"}: 1500}},
	} {
		usage := quota.NewTracker(nil, nil)
		usage.SetRecentUsage(recent)
		var got []string
		order := NewJobOrder(noon(), jobs, nil, usage)
		for j, ok := order.Next(); ok; j, ok = order.Next() {
			got = append(got, j.Spec.Name)
			usage.AddUsage(j.Spec.Role, map[string]int{"V100": 1}, nil, 1)
			usage.AddUserUsage(j.Spec, map[string]int{"V100": 1}, nil, 1)
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("of %+v: got %s, want %s", recent, text, want)
		}
	}
	var got []string
	order := NewJobOrder(noon(), jobs, []Role{{Name: "r", OneQueue: true}}, quota.NewTracker(nil, nil))
	for j, ok := order.Next(); ok; j, ok = order.Next() {
		got = append(got, j.Spec.Name)
	}
	if text, want := strings.Join(got, " "), "c1 a4 a1 a2 a3 b1 b2"; text != want {
		t.Errorf("with one queue: got %s, want %s", text, want)
	}
}

// Whole GPUs and shares of running tasks count for their roles, by type.
func TestCountUsage(t *testing.T) {
	usage := quota.NewTracker(nil, nil)
	task := func(role string, types map[string]int, shares ...gpu.DeviceShare) RunningTask {
		return RunningTask{Spec: &job.Spec{Role: role}, GPUTypes: types, Shares: shares}
	}
	CountUsage(usage, nil)
	CountUsage(usage, []RunningTask{
		task("a", map[string]int{"V100": 1}), task("a", map[string]int{"V100": 2}), task("a", map[string]int{"T4": 1}), task("b", map[string]int{"T4": 4}),
		task("b", nil, gpu.DeviceShare{Type: "T4", MilliDevices: 250}), task("a", map[string]int{"V100": 8}),
	})
	for role, want := range map[string]map[string]int{
		"a": {quota.AllTypes: 12_000, "V100": 11_000, "T4": 1000}, "b": {quota.AllTypes: 4250, "T4": 4250},
	} {
		if diff := cmp.Diff(want, usage.UsageByType(role)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", role, diff)
		}
	}
}

func TestValidateOrderOfRoles(t *testing.T) {
	for _, r := range []Role{
		{},
		{Order: OldestFirst},
		{Order: ShortestFirst, Patience: maxPatience},
		{Order: ShortestFirst},
		{FitPolicy: "spread"},
		{Weight: 1e6},
	} {
		if err := ValidateRoles([]Role{r}); err != nil {
			t.Errorf("%+v: %v", r, err)
		}
	}
	for want, r := range map[string]Role{
		`order "random" is not one of`:   {Order: "random"},
		"patience -1s":                   {Order: ShortestFirst, Patience: -time.Second},
		"patience 8784h0m0.000000001s":   {Order: ShortestFirst, Patience: maxPatience + 1},
		"patience is for order shortest": {Patience: time.Second},
		`policy "best" is not one of`:    {FitPolicy: "best"},
		"weight 1.0000001e+06 is":        {Weight: 1e6 + 0.1},
		`role "" appears twice`:          {Name: ""},
	} {
		roles := []Role{r}
		if strings.Contains(want, "twice") {
			roles = append(roles, r)
		}
		if err := ValidateRoles(roles); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// What a task frees at its end is what it took, with its executor. A share of a device is freed instead of the device.
func TestResourcesOfRunningTask(t *testing.T) {
	s := &job.Spec{CPUs: 1, MemMiB: 2, DiskMiB: 3, Request: gpu.Request{GPUs: 2}}
	overhead, amount := fit.Amount{CPUs: 1, MemMiB: 1}, fit.Amount{CPUs: 2, MemMiB: 3, DiskMiB: 3}
	r := RunningTask{Spec: s, DeviceIDs: []string{"a", "b"}, Ports: []int{31000}}
	if diff := cmp.Diff(fit.TaskResources{Amount: amount, GPUs: 2, DeviceIDs: r.DeviceIDs, Ports: r.Ports}, r.Resources(overhead)); diff != "" {
		t.Errorf("whole devices (-want +got):\n%s", diff)
	}
	r.Shares = []gpu.DeviceShare{{UUID: "a", MemMiB: 5}}
	if diff := cmp.Diff(fit.TaskResources{Amount: amount, GPUs: 1, DeviceIDs: []string{"b"}, Shares: r.Shares, Ports: r.Ports}, r.Resources(overhead)); diff != "" {
		t.Errorf("a device and a share (-want +got):\n%s", diff)
	}
	r.Shares = []gpu.DeviceShare{{UUID: "a", MemMiB: 5}, {UUID: "b", MemMiB: 5}}
	if diff := cmp.Diff(fit.TaskResources{Amount: amount, Shares: r.Shares, Ports: r.Ports}, r.Resources(overhead)); diff != "" {
		t.Errorf("shares (-want +got):\n%s", diff)
	}
}

// A demand has the peers that constraints depend on, the ports of the job, and one port for each task of a gang.
func TestTaskDemand(t *testing.T) {
	agents := []fit.AgentResources{{ID: "a"}, {ID: "b"}}
	j := WaitingJob{Spec: &job.Spec{Tasks: 2}, PeerAgents: []string{"a", "gone"}}
	if d := j.TaskDemand(fit.Amount{}, agents, "b"); len(d.PeerAgents) != 0 || d.Ports != 0 || d.HostPorts != nil {
		t.Errorf("without constraints and ports: %+v", d)
	}
	j.Spec.Gang = true
	if d := j.TaskDemand(fit.Amount{}, agents); d.Ports != 1 {
		t.Errorf("a task of a gang has %d ports, want 1", d.Ports)
	}
	j.Spec.Tasks = 1
	if d := j.TaskDemand(fit.Amount{}, agents); d.Ports != 0 {
		t.Errorf("the only task of a gang has %d ports, want none", d.Ports)
	}
	j.Spec.Constraints = []job.Constraint{{Field: "hostname", Operator: job.Unique}}
	j.Spec.Ports = []job.Port{{Container: 80}, {Host: 8080}, {Host: 9090}}
	d := j.TaskDemand(fit.Amount{}, agents, "b")
	if len(d.PeerAgents) != 2 || d.PeerAgents[0].ID != "a" || d.PeerAgents[1].ID != "b" {
		t.Errorf("peers are %+v", d.PeerAgents)
	}
	if diff := cmp.Diff([]int{0, 8080, 9090}, d.HostPorts); diff != "" || d.Ports != 3 {
		t.Errorf("%d ports, by number (-want +got):\n%s", d.Ports, diff)
	}
	if diff := cmp.Diff([]int{8080, 9090}, FixedHostPorts([]WaitingJob{j, {Spec: &job.Spec{}}})); diff != "" {
		t.Errorf("fixed ports (-want +got):\n%s", diff)
	}
}

func TestDemandNumbersAreReused(t *testing.T) {
	n := DemandNumbers{}
	if a, b, again := n.NumberOf("a"), n.NumberOf("b"), n.NumberOf("a"); a != 1 || b != 2 || again != 1 {
		t.Errorf("numbers are %d, %d and %d, want 1, 2 and 1", a, b, again)
	}
}
