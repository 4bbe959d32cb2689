package pending

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// gpuOffer is an offer of that many GPUs of one type.
func gpuOffer(agent string, gpus int, change func(*fit.Offer)) *fit.Offer {
	o := &fit.Offer{
		ID: "o" + agent, AgentID: agent, Hostname: agent, Role: "team", GPUs: gpus, Types: []string{"V100"}, Unreserved: true,
		Free: fit.Amount{CPUs: 8, MemMiB: 8192, DiskMiB: 1000}, Ports: []fit.PortRange{{First: 31000, Last: 31009}},
	}
	if change != nil {
		change(o)
	}
	return o
}

// withModel gives an offer's devices a product.
func withModel(model string) func(*fit.Offer) {
	return func(o *fit.Offer) {
		o.Types, o.DeviceIDs = []string{model}, nil
		for i := range o.GPUs {
			d := gpu.Device{UUID: fmt.Sprintf("GPU-%s-%d", o.AgentID, i), Model: model, Minor: i, NUMA: -1}
			o.Inventory, o.DeviceIDs = append(o.Inventory, d), append(o.DeviceIDs, d.UUID)
		}
	}
}

func inRack(rack string) func(*fit.Offer) {
	return func(o *fit.Offer) { o.Attributes = []fit.Attribute{{Name: "rack", Value: rack}} }
}

// changed applies changes to a job before its defaults are set.
func changed(changes ...func(*queue.WaitingJob)) func(*queue.WaitingJob) {
	return func(w *queue.WaitingJob) {
		for _, change := range changes {
			change(w)
		}
	}
}

func withSpec(change func(*job.Spec)) func(*queue.WaitingJob) {
	return func(w *queue.WaitingJob) { change(w.Spec) }
}

func ofType(name string) func(*queue.WaitingJob) {
	return withSpec(func(s *job.Spec) { s.Request.Types.Include = []string{name} })
}

func constrained(field string, operator job.ConstraintOperator, value string) func(*queue.WaitingJob) {
	return withSpec(func(s *job.Spec) {
		s.Constraints = append(s.Constraints, job.Constraint{Field: field, Operator: operator, Value: value})
	})
}

// describeUnmet prints one group a line.
func describeUnmet(groups []UnmetDemand) string {
	var lines []string
	for _, g := range groups {
		text := fmt.Sprintf("%s of %s: %d × %s, short of %s, %d GPUs", strings.Join(g.Jobs, " "), strings.Join(g.Roles, " "),
			g.Tasks, g.Request, strings.Join(g.Missing, " "), g.GPUs)
		for _, c := range g.Constraints {
			text += fmt.Sprintf(", %s", c)
		}
		lines = append(lines, text)
	}
	return strings.Join(lines, "\n")
}

