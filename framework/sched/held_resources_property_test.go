package sched

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// lyingMaster offers resources regardless of their holders. The property's model of the truth is naive: an attempt that was
// launched holds its resources until an update proves its end.
type lyingMaster struct {
	t     *rapid.T
	state *State
	now   time.Time
	// holders are the attempts that may run, by id.
	holders map[string]TaskLaunch
	agentOf map[string]string
	offers  int
	jobs    int
	// lastOffer is the id of each agent's last offer.
	lastOffer [lyingAgents]string
}

const (
	lyingAgents    = 3
	gpusPerAgent   = 3 // the last one is shared
	cpusPerAgent   = 8
	portsPerAgent  = 2
	sharedMemMiB   = 16000
	firstLyingPort = 31000
)

func lyingGPU(agent, n int) string { return fmt.Sprintf("GPU-%d-%d", agent, n) }

func (m *lyingMaster) step(ev Event) {
	m.t.Helper()
	for _, op := range m.state.Step(m.now, ev) {
		if a, ok := op.(AcceptOffers); ok {
			m.checkLaunches(&a)
		}
	}
	m.state.TakeChanges()
}

// checkLaunches checks that nothing is launched on what an attempt holds, and that no agent has less than its attempts use.
func (m *lyingMaster) checkLaunches(a *AcceptOffers) {
	for _, l := range a.Launches {
		for id, other := range m.holders {
			for _, device := range l.DeviceIDs {
				if len(l.Shares) == 0 && slices.Contains(other.DeviceIDs, device) || len(other.Shares) == 0 && slices.Contains(other.DeviceIDs, device) {
					m.t.Fatalf("%s is launched on %s, which %s holds", l.TaskID, device, id)
				}
			}
			for _, port := range l.Ports {
				if m.agentOf[id] == a.AgentID && slices.Contains(other.Ports, port) {
					m.t.Fatalf("%s is launched with port %d, which %s holds", l.TaskID, port, id)
				}
			}
		}
		m.holders[l.TaskID], m.agentOf[l.TaskID] = l, a.AgentID
	}
	cpus, mem := 0.0, map[string]int64{}
	for id, l := range m.holders {
		if m.agentOf[id] == a.AgentID {
			cpus += l.Spec.CPUs
		}
		for _, share := range l.Shares {
			mem[share.UUID] += share.MemMiB
		}
	}
	if cpus > cpusPerAgent+0.01 {
		m.t.Fatalf("tasks on %s use %g of %d CPUs", a.AgentID, cpus, cpusPerAgent)
	}
	for uuid, sum := range mem {
		if sum > sharedMemMiB {
			m.t.Fatalf("tasks use %d of %d MiB of %s", sum, sharedMemMiB, uuid)
		}
	}
}

// offer offers a random part of an agent. It rescinds an earlier offer: a master offers nothing twice at a time.
func (m *lyingMaster) offer() {
	agent := rapid.IntRange(0, lyingAgents-1).Draw(m.t, "agent")
	m.step(OfferRescinded{OfferID: m.lastOffer[agent]})
	m.offers++
	m.lastOffer[agent] = fmt.Sprintf("o%d", m.offers)
	o := Offer{
		ID: fmt.Sprintf("o%d", m.offers), AgentID: fmt.Sprint("a", agent), Hostname: fmt.Sprint("host", agent),
		Free:      fit.Amount{CPUs: float64(rapid.IntRange(1, cpusPerAgent).Draw(m.t, "cpus")), MemMiB: 100000, DiskMiB: 100000},
		Inventory: lyingInventory(agent), Ports: []PortRange{{First: firstLyingPort, Last: firstLyingPort + portsPerAgent - 1}},
	}
	for n := range gpusPerAgent - 1 {
		if rapid.Bool().Draw(m.t, "offered") {
			o.DeviceIDs = append(o.DeviceIDs, lyingGPU(agent, n))
		}
	}
	o.GPUs = len(o.DeviceIDs)
	if rapid.Bool().Draw(m.t, "offered") {
		o.Shared = []SharedDevice{{UUID: lyingGPU(agent, gpusPerAgent-1), MemMiB: sharedMemMiB, Cores: gpu.AllCores}}
	}
	m.step(OffersReceived{Offers: []Offer{o}})
	m.step(Cycle{})
}

func lyingInventory(agent int) (list []gpu.Device) {
	for n := range gpusPerAgent {
		list = append(list, gpu.Device{UUID: lyingGPU(agent, n), Model: "Tesla V100-SXM2-16GB", MemMiB: sharedMemMiB})
	}
	return list
}

