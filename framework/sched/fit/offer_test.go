package fit

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"mesos-gpu/gpu"
)

func TestJoinOffers(t *testing.T) {
	inventory := []gpu.Device{{UUID: "GPU-a", Model: v100}}
	offers := []*Offer{
		{ID: "o3", AgentID: "b", Role: "x", GPUs: -1},
		{ID: "o2", AgentID: "a", Role: "x", Hostname: "h", AgentURL: "http://h", Free: Amount{0.1, 10, 1}, GPUs: 1, DeviceIDs: []string{"GPU-b", "GPU-a"},
			Types: []string{"K80", "V100"}, Ports: []PortRange{{10, 12}, {20, 21}}, Unavailable: noon.Add(time.Hour), Region: "eu"},
		{ID: "o1", AgentID: "a", Role: "x", Hostname: "h", AgentURL: "http://h", Free: Amount{0.2, 20, 2}, GPUs: 1, DeviceIDs: []string{"GPU-a"},
			Types: []string{"V100"}, Inventory: inventory, Ports: []PortRange{{13, 15}, {21, 30}}, Unavailable: noon, Driver: "535", CUDA: "12.2",
			Attributes: []Attribute{{"rack", "r1"}}, Zone: "eu-1"},
		{ID: "o4", AgentID: "a", Role: "y", Free: Amount{CPUs: 1}},
	}
	want := []AgentResources{
		{
			ID: "a", Role: "x", Hostname: "h", URL: "http://h", Offers: []string{"o1", "o2"}, Free: Amount{0.3, 30, 3}, GPUs: 2,
			DeviceIDs: []string{"GPU-a", "GPU-b"}, Types: []string{"V100", "K80"}, Inventory: inventory, Ports: []PortRange{{10, 15}, {20, 30}},
			Unavailable: noon, Driver: "535", CUDA: "12.2", Attributes: []Attribute{{"rack", "r1"}}, Region: "eu", Zone: "eu-1",
		},
		{ID: "a", Role: "y", Offers: []string{"o4"}, Free: Amount{CPUs: 1}},
		{ID: "b", Role: "x", Offers: []string{"o3"}},
	}
	if diff := cmp.Diff(want, CollectAgents(offers)); diff != "" {
		t.Errorf("agents (-want +got):\n%s", diff)
	}
	rapid.Check(t, func(t *rapid.T) {
		if diff := cmp.Diff(want, CollectAgents(rapid.Permutation(offers).Draw(t, "order"))); diff != "" {
			t.Fatalf("a different order of offers (-want +got):\n%s", diff)
		}
	})
}

func TestPorts(t *testing.T) {
	ranges := mergePorts([]PortRange{{70000, 80000}, {5, 3}, {65534, 70000}, {10, 11}, {11, 12}, {-5, 1}})
	if diff := cmp.Diff([]PortRange{{1, 1}, {10, 12}, {65534, 65535}}, ranges); diff != "" {
		t.Errorf("joined (-want +got):\n%s", diff)
	}
	taken, left := takePorts(ranges, 3, []int{0, 11}, nil, 1)
	if len(taken) != 3 || taken[1] != 11 || taken[0] == taken[2] || countPorts(left) != 3 || containPorts(left, taken[:1]) {
		t.Errorf("taken %v, left %v", taken, left)
	}
	if diff := cmp.Diff(ranges, addPorts(left, taken)); diff != "" {
		t.Errorf("given back (-want +got):\n%s", diff)
	}
}

func TestAmounts(t *testing.T) {
	sum := Amount{}
	for range 10 {
		sum = sum.Plus(Amount{CPUs: 0.1, MemMiB: 0.0001})
	}
	if want := (Amount{CPUs: 1, MemMiB: 0.01}); sum != want {
		t.Errorf("ten tenths are %+v, want %+v", sum, want)
	}
	nan := 0.0
	nan /= nan
	if got := (Amount{CPUs: nan, MemMiB: -1, DiskMiB: 1e300}).toMilli(); got != (milliAmount{0, 0, maxMilli}) {
		t.Errorf("odd amounts are %+v", got)
	}
}

// Ports are drawn from all that are free, each about equally often, and the avoided ones only if no others are left.
// Equal seeds draw the same ports.
func TestPortsAreDrawn(t *testing.T) {
	ranges := []PortRange{{31000, 31004}, {31010, 31014}}
	drawn := map[int]int{}
	for seed := range uint64(2000) {
		taken, left := takePorts(ranges, 2, nil, []int{31002, 31003}, seed)
		again, _ := takePorts(ranges, 2, nil, []int{31002, 31003}, seed)
		if diff := cmp.Diff(taken, again); diff != "" {
			t.Fatalf("seed %d draws other ports the second time (-first +second):\n%s", seed, diff)
		}
		if diff := cmp.Diff(ranges, addPorts(left, taken)); diff != "" {
			t.Fatalf("taken %v, left %v (-want +got):\n%s", taken, left, diff)
		}
		for _, p := range taken {
			drawn[p]++
		}
	}
	if len(drawn) != 8 || drawn[31002]+drawn[31003] > 0 {
		t.Errorf("ports drawn: %v", drawn)
	}
	for p, n := range drawn {
		if n < 400 || n > 600 { // 500 of 2000 seeds on average
			t.Errorf("port %d was drawn %d times", p, n)
		}
	}
	if taken, _ := takePorts([]PortRange{{31002, 31004}}, 3, nil, []int{31002, 31003}, 1); taken[0] != 31004 {
		t.Errorf("taken %v: an avoided port comes before another one", taken)
	}
}
