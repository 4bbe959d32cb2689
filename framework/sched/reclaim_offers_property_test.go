package sched

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// lateMaster is a master whose messages are late: offers may have only a part of what is free, arrive after updates of
// tasks that ended later, and answers to offers are processed after other offers were made.
type lateMaster struct {
	t   *rapid.T
	now time.Time
	st  *State
	// names is set if agents name their GPUs, shares if tasks share these: a part of a GPU is then named GPU.PART.
	names, shares bool
	// free are the GPUs, or parts of them, of each agent in no task and no offer, tasks those of running tasks, killed the
	// tasks to end.
	free   map[string][]string
	tasks  map[string][]string
	killed []string
	// inventories has the devices of agents whose GPUs tasks share.
	inventories map[string][]gpu.Device
	// offers are those without an answer that was processed. filters are the times until which agents are not offered to
	// roles, by "agent role"; suppressed are roles without offers.
	offers     map[string]Offer
	filters    map[string]time.Time
	suppressed map[string]bool
	made       int
	// toScheduler and toMaster are messages that have not arrived.
	toScheduler []Event
	toMaster    []Operation
	// victims are the tasks that were killed.
	victims map[string]bool
}

// step applies an event, and queues the operations.
func (m *lateMaster) step(e Event) {
	for _, one := range []Event{e, Cycle{}} {
		ops := m.st.Step(m.now, one)
		for _, op := range ops {
			m.t.Logf("%s: the scheduler sends %s", m.now.Format("04:05"), op)
		}
		m.toMaster = append(m.toMaster, ops...)
		m.st.TakeChanges()
	}
}

// offer offers n free GPUs of an agent to a role, with other resources.
func (m *lateMaster) offer(agent, role string, n int) {
	if m.suppressed[role] || m.filters[agent+" "+role].After(m.now) {
		return
	}
	m.made++
	ids := slices.Clone(m.free[agent][:n])
	m.free[agent] = slices.Clone(m.free[agent][n:])
	o := Offer{
		Inventory: m.inventories[agent],
		ID:        fmt.Sprint("o", m.made),
		AgentID:   agent,
		Hostname:  agent,
		AgentURL:  "http://" + agent,
		Role:      role,
		Free:      Amount{CPUs: 1 + 4*float64(n), MemMiB: 256 + 4096*float64(n)},
		GPUs:      n,
		DeviceIDs: ids,
		Types:     []string{"V100"},
		Ports:     []PortRange{{First: 40000 + 10*m.made, Last: 40009 + 10*m.made}},
	}
	for _, id := range ids {
		first := 31000
		for _, digit := range id[len(agent):] {
			first += 10 * int(digit&7)
		}
		o.Ports = append(o.Ports, PortRange{First: first, Last: first + 9})
	}
	m.offers[o.ID] = o
	m.t.Logf("offer %s of %s to %s: %v", o.ID, agent, role, ids)
	switch {
	case m.shares:
		o.GPUs, o.DeviceIDs, o.Shared = 0, nil, sharesOf(ids)
	case !m.names:
		o.DeviceIDs = nil
	}
	m.toScheduler = append(m.toScheduler, OffersReceived{Offers: []Offer{o}})
}

// partMiB is the memory of one of the two parts of a shared GPU.
const partMiB = 300

// gpuOf returns the GPU of a part.
func gpuOf(part string) string { id, _, _ := strings.Cut(part, "."); return id }

// sharesOf returns what an offer with parts of GPUs has of these.
func sharesOf(parts []string) (list []SharedDevice) {
	for _, part := range parts {
		at := slices.IndexFunc(list, func(d SharedDevice) bool { return d.UUID == gpuOf(part) })
		if at < 0 {
			at, list = len(list), append(list, SharedDevice{UUID: gpuOf(part)})
		}
		list[at].MemMiB, list[at].Cores = list[at].MemMiB+partMiB, list[at].Cores+gpu.AllCores/2
	}
	return list
}

// end frees the GPUs of a killed task.
func (m *lateMaster) end(at int) {
	id := m.killed[at]
	m.killed = slices.Delete(m.killed, at, at+1)
	for _, part := range m.tasks[id] {
		agent, _, _ := strings.Cut(part, "-")
		m.free[agent] = append(m.free[agent], part)
	}
	delete(m.tasks, id)
	m.toScheduler = append(m.toScheduler, TaskUpdate{TaskID: id, State: job.Killed, UUID: []byte{1}})
}

// deliver delivers the oldest message. If late is set, that is the oldest update: offers are made by another process of the
// master, so updates may overtake them. Offers do not overtake updates.
func (m *lateMaster) deliver(late bool) {
	at := 0
	if late {
		at = max(slices.IndexFunc(m.toScheduler, func(e Event) bool { _, ok := e.(TaskUpdate); return ok }), 0)
	}
	e := m.toScheduler[at]
	m.toScheduler = slices.Delete(m.toScheduler, at, at+1)
	m.t.Logf("the scheduler receives %v", e)
	m.step(e)
}

