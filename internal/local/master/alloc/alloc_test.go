package alloc

import (
	"fmt"
	"strings"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/internal/minimesos/resource"
)

func amounts(cpus, gpus float64) []mesos.Resource {
	all := []mesos.Resource{
		{Name: "cpus", Type: mesos.SCALAR.Enum(), Scalar: &mesos.Value_Scalar{Value: cpus}},
		{Name: "mem", Type: mesos.SCALAR.Enum(), Scalar: &mesos.Value_Scalar{Value: 100 * cpus}},
	}
	if gpus > 0 {
		all = append(all, mesos.Resource{Name: "gpus", Type: mesos.SCALAR.Enum(), Scalar: &mesos.Value_Scalar{Value: gpus}})
	}
	return all
}

func agent(id string, cpus, gpus float64) AllocatableAgent {
	return AllocatableAgent{ID: id, Total: amounts(cpus, gpus), Free: amounts(cpus, gpus)}
}

func reserved(a AllocatableAgent, cpus float64, role string) AllocatableAgent {
	r := amounts(cpus, 0)
	r[0].Role, r[1].Role = &role, &role
	a.Total, a.Free = resource.Sum(a.Total, r), resource.Sum(a.Free, r)
	return a
}

// show formats offers as "agent→framework/role cpus gpus".
func show(offers []AllocatedOffer) string {
	var out []string
	for _, o := range offers {
		out = append(out, fmt.Sprintf("%s→%s/%s %v %v", o.Agent, o.Framework, o.Role, resource.SumScalar(o.Resources, "cpus"), resource.SumScalar(o.Resources,
			"gpus")))
	}
	return strings.Join(out, ", ")
}

func refused(slot ClaimSlot, rs []mesos.Resource, until time.Time) *OfferFilters {
	f := NewFilters()
	f.Add(slot, rs, until)
	return f
}

