package replay

import (
	"fmt"
	"math/rand"
	"strconv"
	"time"

	"mesos-gpu/framework/sched"
)

// master is what stands for Mesos: it offers each agent's free resources to
// one role at a time, that with the least GPUs for its weight, and honours
// filters, REVIVE and SUPPRESS.
type master struct {
	agents   []machine
	index    map[string]int // by agent id
	order    []int          // in which agents are offered
	roles    []role
	offers   map[string]*offer
	numbered int
}

// machine is an agent as the master knows it.
type machine struct {
	Agent
	devices []string
	free    room // neither taken nor offered
	filters []filter
}

// room is an amount of resources, CPUs and memory in thousandths.
type room struct {
	cpus, mem int64
	gpus      mask
}

func (r room) plus(o room) room  { return room{r.cpus + o.cpus, r.mem + o.mem, r.gpus | o.gpus} }
func (r room) minus(o room) room { return room{r.cpus - o.cpus, r.mem - o.mem, r.gpus &^ o.gpus} }

func (r room) within(o room) bool { return r.cpus <= o.cpus && r.mem <= o.mem && r.gpus&^o.gpus == 0 }

// worth reports whether Mesos would offer it: its least are 0.01 CPUs or
// 32 MiB.
func (r room) worth() bool { return r.cpus >= 10 || r.mem >= 32000 }

func milli(x float64) int64 { return int64(x*1000 + 0.5) }

// filter keeps what was refused from a role for a while.
type filter struct {
	role    int
	until   time.Duration
	refused room
}

type role struct {
	name       string
	weight     float64
	suppressed bool
	gpus       int // taken or offered
}

type offer struct {
	agent, role int
	room        room
}

func newMaster(agents []Agent, roles []sched.Role, seed int64) (*master, error) {
	m := &master{index: map[string]int{}, offers: map[string]*offer{}, order: rand.New(rand.NewSource(seed)).Perm(len(agents))}
	for i, a := range agents {
		if _, twice := m.index[a.ID]; twice || a.GPUs < 0 || a.GPUs > maxGPUs {
			return nil, fmt.Errorf("agent %q comes twice or has %d GPUs, not 0 to %d", a.ID, a.GPUs, maxGPUs)
		}
		m.index[a.ID] = i
		one := machine{Agent: a, free: room{milli(a.Has.CPUs), milli(a.Has.MemMiB), full(a.GPUs)}}
		for g := range a.GPUs {
			one.devices = append(one.devices, "GPU-"+a.ID+"-"+strconv.Itoa(g))
		}
		m.agents = append(m.agents, one)
	}
	for _, r := range roles {
		one := role{name: r.Name, weight: r.Weight}
		if one.weight == 0 {
			one.weight = 1
		}
		m.roles = append(m.roles, one)
	}
	return m, nil
}

// allocate offers what is free.
func (m *master) allocate(now time.Duration) []sched.Offer {
	var list []sched.Offer
	for _, i := range m.order {
		a := &m.agents[i]
		if !a.free.worth() {
			continue
		}
		if to := m.next(a, now); to >= 0 {
			list = append(list, m.offer(i, to))
		}
	}
	return list
}

// next is the role that an agent's resources go to; -1 if none wants them.
func (m *master) next(a *machine, now time.Duration) int {
	best := -1
	for r := range m.roles {
		if m.roles[r].suppressed || a.refused(r, now) {
			continue
		}
		if best < 0 || m.share(r) < m.share(best) {
			best = r
		}
	}
	return best
}

func (m *master) share(r int) float64 { return float64(m.roles[r].gpus) / m.roles[r].weight }

// refused reports whether a filter keeps all that is free from a role, and
// forgets those whose time is over.
func (a *machine) refused(role int, now time.Duration) bool {
	kept := a.filters[:0]
	hit := false
	for _, f := range a.filters {
		if f.until > now {
			kept = append(kept, f)
			hit = hit || f.role == role && a.free.within(f.refused)
		}
	}
	a.filters = kept
	return hit
}

