// Package sched decides which task runs on which agent and with which
// devices, and what to say to Mesos after each event. It is a pure function
// of what it is told: it performs no I/O, reads no clock and writes no log.
// Which agent a task fits on, and how well, is the part of package fit.
package sched

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// Policy says where tasks go and how roles compete.
type Policy struct {
	// Fit ranks the agents.
	Fit fit.Policy
	// Roles are those with a weight or a quota.
	Roles []Role
	// Overhead is what each task's executor needs beside the task.
	Overhead Amount
	// RefuseSoon keeps an offer away that a waiting job might use once more
	// is free on its agent; RefuseLong one that nothing waiting can use.
	RefuseSoon, RefuseLong time.Duration
	// Allowed is what jobs may have of their agents' own, AllowedIn what those
	// of some roles may have instead.
	Allowed   Allowed
	AllowedIn []AllowedIn
}

// Plan answers every offer once and every waiting task.
type Plan struct {
	// Accept has one entry an agent and role that gets tasks, in their order.
	Accept []Accept
	// Decline has the offers of no use, Hold those that a waiting job could
	// use once more is free: each by offer id.
	Decline, Hold []Declined
	// Yield are agents whose offers another role should have.
	Yield []string
	// Preempt are tasks whose place a job of higher priority needs.
	Preempt []Victim
	// Unplaced says why each job that still waits does, in queue order.
	Unplaced []Reason
}

// Launch is one task to start.
type Launch struct {
	TaskID string
	Index  int
	// Spec is shared with the queue: nobody changes it.
	Spec *job.Spec
	// DeviceIDs are the GPUs it gets, where the agent names devices, and
	// GPUTypes how many of each type.
	DeviceIDs []string
	GPUTypes  map[string]int
	// Parts are what it gets of shared devices: DeviceIDs names those too,
	// GPUTypes leaves them out.
	Parts []gpu.Part
	// Overhead is for its executor.
	Overhead Amount
	// Ports are the host ports it gets, Env what it is told beside its Spec's
	// variables: its rank and peers, its ports.
	Ports []int
	Env   map[string]string
	// Values are its combination of its job's matrix.
	Values map[string]string
	// Waited is for how long it has waited for a place. Place does not know.
	Waited time.Duration
}

// Declined is an offer that no task takes now.
type Declined struct {
	OfferID string
	Reason  string
	// Why is the kind of the reason.
	Why    Refusal
	Refuse time.Duration
}

// Refusal is why an offer is declined, of few words.
type Refusal string

const (
	// Idle: no task waits. Unwanted: none waits for what it has.
	Idle     Refusal = "idle"
	Unwanted Refusal = "unwanted"
	// Held: a task could use it once more is free, but not for as long as
	// offers are held.
	Held Refusal = "held"
	// Yielded: another role is to have it.
	Yielded Refusal = "yielded"
	// OnCordoned: its agent takes no tasks.
	OnCordoned Refusal = "cordoned"
)

// Place answers every offer exactly once: accepted, held or declined. It does
// not modify its arguments; equal inputs give equal plans in any offer order.
// A State makes the same plan on agents that it keeps.
func Place(offers []Offer, q Queue, p Policy) Plan {
	return newPlacing(offers, &q, &p).run()
}

func newPlacing(offers []Offer, q *Queue, p *Policy) *placing {
	agents := fit.Join(offers)
	offered := map[agentKey]bool{}
	for i := range agents {
		a := &agents[i]
		offered[agentKey{a.ID, a.Role}], a.AllShared = true, q.AllShared[a.ID]
	}
	left := map[agentKey]fit.Holding{}
	for _, a := range q.Known {
		if key := (agentKey{a.ID, a.Role}); !offered[key] {
			left[key] = all(&a)
			agents = append(agents, withNothing(a))
		}
	}
	had := func(a *fit.Agent) fit.Holding { return left[agentKey{a.ID, a.Role}] }
	return placingOn(newClusters(agents, p, q.Now), &scratch{}, had, q, p)
}

// run makes the plan.
func (pl *placing) run() Plan {
	for {
		j, ok := pl.turn.next()
		if !ok {
			break
		}
		pl.place(j)
	}
	pl.scratch.unplaced = pl.plan.Unplaced
	pl.answer()
	return pl.plan
}

