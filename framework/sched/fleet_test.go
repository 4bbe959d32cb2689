package sched

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"mesos-gpu/job"
)

// TestKeptAgentsChangeNothing: a State that keeps its agents from cycle to
// cycle does what one does that looks at all of them anew, whatever comes and
// whatever the policy.
func TestKeptAgentsChangeNothing(t *testing.T) {
	kept := 0
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{KeepEnded: 1}
		cfg.Policy.Fit.Name = rapid.SampledFrom([]string{"headroom", "binpack", "fgd", "topology", "spread"}).Draw(t, "policy")
		if rapid.Bool().Draw(t, "two policies") {
			cfg.Policy.Roles = []Role{{Name: "a"}, {Name: "b", Policy: "spread"}}
		}
		m := mirror{t: t, one: New(cfg, Past{}), other: New(cfg, Past{}), now: time.Unix(1_700_000_000, 0)}
		m.step(Subscribed{FrameworkID: "f"})
		for range rapid.IntRange(1, 25).Draw(t, "rounds") {
			m.round()
		}
		kept += m.kept
	})
	if kept < 20 {
		t.Errorf("agents were kept over %d cycles: that tells nothing", kept)
	}
}

// mirror tells two States the same, one of which keeps no agents.
type mirror struct {
	t          *rapid.T
	one, other *State
	now        time.Time
	jobs       int
	offers     int
	running    []TaskOn
	kept       int
}

func (m *mirror) step(ev Event) {
	if _, cycle := ev.(Cycle); cycle {
		for _, a := range m.one.leftovers(m.one.now) {
			if diff := cmp.Diff(all(&a), m.one.left(&a)); diff != "" {
				m.t.Fatalf("%s has left (-leftovers +left):\n%s", a.ID, diff)
			}
		}
	}
	before := m.one.fleet.cluster
	got := m.one.Step(m.now, ev)
	m.other.fleet = fleet{}
	if diff := cmp.Diff(m.other.Step(m.now, ev), got); diff != "" {
		m.t.Fatalf("%T: (-made anew +kept)\n%s", ev, diff)
	}
	if _, cycle := ev.(Cycle); cycle && before != nil && before == m.one.fleet.cluster && m.one.fleet.changed != nil {
		m.kept++
	}
	m.one.Drain()
	m.other.Drain()
	for _, op := range got {
		if a, ok := op.(Accept); ok {
			for _, l := range a.Launches {
				m.running = append(m.running, TaskOn{l.TaskID, a.AgentID})
			}
		}
	}
}

// round is some of what may happen, and a cycle.
func (m *mirror) round() {
	m.now = m.now.Add(time.Duration(rapid.SampledFrom([]int{0, 1, 1, 1, 6, 70}).Draw(m.t, "seconds")) * time.Second)
	roles := m.one.roleNames()
	for _, j := range genQueue(2, 3).Draw(m.t, "jobs") {
		s := *j.Spec
		m.jobs++
		s.Name, s.Role, s.Command = fmt.Sprint("j", m.jobs), rapid.SampledFrom(roles).Draw(m.t, "role"), []string{"true"}
		s.RunTime = time.Duration(rapid.IntRange(0, 3).Draw(m.t, "run")) * time.Minute
		if rapid.IntRange(0, 3).Draw(m.t, "constrained") == 0 {
			s.Constraints = []job.Constraint{{Field: "@gpus", Operator: job.Like, Value: "[1-3]"}, {Field: "hostname", Operator: job.MaxPer, Value: "2"}}
		}
		s.SetDefaults()
		m.step(Submit{Spec: s})
	}
	offers := genOffers(4).Draw(m.t, "offers")
	role := rapid.SampledFrom(roles).Draw(m.t, "of")
	for i := range offers {
		m.offers++
		offers[i].ID, offers[i].Role, offers[i].Hostname = fmt.Sprint("o", m.offers), role, offers[i].AgentID
	}
	if rapid.IntRange(0, 20).Draw(m.t, "maintenance") == 0 && len(offers) > 0 {
		offers[0].Unavailable = m.now.Add(time.Hour)
	}
	m.step(Offers{Offers: offers})
	switch rapid.IntRange(0, 30).Draw(m.t, "rare") {
	case 0:
		m.step(AgentLost{AgentID: "a1"})
	case 1:
		m.step(Rescind{OfferID: fmt.Sprint("o", m.offers)})
	case 2:
		m.step(Agents{Agents: []Agent{{ID: "a0", GPUs: 4, Types: []string{"K80"}}, {ID: "a9", GPUs: 2, Shared: []Shared{{UUID: "GPU-9", MemMiB: 100, Cores: 100}}}}})
	}
	for len(m.running) > 0 && rapid.Bool().Draw(m.t, "end") {
		i := rapid.IntRange(0, len(m.running)-1).Draw(m.t, "task")
		m.step(Update{TaskID: m.running[i].TaskID, AgentID: m.running[i].AgentID, State: job.Finished})
		m.running = slices.Delete(m.running, i, i+1)
	}
	m.step(Tick{})
	m.step(Cycle{})
}