// process processes the oldest operation.
func (m *lateMaster) process() {
	op := m.toMaster[0]
	m.toMaster = m.toMaster[1:]
	switch op := op.(type) {
	case AcceptOffers:
		var ids []string
		for _, id := range op.OfferIDs {
			ids = append(ids, m.offers[id].DeviceIDs...)
			delete(m.offers, id)
		}
		for i := range op.Launches {
			l := &op.Launches[i]
			n := l.Spec.Request.GPUs
			if len(ids) < n {
				m.t.Fatalf("%s gets %d GPUs of %v", l.TaskID, n, ids)
			}
			got := slices.Clone(ids[:n])
			switch {
			case m.shares:
				got = []string{ids[slices.IndexFunc(ids, func(id string) bool { return gpuOf(id) == l.Shares[0].UUID })]}
			case m.names:
				got = l.DeviceIDs
			}
			ids = slices.DeleteFunc(ids, func(id string) bool { return slices.Contains(got, id) })
			m.tasks[l.TaskID] = got
			m.t.Logf("%s starts on %v", l.TaskID, got)
			m.toScheduler = append(m.toScheduler, TaskUpdate{TaskID: l.TaskID, AgentID: op.AgentID, State: job.Running, UUID: []byte{1}})
		}
		m.free[op.AgentID] = append(m.free[op.AgentID], ids...)
	case DeclineOffers:
		for _, d := range op.Offers {
			o := m.offers[d.OfferID]
			delete(m.offers, d.OfferID)
			m.free[o.AgentID] = append(m.free[o.AgentID], o.DeviceIDs...)
			m.filters[o.AgentID+" "+o.Role] = m.now.Add(op.Refuse)
		}
	case ReviveOffers:
		for _, role := range op.Roles {
			m.suppressed[role] = false
			for key := range m.filters {
				if strings.HasSuffix(key, " "+role) {
					delete(m.filters, key)
				}
			}
		}
	case SuppressOffers:
		for _, role := range op.Roles {
			m.suppressed[role] = true
		}
	case KillTask:
		if !m.victims[op.TaskID] {
			m.t.Logf("%s is killed", op.TaskID)
			m.victims[op.TaskID] = true
			m.killed = append(m.killed, op.TaskID)
		}
	}
}

// failOver ends the scheduler and starts another one with what the first one has recorded. Its calls have reached the
// master; offers are void, and agents repeat their updates. The list of agents arrives after some of them.
func (m *lateMaster) failOver(listed []Agent) {
	m.t.Logf("the scheduler fails over")
	for len(m.toMaster) > 0 {
		m.process()
	}
	for _, o := range m.offers {
		m.free[o.AgentID] = append(m.free[o.AgentID], o.DeviceIDs...)
	}
	clear(m.offers)
	clear(m.filters)
	clear(m.suppressed)
	updates := slices.DeleteFunc(m.toScheduler, func(e Event) bool { _, ok := e.(TaskUpdate); return !ok })
	at := rapid.IntRange(0, len(updates)).Draw(m.t, "updates before the list of agents")
	m.toScheduler = slices.Insert(updates, at, Event(AgentsListed{Agents: listed}))
	m.st = New(m.st.cfg, RecoveredState{m.st.FrameworkID(), m.st.Jobs(), m.st.Documents()})
	m.step(Subscribed{FrameworkID: "f"})
}

// settle delivers everything in order, with all that is free in each offer, until nothing happens.
func (m *lateMaster) settle(agents []string) {
	for quiet := 0; quiet < 20; quiet++ {
		for len(m.toScheduler)+len(m.toMaster)+len(m.killed) > 0 {
			quiet = 0
			switch {
			case len(m.toMaster) > 0:
				m.process()
			case len(m.toScheduler) > 0:
				m.deliver(false)
			default:
				m.end(0)
			}
		}
		for i, agent := range agents {
			if n := len(m.free[agent]); n > 0 {
				m.offer(agent, []string{"prod", "guests"}[(quiet+i)%2], n)
			}
		}
		m.now = m.now.Add(time.Second)
		m.step(Tick{})
		if quiet > 0 {
			m.toMaster = slices.DeleteFunc(m.toMaster, func(op Operation) bool { _, ok := op.(ReconcileTasks); return ok })
		}
	}
}