// placing is a plan in the making.
type placing struct {
	q        *Queue
	p        *Policy
	cluster  *clusters
	agents   []fit.Agent
	ledger   *ledger
	turn     *turn
	launches map[int][]Launch // by agent
	blocked  []fit.Demand     // one of each kind
	seen     map[attempt]shortage
	heads    map[string]*head             // the first blocked job of each role
	first    map[string]shortage          // strict roles with a job that waits, and why the others do
	tries    map[string]int               // jobs of each role for which places ahead were sought
	yielded  map[int]string               // agents claimed for another role, and why
	keeps    func(offerID string) bool    // offers that are held in any case: nobody asks why; nil: none
	left     func(*fit.Agent) fit.Holding // what agents that offer nothing had free
	groups   map[group][]string           // agents that this plan gave to tasks of groups
	closing  bool                         // maintenance of an agent is planned
	byID     map[string]*fit.Agent
	// ends and leftovers are by role, as far as somebody asked.
	ends      map[string]*ends
	leftovers map[string][]leftover
	wishes    wishes
	scratch   *scratch
	plan      Plan
}

// placingOn begins a plan on a cluster, which it uses up. left tells what an
// agent had free that offers nothing now. The scratch memory is its own
// meanwhile.
func placingOn(c *clusters, s *scratch, left func(*fit.Agent) fit.Holding, q *Queue, p *Policy) *placing {
	pl := &placing{
		scratch: s, ends: map[string]*ends{}, leftovers: map[string][]leftover{},
		left: left, tries: map[string]int{}, groups: map[group][]string{}, closing: c.closing(),
		q: q, p: p, cluster: c, agents: c.agents, ledger: newLedger(p.Roles, nil),
		launches: map[int][]Launch{}, seen: map[attempt]shortage{}, heads: map[string]*head{}, first: map[string]shortage{}, yielded: map[int]string{},
	}
	if pl.wishes = q.wishes; pl.wishes == nil {
		pl.wishes = wishes{}
	}
	pl.plan.Unplaced = s.unplaced[:0]
	pl.ledger.agents = pl.agents
	pl.ledger.tally(q.Running)
	pl.cluster.Spare(portsNamed(q.Waiting))
	pl.turn = newTurn(q, p, pl.ledger)
	return pl
}

// named are the agents by id, for a job to which it matters where its other
// tasks are.
func (pl *placing) named(j *Job) map[string]*fit.Agent {
	if pl.byID == nil && slices.ContainsFunc(j.Spec.Constraints, job.Constraint.PerJob) {
		pl.byID = make(map[string]*fit.Agent, len(pl.agents))
		for i := range pl.agents {
			pl.byID[pl.agents[i].ID] = &pl.agents[i]
		}
	}
	return pl.byID
}

// place gives the job's tasks their places, all or as many as it may have.
func (pl *placing) place(j *Job) {
	if pl.inLine(j) {
		return
	}
	key := pl.attemptOf(j)
	if why, tried := pl.seen[key]; tried { // what did not fit a moment ago does not fit now
		pl.wait(j, len(j.Tasks), why)
		return
	}
	d := j.demand(pl.p, pl.named(j), pl.groups[groupOf(j.Spec)]...)
	d.Runs, d.Beyond = key.runs, key.beyond
	spots, types, b, quota := pl.fill(j, &d)
	missing := len(j.Tasks) - len(spots)
	if missing == 0 {
		pl.launch(j, spots, types)
		return
	}
	pl.line(j)
	if small := pl.ledger.tooSmall(j); small != nil && !quota {
		b, quota = small, true // it can never start: places ahead would be kept for nothing
	}
	var why shortage
	if !quota {
		why = b.beside(pl.explain(j, &d, missing))
	}
	if j.Spec.Gang {
		pl.undo(j, &d, spots, types)
		spots = nil
	}
	pl.launch(j, spots, types)
	if quota {
		pl.wait(j, missing, pl.heldBack(j, b))
		return
	}
	pl.wait(j, missing, why)
	need := len(j.Tasks) - len(spots)
	if _, may, _ := pl.ledger.narrow(j.Spec.Role, j.Spec.Request); !j.Spec.Gang {
		need = min(need, may)
	}
	if left := pl.yield(j, &d, min(need, missing)); left > 0 {
		if !j.Spec.Gang {
			need = left
		}
		pl.ahead(j, &d, need)
	}
	pl.blocked = append(pl.blocked, d)
	if j.Spec.Gang || slices.ContainsFunc(d.Constraints, job.Constraint.PerJob) {
		return // another of these may fit where this one does not
	}
	pl.seen[key] = why
}

