package sched

import (
	"slices"
	"strings"
	"time"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// Queue is what wants places, and what has some already.
type Queue struct {
	// Now is the time of the plan.
	Now time.Time
	// Waiting are the jobs with tasks to place, oldest first.
	Waiting []Job
	// Running are the tasks that hold places: they count against quotas, and
	// their ends are what those who wait, wait for.
	Running []Running
	// Known are agents that offer nothing now, with what they had free when
	// they did, as far as that was not long ago.
	Known []fit.Agent
	// AllShared is what there is of shared devices, free or not, by agent, as
	// far as the master has told.
	AllShared map[string][]fit.Shared
	// Yielded are the agents, by id, whose offers were given back for another
	// role not long ago.
	Yielded map[string]bool
	// wishes are what Job.wish numbers; nil where no job has one.
	wishes wishes
}

// Job is a job with tasks that wait for a place.
type Job struct {
	Spec *job.Spec
	// Submitted is when it came; zero is just now.
	Submitted time.Time
	// Tasks are those that wait, in index order.
	Tasks []Waiting
	// Beside are the agents of its tasks that are placed, and of those of its
	// group, one each.
	Beside []string
	// Unfit keeps them off agents that their image cannot run on.
	Unfit []job.Constraint
	// wish is the number of its wishOf, where somebody has found out: it takes
	// long.
	wish int32
}

// Waiting is one task that wants a place.
type Waiting struct {
	ID    string
	Index int
}

// Running is a task with a place.
type Running struct {
	TaskID, AgentID string
	Spec            *job.Spec
	GPUTypes        map[string]int
	DeviceIDs       []string
	Parts           []gpu.Part
	Ports           []int
	// Since is when it was placed. Ends is when it will have ended at the
	// latest, zero where nobody knows.
	Since, Ends time.Time
	// Ending tasks have been asked to end, or have ended just now.
	Ending bool
	// Left: it has ended, and counts against no quota any more.
	Left bool
	// Stuck tasks will not make room when asked: their agent is away, cordoned
	// or being drained, or they have been asked for too long.
	Stuck bool
}

// turn hands out the jobs in the order in which they may choose: roles by
// their share, within a role by priority, then in the role's order.
type turn struct {
	jobs   []Job
	queues map[string][]int
	ledger *ledger
	// role is whose turn it was, and held what it then held; below 0 before.
	role string
	held int
}

func newTurn(q *Queue, p *Policy, l *ledger) *turn {
	t := &turn{jobs: q.Waiting, queues: map[string][]int{}, ledger: l, held: -1}
	for from := 0; from < len(q.Waiting); {
		role, to := q.Waiting[from].Spec.Role, from+1
		for to < len(q.Waiting) && q.Waiting[to].Spec.Role == role {
			to++
		}
		list := t.queues[role]
		for i := from; i < to; i++ {
			list = append(list, i)
		}
		t.queues[role], from = list, to
	}
	for name, list := range t.queues {
		p.role(name).arrange(q, list)
	}
	return t
}

func (t *turn) next() (*Job, bool) {
	left := t.queues[t.role]
	if len(left) == 0 || t.ledger.all[t.role] != t.held { // else nothing has changed since
		role, ok := t.ledger.byShare(t.queues)
		if !ok {
			return nil, false
		}
		t.role, t.held, left = role, t.ledger.all[role], t.queues[role]
	}
	t.queues[t.role] = left[1:]
	return &t.jobs[left[0]], true
}

// tally counts what tasks hold, as newLedger does. Those of a role mostly follow
// each other and are of one type: they are counted together.
func (l *ledger) tally(running []Running) {
	role, kind, milli := "", "", -1
	flush := func() {
		if milli >= 0 {
			l.count(role, kind, milli)
		}
	}
	for i := range running {
		r := &running[i]
		if r.Left {
			continue
		}
		for t, n := range r.GPUTypes {
			if milli < 0 || t != kind || r.Spec.Role != role {
				flush()
				role, kind, milli = r.Spec.Role, t, 0
			}
			milli += n * wholeGPU
		}
		if len(r.Parts) > 0 {
			l.add(r.Spec.Role, nil, r.Parts, 1)
		}
	}
	flush()
}

// demand is what each task of the job wants of an agent. more are agents that
// its group was given since.
func (j *Job) demand(p *Policy, agents map[string]*fit.Agent, more ...string) fit.Demand {
	s := j.Spec
	d := fit.Demand{
		Job: s.Name, Role: s.Role, Amount: p.need(s), Overhead: p.Overhead, Ports: ports(s), HostPorts: hostPorts(s),
		Request: s.Request, Constraints: append(slices.Clip(s.Constraints), j.Unfit...), Runs: s.Runs(),
	}
	if slices.ContainsFunc(s.Constraints, job.Constraint.PerJob) {
		for _, id := range slices.Concat(j.Beside, more) {
			if a := agents[id]; a != nil {
				d.Beside = append(d.Beside, a)
			}
		}
	}
	return d
}

// ports counts the host ports of one task: those asked for, and in a gang the
// one its peers reach it by.
func ports(s *job.Spec) int {
	if s.Gang && s.Tasks > 1 {
		return max(len(s.Ports), 1)
	}
	return len(s.Ports)
}

// hostPorts are the numbers that the job wants its host ports to have.
func hostPorts(s *job.Spec) []int {
	if !slices.ContainsFunc(s.Ports, func(p job.Port) bool { return p.Host > 0 }) {
		return nil
	}
	numbers := make([]int, len(s.Ports))
	for i, p := range s.Ports {
		numbers[i] = p.Host
	}
	return numbers
}

// portsNamed are the host ports that jobs wait for by number.
func portsNamed(jobs []Job) []int {
	var named []int
	for i := range jobs {
		for _, p := range jobs[i].Spec.Ports {
			if p.Host > 0 {
				named = append(named, p.Host)
			}
		}
	}
	return named
}

// typesOf counts the types of the whole GPUs that a place has.
func typesOf(a *fit.Agent, spot *fit.Spot, gpus int) map[string]int {
	if gpus == 0 || spot.Parts != nil {
		return nil
	}
	types := map[string]int{}
	for _, id := range spot.DeviceIDs {
		model := ""
		if i := slices.IndexFunc(a.Inventory, func(d gpu.Device) bool { return d.UUID == id }); i >= 0 {
			model = a.Inventory[i].Model
		} else if len(a.Types) == 1 {
			model = a.Types[0]
		}
		types[gpu.TypeOf(model)]++
	}
	if n := gpus - len(spot.DeviceIDs); n > 0 {
		types[mixedType(a)] += n
	}
	return types
}

// mixedType is the type of an agent's GPUs, "A|B" where there are several.
func mixedType(a *fit.Agent) string {
	types := typesOn(a)
	slices.Sort(types)
	return strings.Join(types, "|")
}

// typesOn lists the types of an agent's GPUs, "" for those of no known one.
func typesOn(a *fit.Agent) []string {
	var types []string
	for _, m := range a.Models() {
		if t := gpu.TypeOf(m); !slices.Contains(types, t) {
			types = append(types, t)
		}
	}
	return types
}