// TestReclaimsNoMoreWhenOffersAreLate: a role's jobs end at most as many tasks of other roles as it deserves GPUs, in
// whatever parts and however late Mesos offers the GPUs of the ended ones, and although the scheduler fails over.
func TestReclaimsNoMoreWhenOffersAreLate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &lateMaster{
			t: t, now: time.Unix(1_700_000_000, 0).UTC(), names: rapid.Bool().Draw(t, "GPUs have names"), free: map[string][]string{}, tasks: map[string][]string{},
			offers: map[string]Offer{}, filters: map[string]time.Time{}, suppressed: map[string]bool{}, victims: map[string]bool{},
			shares: rapid.Bool().Draw(t, "GPUs are shared"), inventories: map[string][]gpu.Device{},
		}
		var agents []string
		gpus := 0
		var listed []Agent
		for i := range rapid.IntRange(1, 3).Draw(t, "agents") {
			agent := fmt.Sprint("a", i)
			agents = append(agents, agent)
			one := Agent{ID: agent, Hostname: agent, Types: []string{"V100"}}
			for g := range rapid.IntRange(1, 4).Draw(t, "gpus") {
				id := fmt.Sprint(agent, "-", g)
				gpus++
				if !m.shares {
					m.free[agent] = append(m.free[agent], id)
					one.GPUs++
					continue
				}
				m.free[agent] = append(m.free[agent], id+".0", id+".1")
				m.inventories[agent] = append(m.inventories[agent], gpu.Device{UUID: id, Model: "V100", MemMiB: 2 * partMiB, Minor: g})
			}
			if m.shares {
				one.Shared, one.Inventory = sharesOf(m.free[agent]), m.inventories[agent]
			}
			listed = append(listed, one)
		}
		parts := 1 // of a GPU
		if m.shares {
			parts = 2
		}
		deserved := rapid.IntRange(1, gpus).Draw(t, "deserved")
		policy := Policy{Policy: placement.Policy{Roles: []queue.Role{{Name: "guests"}, {Name: "prod", Deserved: quota.Quota{quota.AllTypes: deserved}}}}}
		m.st = New(SchedulerSettings{MaxAttempts: 3, MaxLiveTasks: 1000, Policy: policy}, RecoveredState{})
		m.step(Subscribed{FrameworkID: "f"})
		m.step(AgentsListed{Agents: listed})
		submit := func(name, role string, tasks int, gang bool) {
			s := job.Spec{Name: name, Role: role, Tasks: tasks, CPUs: 1, MemMiB: 256, Command: []string{"true"}, KillGrace: 10 * time.Minute, Gang: gang}
			s.Request.GPUs = 1
			if m.shares {
				s.Request.Share = gpu.ShareRequest{MemMiB: partMiB, Cores: gpu.AllCores / 2}
			}
			s.SetDefaults()
			m.step(SubmitJob{Spec: s})
		}
		submit("borrow", "guests", gpus*parts, false)
		m.settle(agents)
		if len(m.tasks) != gpus*parts {
			t.Fatalf("%d of %d tasks run", len(m.tasks), gpus*parts)
		}
		gang := rapid.Bool().Draw(t, "gang")
		demand := rapid.IntRange(1, deserved*parts).Draw(t, "demand")
		submit("train", "prod", demand, gang)
		for seconds := 0; seconds < 40; {
			switch rapid.SampledFrom([]string{"end", "offer", "offer", "deliver", "deliver", "process", "process", "wait", "done", "fail over"}).Draw(t, "next") {
			case "end":
				if len(m.killed) > 0 {
					m.end(rapid.IntRange(0, len(m.killed)-1).Draw(t, "which"))
				}
			case "offer":
				agent := rapid.SampledFrom(agents).Draw(t, "agent")
				n := len(m.free[agent])
				if rapid.Bool().Draw(t, "not all") {
					n = rapid.IntRange(0, n).Draw(t, "offered")
				}
				m.offer(agent, rapid.SampledFrom([]string{"prod", "guests"}).Draw(t, "role"), n)
			case "deliver":
				if len(m.toScheduler) > 0 {
					m.deliver(rapid.Bool().Draw(t, "late"))
				}
			case "process":
				if len(m.toMaster) > 0 {
					m.process()
				}
			case "wait":
				seconds += 3
				m.now = m.now.Add(3 * time.Second)
				m.step(Tick{})
			case "fail over":
				seconds += 5
				m.failOver(listed)
			case "done":
				seconds += 2
			}
		}
		m.settle(agents)
		prod := 0
		for id := range m.tasks {
			if strings.HasPrefix(id, "train") {
				prod++
			}
		}
		if prod != demand {
			t.Fatalf("%d of %d tasks of train run: %v", prod, demand, m.st.PendingReasons())
		}
		if len(m.victims) > demand {
			t.Fatalf("%d tasks ended for %d tasks of a role that deserves %d", len(m.victims), demand, deserved)
		}
	})
}
