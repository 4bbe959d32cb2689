package placement

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// planTime is the time of the plans in this file.
func planTime() time.Time { return time.Unix(1_700_000_000, 0) }

// gpuOffer is an offer of GPUs by count to the default role.
func gpuOffer(agent string, gpus int, types ...string) fit.Offer {
	return fit.Offer{
		ID: "o" + agent, AgentID: agent, Hostname: agent + ".example", AgentURL: "http://" + agent, GPUs: gpus, Types: types,
		Free: fit.Amount{CPUs: 100, MemMiB: 100_000, DiskMiB: 1000}, Ports: []fit.PortRange{{First: 31000, Last: 31010}},
	}
}

func roleOffer(role, agent string, gpus int) fit.Offer {
	o := gpuOffer(agent, gpus, "V100")
	o.ID, o.Role = "o"+agent+"-"+role, role
	return o
}

// deviceOffer is an offer of devices by id, of these models.
func deviceOffer(agent string, models ...string) fit.Offer {
	o := gpuOffer(agent, len(models))
	for i, model := range models {
		uuid := fmt.Sprint("GPU-", agent, i)
		o.DeviceIDs = append(o.DeviceIDs, uuid)
		o.Inventory = append(o.Inventory, gpu.Device{UUID: uuid, Model: model, MemMiB: 16000})
	}
	return o
}

// sharedOffer is an offer of one shared device with that much memory free.
func sharedOffer(agent string, freeMiB int64) fit.Offer {
	o := gpuOffer(agent, 0)
	o.Inventory = []gpu.Device{{UUID: "GPU-s", Model: "Tesla T4", MemMiB: 16000}}
	o.Shared = []fit.SharedDevice{{UUID: "GPU-s", MemMiB: freeMiB, Cores: 100}}
	return o
}

// waitingJob is a job whose tasks request one GPU each.
func waitingJob(name string, tasks int, change func(*job.Spec)) queue.WaitingJob {
	s := &job.Spec{Name: name, Tasks: tasks, Request: gpu.Request{GPUs: 1}, CPUs: 1, MemMiB: 100, Command: []string{"true"}}
	if change != nil {
		change(s)
	}
	s.SetDefaults()
	j := queue.WaitingJob{Spec: s}
	for i := range tasks {
		j.Tasks = append(j.Tasks, queue.WaitingTask{ID: fmt.Sprint(name, ".", i), Index: i})
	}
	return j
}

// runningTask is a task of a job on an agent, with its GPUs by count. It ends after that time, 0 if that is unknown.
func runningTask(name, agent string, ends time.Duration, change func(*queue.RunningTask)) queue.RunningTask {
	j := waitingJob(name, 1, nil)
	r := queue.RunningTask{TaskID: name + ".0", AgentID: agent, Spec: j.Spec, Since: planTime().Add(-time.Hour), GPUTypes: map[string]int{"V100": 1}}
	if ends > 0 {
		r.Ends = planTime().Add(ends)
	}
	if change != nil {
		change(&r)
	}
	for name := range r.GPUTypes {
		r.GPUTypes[name] = r.Spec.Request.GPUs
	}
	return r
}

func preemptible(priority int, since time.Duration) func(*queue.RunningTask) {
	return func(r *queue.RunningTask) {
		r.Spec.Preemptible, r.Spec.Priority, r.Since = true, priority, planTime().Add(-since)
	}
}

func ofK80(change func(*queue.RunningTask)) func(*queue.RunningTask) {
	return func(r *queue.RunningTask) {
		change(r)
		r.GPUTypes = map[string]int{"K80": 1}
	}
}

func gangTask(name string, index int, agent string) queue.RunningTask {
	return runningTask(name, agent, 0, func(r *queue.RunningTask) {
		preemptible(0, time.Hour)(r)
		r.TaskID, r.Spec.Gang = fmt.Sprint(name, ".", index), true
	})
}

// shareTask holds a part of the device of sharedOffer.
func shareTask(name, agent string, ends time.Duration, memMiB int64) queue.RunningTask {
	return runningTask(name, agent, ends, func(r *queue.RunningTask) {
		r.Spec.Request.Share.MemMiB, r.GPUTypes = memMiB, nil
		r.Shares = []gpu.DeviceShare{{UUID: "GPU-s", Type: "T4", MemMiB: memMiB, MilliDevices: int(memMiB / 16)}}
	})
}

func deviceTask(name, agent string, ends time.Duration, uuid string) queue.RunningTask {
	return runningTask(name, agent, ends, func(r *queue.RunningTask) { r.DeviceIDs = []string{uuid} })
}

func roleTask(role, name, agent string) queue.RunningTask {
	return runningTask(name, agent, 0, func(r *queue.RunningTask) { r.Spec.Role = role })
}

func runFor(d time.Duration) func(*job.Spec) { return func(s *job.Spec) { s.RunTime = d } }
func withPriority(n int) func(*job.Spec)     { return func(s *job.Spec) { s.Priority = n } }
func withGPUs(n int) func(*job.Spec)         { return func(s *job.Spec) { s.Request.GPUs = n } }
func withRole(role string) func(*job.Spec) {
	return func(s *job.Spec) { s.Role = role }
}
func withPort(host int) func(*job.Spec) {
	return func(s *job.Spec) { s.Ports = []job.Port{{Host: host}} }
}
func inGroup(s *job.Spec) {
	s.Group, s.Constraints = "web", []job.Constraint{{Field: "hostname", Operator: job.Unique}}
}
func alone(s *job.Spec)  { s.Constraints = []job.Constraint{{Field: "hostname", Operator: job.Unique}} }
func asGang(s *job.Spec) { s.Gang = true }

// sameType makes the job a gang whose GPUs are all of one type.
func sameType(s *job.Spec) { s.Gang, s.Request.Types.Same = true, true }

func both(changes ...func(*job.Spec)) func(*job.Spec) {
	return func(s *job.Spec) {
		for _, change := range changes {
			change(s)
		}
	}
}

// planText prints a plan, one decision a line.
func planText(p *Plan) string {
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	for _, a := range p.Accept {
		for _, l := range a.Launches {
			text := fmt.Sprintf("start %s on %s %v", l.TaskID, a.AgentID, a.OfferIDs)
			types := gpu.CountTypes(l.GPUTypes)
			for _, name := range slices.Sorted(maps.Keys(types)) {
				text += fmt.Sprintf(" %d %s", types[name], name)
			}
			if len(l.DeviceIDs) > 0 {
				text += fmt.Sprint(" ", l.DeviceIDs)
			}
			for _, s := range l.Shares {
				text += fmt.Sprintf(" %d MiB of %s", s.MemMiB, s.UUID)
			}
			lines = append(lines, text)
		}
	}
	for _, d := range p.Decline {
		add("decline %s for %s: %s", d.OfferID, d.Refuse, d.Reason)
	}
	for _, d := range p.Hold {
		add("hold %s for %s: %s", d.OfferID, d.Refuse, d.Reason)
	}
	for _, r := range p.Returns {
		add("return %s", r.AgentID)
	}
	for _, v := range p.Preempt {
		add("preempt %s for %s", v.TaskID, v.ForJob.Name)
	}
	for _, r := range p.Unplaced {
		add("wait %s", r)
	}
	return strings.Join(lines, "\n")
}

