package alloc

import (
	"fmt"
	"strings"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/internal/local/master/amount"
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

func agent(id string, cpus, gpus float64) Agent {
	return Agent{ID: id, Total: amounts(cpus, gpus), Free: amounts(cpus, gpus)}
}

func reserved(a Agent, cpus float64, role string) Agent {
	r := amounts(cpus, 0)
	r[0].Role, r[1].Role = &role, &role
	a.Total, a.Free = amount.Sum(a.Total, r), amount.Sum(a.Free, r)
	return a
}

// show writes offers as "agent→framework/role cpus gpus".
func show(offers []Offer) string {
	var out []string
	for _, o := range offers {
		out = append(out, fmt.Sprintf("%s→%s/%s %v %v", o.Agent, o.Framework, o.Role, amount.Scalar(o.Resources, "cpus"), amount.Scalar(o.Resources, "gpus")))
	}
	return strings.Join(out, ", ")
}

func TestOffers(t *testing.T) {
	now := time.Unix(1000, 0)
	x, y := Framework{ID: "x", Roles: []string{"r"}, GPUs: true}, Framework{ID: "y", Roles: []string{"s"}, GPUs: true}
	plain := Framework{ID: "plain", Roles: []string{"p"}}
	slot := Slot{Claim{"x", "r"}, "a"}
	least := func(cpus float64) map[string]mesos.OfferFilters {
		return map[string]mesos.OfferFilters{"r": {MinAllocatableResources: &mesos.OfferFilters_MinAllocatableResources{
			Quantities: []mesos.OfferFilters_ResourceQuantities{{Quantities: map[string]mesos.Value_Scalar{"cpus": {Value: cpus}}}},
		}}}
	}
	for _, tc := range []struct {
		name string
		in   Input
		want string
	}{
		{"nobody", Input{Agents: []Agent{agent("a", 1, 0)}}, ""},
		{"an agent goes to one", Input{Agents: []Agent{agent("a", 1, 0)}, Frameworks: []Framework{x, y}}, "a→x/r 1 0"},
		{"two agents to two roles", Input{Agents: []Agent{agent("b", 1, 0), agent("a", 1, 0)}, Frameworks: []Framework{x, y}}, "a→x/r 1 0, b→y/s 1 0"},
		{"who waited longest first", Input{
			Agents: []Agent{agent("a", 1, 0)}, Frameworks: []Framework{x, y}, Turns: map[Claim]uint64{{"x", "r"}: 7, {"y", "s"}: 6},
		}, "a→y/s 1 0"},
		{"least share first", Input{
			Agents: []Agent{agent("a", 8, 0)}, Frameworks: []Framework{x, y},
			Held: []Holding{{Claim{"x", "r"}, amounts(1, 0)}}, Turns: map[Claim]uint64{{"y", "s"}: 9},
		}, "a→y/s 8 0"},
		{"GPUs do not count for agents without", Input{
			Agents: []Agent{agent("a", 8, 0)}, Frameworks: []Framework{x, y},
			Held: []Holding{{Claim{"x", "r"}, amounts(1, 4)}, {Claim{"y", "s"}, amounts(2, 0)}},
		}, "a→x/r 8 0"},
		{"least GPUs first on agents with", Input{
			Agents: []Agent{agent("a", 8, 4)}, Frameworks: []Framework{x, y},
			Held: []Holding{{Claim{"x", "r"}, amounts(1, 4)}, {Claim{"y", "s"}, amounts(2, 0)}},
		}, "a→y/s 8 4"},
		{"GPU agents only for those who want them", Input{Agents: []Agent{agent("a", 1, 1), agent("b", 1, 0)}, Frameworks: []Framework{plain}}, "b→plain/p 1 0"},
		{"a GPU agent without free GPUs is still one", Input{
			Agents: []Agent{{ID: "a", Total: amounts(1, 1), Free: amounts(1, 0)}}, Frameworks: []Framework{plain},
		}, ""},
		{"reserved to a role", Input{Agents: []Agent{reserved(agent("a", 1, 0), 3, "s")}, Frameworks: []Framework{x, y}}, "a→x/r 1 0, a→y/s 3 0"},
		{"refused", Input{
			Now: now, Agents: []Agent{agent("a", 1, 0)}, Frameworks: []Framework{x},
			Refusals: map[Slot][]Refusal{slot: {{amounts(2, 0), now.Add(time.Second)}}},
		}, ""},
		{"refused by one goes to the other", Input{
			Now: now, Agents: []Agent{agent("a", 1, 0)}, Frameworks: []Framework{x, y},
			Refusals: map[Slot][]Refusal{slot: {{amounts(2, 0), now.Add(time.Second)}}},
		}, "a→y/s 1 0"},
		{"refusal over", Input{
			Now: now, Agents: []Agent{agent("a", 1, 0)}, Frameworks: []Framework{x},
			Refusals: map[Slot][]Refusal{slot: {{amounts(2, 0), now}}},
		}, "a→x/r 1 0"},
		{"more than was refused", Input{
			Now: now, Agents: []Agent{agent("a", 3, 0)}, Frameworks: []Framework{x},
			Refusals: map[Slot][]Refusal{slot: {{amounts(2, 0), now.Add(time.Second)}}},
		}, "a→x/r 3 0"},
		{"too little", Input{Agents: []Agent{agent("a", 0.005, 0)}, Frameworks: []Framework{x}}, ""},
		{"less than the role wants", Input{Agents: []Agent{agent("a", 1, 0)}, Frameworks: []Framework{{ID: "x", Roles: []string{"r"}, Least: least(2)}}}, ""},
		{"what the role wants", Input{Agents: []Agent{agent("a", 2, 0)}, Frameworks: []Framework{{ID: "x", Roles: []string{"r"}, Least: least(2)}}}, "a→x/r 2 0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := show(Offers(tc.in)); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			again := tc.in
			if got := show(Offers(again)); got != tc.want {
				t.Errorf("a second time: got %q, want %q: an argument was changed", got, tc.want)
			}
		})
	}
}
