package sched

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// Lack is what tasks of one wish wait for though nothing but what is in use is
// in their way: machines that were added would run them.
type Lack struct {
	// Request is what each task wants of one agent, less the types that its
	// role may hold no more of; Amount what else, the executor's part included.
	Request gpu.Request
	Amount  Amount
	// Constraints are those that a new machine must meet too.
	Constraints []job.Constraint
	// Short is what there is too little of: ShortGPUs alone, or what else where
	// GPUs are free.
	Short []string
	// Tasks is how many lack a place, GPUs what they would hold together: for
	// shares of devices as many as those are worth. It is 0 where GPUs are not
	// what is short.
	Tasks, GPUs int
	// Jobs and Roles are whose they are, in the order in which they choose.
	Jobs, Roles []string
}

// settle is how long a task must have waited, with a subscription, before it
// lacks anything: offers may be on their way.
const settle = comesBack

// Lacking says what the tasks that wait lack, those first that choose first,
// as far as the last offers tell. ok is false as long as these are not here.
func (s *State) Lacking() (lacks []Lack, ok bool) {
	if !s.connected || s.since.After(s.now.Add(-settle)) {
		return nil, false
	}
	q := s.readyQueue(s.now)
	q.Waiting = slices.DeleteFunc(q.Waiting, func(w Job) bool { return s.settling(&w) })
	q.Known = s.leftovers(s.now)
	offers := slices.DeleteFunc(s.inHand(), func(o Offer) bool { return s.shut(o.Hostname, o.AgentID) })
	return Lacking(offers, q, s.cfg.Policy), true
}

// Settling are the jobs with GPUs that Lacking leaves out for now: they wait for
// less than settle.
func (s *State) Settling() (names []string) {
	q := s.readyQueue(s.now)
	for i := range q.Waiting {
		if w := &q.Waiting[i]; w.Spec.Request.GPUs > 0 && s.settling(w) {
			names = append(names, w.Spec.Name)
		}
	}
	return names
}

func (s *State) settling(w *Job) bool { return s.youngest(w).After(s.now.Add(-settle)) }

// youngest is when the last of a job's tasks began to wait for a place.
func (s *State) youngest(w *Job) time.Time {
	var last time.Time
	for _, t := range w.Tasks {
		if since := s.tasks[t.ID].task().WaitsSince(); since.After(last) {
			last = since
		}
	}
	return last
}

// Lacking says what of the queue finds no place on what is free, and would on
// machines that were added. It does not modify its arguments; equal inputs
// give equal answers in any offer order.
func Lacking(offers []Offer, q Queue, p Policy) []Lack {
	pl := newPlacing(offers, &q, &p)
	pl.cluster = pl.known(nil)
	for i := range q.Running {
		if r := &q.Running[i]; r.Ending && !r.Stuck { // what it has comes back
			release(pl.cluster, r, &p)
		}
	}
	s := &survey{placing: pl, byWish: map[string]int{}, met: map[string]bool{}}
	for {
		j, ok := pl.turn.next()
		if !ok {
			break
		}
		s.look(j)
	}
	for i := range s.lacks {
		if l := &s.lacks[i]; slices.Contains(l.Short, ShortGPUs) {
			l.GPUs = max((s.milli[i]+wholeGPU-1)/wholeGPU, l.Request.GPUs)
		}
	}
	return s.lacks
}

// survey is the answer of Lacking in the making.
type survey struct {
	*placing
	lacks  []Lack
	milli  []int // of each, in thousandths of GPUs
	byWish map[string]int
	met    map[string]bool // by demand: machines could be added that meet its constraints
	new    []fit.Agent     // one of each kind that could be
}

// look gives the job the places there are, as a plan would, and finds out for
// how many of its other tasks machines could be added. Of a gang these are all
// or none: what is free now others may take meanwhile.
func (s *survey) look(j *Job) {
	d := j.demand(s.p, s.named(j), s.groups[groupOf(j.Spec)]...)
	wish := d.Request
	spots, types, b, quota := s.fill(j, &d)
	n := len(j.Tasks) - len(spots)
	if n == 0 {
		return
	}
	if j.Spec.Gang {
		s.undo(j, &d, spots, types)
		spots, n = nil, len(j.Tasks)
	}
	if quota {
		s.heldBack(j, b)
		return
	}
	narrowed, may, b := s.ledger.narrow(j.Spec.Role, wish)
	if j.Spec.Gang && may < n {
		s.heldBack(j, s.ledger.tightest(j, b))
		return
	}
	d.Request = narrowed
	if more := s.addable(j, &d, min(n, may)); more > 0 && wish.GPUs > 0 {
		lackGPUs, plain := s.short(j, &d, spots, more)
		s.add(j, &d, lackGPUs, []string{ShortGPUs})
		s.add(j, &d, more-lackGPUs, plain)
	}
	if _, left, b := s.ledger.narrow(j.Spec.Role, wish); may < n && left == 0 {
		s.heldBack(j, b)
	}
}