// heldBack says that a quota is in the job's way. Those behind it in its role
// leave what the role may still hold to it.
func (pl *placing) heldBack(j *Job, b *bound) shortage {
	b.held = pl.ledger.counted(j.Spec.Role, b).held // as it is without what was given back
	why, never := pl.ledger.shortage(j, b)
	if !never && pl.ledger.more(j, b) <= b.limit && b.first == "" {
		pl.ledger.close(j.Spec.Role, b, j.Spec.Name)
	}
	return why
}

// undo gives back what fill took.
func (pl *placing) undo(j *Job, d *fit.Demand, spots []fit.Spot, types []map[string]int) {
	pl.cluster.Undo(d, spots)
	for i := range types {
		pl.ledger.add(j.Spec.Role, types[i], spots[i].Parts, -1)
	}
}

func (pl *placing) wait(j *Job, missing int, why shortage) {
	pl.plan.Unplaced = append(pl.plan.Unplaced, Reason{Job: j.Spec.Name, Missing: missing, Tasks: j.Spec.Tasks, Lack: why.lack, Seen: why.seen, Turn: why.turn})
}

// kind tells demands apart that could find a place differently.
type kind struct {
	wish string
	runs time.Duration
	gang int // tasks of a gang
}

// attempt is a kind with the number of its wish, of a job that may have to keep
// off what is reserved.
type attempt struct {
	wish   int32
	runs   time.Duration
	beyond bool
}

// attemptOf is what the job tries to find a place for.
func (pl *placing) attemptOf(j *Job) attempt {
	a := attempt{wish: j.wish, runs: j.Spec.Runs()}
	if a.wish == 0 || len(j.Unfit) > 0 {
		d := j.demand(pl.p, nil)
		a.wish = pl.wishes.number(wishOf(&d, j.Spec))
	}
	if h := pl.heads[j.Spec.Role]; h != nil {
		a.beyond = a.runs == 0 || pl.q.Now.Add(a.runs).After(h.start)
	}
	if !pl.closing {
		a.runs = 0 // how long a task runs matters where an agent goes away
	}
	return a
}

// wishOf is what of a kind never changes.
func wishOf(d *fit.Demand, s *job.Spec) string {
	still := *d
	still.Runs, still.Beyond = 0, false
	key := still.Key()
	if s.Gang {
		key += "gang"
	}
	return key
}

// explain says what is in the job's way: the agents, or that the places they
// have are kept for the job at the head of its role.
func (pl *placing) explain(j *Job, d *fit.Demand, missing int) shortage {
	if h := pl.heads[j.Spec.Role]; d.Beyond && h != nil {
		sooner, need := *d, 1
		sooner.Beyond = false
		if j.Spec.Gang {
			need = missing
		}
		spots := pl.cluster.Fill(&sooner, need)
		pl.cluster.Undo(&sooner, spots)
		if len(spots) == need {
			return shortage{
				turn: BehindHead,
				lack: fmt.Sprintf("a place that %s will not need", h.job),
				seen: fmt.Sprintf("%s goes first and starts within %s, a run_time that ends before would fit", h.job, h.start.Sub(pl.q.Now).Round(time.Second)),
			}
		}
	}
	s := pl.cluster.Explain(d)
	return shortage{lack: s.Lack, seen: s.Seen}
}

