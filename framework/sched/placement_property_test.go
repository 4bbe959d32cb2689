package sched

import (
	stdcmp "cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// pointersTo returns the offers as a State has them.
func pointersTo(offers []Offer) []*Offer {
	list := make([]*Offer, len(offers))
	for i := range offers {
		list[i] = &offers[i]
	}
	return list
}

// planOffers makes a plan for offers alone, without agents of earlier plans.
func planOffers(offers []fit.Offer, in placement.PlanInput, p placement.Policy) placement.Plan {
	c, leftoverOf := placement.NewClusterOfOffers(pointersTo(offers), &in, &p)
	return placement.MakePlan(placement.CachedAgents{Cluster: c, LeftoverOf: leftoverOf, Buffers: &placement.PlanBuffers{}}, &in, &p)
}

func testPolicy() placement.Policy {
	p := placement.Policy{}
	p.SetDefaults()
	return p
}

// models are the models of the generated clusters; the last one has no type name.
var models = []string{"Tesla V100-SXM2-16GB", "Tesla K80", "NVIDIA A100 80GB PCIe", ""}

func genOffers(maxAgents int) *rapid.Generator[[]Offer] {
	return rapid.Custom(func(t *rapid.T) []Offer {
		var offers []Offer
		for a := range rapid.IntRange(0, maxAgents).Draw(t, "agents") {
			offers = append(offers, genAgent(t, a)...)
		}
		return offers
	})
}

// genAgent draws the offers of one agent: its GPUs are offered by id, with or without an inventory, or by count.
func genAgent(t *rapid.T, a int) []Offer {
	total := rapid.IntRange(0, 4).Draw(t, "gpus")
	named := rapid.Bool().Draw(t, "named")
	listed := rapid.Bool().Draw(t, "listed")
	var inventory []gpu.Device
	var types []string
	for i := range total {
		d := gpu.Device{UUID: fmt.Sprintf("GPU-%d-%d", a, i), Model: rapid.SampledFrom(models[:3]).Draw(t, "model"), Minor: i}
		inventory = append(inventory, d)
		if !slices.Contains(types, d.Type()) {
			types = append(types, d.Type())
		}
	}
	var offers []Offer
	for o := range rapid.IntRange(1, 3).Draw(t, "offers") {
		offer := Offer{
			ID: fmt.Sprintf("o-%d-%d", a, o), AgentID: fmt.Sprintf("a%d", a), Types: types,
			Free: Amount{
				CPUs:    float64(rapid.IntRange(0, 40).Draw(t, "cpus")) / 10,
				MemMiB:  float64(rapid.IntRange(0, 10).Draw(t, "mem")) * 100,
				DiskMiB: float64(rapid.IntRange(0, 2).Draw(t, "disk")) * 100,
			},
		}
		if listed {
			offer.Inventory = inventory
		}
		offer.Ports = []PortRange{{First: 1000 * o, Last: 1000*o + 99}}
		n := rapid.IntRange(0, len(inventory)).Draw(t, "here")
		offer.GPUs = n
		if named {
			for i, d := range inventory[:n] {
				if i > 0 && rapid.IntRange(0, 2).Draw(t, "shared") == 0 {
					offer.Shared = append(offer.Shared, SharedDevice{UUID: d.UUID, MemMiB: 16000, Cores: rapid.SampledFrom([]int{100, 50, 0}).Draw(t, "cores")})
					offer.GPUs--
					continue
				}
				offer.DeviceIDs = append(offer.DeviceIDs, d.UUID)
			}
		}
		inventory = inventory[n:]
		offers = append(offers, offer)
	}
	return offers
}

func genQueue(maxJobs, maxTasks int) *rapid.Generator[[]queue.WaitingJob] {
	return rapid.Custom(func(t *rapid.T) []queue.WaitingJob {
		var waiting []queue.WaitingJob
		for j := range rapid.IntRange(0, maxJobs).Draw(t, "jobs") {
			spec := &job.Spec{
				Name: fmt.Sprintf("j%d", j), Tasks: rapid.IntRange(1, maxTasks).Draw(t, "tasks"),
				CPUs:    float64(rapid.IntRange(1, 20).Draw(t, "cpus")) / 10,
				MemMiB:  float64(rapid.IntRange(1, 5).Draw(t, "mem")) * 100,
				DiskMiB: float64(rapid.IntRange(0, 2).Draw(t, "disk")) * 50,
				Request: gpu.Request{GPUs: rapid.IntRange(0, 3).Draw(t, "gpus")},
			}
			if spec.Request.GPUs > 0 {
				names := rapid.SliceOfN(rapid.SampledFrom([]string{"V100", "K80", "A100"}), 0, 2)
				spec.Request.Types = gpu.TypeSelector{Include: names.Draw(t, "include"), Exclude: names.Draw(t, "exclude")}
			}
			if spec.Request.GPUs > 0 {
				spec.Request.Share = rapid.SampledFrom([]gpu.ShareRequest{{}, {}, {MemMiB: 5000}, {MemPercent: 40, Cores: 30}, {Cores: gpu.AllCores}}).Draw(t, "share")
			}
			spec.Gang = rapid.Bool().Draw(t, "gang")
			spec.Request.Types.Same = spec.Request.GPUs > 0 && (spec.Gang || spec.Tasks == 1) && rapid.Bool().Draw(t, "same")
			q := queue.WaitingJob{Spec: spec}
			for i := range spec.Tasks {
				q.Tasks = append(q.Tasks, queue.WaitingTask{ID: fmt.Sprintf("j%d.%d", j, i), Index: i})
			}
			waiting = append(waiting, q)
		}
		return waiting
	})
}

func TestPlansKeepInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		offers := genOffers(5).Draw(t, "cluster")
		waiting := genQueue(5, 6).Draw(t, "queue")
		policy := testPolicy()
		before := fmt.Sprintf("%+v %+v", offers, describeQueue(waiting))
		plan := planOffers(offers, placement.PlanInput{Waiting: waiting}, policy)
		if after := fmt.Sprintf("%+v %+v", offers, describeQueue(waiting)); after != before {
			t.Fatalf("Place changed its arguments:\n%s\n%s", before, after)
		}
		checkAnswered(t, offers, plan)
		checkAccounts(t, offers, plan, policy)
		checkTasks(t, waiting, plan)
		checkSameTypes(t, offers, plan)
		shuffled := rapid.Permutation(offers).Draw(t, "shuffled")
		if diff := cmp.Diff(plan, planOffers(shuffled, placement.PlanInput{Waiting: waiting}, policy)); diff != "" {
			t.Fatalf("a different order of the offers gives a different plan (-first +second):\n%s", diff)
		}
	})
}