func TestPlan(t *testing.T) {
	twoRoles := []queue.Role{{Name: "a"}, {Name: "b"}}
	for _, c := range []struct {
		name    string
		offers  []fit.Offer
		known   []fit.AgentResources
		running []queue.RunningTask
		waiting []queue.WaitingJob
		roles   []queue.Role
		futile  map[string]bool
		want    string
	}{
		{
			name:   "nothing waits",
			offers: []fit.Offer{gpuOffer("y", 1, "V100"), gpuOffer("x", 1, "V100")},
			want: `
decline ox for 1h0m0s: no task waits
decline oy for 1h0m0s: no task waits`,
		},
		{
			name:    "tasks fill agents, and agents of other types are declined",
			offers:  []fit.Offer{gpuOffer("x", 2, "V100"), gpuOffer("y", 2, "K80"), gpuOffer("z", 0)},
			waiting: []queue.WaitingJob{waitingJob("train", 3, func(s *job.Spec) { s.Request.Types.Include = []string{"V100"} })},
			want: `
start train.0 on x [ox] 1 V100
start train.1 on x [ox] 1 V100
decline oy for 1h0m0s: no task waits for K80
decline oz for 1h0m0s: no task waits for an agent without GPUs
wait train: 1 free V100 on one agent; 1 agent has the type, none has one free; 1 of 3 tasks waits`,
		},
		{
			name:    "agents with fewer GPUs than a task needs are held",
			offers:  []fit.Offer{gpuOffer("x", 1, "V100"), gpuOffer("y", 0, "V100")},
			waiting: []queue.WaitingJob{waitingJob("train", 1, withGPUs(2))},
			want: `
decline oy for 5s: train wants 2 GPUs, agent has 0 free
hold ox for 5s: train wants 2 GPUs, agent has 1 free
wait train: 2 free GPUs on one agent; 2 agents have GPUs, 1 has 1 free`,
		},
		{
			name:    "GPUs handed out by count are of any type of the agent",
			offers:  []fit.Offer{gpuOffer("x", 2, "V100", "K80")},
			waiting: []queue.WaitingJob{waitingJob("train", 1, withGPUs(2))},
			want: `
start train.0 on x [ox] 2 K80|V100`,
		},
		{
			name:    "devices by id have the type of their model",
			offers:  []fit.Offer{deviceOffer("x", "Tesla V100", "Tesla V100", "Strange 1")},
			waiting: []queue.WaitingJob{waitingJob("train", 1, withGPUs(3))},
			want: `
start train.0 on x [ox] 1 Strange 2 V100 [GPU-x0 GPU-x1 GPU-x2]`,
		},
		{
			name:    "devices that the inventory lacks have the only type of the agent",
			offers:  []fit.Offer{func() fit.Offer { o := gpuOffer("x", 1, "K80"); o.DeviceIDs = []string{"GPU-1"}; return o }()},
			waiting: []queue.WaitingJob{waitingJob("train", 1, nil)},
			want: `
start train.0 on x [ox] 1 K80 [GPU-1]`,
		},
		{
			name:    "tasks without GPUs",
			offers:  []fit.Offer{gpuOffer("x", 0, "V100")},
			waiting: []queue.WaitingJob{waitingJob("cpu", 2, withGPUs(0))},
			want: `
start cpu.0 on x [ox]
start cpu.1 on x [ox]`,
		},
		{
			name:    "a task takes a part of a shared device",
			offers:  []fit.Offer{sharedOffer("x", 16000)},
			waiting: []queue.WaitingJob{waitingJob("train", 1, func(s *job.Spec) { s.Request.Share.MemMiB = 4000 })},
			want: `
start train.0 on x [ox] [GPU-s] 4000 MiB of GPU-s`,
		},
		{
			name:    "a gang starts together",
			offers:  []fit.Offer{gpuOffer("x", 1, "V100"), gpuOffer("y", 1, "V100")},
			waiting: []queue.WaitingJob{waitingJob("gang", 2, asGang)},
			want: `
start gang.0 on x [ox] 1 V100
start gang.1 on y [oy] 1 V100`,
		},
		{
			name:    "a gang that does not fit as a whole takes nothing",
			offers:  []fit.Offer{gpuOffer("x", 1, "V100"), gpuOffer("y", 1, "V100")},
			waiting: []queue.WaitingJob{waitingJob("gang", 3, asGang), waitingJob("later", 2, nil)},
			want: `
start later.0 on x [ox] 1 V100
start later.1 on y [oy] 1 V100
wait gang: 1 free GPU on one agent; 2 agents have GPUs, none has one free`,
		},
		{
			name:    "what a gang cannot use is left to jobs that end in time",
			offers:  []fit.Offer{gpuOffer("x", 1, "V100"), gpuOffer("y", 1, "V100")},
			running: []queue.RunningTask{runningTask("old", "y", time.Hour, nil)},
			waiting: []queue.WaitingJob{waitingJob("gang", 3, asGang), waitingJob("long", 1, runFor(2*time.Hour)), waitingJob("short", 1, runFor(time.Hour))},
			want: `
start short.0 on x [ox] 1 V100
hold oy for 5s: gang cannot start with this offer alone
wait gang: 1 free GPU on one agent; 2 agents have GPUs, none has one free
wait long: a place that gang will not need; gang goes first and starts within 1h0m0s, a run_time that ends before would fit`,
		},
		{
			name:    "a job of unknown run time does not take what is reserved",
			offers:  []fit.Offer{gpuOffer("x", 1, "V100")},
			running: []queue.RunningTask{runningTask("old", "x", time.Hour, nil)},
			waiting: []queue.WaitingJob{waitingJob("head", 1, withGPUs(2)), waitingJob("unknown", 1, nil)},
			want: `
hold ox for 5s: head wants 2 GPUs, agent has 1 free
wait head: 2 free GPUs on one agent; 1 agent has GPUs, the largest has 1
wait unknown: a place that head will not need; head goes first and starts within 1h0m0s, a run_time that ends before would fit`,
		},
		{
			name:    "a job that fits next to the reservation starts",
			offers:  []fit.Offer{gpuOffer("x", 1, "V100"), gpuOffer("y", 1, "V100")},
			running: []queue.RunningTask{runningTask("old", "x", time.Hour, nil)},
			waiting: []queue.WaitingJob{waitingJob("head", 1, withGPUs(2)), waitingJob("unknown", 2, nil)},
			want: `
start unknown.0 on y [oy] 1 V100
hold ox for 5s: head wants 2 GPUs, agent has 1 free
wait head: 2 free GPUs on one agent; 2 agents have GPUs, the largest has 1
wait unknown: a place that head will not need; head goes first and starts within 1h0m0s, a run_time that ends before would fit; 1 of 2 tasks waits`,
		},
		{
			name:    "nothing is reserved if no end is known",
			offers:  []fit.Offer{gpuOffer("x", 1, "V100")},
			running: []queue.RunningTask{runningTask("old", "x", 0, nil)},
			waiting: []queue.WaitingJob{waitingJob("head", 1, withGPUs(2)), waitingJob("next", 1, nil)},
			want: `
start next.0 on x [ox] 1 V100
wait head: 2 free GPUs on one agent; 1 agent has GPUs, the largest has 1`,
		},
		{
			name:    "a task whose end cannot free its place is not waited for",
			offers:  []fit.Offer{gpuOffer("x", 1, "V100")},
			running: []queue.RunningTask{runningTask("old", "x", time.Hour, func(r *queue.RunningTask) { r.Stuck = true })},
			waiting: []queue.WaitingJob{waitingJob("head", 1, withGPUs(2)), waitingJob("next", 1, nil)},
			want: `
start next.0 on x [ox] 1 V100
wait head: 2 free GPUs on one agent; 1 agent has GPUs, the largest has 1`,
		},
		{
			name:    "resources are reserved for one task if not for all",
			offers:  []fit.Offer{gpuOffer("x", 1, "V100")},
			running: []queue.RunningTask{runningTask("old", "x", time.Hour, nil)},
			waiting: []queue.WaitingJob{waitingJob("head", 2, withGPUs(2)), waitingJob("next", 1, nil)},
			want: `
hold ox for 5s: head wants 2 GPUs, agent has 1 free
wait head: 2 free GPUs on one agent; 1 agent has GPUs, the largest has 1
wait next: a place that head will not need; head goes first and starts within 1h0m0s, a run_time that ends before would fit`,
		},
		{
			name:    "the earliest end that makes room counts",
			offers:  []fit.Offer{gpuOffer("x", 1, "V100"), gpuOffer("y", 1, "V100")},
			running: []queue.RunningTask{runningTask("late", "x", 2*time.Hour, nil), runningTask("soon", "y", time.Hour, nil)},
			waiting: []queue.WaitingJob{waitingJob("head", 1, withGPUs(2)), waitingJob("next", 2, runFor(90*time.Minute))},
			want: `
start next.0 on x [ox] 1 V100
hold oy for 5s: head wants 2 GPUs, agent has 1 free
wait head: 2 free GPUs on one agent; 2 agents have GPUs, the largest has 1
wait next: a place that head will not need; head goes first and starts within 1h0m0s, a run_time that ends before would fit; 1 of 2 tasks waits`,
		},
		{
			name:    "a strict role has no backfill",
			offers:  []fit.Offer{gpuOffer("x", 1, "V100")},
			waiting: []queue.WaitingJob{waitingJob("head", 1, withGPUs(2)), waitingJob("next", 1, nil)},
			roles:   []queue.Role{{Strict: true}},
			want: `
hold ox for 5s: head wants 2 GPUs, agent has 1 free
wait head: 2 free GPUs on one agent; 1 agent has GPUs, the largest has 1
wait next: its turn; head goes first, and its role allows no backfill`,
		},
		{
			name:    "jobs of the same kind wait for the same reason",
			offers:  []fit.Offer{gpuOffer("x", 1, "V100")},
			waiting: []queue.WaitingJob{waitingJob("first", 1, withGPUs(2)), waitingJob("second", 3, withGPUs(2))},
			want: `
hold ox for 5s: first wants 2 GPUs, agent has 1 free
wait first: 2 free GPUs on one agent; 1 agent has GPUs, the largest has 1
wait second: 2 free GPUs on one agent; 1 agent has GPUs, the largest has 1`,
		},
		{
			name:    "a smaller gang of the same kind may still fit",
			offers:  []fit.Offer{gpuOffer("x", 1, "V100"), gpuOffer("y", 1, "V100")},
			waiting: []queue.WaitingJob{waitingJob("three", 3, asGang), waitingJob("two", 2, asGang)},
			want: `
start two.0 on x [ox] 1 V100
start two.1 on y [oy] 1 V100
wait three: 1 free GPU on one agent; 2 agents have GPUs, none has one free`,
		},
		{
			name:    "a role at its quota waits",
			offers:  []fit.Offer{gpuOffer("x", 4, "V100")},
			running: []queue.RunningTask{runningTask("old", "y", 0, nil)},
			waiting: []queue.WaitingJob{waitingJob("train", 3, nil), waitingJob("next", 1, nil)},
			roles:   []queue.Role{{Quota: quota.Quota{quota.AllTypes: 2}}},
			want: `
start train.0 on x [ox] 1 V100
wait train: room in the quota of role  for 1 more; it may hold 2 GPUs and holds 2; 2 of 3 tasks wait
wait next: room in the quota of role  for 1 more; it may hold 2 GPUs and holds 2, and train goes first`,
		},
		{
			name:    "the rest of a quota is kept for a gang",
			offers:  []fit.Offer{gpuOffer("x", 4, "V100")},
			running: []queue.RunningTask{runningTask("old", "y", 0, nil)},
			waiting: []queue.WaitingJob{waitingJob("gang", 2, asGang), waitingJob("next", 1, nil)},
			roles:   []queue.Role{{Quota: quota.Quota{quota.AllTypes: 2}}},
			want: `
decline ox for 1h0m0s: no task waits for V100
wait gang: room in the quota of role  for 2 more; it may hold 2 GPUs and holds 1
wait next: room in the quota of role  for 1 more; it may hold 2 GPUs and holds 1, and gang goes first`,
		},
		{
			name:    "a job beyond its quota reserves nothing",
			offers:  []fit.Offer{gpuOffer("x", 1, "V100")},
			running: []queue.RunningTask{runningTask("old", "x", time.Hour, nil)},
			waiting: []queue.WaitingJob{waitingJob("never", 1, withGPUs(3)), waitingJob("next", 1, nil)},
			roles:   []queue.Role{{Quota: quota.Quota{quota.AllTypes: 2}}},
			want: `
start next.0 on x [ox] 1 V100
wait never: room in the quota of role  for 3 more; it may hold 2 GPUs and holds 1: it can never start`,
		},
		{
			name:    "a gang on GPUs of the same type takes the type that all its tasks can have",
			offers:  []fit.Offer{gpuOffer("x", 1, "V100"), gpuOffer("y", 1, "K80"), gpuOffer("z", 1, "K80")},
			waiting: []queue.WaitingJob{waitingJob("gang", 2, sameType), waitingJob("next", 1, nil)},
			want: `
start next.0 on x [ox] 1 V100
start gang.0 on y [oy] 1 K80
start gang.1 on z [oz] 1 K80`,
		},
		{
			name:    "a gang on GPUs of the same type does not start on two types, and takes nothing",
			offers:  []fit.Offer{gpuOffer("x", 1, "V100"), gpuOffer("y", 1, "K80")},
			waiting: []queue.WaitingJob{waitingJob("gang", 2, sameType), waitingJob("next", 2, nil)},
			want: `
start next.0 on x [ox] 1 V100
start next.1 on y [oy] 1 K80
wait gang: 2 free K80 for the gang of 2 together; 1 agent has 1 free; all GPUs must be of one type, and of K80 and V100, K80 has the most room`,
		},
		{
			name:    "a gang on GPUs of the same type takes a type that its quota allows",
			offers:  []fit.Offer{gpuOffer("x", 2, "V100"), gpuOffer("y", 2, "K80")},
			waiting: []queue.WaitingJob{waitingJob("gang", 2, sameType)},
			roles:   []queue.Role{{Quota: quota.Quota{"V100": 1}}},
			want: `
start gang.0 on y [oy] 1 K80
start gang.1 on y [oy] 1 K80
decline ox for 1h0m0s: no task waits`,
		},
		{
			name:    "a gang on GPUs of the same type waits if its quota allows a part of it",
			offers:  []fit.Offer{gpuOffer("x", 2, "V100")},
			waiting: []queue.WaitingJob{waitingJob("gang", 2, sameType), waitingJob("next", 1, nil)},
			running: []queue.RunningTask{runningTask("old", "y", 0, nil)},
			roles:   []queue.Role{{Quota: quota.Quota{quota.AllTypes: 2}}},
			want: `
decline ox for 1h0m0s: no task waits for V100
wait gang: room in the quota of role  for 2 more; it may hold 2 GPUs and holds 1
wait next: room in the quota of role  for 1 more; it may hold 2 GPUs and holds 1, and gang goes first`,
		},
		{
			name:   "for a gang on GPUs of the same type, the tasks of the lowest priority are preempted",
			offers: []fit.Offer{gpuOffer("x", 1, "V100"), gpuOffer("y", 1, "K80")},
			running: []queue.RunningTask{
				runningTask("high", "x", 0, preemptible(1, time.Hour)), runningTask("low", "y", 0, func(r *queue.RunningTask) {
					preemptible(0, time.Minute)(r)
					r.GPUTypes = map[string]int{"K80": 1}
				}),
			},
			waiting: []queue.WaitingJob{waitingJob("gang", 2, both(sameType, withPriority(2)))},
			want: `
hold ox for 5s: gang cannot start with this offer alone
hold oy for 5s: gang cannot start with this offer alone
preempt low.0 for gang
wait gang: 2 free K80 for the gang of 2 together; 1 agent has 1 free; all GPUs must be of one type, and of K80 and V100, K80 has the most room`,
		},
		{
			name:   "for a gang on GPUs of the same type, the least work is lost",
			offers: []fit.Offer{gpuOffer("x", 0, "V100"), gpuOffer("y", 0, "K80")},
			running: []queue.RunningTask{
				runningTask("one", "x", 0, preemptible(0, time.Hour)), runningTask("two", "x", 0, preemptible(0, time.Hour)),
				runningTask("pair", "y", 0, func(r *queue.RunningTask) {
					preemptible(0, 2*time.Hour)(r)
					r.Spec.Request.GPUs, r.GPUTypes = 2, map[string]int{"K80": 2}
				}),
			},
			waiting: []queue.WaitingJob{waitingJob("gang", 2, both(sameType, withPriority(2)))},
			want: `
decline ox for 5s: gang wants 1 GPU, agent has 0 free
decline oy for 5s: gang wants 1 GPU, agent has 0 free
preempt one.0 for gang
preempt two.0 for gang
wait gang: 1 free K80 on one agent for each of the 2 tasks of the gang; 1 agent has the type, none has one free; all GPUs must be of one type, and of K80 and V100, K80 has the most room`,
		},
		{
			name:   "for a gang on GPUs of the same type, the tasks of the lowest priority are preempted, whichever type is first",
			offers: []fit.Offer{gpuOffer("x", 1, "K80"), gpuOffer("y", 1, "V100")},
			running: []queue.RunningTask{
				runningTask("high", "x", 0, ofK80(preemptible(1, time.Hour))), runningTask("low", "y", 0, func(r *queue.RunningTask) {
					preemptible(0, time.Minute)(r)
					r.GPUTypes = map[string]int{"V100": 1}
				}),
			},
			waiting: []queue.WaitingJob{waitingJob("gang", 2, both(sameType, withPriority(2)))},
			want: `
hold ox for 5s: gang cannot start with this offer alone
hold oy for 5s: gang cannot start with this offer alone
preempt low.0 for gang
wait gang: 2 free K80 for the gang of 2 together; 1 agent has 1 free; all GPUs must be of one type, and of K80 and V100, K80 has the most room`,
		},
		{
			name:   "for a gang on GPUs of the same type, the least work is lost, whichever type is first",
			offers: []fit.Offer{gpuOffer("x", 0, "K80"), gpuOffer("y", 0, "V100")},
			running: []queue.RunningTask{
				runningTask("one", "x", 0, ofK80(preemptible(0, time.Hour))), runningTask("two", "x", 0, ofK80(preemptible(0, time.Hour))),
				runningTask("pair", "y", 0, func(r *queue.RunningTask) {
					preemptible(0, 2*time.Hour)(r)
					r.Spec.Request.GPUs, r.GPUTypes = 2, map[string]int{"V100": 2}
				}),
			},
			waiting: []queue.WaitingJob{waitingJob("gang", 2, both(sameType, withPriority(2)))},
			want: `
decline ox for 5s: gang wants 1 GPU, agent has 0 free
decline oy for 5s: gang wants 1 GPU, agent has 0 free
preempt one.0 for gang
preempt two.0 for gang
wait gang: 1 free K80 on one agent for each of the 2 tasks of the gang; 1 agent has the type, none has one free; all GPUs must be of one type, and of K80 and V100, K80 has the most room`,
		},
		{
			name:    "for a gang on GPUs of the same type, nothing is preempted if no type suffices",
			offers:  []fit.Offer{gpuOffer("x", 0, "V100"), gpuOffer("y", 1, "K80")},
			running: []queue.RunningTask{runningTask("one", "x", 0, preemptible(0, time.Hour))},
			waiting: []queue.WaitingJob{waitingJob("gang", 2, both(sameType, withPriority(2)))},
			want: `
decline ox for 5s: gang wants 1 GPU, agent has 0 free
hold oy for 5s: gang cannot start with this offer alone
wait gang: 2 free K80 for the gang of 2 together; 1 agent has 1 free; all GPUs must be of one type, and of K80 and V100, K80 has the most room`,
		},
		{
			name:    "the reservation for a gang on GPUs of the same type is of one type",
			offers:  []fit.Offer{gpuOffer("x", 1, "V100"), gpuOffer("y", 1, "K80")},
			running: []queue.RunningTask{runningTask("old", "x", time.Hour, nil)},
			waiting: []queue.WaitingJob{waitingJob("gang", 2, sameType), waitingJob("long", 2, nil)},
			want: `
start long.0 on y [oy] 1 K80
hold ox for 5s: gang cannot start with this offer alone
wait gang: 2 free K80 for the gang of 2 together; 1 agent has 1 free; all GPUs must be of one type, and of K80 and V100, K80 has the most room
wait long: a place that gang will not need; gang goes first and starts within 1h0m0s, a run_time that ends before would fit; 1 of 2 tasks waits`,
		},
		{
			name:    "types at their quota are left out",
			offers:  []fit.Offer{gpuOffer("x", 1, "V100"), gpuOffer("y", 1, "K80")},
			waiting: []queue.WaitingJob{waitingJob("train", 2, nil)},
			roles:   []queue.Role{{Quota: quota.Quota{"V100": 0}}},
			want: `
start train.0 on y [oy] 1 K80
decline ox for 1h0m0s: no task waits for V100
wait train: 1 free GPU other than V100 on one agent; 1 agent has such GPUs, none has one free; role  may hold 0 V100 and holds 0: it can never start on those; 1 of 2 tasks waits`,
		},
		{
			name:   "the task of the lowest priority is preempted",
			offers: []fit.Offer{gpuOffer("x", 0, "V100")},
			running: []queue.RunningTask{
				runningTask("low", "x", 0, preemptible(1, time.Hour)),
				runningTask("lowest", "x", 0, preemptible(0, 2*time.Hour)),
				runningTask("equal", "x", 0, preemptible(5, time.Minute)), runningTask("fixed", "x", 0, nil),
			},
			waiting: []queue.WaitingJob{waitingJob("urgent", 1, withPriority(5))},
			want: `
decline ox for 5s: urgent wants 1 GPU, agent has 0 free
preempt lowest.0 for urgent
wait urgent: 1 free GPU on one agent; 1 agent has GPUs, none has one free`,
		},
		{
			name:    "of equal priorities the youngest task is preempted",
			offers:  []fit.Offer{gpuOffer("x", 0, "V100")},
			running: []queue.RunningTask{runningTask("older", "x", 0, preemptible(0, 2*time.Hour)), runningTask("younger", "x", 0, preemptible(0, time.Hour))},
			waiting: []queue.WaitingJob{waitingJob("urgent", 1, withPriority(5))},
			want: `
decline ox for 5s: urgent wants 1 GPU, agent has 0 free
preempt younger.0 for urgent
wait urgent: 1 free GPU on one agent; 1 agent has GPUs, none has one free`,
		},
		{
			name:   "jobs with the same demand preempt at the same time",
			offers: []fit.Offer{gpuOffer("x", 0, "V100")},
			running: []queue.RunningTask{
				runningTask("one", "x", 0, preemptible(0, time.Hour)),
				runningTask("two", "x", 0, preemptible(0, 2*time.Hour)),
				runningTask("three", "x", 0, preemptible(1, time.Hour)),
			},
			waiting: []queue.WaitingJob{waitingJob("urgent", 1, withPriority(5)), waitingJob("later", 1, withPriority(4)), waitingJob("last", 1, withPriority(1))},
			want: `
decline ox for 5s: urgent wants 1 GPU, agent has 0 free
preempt one.0 for urgent
preempt two.0 for later
wait urgent: 1 free GPU on one agent; 1 agent has GPUs, none has one free
wait later: 1 free GPU on one agent; 1 agent has GPUs, none has one free
wait last: 1 free GPU on one agent; 1 agent has GPUs, none has one free`,
		},
		{
			name:   "a job preempts for what the tasks that end for the jobs before it do not free",
			offers: []fit.Offer{gpuOffer("x", 0, "V100")},
			running: []queue.RunningTask{
				runningTask("ending", "x", time.Minute, func(r *queue.RunningTask) { r.Ending = true; r.Spec.Request.GPUs = 3 }),
				runningTask("other", "x", 0, preemptible(0, time.Hour)),
				runningTask("more", "x", 0, preemptible(0, time.Minute)),
			},
			waiting: []queue.WaitingJob{waitingJob("urgent", 1, withPriority(5)), waitingJob("array", 2, withPriority(5)), waitingJob("later", 1, withPriority(4))},
			want: `
decline ox for 5s: urgent wants 1 GPU, agent has 0 free
preempt more.0 for later
wait urgent: 1 free GPU on one agent; 1 agent has GPUs, none has one free
wait array: 1 free GPU on one agent; 1 agent has GPUs, none has one free
wait later: 1 free GPU on one agent; 1 agent has GPUs, none has one free`,
		},
		{
			name:    "a job with another demand waits until the head has its place, since it could get the place first",
			offers:  []fit.Offer{gpuOffer("x", 0, "V100")},
			running: []queue.RunningTask{runningTask("one", "x", 0, preemptible(0, time.Hour)), runningTask("two", "x", 0, preemptible(0, 2*time.Hour))},
			waiting: []queue.WaitingJob{
				waitingJob("urgent", 1, withPriority(5)),
				waitingJob("larger", 1, both(withPriority(4), func(s *job.Spec) { s.CPUs = 2 })),
				waitingJob("same", 1, withPriority(3)),
			},
			want: `
decline ox for 5s: urgent wants 1 GPU, agent has 0 free
preempt one.0 for urgent
wait urgent: 1 free GPU on one agent; 1 agent has GPUs, none has one free
wait larger: 1 free GPU on one agent; 1 agent has GPUs, none has one free
wait same: 1 free GPU on one agent; 1 agent has GPUs, none has one free`,
		},
		{
			name:   "only as many jobs preempt at the same time as the quota permits",
			offers: []fit.Offer{roleOffer("a", "x", 0)},
			running: []queue.RunningTask{
				runningTask("one", "x", 0, func(r *queue.RunningTask) { preemptible(0, time.Hour)(r); r.Spec.Role = "a" }),
				runningTask("two", "x", 0, func(r *queue.RunningTask) { preemptible(0, time.Hour)(r); r.Spec.Role = "a" }),
			},
			waiting: []queue.WaitingJob{waitingJob("urgent", 1, both(withPriority(5), withRole("a"))), waitingJob("later", 1, both(withPriority(4), withRole("a")))},
			roles:   []queue.Role{{Name: "a", Quota: quota.Quota{"V100": 3}}},
			want: `
decline ox-a for 5s: urgent wants 1 GPU, agent has 0 free
preempt one.0 for urgent
wait urgent: 1 free GPU on one agent; 1 agent has GPUs, none has one free
wait later: 1 free GPU on one agent; 1 agent has GPUs, none has one free`,
		},
		{
			name:    "a gang is preempted as a whole",
			offers:  []fit.Offer{gpuOffer("x", 0, "V100")},
			known:   []fit.AgentResources{{ID: "y"}, {ID: "z"}},
			running: []queue.RunningTask{gangTask("gang", 0, "x"), gangTask("gang", 1, "y"), runningTask("other", "z", 0, preemptible(1, time.Hour))},
			waiting: []queue.WaitingJob{waitingJob("urgent", 1, withPriority(5))},
			want: `
decline ox for 5s: urgent wants 1 GPU, agent has 0 free
preempt gang.0 for urgent
preempt gang.1 for urgent
wait urgent: 1 free GPU on one agent; 1 agent has GPUs, none has one free`,
		},
		{
			name:   "tasks that end anyway are not preempted",
			offers: []fit.Offer{gpuOffer("x", 0, "V100")},
			running: []queue.RunningTask{
				runningTask("ending", "x", time.Minute, func(r *queue.RunningTask) { r.Ending = true }),
				runningTask("other", "x", 0, preemptible(0, time.Hour)),
			},
			waiting: []queue.WaitingJob{waitingJob("urgent", 1, withPriority(5))},
			want: `
decline ox for 5s: urgent wants 1 GPU, agent has 0 free
wait urgent: 1 free GPU on one agent; 1 agent has GPUs, none has one free`,
		},
		{
			name:    "no task is preempted in vain",
			offers:  []fit.Offer{gpuOffer("x", 0, "V100")},
			running: []queue.RunningTask{runningTask("other", "x", 0, preemptible(0, time.Hour))},
			waiting: []queue.WaitingJob{waitingJob("urgent", 1, both(withPriority(5), withGPUs(2)))},
			want: `
decline ox for 5s: urgent wants 2 GPUs, agent has 0 free
wait urgent: 2 free GPUs on one agent; 1 agent has GPUs, none has one free`,
		},
		{
			name:    "tasks of other roles are not preempted",
			offers:  []fit.Offer{roleOffer("a", "x", 0)},
			running: []queue.RunningTask{runningTask("other", "x", 0, func(r *queue.RunningTask) { preemptible(0, time.Hour)(r); r.Spec.Role = "b" })},
			waiting: []queue.WaitingJob{waitingJob("urgent", 1, both(withPriority(5), withRole("a")))},
			roles:   twoRoles,
			want: `
decline ox-a for 5s: urgent wants 1 GPU, agent has 0 free
wait urgent: 1 free GPU on one agent; 1 agent has GPUs, none has one free`,
		},
		{
			name:   "resources of an agent without offers are waited for",
			offers: []fit.Offer{gpuOffer("x", 1, "V100")},
			known: []fit.AgentResources{{ID: "y", Hostname: "y", GPUs: 2, Types: []string{"V100"},
				Free: fit.Amount{CPUs: 9, MemMiB: 9999}, Ports: []fit.PortRange{{First: 31000, Last: 31010}}}},
			waiting: []queue.WaitingJob{waitingJob("head", 1, withGPUs(2)), waitingJob("next", 1, nil)},
			want: `
start next.0 on x [ox] 1 V100
wait head: 2 free GPUs on one agent; 2 agents have GPUs, 1 has 1 free`,
		},
		{
			name:    "the role with the smaller share is first",
			offers:  []fit.Offer{roleOffer("a", "x", 0), roleOffer("b", "y", 0)},
			running: []queue.RunningTask{roleTask("a", "old", "z")},
			waiting: []queue.WaitingJob{waitingJob("of-a", 1, withRole("a")), waitingJob("of-b", 1, withRole("b"))},
			roles:   twoRoles,
			want: `
decline ox-a for 5s: of-a wants 1 GPU, agent has 0 free
decline oy-b for 5s: of-b wants 1 GPU, agent has 0 free
wait of-b: 1 free GPU on one agent; 1 agent has GPUs, none has one free
wait of-a: 1 free GPU on one agent; 1 agent has GPUs, none has one free`,
		},
		{
			name:    "a role with more than its share returns offers",
			offers:  []fit.Offer{roleOffer("a", "x", 1)},
			running: []queue.RunningTask{roleTask("a", "old", "z")},
			waiting: []queue.WaitingJob{waitingJob("of-b", 1, withRole("b"))},
			roles:   twoRoles,
			want: `
decline ox-a for 5s: role b holds less for its weight and of-b waits for it
return x
wait of-b: GPUs of other roles' offers; roles with more than their share return them`,
		},
		{
			name:    "offers whose return had no effect are not returned",
			offers:  []fit.Offer{roleOffer("a", "x", 1)},
			running: []queue.RunningTask{roleTask("a", "old", "z")},
			waiting: []queue.WaitingJob{waitingJob("of-b", 1, withRole("b"))},
			roles:   twoRoles,
			futile:  map[string]bool{"x": true},
			want: `
decline ox-a for 1h0m0s: no task waits for V100
wait of-b: 1 free GPU on one agent; none of 1 agent offers to role "b"`,
		},
		{
			name:    "equal shares return no offers",
			offers:  []fit.Offer{roleOffer("a", "x", 1)},
			waiting: []queue.WaitingJob{waitingJob("of-b", 1, withRole("b"))},
			roles:   twoRoles,
			want: `
decline ox-a for 1h0m0s: no task waits for V100
wait of-b: 1 free GPU on one agent; none of 1 agent offers to role "b"`,
		},
		{
			name:    "of equal shares the later role returns offers that complete a gang",
			offers:  []fit.Offer{roleOffer("a", "x", 1), roleOffer("b", "y", 1)},
			waiting: []queue.WaitingJob{waitingJob("gang-a", 2, both(withRole("a"), asGang)), waitingJob("gang-b", 2, both(withRole("b"), asGang))},
			roles:   twoRoles,
			want: `
decline oy-b for 5s: role a holds less for its weight and gang-a waits for it
hold ox-a for 5s: gang-a cannot start with this offer alone
return y
wait gang-a: 1 free GPU on one agent; 1 agent has GPUs, none has one free
wait gang-b: 1 free GPU on one agent; 1 agent has GPUs, none has one free`,
		},
		{
			name:    "offers that do not complete a gang are not returned",
			offers:  []fit.Offer{roleOffer("b", "y", 1)},
			running: []queue.RunningTask{roleTask("b", "old", "z")},
			waiting: []queue.WaitingJob{waitingJob("gang-a", 2, both(withRole("a"), asGang))},
			roles:   twoRoles,
			want: `
decline oy-b for 1h0m0s: no task waits for V100
wait gang-a: 1 free GPU on one agent; none of 1 agent offers to role "a"`,
		},
		{
			name:    "no offers are returned for tasks without GPUs",
			offers:  []fit.Offer{roleOffer("a", "x", 1)},
			running: []queue.RunningTask{roleTask("a", "old", "z")},
			waiting: []queue.WaitingJob{waitingJob("of-b", 1, both(withRole("b"), withGPUs(0)))},
			roles:   twoRoles,
			want: `
decline ox-a for 1h0m0s: no task waits for V100
wait of-b: 1 CPU on one agent; none of 1 agent offers to role "b"`,
		},
		{
			name:    "no more offers are returned than the quota allows",
			offers:  []fit.Offer{roleOffer("a", "x", 1), roleOffer("a", "y", 1)},
			running: []queue.RunningTask{roleTask("a", "old", "z")},
			waiting: []queue.WaitingJob{waitingJob("of-b", 2, withRole("b"))},
			roles:   []queue.Role{{Name: "a"}, {Name: "b", Quota: quota.Quota{quota.AllTypes: 1}}},
			want: `
decline ox-a for 5s: role b holds less for its weight and of-b waits for it
decline oy-a for 1h0m0s: no task waits for V100
return x
wait of-b: 1 free GPU on one agent; none of 2 agents offers to role "b"`,
		},
		{
			name:   "maintenance that begins before a task ends",
			offers: []fit.Offer{func() fit.Offer { o := gpuOffer("x", 2, "V100"); o.Unavailable = planTime().Add(time.Hour); return o }()},
			waiting: []queue.WaitingJob{
				waitingJob("long", 1, runFor(2*time.Hour)), waitingJob("short", 1, runFor(time.Minute)),
				waitingJob("other", 1, runFor(3*time.Hour)),
			},
			want: `
start short.0 on x [ox] 1 V100
wait long: 1 free GPU on one agent; 1 agent has GPUs, 1 lacks 2h0m0s before maintenance: the longest is 1h0m0s
wait other: 1 free GPU on one agent; 1 agent has GPUs, 1 lacks 3h0m0s before maintenance: the longest is 1h0m0s`,
		},
		{
			name:    "a share of which an ending task frees the rest",
			offers:  []fit.Offer{sharedOffer("x", 4000)},
			running: []queue.RunningTask{shareTask("old", "x", time.Hour, 12000)},
			waiting: []queue.WaitingJob{
				waitingJob("head", 1, func(s *job.Spec) { s.Request.Share.MemMiB = 10000 }),
				waitingJob("next", 1, func(s *job.Spec) { s.Request.Share.MemMiB = 4000 }),
			},
			want: `
start next.0 on x [ox] [GPU-s] 4000 MiB of GPU-s
wait head: 10000 MiB of one shared GPU on one agent; 1 of 1 device lacks 10000 MiB of shared memory (most free 4000)`,
		},
		{
			name:    "devices of an ending task are not reserved twice",
			offers:  []fit.Offer{deviceOffer("x", "Tesla V100"), deviceOffer("y", "Tesla V100")},
			running: []queue.RunningTask{deviceTask("old", "x", time.Hour, "GPU-old")},
			waiting: []queue.WaitingJob{waitingJob("head", 1, withGPUs(2)), waitingJob("next", 2, nil)},
			want: `
start next.0 on y [oy] 1 V100 [GPU-y0]
hold ox for 5s: head wants 2 GPUs, agent has 1 free
wait head: 2 free GPUs on one agent; 2 agents have GPUs, the largest has 1
wait next: a place that head will not need; head goes first and starts within 1h0m0s, a run_time that ends before would fit; 1 of 2 tasks waits`,
		},
		{
			name:    "CPUs of an ending task are not reserved twice",
			offers:  []fit.Offer{func() fit.Offer { o := gpuOffer("x", 1, "V100"); o.Free.CPUs = 4; return o }()},
			running: []queue.RunningTask{runningTask("old", "x", time.Hour, func(r *queue.RunningTask) { r.Spec.CPUs = 6 })},
			waiting: []queue.WaitingJob{
				waitingJob("head", 1, func(s *job.Spec) { s.Request.GPUs, s.CPUs = 0, 7 }),
				waitingJob("next", 1, func(s *job.Spec) { s.CPUs = 2 }),
				waitingJob("last", 1, func(s *job.Spec) { s.Request.GPUs, s.CPUs = 0, 2 }),
			},
			want: `
start next.0 on x [ox] 1 V100
wait head: 7 CPUs on one agent; 1 agent is known, the most free on one is 4
wait last: a place that head will not need; head goes first and starts within 1h0m0s, a run_time that ends before would fit`,
		},
		{
			name:    "a fixed port of the head is reserved",
			offers:  []fit.Offer{func() fit.Offer { o := gpuOffer("x", 1, "V100"); o.Free.CPUs = 4; return o }()},
			running: []queue.RunningTask{runningTask("old", "x", time.Hour, func(r *queue.RunningTask) { r.Spec.CPUs = 6 })},
			waiting: []queue.WaitingJob{
				waitingJob("head", 1, both(withPort(31001), func(s *job.Spec) { s.CPUs = 8 })),
				waitingJob("next", 1, both(withPort(31001), withGPUs(0))),
				waitingJob("last", 1, both(withPort(31002), withGPUs(0))),
			},
			want: `
start last.0 on x [ox]
wait head: 8 CPUs and 1 free GPU on one agent; 1 agent has the GPUs, the most free on one is 4
wait next: a place that head will not need; head goes first and starts within 1h0m0s, a run_time that ends before would fit`,
		},
		{
			name:    "two jobs of one group avoid each other",
			offers:  []fit.Offer{gpuOffer("x", 2, "V100"), gpuOffer("y", 2, "V100")},
			waiting: []queue.WaitingJob{waitingJob("one", 1, inGroup), waitingJob("two", 1, inGroup), waitingJob("three", 1, inGroup)},
			want: `
start one.0 on x [ox] 1 V100
start two.0 on y [oy] 1 V100
wait three: an agent that hostname UNIQUE allows; 2 agents have room, 2 are excluded`,
		},
		{
			name:   "a second role has a reservation of its own",
			offers: []fit.Offer{roleOffer("a", "x", 1), roleOffer("b", "y", 1)},
			running: []queue.RunningTask{
				runningTask("old-a", "x", time.Hour, func(r *queue.RunningTask) { r.Spec.Role = "a" }),
				runningTask("old-b", "y", 2*time.Hour, func(r *queue.RunningTask) { r.Spec.Role = "b" }),
			},
			waiting: []queue.WaitingJob{
				waitingJob("head-a", 1, both(withRole("a"), withGPUs(2))),
				waitingJob("head-b", 1, both(withRole("b"), withGPUs(2))),
				waitingJob("next-a", 1, both(withRole("a"), runFor(90*time.Minute))),
				waitingJob("next-b", 1, both(withRole("b"), runFor(90*time.Minute))),
			},
			roles: twoRoles,
			want: `
start next-b.0 on y [oy-b] 1 V100
hold ox-a for 5s: head-a wants 2 GPUs, agent has 1 free
wait head-a: 2 free GPUs on one agent; 1 agent has GPUs, the largest has 1
wait next-a: a place that head-a will not need; head-a goes first and starts within 1h0m0s, a run_time that ends before would fit
wait head-b: 2 free GPUs on one agent; 1 agent has GPUs, the largest has 1`,
		},
		{
			name:   "a victim that frees too little alone is joined by others",
			offers: []fit.Offer{gpuOffer("x", 0, "V100")},
			running: []queue.RunningTask{
				runningTask("one", "x", 0, preemptible(0, time.Hour)),
				runningTask("two", "x", 0, preemptible(0, 2*time.Hour)),
				runningTask("three", "x", 0, preemptible(0, 3*time.Hour)),
			},
			waiting: []queue.WaitingJob{waitingJob("urgent", 1, both(withPriority(5), withGPUs(2)))},
			want: `
decline ox for 5s: urgent wants 2 GPUs, agent has 0 free
preempt one.0 for urgent
preempt two.0 for urgent
wait urgent: 2 free GPUs on one agent; 1 agent has GPUs, none has one free`,
		},
		{
			name:   "a victim that turns out to be unnecessary runs on",
			offers: []fit.Offer{gpuOffer("x", 0, "V100"), gpuOffer("y", 0, "V100")},
			running: []queue.RunningTask{
				runningTask("small", "x", 0, preemptible(0, time.Hour)),
				runningTask("large", "y", 0, func(r *queue.RunningTask) { preemptible(1, time.Hour)(r); r.Spec.Request.GPUs = 2 }),
			},
			waiting: []queue.WaitingJob{waitingJob("urgent", 1, both(withPriority(5), withGPUs(2)))},
			want: `
decline ox for 5s: urgent wants 2 GPUs, agent has 0 free
decline oy for 5s: urgent wants 2 GPUs, agent has 0 free
preempt large.0 for urgent
wait urgent: 2 free GPUs on one agent; 2 agents have GPUs, none has one free`,
		},
		{
			name:    "what a task that was asked to end frees is reserved",
			offers:  []fit.Offer{gpuOffer("x", 1, "V100")},
			running: []queue.RunningTask{runningTask("old", "x", time.Minute, func(r *queue.RunningTask) { r.Ending = true })},
			waiting: []queue.WaitingJob{waitingJob("head", 1, withGPUs(2)), waitingJob("next", 1, nil)},
			want: `
hold ox for 5s: head wants 2 GPUs, agent has 1 free
wait head: 2 free GPUs on one agent; 1 agent has GPUs, the largest has 1
wait next: a place that head will not need; head goes first and starts within 1m0s, a run_time that ends before would fit`,
		},
		{
			name:    "ends are waited for if no task may be preempted",
			offers:  []fit.Offer{gpuOffer("x", 1, "V100")},
			running: []queue.RunningTask{runningTask("old", "x", time.Hour, preemptible(9, time.Hour))},
			waiting: []queue.WaitingJob{waitingJob("head", 1, withGPUs(2)), waitingJob("next", 1, nil)},
			want: `
hold ox for 5s: head wants 2 GPUs, agent has 1 free
wait head: 2 free GPUs on one agent; 1 agent has GPUs, the largest has 1
wait next: a place that head will not need; head goes first and starts within 1h0m0s, a run_time that ends before would fit`,
		},
		{
			name:    "what a victim frees is reserved",
			offers:  []fit.Offer{gpuOffer("x", 1, "V100")},
			running: []queue.RunningTask{runningTask("old", "x", 0, preemptible(0, time.Hour))},
			waiting: []queue.WaitingJob{waitingJob("urgent", 1, both(withPriority(5), withGPUs(2))), waitingJob("next", 1, nil)},
			want: `
hold ox for 5s: urgent wants 2 GPUs, agent has 1 free
preempt old.0 for urgent
wait urgent: 2 free GPUs on one agent; 1 agent has GPUs, the largest has 1
wait next: a place that urgent will not need; urgent goes first and starts within 10s, a run_time that ends before would fit`,
		},
		{
			name:    "a task that cannot end is not preempted",
			offers:  []fit.Offer{gpuOffer("x", 0, "V100")},
			running: []queue.RunningTask{runningTask("old", "x", 0, func(r *queue.RunningTask) { preemptible(0, time.Hour)(r); r.Stuck = true })},
			waiting: []queue.WaitingJob{waitingJob("urgent", 1, withPriority(5))},
			want: `
decline ox for 5s: urgent wants 1 GPU, agent has 0 free
wait urgent: 1 free GPU on one agent; 1 agent has GPUs, none has one free`,
		},
		{
			name:   "a task that was asked to end is not preempted",
			offers: []fit.Offer{gpuOffer("x", 0, "V100")},
			running: []queue.RunningTask{
				runningTask("old", "x", 0, func(r *queue.RunningTask) { preemptible(0, time.Hour)(r); r.Ending = true }),
				runningTask("other", "y", 0, preemptible(0, time.Hour)),
			},
			waiting: []queue.WaitingJob{waitingJob("urgent", 1, withPriority(5))},
			want: `
decline ox for 5s: urgent wants 1 GPU, agent has 0 free
wait urgent: 1 free GPU on one agent; 1 agent has GPUs, none has one free`,
		},
		{
			name:    "the role with the largest share returns its offers",
			offers:  []fit.Offer{roleOffer("b", "y", 1), roleOffer("a", "x", 1)},
			running: []queue.RunningTask{roleTask("a", "old", "z"), roleTask("a", "older", "z"), roleTask("b", "other", "z")},
			waiting: []queue.WaitingJob{waitingJob("of-c", 1, withRole("c"))},
			roles:   []queue.Role{{Name: "b"}, {Name: "a"}, {Name: "c"}},
			want: `
decline ox-a for 5s: role c holds less for its weight and of-c waits for it
decline oy-b for 1h0m0s: no task waits for V100
return x
wait of-c: GPUs of other roles' offers; roles with more than their share return them`,
		},
		{
			name:    "several roles return offers for the tasks of one job",
			offers:  []fit.Offer{roleOffer("b", "y", 1), roleOffer("a", "x", 1)},
			running: []queue.RunningTask{roleTask("a", "old", "z"), roleTask("b", "other", "z")},
			waiting: []queue.WaitingJob{waitingJob("of-c", 2, withRole("c"))},
			roles:   []queue.Role{{Name: "b"}, {Name: "a"}, {Name: "c"}},
			want: `
decline ox-a for 5s: role c holds less for its weight and of-c waits for it
decline oy-b for 5s: role c holds less for its weight and of-c waits for it
return x
return y
wait of-c: GPUs of other roles' offers; roles with more than their share return them`,
		},
		{
			name:    "offers are returned to the default role",
			offers:  []fit.Offer{roleOffer("a", "x", 1)},
			running: []queue.RunningTask{roleTask("a", "old", "z")},
			waiting: []queue.WaitingJob{waitingJob("train", 1, nil)},
			roles:   []queue.Role{{Name: ""}, {Name: "a"}},
			want: `
decline ox-a for 5s: the default role holds less for its weight and train waits for it
return x
wait train: GPUs of other roles' offers; roles with more than their share return them`,
		},
		{
			name:   "a gang counts on the resources of an agent without offers",
			offers: []fit.Offer{gpuOffer("x", 1, "V100")},
			known: []fit.AgentResources{{ID: "y", Hostname: "y", GPUs: 2, Types: []string{"V100"},
				Free: fit.Amount{CPUs: 9, MemMiB: 9999}, Ports: []fit.PortRange{{First: 31000, Last: 31010}}}},
			waiting: []queue.WaitingJob{waitingJob("gang", 3, asGang), waitingJob("next", 1, nil)},
			want: `
hold ox for 5s: gang cannot start with this offer alone
wait gang: 1 free GPU on one agent; 2 agents have GPUs, none has one free
wait next: a place that gang will not need; gang goes first and starts within 0s, a run_time that ends before would fit`,
		},
		{
			name:   "a gang does not count on an agent that has nothing left",
			offers: []fit.Offer{gpuOffer("x", 1, "V100")},
			known: []fit.AgentResources{{ID: "y", Hostname: "y", GPUs: 0, Types: []string{"V100"},
				Free: fit.Amount{CPUs: 9, MemMiB: 9999}, Ports: []fit.PortRange{{First: 31000, Last: 31010}}}},
			waiting: []queue.WaitingJob{waitingJob("gang", 2, asGang), waitingJob("next", 1, nil)},
			want: `
start next.0 on x [ox] 1 V100
wait gang: 1 free GPU on one agent; 2 agents have GPUs, none has one free`,
		},
		{
			name:   "what an agent had left counts once a task on it ends",
			offers: []fit.Offer{gpuOffer("x", 1, "V100")},
			known: []fit.AgentResources{{ID: "y", Hostname: "y", GPUs: 0, Types: []string{"V100"},
				Free: fit.Amount{CPUs: 9, MemMiB: 9999}, Ports: []fit.PortRange{{First: 31000, Last: 31010}}}},
			running: []queue.RunningTask{runningTask("old", "y", time.Hour, nil)},
			waiting: []queue.WaitingJob{waitingJob("gang", 2, both(asGang, func(s *job.Spec) { s.CPUs = 5 })), waitingJob("next", 1, nil)},
			want: `
hold ox for 5s: gang cannot start with this offer alone
wait gang: 1 free GPU on one agent; 2 agents have GPUs, none has one free
wait next: a place that gang will not need; gang goes first and starts within 1h0m0s, a run_time that ends before would fit`,
		},
		{
			name:    "a task that ends on an unknown agent frees nothing",
			offers:  []fit.Offer{gpuOffer("x", 1, "V100")},
			running: []queue.RunningTask{runningTask("old", "gone", time.Hour, nil)},
			waiting: []queue.WaitingJob{waitingJob("gang", 2, asGang), waitingJob("next", 1, nil)},
			want: `
start next.0 on x [ox] 1 V100
wait gang: 1 free GPU on one agent; 1 agent has GPUs, none has one free`,
		},
		{
			name:    "a gang beyond its quota is blocked by it where agents are full",
			offers:  []fit.Offer{gpuOffer("x", 1, "V100")},
			running: []queue.RunningTask{runningTask("old", "x", time.Hour, nil)},
			waiting: []queue.WaitingJob{waitingJob("gang", 4, asGang), waitingJob("next", 1, nil)},
			roles:   []queue.Role{{Quota: quota.Quota{quota.AllTypes: 3}}},
			want: `
start next.0 on x [ox] 1 V100
wait gang: room in the quota of role  for 4 more; it may hold 3 GPUs and holds 1: it can never start`,
		},
		{
			name:    "a gang that gives its places back waits as a whole where the rest is reserved",
			offers:  []fit.Offer{gpuOffer("x", 1, "V100"), gpuOffer("y", 1, "V100")},
			running: []queue.RunningTask{runningTask("old", "x", time.Hour, nil)},
			waiting: []queue.WaitingJob{waitingJob("head", 1, withGPUs(2)), waitingJob("gang", 2, asGang)},
			want: `
hold ox for 5s: head wants 2 GPUs, agent has 1 free
hold oy for 5s: head wants 2 GPUs, agent has 1 free
wait head: 2 free GPUs on one agent; 2 agents have GPUs, the largest has 1
wait gang: a place that head will not need; head goes first and starts within 1h0m0s, a run_time that ends before would fit`,
		},
		{
			name:    "a gang waits for as many places as it lacks",
			offers:  []fit.Offer{gpuOffer("x", 2, "V100")},
			running: []queue.RunningTask{runningTask("old", "x", time.Hour, nil)},
			waiting: []queue.WaitingJob{waitingJob("head", 1, withGPUs(3)), waitingJob("gang", 3, asGang), waitingJob("pair", 2, asGang)},
			want: `
hold ox for 5s: head wants 3 GPUs, agent has 2 free
wait head: 3 free GPUs on one agent; 1 agent has GPUs, the largest has 2
wait gang: 1 free GPU on one agent, not reserved for jobs ahead; 1 agent has enough, reserved for jobs ahead
wait pair: a place that head will not need; head goes first and starts within 1h0m0s, a run_time that ends before would fit`,
		},
		{
			name:    "what is left on an agent of the job is not reserved for its other tasks",
			offers:  []fit.Offer{gpuOffer("x", 2, "V100")},
			waiting: []queue.WaitingJob{waitingJob("one", 2, alone), waitingJob("two", 1, alone)},
			want: `
start one.0 on x [ox] 1 V100
start two.0 on x [ox] 1 V100
wait one: an agent that hostname UNIQUE allows; 1 agent has room, 1 is excluded; 1 of 2 tasks waits`,
		},
		{
			name:    "a task that fits no type of GPUs",
			offers:  []fit.Offer{gpuOffer("x", 1)},
			waiting: []queue.WaitingJob{waitingJob("train", 1, func(s *job.Spec) { s.Request.Types.Include = []string{"V100"} })},
			want: `
decline ox for 1h0m0s: no task waits for GPUs of no known type
wait train: 1 free V100 on one agent; 1 agent has no GPU`,
		},
		{
			name:    "a job on different agents of which a quota limits one type",
			offers:  []fit.Offer{deviceOffer("x", "Tesla V100", "Tesla K80")},
			waiting: []queue.WaitingJob{waitingJob("apart", 2, alone)},
			roles:   []queue.Role{{Quota: quota.Quota{"V100": 1}}},
			want: `
start apart.0 on x [ox] 1 V100 [GPU-x0]
wait apart: an agent that hostname UNIQUE allows; 1 agent has room, 1 is excluded; role  may hold 1 V100 and holds 1; 1 of 2 tasks waits`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := testPolicy()
			p.Roles = c.roles
			in := PlanInput{Now: planTime(), Waiting: c.waiting, Running: c.running, Known: c.known, FutileReturns: c.futile}
			plan := planOffers(c.offers, in, p)
			if diff := cmp.Diff(strings.TrimSpace(c.want), planText(&plan)); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}