func (m *lyingMaster) submit() {
	m.jobs++
	s := job.Spec{
		Name:    fmt.Sprintf("job%d", m.jobs),
		Command: []string{"true"},
		Tasks:   rapid.IntRange(1, 3).Draw(m.t, "tasks"),
		CPUs:    float64(rapid.IntRange(1, 3).Draw(m.t, "cpus")),
		MemMiB:  10,
	}
	switch rapid.IntRange(0, 3).Draw(m.t, "kind") {
	case 0:
		s.Request.GPUs = 1
	case 1:
		s.Request.GPUs = 2
	case 2:
		s.Request.GPUs, s.Request.Share = 1, gpu.ShareRequest{MemMiB: rapid.SampledFrom([]int64{6000, 10000}).Draw(m.t, "share")}
	default:
		s.Container = job.Container{Ports: make([]job.Port, 1)}
	}
	if err := s.Complete(); err != nil {
		m.t.Fatal(err)
	}
	if m.state.Admit(&s) == nil {
		m.step(SubmitJob{Spec: s})
	}
}

// update sends an update of an attempt that may run. Only some updates prove its end.
func (m *lyingMaster) update() {
	ids := make([]string, 0, len(m.holders))
	for id := range m.holders {
		ids = append(ids, id)
	}
	if len(ids) == 0 {
		return
	}
	slices.Sort(ids)
	id := rapid.SampledFrom(ids).Draw(m.t, "attempt")
	u := TaskUpdate{TaskID: id, AgentID: m.agentOf[id]}
	switch rapid.IntRange(0, 5).Draw(m.t, "update") {
	case 0:
		u.State = job.Running
	case 1:
		u.State = job.Unreachable
	case 2:
		u.State, u.Proof, u.Reconciled = job.Lost, UnknownToMaster, true
	case 3:
		u.State, u.Proof, u.Reconciled = job.Lost, AgentUnknown, true
	case 4:
		u.State, u.Proof = job.Lost, AgentRemoved
	default:
		u.State = rapid.SampledFrom([]job.State{job.Finished, job.Failed, job.Killed}).Draw(m.t, "end")
		delete(m.holders, id)
	}
	m.step(u)
}

// TestNothingIsPlacedOnWhatMayRun: whatever a master offers and reports, whatever users kill and however long agents are away,
// no attempt is launched on a device, a share or a port of another one whose end is not proven, and no agent has less CPUs
// than its attempts use.
func TestNothingIsPlacedOnWhatMayRun(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &lyingMaster{
			t:       t,
			state:   New(SchedulerSettings{}, RecoveredState{}),
			now:     time.Unix(1_000_000, 0),
			holders: map[string]TaskLaunch{},
			agentOf: map[string]string{},
		}
		m.step(Subscribed{FrameworkID: "f"})
		var agents []Agent
		for a := range lyingAgents {
			agents = append(agents, Agent{
				ID:        fmt.Sprint("a", a),
				Hostname:  fmt.Sprint("host", a),
				GPUs:      gpusPerAgent - 1,
				Inventory: lyingInventory(a),
				Total:     fit.Amount{CPUs: cpusPerAgent, MemMiB: 1 << 20},
				Shared:    []SharedDevice{{UUID: lyingGPU(a, gpusPerAgent-1), MemMiB: sharedMemMiB, Cores: gpu.AllCores}},
			})
		}
		m.step(AgentsListed{Agents: agents})
		t.Repeat(map[string]func(*rapid.T){
			"submit": func(t *rapid.T) { m.t = t; m.submit() },
			"offer":  func(t *rapid.T) { m.t = t; m.offer() },
			"update": func(t *rapid.T) { m.t = t; m.update() },
			"kill": func(t *rapid.T) {
				m.t = t
				m.step(KillJob{Job: fmt.Sprintf("job%d", rapid.IntRange(1, max(m.jobs, 1)).Draw(t, "job"))})
			},
			"wait": func(t *rapid.T) {
				m.t = t
				m.now = m.now.Add(rapid.SampledFrom([]time.Duration{time.Second, time.Minute, 16 * time.Minute}).Draw(t, "time"))
				m.step(Tick{})
			},
			"lose agent": func(t *rapid.T) {
				m.t = t
				m.step(AgentLost{AgentID: fmt.Sprint("a", rapid.IntRange(0, lyingAgents-1).Draw(t, "agent"))})
			},
			"list agents": func(t *rapid.T) { m.t = t; m.step(AgentsListed{Agents: agents}) },
			"restart": func(t *rapid.T) {
				m.t = t
				past := RecoveredState{FrameworkID: "f", Jobs: m.state.Jobs(), Documents: m.state.Documents()}
				m.state = New(SchedulerSettings{}, past)
				m.step(Subscribed{FrameworkID: "f"})
				m.step(AgentsListed{Agents: agents})
			},
		})
	})
}
