package fit

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"mesos-gpu/gpu"
)

// linkedAgent returns an agent with devices "0", "1", … of these models and NUMA
// nodes. Links are written as "01:2 23".
func linkedAgent(models []string, numa []int, links string) AgentResources {
	a := AgentResources{ID: "a", GPUs: len(models), Types: []string{"V100"}}
	for i, model := range models {
		id := fmt.Sprintf("%02d", i)
		a.DeviceIDs = append(a.DeviceIDs, id)
		a.Inventory = append(a.Inventory, gpu.Device{UUID: id, Model: model, Minor: i, NUMA: numa[i], NVLinks: map[string]int{}})
	}
	for _, link := range strings.Fields(links) {
		n := 1
		if _, err := fmt.Sscanf(link[2:], ":%d", &n); err != nil && len(link) > 2 {
			panic(link)
		}
		// only one of the two ends reports the link
		a.Inventory[link[0]-'0'].NVLinks["0"+link[1:2]] = n
	}
	return a
}

func repeatValue[T any](n int, x T) []T { return slices.Repeat([]T{x}, n) }

func TestChooseDevices(t *testing.T) {
	plain := repeatValue(4, v100)
	for _, c := range []struct {
		name     string
		agent    AgentResources
		gpus     int
		topology gpu.Topology
		taken    string // devices that are in use
		want     string
	}{
		{"lowest minors", linkedAgent(plain, repeatValue(4, -1), ""), 2, "", "", "0 1"},
		{"one model", linkedAgent([]string{v100, a100, v100, a100}, repeatValue(4, -1), ""), 2, "", "0", "1 3"},
		{"the model with fewest left", linkedAgent([]string{v100, v100, v100, a100}, repeatValue(4, -1), ""), 1, "", "", "3"},
		{"as they come where no model is enough", linkedAgent([]string{v100, a100, v100, a100}, repeatValue(4, 0), "03"), 3, "", "", "0 1 2"},
		{"most links", linkedAgent(plain, []int{0, 0, 1, 1}, "01:1 23:2"), 2, "", "", "2 3"},
		{"most links of one group", linkedAgent(plain, repeatValue(4, 0), "01:1 12:3 23:1"), 2, "", "", "1 2"},
		{"links before NUMA", linkedAgent(plain, []int{0, 0, 1, 1}, "02:1"), 2, "", "", "0 2"},
		{"one NUMA node", linkedAgent(plain, []int{0, 1, 1, 0}, ""), 2, "", "1", "0 3"},
		{"a small group first", linkedAgent(repeatValue(5, v100), repeatValue(5, -1), "01 12 34"), 1, "", "", "3"},
		{"a broken group first", linkedAgent(plain, repeatValue(4, -1), "01 23"), 1, "", "0", "1"},
		{"a broken NUMA node first", linkedAgent(plain, []int{0, 0, 1, 1}, ""), 1, "", "3", "2"},
		{"nvlink", linkedAgent(plain, []int{0, 0, 1, 1}, "12"), 2, gpu.NVLink, "", "1 2"},
		{"nvlink over a third", linkedAgent(plain, repeatValue(4, -1), "01 12"), 3, gpu.NVLink, "", "0 1 2"},
		{"nvlink not over a third that is taken", linkedAgent(plain, repeatValue(4, -1), "01 12"), 2, gpu.NVLink, "1", ""},
		{"nvlink to too few", linkedAgent(plain, repeatValue(4, -1), "01 12"), 4, gpu.NVLink, "", ""},
		{"nvlink, unknown links", linkedAgent(plain, repeatValue(4, 0), ""), 2, gpu.NVLink, "", ""},
		{"one NUMA node against links", linkedAgent(plain, []int{0, 1, 0, 1}, "01 23"), 2, gpu.SameNUMA, "", "0 2"},
		{"NUMA, unknown nodes", linkedAgent(plain, repeatValue(4, -1), ""), 2, gpu.SameNUMA, "", ""},
		{"any", linkedAgent(plain, repeatValue(4, -1), "13"), 2, gpu.AnyTopology, "", "1 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.agent.DeviceIDs = slices.DeleteFunc(c.agent.DeviceIDs, func(id string) bool { return slices.Contains(strings.Fields(c.taken), id[1:]) })
			c.agent.GPUs = len(c.agent.DeviceIDs)
			for _, policy := range PolicyNames() {
				cluster := NewCluster([]AgentResources{c.agent}, PlacementPolicy{Name: policy}, noon)
				d := &Demand{Request: gpu.Request{GPUs: c.gpus, Topology: c.topology}}
				got := ""
				for _, s := range cluster.PlaceTasks(d, 1) {
					for _, id := range s.DeviceIDs {
						got += " " + id[1:]
					}
				}
				if got = strings.TrimSpace(got); got != c.want {
					t.Errorf("%s takes %q, want %q", policy, got, c.want)
				}
			}
		})
	}
}

// On an agent with too many combinations to compare, chosen devices still satisfy
// the topology, and linked groups are found.
func TestChooseAmongManyDevices(t *testing.T) {
	const n = 80
	a := linkedAgent(repeatValue(n, v100), repeatValue(n, 0), "")
	for i := range a.Inventory {
		a.Inventory[i].NUMA = i / 40
		if i%10 != 9 { // chains of ten
			a.Inventory[i].NVLinks[fmt.Sprintf("%02d", i+1)] = 1
		}
	}
	for _, c := range []struct {
		gpus     int
		topology gpu.Topology
		tasks    int
	}{{10, gpu.NVLink, 8}, {11, gpu.NVLink, 0}, {40, gpu.SameNUMA, 2}, {20, gpu.SameNUMA, 4}, {20, "", 4}, {70, "", 1}, {1, "", 80}} {
		cluster := NewCluster([]AgentResources{a}, PlacementPolicy{}, noon)
		spots := cluster.PlaceTasks(&Demand{Request: gpu.Request{GPUs: c.gpus, Topology: c.topology}}, n)
		if len(spots) != c.tasks {
			t.Errorf("%d tasks of %d GPUs (%s) fit, want %d", len(spots), c.gpus, c.topology, c.tasks)
		}
		seen := map[string]bool{}
		for _, s := range spots {
			var chosen []gpu.Device
			for _, id := range s.DeviceIDs {
				if seen[id] {
					t.Errorf("%s is taken twice", id)
				}
				seen[id] = true
				chosen = append(chosen, a.Inventory[slices.IndexFunc(a.Inventory, func(d gpu.Device) bool { return d.UUID == id })])
			}
			if len(chosen) != c.gpus || !naiveSatisfiesTopology(c.topology, chosen) {
				t.Errorf("%d GPUs (%s): got %v", c.gpus, c.topology, s.DeviceIDs)
			}
		}
	}
}