func describeQueue(waiting []queue.WaitingJob) string {
	text := ""
	for _, j := range waiting {
		text += fmt.Sprintf("%+v %+v;", *j.Spec, j.Tasks)
	}
	return text
}

// checkAnswered checks that each offer is accepted, declined or held exactly once, and that each agent has one
// ACCEPT.
func checkAnswered(t *rapid.T, offers []Offer, plan placement.Plan) {
	answers := map[string]int{}
	agents := map[string]int{}
	for _, a := range plan.Accept {
		agents[a.AgentID]++
		for _, id := range a.OfferIDs {
			answers[id]++
		}
	}
	for _, d := range slices.Concat(plan.Decline, plan.Hold) {
		answers[d.OfferID]++
		if d.Reason == "" || d.Refuse <= 0 {
			t.Fatalf("declined without a word: %+v", d)
		}
	}
	for _, o := range offers {
		if answers[o.ID] != 1 {
			t.Fatalf("offer %s was answered %d times", o.ID, answers[o.ID])
		}
	}
	if len(answers) != len(offers) {
		t.Fatalf("%d offers, %d answers", len(offers), len(answers))
	}
	for id, n := range agents {
		if n != 1 {
			t.Fatalf("agent %s got %d ACCEPTs", id, n)
		}
	}
}