// add counts tasks of a job that lack a place, for their role's quota too.
func (s *survey) add(j *Job, d *fit.Demand, n int, short []string) {
	if n == 0 {
		return
	}
	milli := n * s.ledger.weight(&d.Request, AllTypes)
	kind := ""
	if only := d.Request.Types.Include; len(only) == 1 {
		kind = gpu.TypeOf(only[0])
	}
	s.ledger.count(j.Spec.Role, kind, milli)
	key := (&fit.Demand{Amount: d.Amount, Request: d.Request, Constraints: d.Constraints}).Key() + strings.Join(short, " ")
	i, ok := s.byWish[key]
	if !ok {
		i = len(s.lacks)
		s.byWish[key], s.milli = i, append(s.milli, 0)
		s.lacks = append(s.lacks, Lack{Request: d.Request, Amount: d.Amount, Constraints: d.Constraints, Short: short})
	}
	l := &s.lacks[i]
	l.Tasks += n
	s.milli[i] += milli
	l.Jobs = append(l.Jobs, j.Spec.Name)
	if !slices.Contains(l.Roles, j.Spec.Role) {
		l.Roles = append(l.Roles, j.Spec.Role)
	}
}

// maxAdded bounds the machines that are thought of for one job.
const maxAdded = 1024

// addable is how many of n tasks could run on machines that were added. What
// they have free, nobody can know, but not their names, and of attributes only
// those that agents with GPUs have. All of a gang can, or none.
func (s *survey) addable(j *Job, d *fit.Demand, n int) int {
	if len(d.Request.Devices.Include) > 0 {
		return 0 // which are elsewhere
	}
	if len(d.Constraints) == 0 || n == 0 {
		return n
	}
	if !slices.ContainsFunc(d.Constraints, job.Constraint.PerJob) {
		met, known := s.met[d.Key()]
		if !known {
			met = s.meets(d, 1) > 0
			s.met[d.Key()] = met
		}
		if !met {
			return 0
		}
		return n
	}
	met := s.meets(d, n)
	if j.Spec.Gang && met < n {
		return 0
	}
	return met
}

// meets is how many of n tasks new machines would have by the demand's
// constraints alone.
func (s *survey) meets(d *fit.Demand, n int) int {
	var agents []fit.Agent
	kinds := s.kinds()
	each := min(n, max(1, maxAdded/len(kinds)))
	for _, kind := range kinds {
		for range each {
			a := kind
			a.ID = fmt.Sprintf("new %d", len(agents)) // no hostname has a space
			a.Hostname, a.Role = a.ID, d.Role
			agents = append(agents, a)
		}
	}
	alone := *d
	alone.Amount, alone.Request, alone.Ports, alone.HostPorts = Amount{}, gpu.Request{}, 0, nil
	return len(fit.NewCluster(agents, fit.Policy{Name: "binpack"}, s.q.Now).Fill(&alone, n))
}

// kinds are the kinds of machines that could be added: such as there are, by
// what constraints see of them, or where there is none, one that says nothing.
func (s *survey) kinds() []fit.Agent {
	if s.new != nil {
		return s.new
	}
	seen := map[string]bool{}
	for i := range s.agents {
		a := &s.agents[i]
		kind := fit.Agent{
			Attributes: a.Attributes, Region: a.Region, Zone: a.Zone, Driver: a.Driver, CUDA: a.CUDA, Unreserved: true,
			GPUs: max(a.TotalGPUs, len(a.Inventory)),
		}
		if key := fmt.Sprintf("%+v", kind); a.HasGPUs() && !seen[key] {
			seen[key] = true
			s.new = append(s.new, kind)
		}
	}
	if s.new == nil {
		s.new = []fit.Agent{{Unreserved: true}}
	}
	return s.new
}