func TestAllocateOffers(t *testing.T) {
	now := time.Unix(1000, 0)
	x, y := Contender{ID: "x", Roles: []string{"r"}, GPUs: true}, Contender{ID: "y", Roles: []string{"s"}, GPUs: true}
	plain := Contender{ID: "plain", Roles: []string{"p"}}
	slot := ClaimSlot{RoleClaim{"x", "r"}, "a"}
	least := func(cpus float64) map[string]mesos.OfferFilters {
		return map[string]mesos.OfferFilters{"r": {MinAllocatableResources: &mesos.OfferFilters_MinAllocatableResources{
			Quantities: []mesos.OfferFilters_ResourceQuantities{{Quantities: map[string]mesos.Value_Scalar{"cpus": {Value: cpus}}}},
		}}}
	}
	for _, tc := range []struct {
		name string
		in   AllocationInput
		want string
	}{
		{"without frameworks there is no offer", AllocationInput{Agents: []AllocatableAgent{agent("a", 1, 0)}}, ""},
		{"an agent is offered to one framework", AllocationInput{Agents: []AllocatableAgent{agent("a", 1, 0)}, Frameworks: []Contender{x, y}}, "a→x/r 1 0"},
		{"two agents are offered to two roles",
			AllocationInput{Agents: []AllocatableAgent{agent("b", 1, 0), agent("a", 1, 0)}, Frameworks: []Contender{x, y}},
			"a→x/r 1 0, b→y/s 1 0"},
		{"the claim with the oldest offer is first", AllocationInput{
			Agents: []AllocatableAgent{agent("a", 1, 0)}, Frameworks: []Contender{x, y}, Turns: map[RoleClaim]uint64{{"x", "r"}: 7, {"y", "s"}: 6},
		}, "a→y/s 1 0"},
		{"the role with the least dominant share is first", AllocationInput{
			Agents: []AllocatableAgent{agent("a", 1, 1), agent("b", 8, 4)}, Frameworks: []Contender{x, y},
			Held: []RoleHolding{{"r", amounts(1, 2)}, {"s", amounts(2, 0)}}, Total: amounts(32, 8),
		}, "a→y/s 1 1, b→y/s 8 4"},
		{"a share is divided by the role's weight", AllocationInput{
			Agents: []AllocatableAgent{agent("a", 1, 1), agent("b", 1, 1), agent("c", 1, 1), agent("d", 1, 1)}, Frameworks: []Contender{x, y},
			Weights: map[string]float64{"s": 3},
		}, "a→x/r 1 1, b→y/s 1 1, c→y/s 1 1, d→y/s 1 1"},
		{"roles are compared level by level", AllocationInput{
			Agents:     []AllocatableAgent{agent("a", 1, 1), agent("b", 1, 1), agent("c", 1, 1), agent("d", 1, 1)},
			Frameworks: []Contender{{ID: "x", Roles: []string{"lab/p", "lab/q", "prod"}, GPUs: true}},
			Weights:    map[string]float64{"lab/p": 9, "lab/q": 9},
		}, "a→x/lab/p 1 1, b→x/prod 1 1, c→x/lab/q 1 1, d→x/prod 1 1"},
		{"a GPU agent is offered only to frameworks with the capability",
			AllocationInput{Agents: []AllocatableAgent{agent("a", 1, 1), agent("b", 1, 0)}, Frameworks: []Contender{plain}},
			"b→plain/p 1 0"},
		{"a GPU agent without free GPUs needs the capability", AllocationInput{
			Agents: []AllocatableAgent{{ID: "a", Total: amounts(1, 1), Free: amounts(1, 0)}}, Frameworks: []Contender{plain},
		}, ""},
		{"reserved resources are offered to their role",
			AllocationInput{Agents: []AllocatableAgent{reserved(agent("a", 1, 0), 3, "s")}, Frameworks: []Contender{x, y}},
			"a→x/r 1 0, a→y/s 3 0"},
		{"a refused offer is not repeated", AllocationInput{
			Now: now, Agents: []AllocatableAgent{agent("a", 1, 0)}, Frameworks: []Contender{x},
			Filters: refused(slot, amounts(2, 0), now.Add(time.Second)),
		}, ""},
		{"resources refused by one framework are offered to the other", AllocationInput{
			Now: now, Agents: []AllocatableAgent{agent("a", 1, 0)}, Frameworks: []Contender{x, y},
			Filters: refused(slot, amounts(2, 0), now.Add(time.Second)),
		}, "a→y/s 1 0"},
		{"an expired refusal has no effect", AllocationInput{
			Now: now, Agents: []AllocatableAgent{agent("a", 1, 0)}, Frameworks: []Contender{x},
			Filters: refused(slot, amounts(2, 0), now),
		}, "a→x/r 1 0"},
		{"more resources than were refused are offered", AllocationInput{
			Now: now, Agents: []AllocatableAgent{agent("a", 3, 0)}, Frameworks: []Contender{x},
			Filters: refused(slot, amounts(2, 0), now.Add(time.Second)),
		}, "a→x/r 3 0"},
		{"less than the minimum is not offered", AllocationInput{Agents: []AllocatableAgent{agent("a", 0.005, 0)}, Frameworks: []Contender{x}}, ""},
		{"less than the role's own minimum is not offered",
			AllocationInput{Agents: []AllocatableAgent{agent("a", 1, 0)}, Frameworks: []Contender{{ID: "x", Roles: []string{"r"}, Least: least(2)}}},
			""},
		{"the role's own minimum is offered",
			AllocationInput{Agents: []AllocatableAgent{agent("a", 2, 0)}, Frameworks: []Contender{{ID: "x", Roles: []string{"r"}, Least: least(2)}}},
			"a→x/r 2 0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := show(AllocateOffers(tc.in)); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			again := tc.in
			if got := show(AllocateOffers(again)); got != tc.want {
				t.Errorf("a second time: got %q, want %q: an argument was changed", got, tc.want)
			}
		})
	}
}