func TestFindUnmetDemand(t *testing.T) {
	held := func(name string, gpus int, change func(*queue.RunningTask)) queue.RunningTask {
		w := waitingJob(name, 1, withGPUs(gpus))
		r := queue.RunningTask{TaskID: name, AgentID: "a", Spec: w.Spec, GPUTypes: map[string]int{"V100": gpus}}
		if change != nil {
			change(&r)
		}
		return r
	}
	full := gpuOffer("a", 0, nil)
	for _, c := range []struct {
		name    string
		offers  []*fit.Offer
		known   []fit.AgentResources
		running []queue.RunningTask
		waiting []*queue.WaitingJob
		quota   quota.Quota
		want    string
	}{
		{name: "what is free is not missing", offers: []*fit.Offer{gpuOffer("a", 2, nil)}, waiting: []*queue.WaitingJob{waitingJob("train", 3, nil)},
			want: "train of team: 1 × 1 GPU, short of gpus, 1 GPUs"},
		{name: "everything fits", offers: []*fit.Offer{gpuOffer("a", 2, nil)}, waiting: []*queue.WaitingJob{waitingJob("train", 2, nil)}},
		{name: "a product of another size is not what is missing", offers: []*fit.Offer{gpuOffer("a", 2, withModel("NVIDIA A100-SXM4-40GB"))},
			waiting: []*queue.WaitingJob{waitingJob("large", 1, ofType("A100-80GB")), waitingJob("any", 2, ofType("A100"))},
			want:    "large of team: 1 × 1 GPU of A100-80GB, short of gpus, 1 GPUs"},
		{name: "MIG devices are not GPUs, and no other profile", offers: []*fit.Offer{gpuOffer("a", 2, withModel("NVIDIA A100-SXM4-80GB MIG 1g.10gb"))},
			waiting: []*queue.WaitingJob{waitingJob("slice", 1, ofType("2g.20gb")), waitingJob("whole", 1, ofType("A100-80GB")), waitingJob("small", 2, ofType("1g.10gb"))},
			want:    "slice of team: 1 × 1 GPU of 2g.20gb, short of gpus, 1 GPUs\nwhole of team: 1 × 1 GPU of A100-80GB, short of gpus, 1 GPUs"},
		{name: "no agents", waiting: []*queue.WaitingJob{waitingJob("train", 2, withGPUs(4))},
			want: "train of team: 2 × 4 GPUs, short of gpus, 8 GPUs"},
		{name: "jobs without GPUs do not count", offers: []*fit.Offer{full}, waiting: []*queue.WaitingJob{
			waitingJob("cpu", 2, changed(withGPUs(0), withSpec(func(s *job.Spec) { s.CPUs = 99 }))),
		}},
		{name: "equal demands are one group", offers: []*fit.Offer{full},
			waiting: []*queue.WaitingJob{waitingJob("one", 2, nil), waitingJob("two", 1, withGPUs(2)), waitingJob("three", 3, nil)},
			want:    "one three of team: 5 × 1 GPU, short of gpus, 5 GPUs\ntwo of team: 1 × 2 GPUs, short of gpus, 2 GPUs"},
		{name: "a gang counts as a whole", offers: []*fit.Offer{gpuOffer("a", 2, nil)},
			waiting: []*queue.WaitingJob{waitingJob("gang", 3, asGang), waitingJob("later", 2, nil)},
			want:    "gang of team: 3 × 1 GPU, short of gpus, 3 GPUs"},
		{name: "leftovers of agents without offers are free", known: []fit.AgentResources{testAgent("b", 1, 4)},
			waiting: []*queue.WaitingJob{waitingJob("train", 2, nil)},
			want:    "train of team: 1 × 1 GPU, short of gpus, 1 GPUs"},
		{name: "tasks that end free their GPUs", offers: []*fit.Offer{full},
			running: []queue.RunningTask{held("old", 1, func(r *queue.RunningTask) { r.Ending = true })},
			waiting: []*queue.WaitingJob{waitingJob("train", 2, nil)},
			want:    "train of team: 1 × 1 GPU, short of gpus, 1 GPUs"},
		{name: "stuck tasks do not", offers: []*fit.Offer{full},
			running: []queue.RunningTask{held("old", 1, func(r *queue.RunningTask) { r.Ending, r.Stuck = true, true })},
			waiting: []*queue.WaitingJob{waitingJob("train", 2, nil)},
			want:    "train of team: 2 × 1 GPU, short of gpus, 2 GPUs"},
		{name: "running tasks do not", offers: []*fit.Offer{full}, running: []queue.RunningTask{held("old", 1, nil)},
			waiting: []*queue.WaitingJob{waitingJob("train", 2, nil)},
			want:    "train of team: 2 × 1 GPU, short of gpus, 2 GPUs"},
		{name: "shares are rounded up together", waiting: []*queue.WaitingJob{waitingJob("part", 5, withSpec(func(s *job.Spec) { s.Request.Share.MemPercent = 50 }))},
			want: "part of team: 5 × 1 x (50 % memory), short of gpus, 3 GPUs"},
		{name: "CPUs are missing", offers: []*fit.Offer{gpuOffer("a", 2, nil)},
			waiting: []*queue.WaitingJob{waitingJob("train", 2, withSpec(func(s *job.Spec) { s.CPUs = 6 }))},
			want:    "train of team: 1 × 1 GPU, short of cpus, 0 GPUs"},
		{name: "GPUs and memory are missing", offers: []*fit.Offer{gpuOffer("a", 2, nil)},
			waiting: []*queue.WaitingJob{waitingJob("train", 4, withSpec(func(s *job.Spec) { s.MemMiB = 8000 }))},
			want:    "train of team: 2 × 1 GPU, short of gpus, 2 GPUs\ntrain of team: 1 × 1 GPU, short of mem, 0 GPUs"},
		{name: "disk is missing", offers: []*fit.Offer{gpuOffer("a", 2, nil)},
			waiting: []*queue.WaitingJob{waitingJob("train", 1, withSpec(func(s *job.Spec) { s.DiskMiB = 2000 }))},
			want:    "train of team: 1 × 1 GPU, short of disk, 0 GPUs"},
		{name: "a port is missing", offers: []*fit.Offer{gpuOffer("a", 2, nil)},
			waiting: []*queue.WaitingJob{waitingJob("train", 1, withSpec(func(s *job.Spec) { s.Ports = []job.Port{{Host: 80}} }))},
			want:    "train of team: 1 × 1 GPU, short of ports, 0 GPUs"},
		{name: "only together they are missing", waiting: []*queue.WaitingJob{waitingJob("train", 1, withSpec(func(s *job.Spec) { s.CPUs, s.MemMiB = 6, 6000 }))},
			offers: []*fit.Offer{gpuOffer("a", 1, func(o *fit.Offer) { o.Free.CPUs = 2 }), gpuOffer("b", 1, func(o *fit.Offer) { o.Free.MemMiB = 2000 })},
			want:   "train of team: 1 × 1 GPU, short of cpus mem, 0 GPUs"},
		{name: "a gang with GPUs for a part of it lacks GPUs", offers: []*fit.Offer{gpuOffer("a", 2, nil)},
			waiting: []*queue.WaitingJob{waitingJob("gang", 3, changed(asGang, withSpec(func(s *job.Spec) { s.CPUs = 6 })))},
			want:    "gang of team: 3 × 1 GPU, short of gpus, 3 GPUs"},
		{name: "a gang with GPUs for all of it lacks CPUs", offers: []*fit.Offer{gpuOffer("a", 3, nil)},
			waiting: []*queue.WaitingJob{waitingJob("gang", 3, changed(asGang, withSpec(func(s *job.Spec) { s.CPUs = 6 })))},
			want:    "gang of team: 3 × 1 GPU, short of cpus, 0 GPUs"},
		{name: "the quota limits what is missing", offers: []*fit.Offer{full}, running: []queue.RunningTask{held("old", 1, nil)},
			quota:   quota.Quota{quota.AllTypes: 4},
			waiting: []*queue.WaitingJob{waitingJob("train", 9, nil), waitingJob("next", 1, nil)},
			want:    "train of team: 3 × 1 GPU, short of gpus, 3 GPUs"},
		{name: "a quota that is used up", offers: []*fit.Offer{gpuOffer("a", 4, nil)},
			running: []queue.RunningTask{held("old", 2, nil)}, quota: quota.Quota{quota.AllTypes: 2},
			waiting: []*queue.WaitingJob{waitingJob("train", 1, nil)}},
		{name: "the rest of a quota is for the gang", offers: []*fit.Offer{full},
			running: []queue.RunningTask{held("old", 2, nil)}, quota: quota.Quota{quota.AllTypes: 4},
			waiting: []*queue.WaitingJob{waitingJob("gang", 3, asGang), waitingJob("next", 1, nil)}},
		{name: "a gang within its quota", offers: []*fit.Offer{full}, running: []queue.RunningTask{held("old", 1, nil)},
			quota:   quota.Quota{quota.AllTypes: 4},
			waiting: []*queue.WaitingJob{waitingJob("gang", 3, asGang), waitingJob("next", 1, nil)},
			want:    "gang of team: 3 × 1 GPU, short of gpus, 3 GPUs"},
		{name: "the rest of a quota is for the larger tasks before", offers: []*fit.Offer{full},
			quota:   quota.Quota{quota.AllTypes: 4},
			waiting: []*queue.WaitingJob{waitingJob("large", 2, withGPUs(3)), waitingJob("small", 1, nil)},
			want:    "large of team: 1 × 3 GPUs, short of gpus, 3 GPUs"},
		{name: "the rest of a quota is for the larger tasks before, of which one has a place",
			offers: []*fit.Offer{gpuOffer("a", 3, nil)}, quota: quota.Quota{quota.AllTypes: 4},
			waiting: []*queue.WaitingJob{waitingJob("large", 2, withGPUs(3)), waitingJob("small", 1, nil)}},
		{name: "the rest of a quota after all tasks is for later jobs", offers: []*fit.Offer{full},
			quota:   quota.Quota{quota.AllTypes: 4},
			waiting: []*queue.WaitingJob{waitingJob("large", 1, withGPUs(3)), waitingJob("small", 1, nil)},
			want:    "large of team: 1 × 3 GPUs, short of gpus, 3 GPUs\nsmall of team: 1 × 1 GPU, short of gpus, 1 GPUs"},
		{name: "missing GPUs count for the quota of their type", offers: []*fit.Offer{full},
			quota:   quota.Quota{"V100": 2, "K80": 2},
			waiting: []*queue.WaitingJob{waitingJob("one", 2, ofType("V100")), waitingJob("other", 2, ofType("K80")), waitingJob("more", 2, ofType("V100"))},
			want:    "one of team: 2 × 1 GPU of V100, short of gpus, 2 GPUs\nother of team: 2 × 1 GPU of K80, short of gpus, 2 GPUs"},
		{name: "a type at its quota", offers: []*fit.Offer{full}, running: []queue.RunningTask{held("old", 2, nil)},
			quota:   quota.Quota{"V100": 2},
			waiting: []*queue.WaitingJob{waitingJob("any", 1, nil), waitingJob("named", 1, ofType("V100"))},
			want:    "any of team: 1 × 1 GPU other than V100, short of gpus, 1 GPUs"},
		{name: "a type that becomes full", offers: []*fit.Offer{full}, quota: quota.Quota{"V100": 2},
			waiting: []*queue.WaitingJob{waitingJob("named", 5, ofType("V100"))},
			want:    "named of team: 2 × 1 GPU of V100, short of gpus, 2 GPUs"},
		{name: "devices that are named cannot be added", offers: []*fit.Offer{full}, waiting: []*queue.WaitingJob{
			waitingJob("named", 1, withSpec(func(s *job.Spec) { s.Request.Devices.Include = []string{"GPU-1"} })),
		}},
		{name: "new machines have other names", offers: []*fit.Offer{full}, waiting: []*queue.WaitingJob{
			waitingJob("here", 1, constrained("hostname", job.Is, "a")),
			waitingJob("elsewhere", 1, constrained("hostname", job.Unlike, "a")),
		},
			want: "elsewhere of team: 1 × 1 GPU, short of gpus, 1 GPUs, hostname UNLIKE a"},
		{name: "new machines have the attributes of present ones", offers: []*fit.Offer{gpuOffer("a", 0, inRack("r1"))},
			waiting: []*queue.WaitingJob{waitingJob("known", 2, constrained("rack", job.Is, "r1")), waitingJob("unknown", 1, constrained("rack", job.Is, "r2"))},
			want:    "known of team: 2 × 1 GPU, short of gpus, 2 GPUs, rack IS r1"},
		{name: "new machines have any GPUs", offers: []*fit.Offer{gpuOffer("a", 1, inRack("r1"))}, waiting: []*queue.WaitingJob{
			waitingJob("type", 1, constrained("gpu_type", job.Is, "A100")),
			waitingJob("rack", 1, changed(constrained("gpu_type", job.Is, "A100"), constrained("rack", job.Is, "r1"))),
			waitingJob("other", 1, changed(constrained("gpu_type", job.Is, "A100"), constrained("rack", job.Is, "r2"))),
		}, want: "type of team: 1 × 1 GPU, short of gpus, 1 GPUs, gpu_type IS A100\nrack of team: 1 × 1 GPU, short of gpus, 1 GPUs, gpu_type IS A100, rack IS r1"},
		{name: "new machines are not like agents without GPUs",
			offers:  []*fit.Offer{gpuOffer("a", 1, inRack("r1")), gpuOffer("b", 0, func(o *fit.Offer) { inRack("r2")(o); o.Types = nil })},
			waiting: []*queue.WaitingJob{waitingJob("train", 1, constrained("rack", job.Is, "r2"))}},
		{name: "without agents, new machines have no attributes",
			waiting: []*queue.WaitingJob{waitingJob("elsewhere", 1, constrained("hostname", job.Unlike, "a")), waitingJob("rack", 1, constrained("rack", job.Is, "r1"))},
			want:    "elsewhere of team: 1 × 1 GPU, short of gpus, 1 GPUs, hostname UNLIKE a"},
		{name: "a gang with as many tasks as racks",
			offers:  []*fit.Offer{gpuOffer("a", 0, inRack("r1")), gpuOffer("b", 0, inRack("r2"))},
			waiting: []*queue.WaitingJob{waitingJob("apart", 2, changed(asGang, constrained("rack", job.Unique, "")))},
			want:    "apart of team: 2 × 1 GPU, short of gpus, 2 GPUs, rack UNIQUE"},
		{name: "each host once", offers: []*fit.Offer{gpuOffer("a", 9, nil)},
			waiting: []*queue.WaitingJob{waitingJob("apart", 3, constrained("hostname", job.Unique, ""))},
			want:    "apart of team: 2 × 1 GPU, short of gpus, 2 GPUs, hostname UNIQUE"},
		{name: "each rack once", offers: []*fit.Offer{gpuOffer("a", 0, inRack("r1")), gpuOffer("b", 0, inRack("r2"))},
			waiting: []*queue.WaitingJob{waitingJob("apart", 5, constrained("rack", job.Unique, ""))},
			want:    "apart of team: 2 × 1 GPU, short of gpus, 2 GPUs, rack UNIQUE"},
		{name: "a gang with more tasks than racks", offers: []*fit.Offer{gpuOffer("a", 0, inRack("r1"))}, waiting: []*queue.WaitingJob{
			waitingJob("apart", 2, changed(asGang, constrained("rack", job.Unique, ""))),
		}},
	} {
		in := placement.PlanInput{Now: testTime(), Known: c.known, Running: c.running}
		for _, w := range c.waiting {
			in.Waiting = append(in.Waiting, *w)
		}
		p := testPolicy()
		p.Roles = []queue.Role{{Name: "team", Quota: c.quota}}
		if diff := cmp.Diff(c.want, describeUnmet(FindUnmetDemand(c.offers, in, *p))); diff != "" {
			t.Errorf("%s: unmet demand (-want +got):\n%s", c.name, diff)
		}
	}
}

// TestUnmetDemandHasWholeRequirement checks what a group reports of its tasks.
func TestUnmetDemandHasWholeRequirement(t *testing.T) {
	w := waitingJob("train", 2, withSpec(func(s *job.Spec) { s.CPUs, s.MemMiB, s.DiskMiB = 2, 1000, 10 }))
	p := testPolicy()
	p.Overhead = fit.Amount{CPUs: 0.5, MemMiB: 24}
	got := FindUnmetDemand(nil, placement.PlanInput{Now: testTime(), Waiting: []queue.WaitingJob{*w}}, *p)
	want := []UnmetDemand{{
		Request: gpu.Request{GPUs: 1}, Amount: fit.Amount{CPUs: 2.5, MemMiB: 1024, DiskMiB: 10}, Missing: []string{MissingGPUs},
		Tasks: 2, GPUs: 2, Jobs: []string{"train"}, Roles: []string{"team"},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unmet demand (-want +got):\n%s", diff)
	}
}
