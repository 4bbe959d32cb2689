package sched

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// conservingMaster offers all free GPUs to any role that accepts them, and applies filters, SUPPRESS and REVIVE as Mesos
// does. Each agent has GPUs of one type.
type conservingMaster struct {
	t    *rapid.T
	now  time.Time
	st   *State
	free map[string]int
	// types are the GPU types by agent.
	types map[string]string
	// roles are the roles in the order in which the master prefers them.
	roles      []string
	filters    map[placement.AgentKey]time.Time
	suppressed map[string]bool
	offers     map[string]Offer
	made       int
	launched   map[string]int
}

func (m *conservingMaster) step(e Event) {
	for _, one := range []Event{e, Cycle{}} {
		for _, op := range m.st.Step(m.now, one) {
			m.perform(op)
		}
		m.st.TakeChanges()
	}
}

func (m *conservingMaster) perform(op Operation) {
	switch op := op.(type) {
	case AcceptOffers:
		n := 0
		for _, id := range op.OfferIDs {
			n += m.offers[id].GPUs
			delete(m.offers, id)
		}
		for i := range op.Launches {
			n -= op.Launches[i].Spec.Request.GPUs
			m.launched[op.Role]++
		}
		m.free[op.AgentID] += n
		m.filters[placement.AgentKey{ID: op.AgentID, Role: op.Role}] = m.now.Add(op.Refuse)
	case DeclineOffers:
		for _, d := range op.Offers {
			o := m.offers[d.OfferID]
			delete(m.offers, d.OfferID)
			m.free[o.AgentID] += o.GPUs
			m.filters[placement.AgentKey{ID: o.AgentID, Role: o.Role}] = m.now.Add(op.Refuse)
		}
	case ReviveOffers:
		for _, role := range op.Roles {
			m.suppressed[role] = false
			for key := range m.filters {
				if key.Role == role {
					delete(m.filters, key)
				}
			}
		}
	case SuppressOffers:
		for _, role := range op.Roles {
			m.suppressed[role] = true
		}
	}
}

// allocate offers what is free, all of an agent to the first role that has no filter for it.
func (m *conservingMaster) allocate() {
	var made []Offer
	for id, n := range m.free {
		for _, role := range m.roles {
			if n == 0 || m.suppressed[role] || m.filters[placement.AgentKey{ID: id, Role: role}].After(m.now) {
				continue
			}
			m.made++
			o := Offer{
				ID: fmt.Sprint("o", m.made), AgentID: id, Hostname: id, Role: role, GPUs: n,
				Free:  Amount{CPUs: 64, MemMiB: 1 << 18},
				Types: []string{m.types[id]},
			}
			m.offers[o.ID], m.free[id] = o, 0
			made = append(made, o)
			break
		}
	}
	if len(made) > 0 {
		m.step(OffersReceived{Offers: made})
	}
}

// TestReturnsLeaveNoGPUIdle: whichever role a master prefers, no GPU that a waiting task could use stays free for longer than a
// filter of a return and an allocation, also where a role with less share cannot use what it waits for.
func TestReturnsLeaveNoGPUIdle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &conservingMaster{
			t: t, now: time.Unix(1_700_000_000, 0), free: map[string]int{}, types: map[string]string{}, filters: map[placement.AgentKey]time.Time{},
			suppressed: map[string]bool{}, offers: map[string]Offer{}, launched: map[string]int{},
			roles: rapid.Permutation([]string{"gold", "bronze", "lab/x"}).Draw(t, "preferred"),
		}
		roles := []queue.Role{{Name: "gold", Weight: 3}, {Name: "bronze"}, {Name: "lab/x", Weight: 2}}
		m.st = New(SchedulerSettings{LimitShare: 100, Policy: Policy{Policy: placement.Policy{Roles: roles}}}, RecoveredState{})
		m.step(Subscribed{FrameworkID: "f"})
		for i := range rapid.IntRange(1, 5).Draw(t, "agents") {
			id := fmt.Sprint("agent", i)
			m.free[id], m.types[id] = rapid.IntRange(1, 8).Draw(t, "GPUs"), rapid.SampledFrom([]string{"V100", "A100"}).Draw(t, "type")
		}
		var specs []job.Spec
		for i := range rapid.IntRange(1, 5).Draw(t, "jobs") {
			s := job.Spec{
				Name: fmt.Sprint("job", i), Role: rapid.SampledFrom(m.roles).Draw(t, "role"), Tasks: rapid.IntRange(1, 12).Draw(t, "tasks"),
				Request: gpu.Request{GPUs: 1}, CPUs: 0.1, MemMiB: 32, Containerizer: job.Mesos, Command: []string{"true"},
			}
			if only := rapid.SampledFrom([]string{"", "", "V100", "A100"}).Draw(t, "only"); only != "" {
				s.Request.Types = gpu.TypeSelector{Include: []string{only}}
			}
			if err := m.st.Admit(&s); err != nil {
				t.Fatal(err)
			}
			specs = append(specs, s)
			m.step(SubmitJob{Spec: s})
		}
		idle := map[string]int{} // seconds for which an agent's GPUs have been free and usable
		for range 30 {
			m.now = m.now.Add(time.Second)
			m.allocate()
			m.step(Tick{})
			for id, n := range m.free {
				if name := m.findUser(specs, m.types[id]); n == 0 || name == "" {
					idle[id] = 0
				} else if idle[id]++; idle[id] > 7 {
					t.Fatalf("%d GPUs of %s (%s) are free for %d s, and %s waits; launched %v", n, id, m.types[id], idle[id], name, m.launched)
				}
			}
		}
	})
}

// findUser returns a job with a waiting task that could use a GPU of a type, "" if there is none.
func (m *conservingMaster) findUser(specs []job.Spec, gpuType string) string {
	for i := range specs {
		j, ok := m.st.Job(specs[i].Name)
		if !ok || !specs[i].Request.Types.Match(gpu.Product{Model: gpuType}) {
			continue
		}
		for k := range j.Tasks {
			if j.Tasks[k].State == job.Waiting {
				return j.Spec.Name
			}
		}
	}
	return ""
}