// checkAccounts checks that only offered resources are taken, no device twice, and that each device has a type that
// its job accepts.
func checkAccounts(t *rapid.T, offers []Offer, plan placement.Plan, p placement.Policy) {
	for _, a := range plan.Accept {
		var free, used Amount
		gpus, taken := 0, 0
		devices := map[string]string{} // uuid → model
		shared := map[string]*SharedDevice{}
		for _, o := range offers {
			if o.AgentID != a.AgentID {
				continue
			}
			free.CPUs, free.MemMiB, free.DiskMiB = free.CPUs+o.Free.CPUs, free.MemMiB+o.Free.MemMiB, free.DiskMiB+o.Free.DiskMiB
			gpus += o.GPUs
			for _, s := range o.Shared {
				shared[s.UUID] = &s
			}
			for _, id := range o.DeviceIDs {
				devices[id] = ""
				for _, d := range o.Inventory {
					if d.UUID == id {
						devices[id] = d.Model
					}
				}
				if devices[id] == "" && len(o.Types) == 1 {
					devices[id] = o.Types[0]
				}
			}
		}
		named := len(devices) > 0
		for _, l := range a.Launches {
			used.CPUs += l.Spec.CPUs + p.Overhead.CPUs
			used.MemMiB += l.Spec.MemMiB + p.Overhead.MemMiB
			used.DiskMiB += l.Spec.DiskMiB
			if !l.Spec.Request.Share.IsWhole() {
				for _, p := range l.Shares {
					s := shared[p.UUID]
					if s == nil || s.MemMiB < p.MemMiB || s.Cores < p.Cores {
						t.Fatalf("%s takes %+v of %+v", l.TaskID, p, s)
					}
					s.MemMiB, s.Cores = s.MemMiB-p.MemMiB, s.Cores-p.Cores
				}
				continue
			}
			taken += l.Spec.Request.GPUs
			if named && len(l.DeviceIDs) != l.Spec.Request.GPUs {
				t.Fatalf("%s requests %d GPUs, got %v", l.TaskID, l.Spec.Request.GPUs, l.DeviceIDs)
			}
			for _, id := range l.DeviceIDs {
				model, ok := devices[id]
				if !ok {
					t.Fatalf("%s got %s, which is not offered or taken twice", l.TaskID, id)
				}
				if w := l.Spec.Request.Types; !w.AcceptsAny() && (model == "" || !w.Match(gpu.Product{Model: model})) {
					t.Fatalf("%s requires type %s, got %s", l.TaskID, w, model)
				}
				delete(devices, id)
			}
		}
		const eps = 1e-6
		if used.CPUs > free.CPUs+eps || used.MemMiB > free.MemMiB+eps || used.DiskMiB > free.DiskMiB+eps || taken > gpus {
			t.Fatalf("agent %s is over-committed: %+v and %d GPUs of %+v and %d", a.AgentID, used, taken, free, gpus)
		}
	}
}

// checkSameTypes checks that jobs whose GPUs must be of the same type have GPUs of one known type.
func checkSameTypes(t *rapid.T, offers []Offer, plan placement.Plan) {
	typeOfDevice := map[string]string{}
	for _, o := range offers {
		if len(o.Types) == 1 {
			for _, id := range o.DeviceIDs {
				typeOfDevice[id] = o.Types[0]
			}
			for _, d := range o.Shared {
				typeOfDevice[d.UUID] = o.Types[0]
			}
		}
		for _, d := range o.Inventory {
			typeOfDevice[d.UUID] = d.Type()
		}
	}
	types := map[string]map[string]bool{}
	for _, a := range plan.Accept {
		for _, l := range a.Launches {
			if !l.Spec.Request.Types.Same {
				continue
			}
			if types[l.Spec.Name] == nil {
				types[l.Spec.Name] = map[string]bool{}
			}
			for _, id := range l.DeviceIDs {
				types[l.Spec.Name][stdcmp.Or(typeOfDevice[id], "unknown "+id)] = true
			}
			for name := range l.GPUTypes {
				types[l.Spec.Name][gpu.TypesOf(name)] = true
			}
			for _, s := range l.Shares {
				types[l.Spec.Name][stdcmp.Or(gpu.TypeOf(s.Type), "unknown "+s.UUID)] = true
			}
		}
	}
	for name, found := range types {
		if len(found) != 1 || found[""] {
			t.Fatalf("job %s must have GPUs of one type, got %v", name, found)
		}
	}
}

// checkTasks checks that each task is launched once or counted as missing.
func checkTasks(t *rapid.T, waiting []queue.WaitingJob, plan placement.Plan) {
	launched := map[string]int{}
	for _, a := range plan.Accept {
		for _, l := range a.Launches {
			launched[l.Spec.Name]++
		}
	}
	missing := map[string]int{}
	for _, r := range plan.Unplaced {
		missing[r.Run.Name] = r.Missing
		if r.Needs == "" || r.Available == "" {
			t.Fatalf("no reason given: %+v", r)
		}
	}
	for _, j := range waiting {
		if j.Spec.Gang {
			if n := launched[j.Spec.Name]; n != 0 && n != len(j.Tasks) || n == 0 && missing[j.Spec.Name] == 0 {
				t.Fatalf("gang %s: %d of %d tasks are launched, %d found no place", j.Spec.Name, n, len(j.Tasks), missing[j.Spec.Name])
			}
			continue
		}
		if got := launched[j.Spec.Name] + missing[j.Spec.Name]; got != len(j.Tasks) {
			t.Fatalf("job %s: %d of %d tasks accounted for", j.Spec.Name, got, len(j.Tasks))
		}
	}
}