func (m *master) offer(i, to int) sched.Offer {
	a := &m.agents[i]
	m.numbered++
	o := &offer{agent: i, role: to, room: a.free}
	id := "o" + strconv.Itoa(m.numbered)
	m.offers[id] = o
	a.free = room{}
	m.roles[to].gpus += o.room.gpus.count()
	s := sched.Offer{
		ID: id, AgentID: a.ID, Hostname: a.ID, Role: m.roles[to].name, GPUs: o.room.gpus.count(),
		Free: sched.Amount{CPUs: float64(o.room.cpus) / 1000, MemMiB: float64(o.room.mem) / 1000},
	}
	s.Ports = ports()
	if a.Model != "" {
		s.Types = []string{a.Model}
	}
	s.DeviceIDs = make([]string, 0, s.GPUs)
	for g, id := range a.devices {
		if o.room.gpus>>g&1 != 0 {
			s.DeviceIDs = append(s.DeviceIDs, id)
		}
	}
	return s
}

// ports are those of every offer, taken or not: they never run short.
func ports() []sched.PortRange { return []sched.PortRange{{First: 31000, Last: 32000}} }

// withdraw takes an offer back from the scheduler; what it had is free.
func (m *master) withdraw(id string) (*offer, error) {
	o := m.offers[id]
	if o == nil {
		return nil, fmt.Errorf("offer %s is not there to be answered", id)
	}
	delete(m.offers, id)
	m.roles[o.role].gpus -= o.room.gpus.count()
	a := &m.agents[o.agent]
	a.free = a.free.plus(o.room)
	return o, nil
}

// refuse keeps what an agent has free from a role.
func (m *master) refuse(i, role int, now, d time.Duration) {
	if d > 0 {
		a := &m.agents[i]
		a.filters = append(a.filters, filter{role, now + d, a.free})
	}
}

// take gives a launch what it needs of an agent that was offered. It refuses
// what is not there.
func (m *master) take(i, role int, l *sched.Launch) (room, error) {
	a := &m.agents[i]
	need := room{cpus: milli(l.Spec.CPUs) + milli(l.Overhead.CPUs), mem: milli(l.Spec.MemMiB) + milli(l.Overhead.MemMiB)}
	for _, id := range l.DeviceIDs {
		g, err := strconv.Atoi(id[len("GPU-")+len(a.ID)+1:])
		if err != nil || a.devices[g] != id {
			return need, fmt.Errorf("launch %s: agent %s has no device %s", l.TaskID, a.ID, id)
		}
		need.gpus |= 1 << g
	}
	if !need.within(a.free) || need.gpus.count() != l.Spec.Request.GPUs {
		return need, fmt.Errorf("launch %s: agent %s has %+v free, the task takes %+v for %d GPUs", l.TaskID, a.ID, a.free, need, l.Spec.Request.GPUs)
	}
	a.free = a.free.minus(need)
	m.roles[role].gpus += need.gpus.count()
	return need, nil
}

// give makes free what a task had.
func (m *master) give(i, role int, r room) {
	m.agents[i].free = m.agents[i].free.plus(r)
	m.roles[role].gpus -= r.gpus.count()
}

// revive forgets what the roles refused; no name stands for all.
func (m *master) revive(names []string) {
	m.each(names, func(r int) {
		m.roles[r].suppressed = false
		for i := range m.agents {
			a := &m.agents[i]
			kept := a.filters[:0]
			for _, f := range a.filters {
				if f.role != r {
					kept = append(kept, f)
				}
			}
			a.filters = kept
		}
	})
}

func (m *master) suppress(names []string) {
	m.each(names, func(r int) { m.roles[r].suppressed = true })
}

func (m *master) each(names []string, do func(r int)) {
	for r := range m.roles {
		if len(names) == 0 {
			do(r)
		}
		for _, name := range names {
			if m.roles[r].name == name {
				do(r)
			}
		}
	}
}

// role finds one by name; -1 if it is not there.
func (m *master) role(name string) int {
	for r := range m.roles {
		if m.roles[r].name == name {
			return r
		}
	}
	return -1
}