// fill takes places for the job's tasks as far as there are any and its
// role's quota allows; d then asks for what the quota leaves. types are those
// of each place's GPUs. The bound is one that is in the way, quota that no task
// may start because of it.
func (pl *placing) fill(j *Job, d *fit.Demand) (spots []fit.Spot, types []map[string]int, b *bound, quota bool) {
	wish := d.Request
	for want := len(j.Tasks); want > 0; want = len(j.Tasks) - len(spots) {
		narrowed, may, b := pl.ledger.narrow(j.Spec.Role, wish)
		if may == 0 {
			return spots, types, b, true
		}
		d.Request = narrowed
		n := min(want, may)
		got := pl.cluster.Fill(d, n)
		for i := range got {
			has := typesOf(&pl.agents[got[i].Agent], &got[i], wish.GPUs)
			pl.ledger.add(j.Spec.Role, has, got[i].Parts, 1)
			types = append(types, has)
		}
		spots = append(spots, got...)
		if len(got) < n {
			return spots, types, b, false
		}
	}
	return spots, types, nil, false
}

func (pl *placing) launch(j *Job, spots []fit.Spot, types []map[string]int) {
	peers := pl.peersOf(j, spots)
	values := func(int) map[string]string { return nil }
	if j.Spec.Matrix != nil && len(spots) > 0 {
		_, values = j.Spec.Matrix.Combinations()
	}
	for i := range spots {
		s, t := &spots[i], j.Tasks[i]
		if j.Spec.Group != "" {
			g := groupOf(j.Spec)
			pl.groups[g] = append(pl.groups[g], pl.agents[s.Agent].ID)
		}
		l := Launch{
			TaskID: t.ID, Index: t.Index, Spec: j.Spec, Overhead: pl.p.Overhead,
			Values: values(t.Index), DeviceIDs: devicesOf(s), GPUTypes: types[i], Parts: s.Parts, Ports: s.Ports, Env: environment(j, t.Index, pl.agents[s.Agent].Hostname, s.Ports, peers),
		}
		pl.launches[s.Agent] = append(pl.launches[s.Agent], l)
	}
}

// devicesOf names all devices of a place, whole or in part.
func devicesOf(s *fit.Spot) []string {
	if s.Parts == nil {
		return s.DeviceIDs
	}
	ids := make([]string, len(s.Parts))
	for i := range s.Parts {
		ids[i] = s.Parts[i].UUID
	}
	return ids
}

// wantedBy is the first blocked demand that an agent would be of use to once
// more is free; -1 if there is none.
func (pl *placing) wantedBy(i int) int {
	for b := range pl.blocked {
		if pl.cluster.Useful(i, &pl.blocked[b]) {
			return b
		}
	}
	return -1
}

// answer accepts the offers of agents that got tasks, and holds or declines
// the others.
func (pl *placing) answer() {
	pl.giveBack()
	for i := range pl.agents {
		a := &pl.agents[i]
		if len(pl.launches[i]) > 0 {
			pl.plan.Accept = append(pl.plan.Accept, Accept{
				AgentID: a.ID, Hostname: a.Hostname, AgentURL: a.URL, Role: a.Role,
				OfferIDs: a.Offers, Launches: pl.launches[i], Refuse: pl.p.RefuseSoon,
			})
			continue
		}
		if len(a.Offers) == 0 || pl.yielded[i] != "" {
			continue
		}
		list, reason, why, refuse := &pl.plan.Decline, "no task waits", Idle, pl.p.RefuseLong
		switch b := pl.wantedBy(i); {
		case b >= 0 && pl.keeps != nil && !slices.ContainsFunc(a.Offers, func(id string) bool { return !pl.keeps(id) }):
			list, reason, why, refuse = &pl.plan.Hold, "", Held, pl.p.RefuseSoon
		case b >= 0:
			list, reason, why, refuse = &pl.plan.Hold, pl.cluster.Refusal(i, &pl.blocked[b]), Held, pl.p.RefuseSoon
		case len(pl.blocked) > 0 || len(pl.plan.Unplaced) > 0:
			reason, why = "no task waits for "+describe(a), Unwanted
		}
		for _, id := range a.Offers {
			*list = append(*list, Declined{OfferID: id, Reason: reason, Why: why, Refuse: refuse})
		}
	}
	for _, list := range [][]Declined{pl.plan.Decline, pl.plan.Hold} {
		slices.SortFunc(list, func(x, y Declined) int { return cmp.Compare(x.OfferID, y.OfferID) })
	}
}