// TestFirstJobIsPlacedIfBruteForcePlacesIt checks that the first job gets places for all tasks exactly if trying all placements
// of its tasks one by one finds some.
func TestFirstJobIsPlacedIfBruteForcePlacesIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		offers := genOffers(3).Draw(t, "cluster")
		waiting := genQueue(2, 3).Filter(func(q []queue.WaitingJob) bool { return len(q) > 0 && q[0].Spec.Request.Share.IsWhole() }).Draw(t, "queue")
		plan := planOffers(offers, placement.PlanInput{Waiting: waiting}, testPolicy())
		got := !slices.ContainsFunc(plan.Unplaced, func(r placement.PendingReason) bool { return r.Run == waiting[0].RunID() })
		if want := fitsByBruteForce(offers, waiting[0]); got != want {
			t.Fatalf("first job placed: %t, by brute force: %t", got, want)
		}
	})
}

// fitsByBruteForce tries each agent for each task, independent of MakePlan's order. It counts in tenths and hundreds,
// as the generator does. GPUs that must be of the same type are tried type by type.
func fitsByBruteForce(offers []Offer, j queue.WaitingJob) bool {
	if types := j.Spec.Request.Types; types.Same {
		return slices.ContainsFunc([]string{"V100", "K80", "A100"}, func(name string) bool {
			spec := *j.Spec
			spec.Request.Types = gpu.TypeSelector{Include: []string{name}}
			return types.MayMatch(name) && fitsByBruteForce(offers, queue.WaitingJob{Spec: &spec, Tasks: j.Tasks})
		})
	}
	type room struct {
		cpus, mem, disk, gpus int
		offers                []Offer
	}
	rooms := map[string]*room{}
	for _, o := range offers {
		r := rooms[o.AgentID]
		if r == nil {
			r = &room{}
			rooms[o.AgentID] = r
		}
		r.cpus += int(o.Free.CPUs*10 + 0.5)
		r.mem += int(o.Free.MemMiB)
		r.disk += int(o.Free.DiskMiB)
		r.offers = append(r.offers, o)
	}
	for _, r := range rooms {
		r.gpus = countUsableGPUs(r.offers, j.Spec.Request.Types)
	}
	cpus, mem, disk, gpus := int(j.Spec.CPUs*10+0.5)+1, int(j.Spec.MemMiB)+32, int(j.Spec.DiskMiB), j.Spec.Request.GPUs
	var try func(left int) bool
	try = func(left int) bool {
		if left == 0 {
			return true
		}
		for _, r := range rooms {
			if r.cpus < cpus || r.mem < mem || r.disk < disk || r.gpus < gpus {
				continue
			}
			r.cpus, r.mem, r.disk, r.gpus = r.cpus-cpus, r.mem-mem, r.disk-disk, r.gpus-gpus
			ok := try(left - 1)
			r.cpus, r.mem, r.disk, r.gpus = r.cpus+cpus, r.mem+mem, r.disk+disk, r.gpus+gpus
			if ok {
				return true
			}
		}
		return false
	}
	return try(len(j.Tasks))
}

// countUsableGPUs counts the GPUs of one agent that the selector accepts.
func countUsableGPUs(offers []Offer, w gpu.TypeSelector) int {
	scalar, good, named := 0, 0, 0
	all := true
	for _, o := range offers {
		scalar += o.GPUs
		if len(o.Inventory) == 0 {
			for _, m := range o.Types {
				all = all && (w.AcceptsAny() || w.Match(gpu.Product{Model: m}))
			}
			all = all && (w.AcceptsAny() || len(o.Types) > 0)
		}
		for _, d := range o.Inventory {
			all = all && (w.AcceptsAny() || w.Match(d.Product()))
		}
		for _, id := range o.DeviceIDs {
			named++
			model := ""
			if len(o.Types) == 1 {
				model = o.Types[0]
			}
			for _, d := range o.Inventory {
				if d.UUID == id {
					model = d.Model
				}
			}
			if w.AcceptsAny() || model != "" && w.Match(gpu.Product{Model: model}) {
				good++
			}
		}
	}
	switch {
	case named > 0:
		return min(scalar, good)
	case all:
		return scalar
	default:
		return 0
	}
}
