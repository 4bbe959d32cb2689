package fit

import (
	"fmt"
	"strings"
	"testing"

	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// sharedByMethod returns an agent whose devices have 16000 MiB and 100 % each. free lists what is free of each:
// "MIB/PERCENT".
func sharedByMethod(id string, free ...string) AgentResources {
	a := sharedAgent(len(free), 16000)
	a.ID, a.Role = id, ""
	for i, text := range free {
		if _, err := fmt.Sscanf(text, "%d/%d", &a.Shared[i].MemMiB, &a.Shared[i].Cores); err != nil {
			panic(text)
		}
		a.Shared[i].UUID = id + fmt.Sprint(i)
		a.Inventory[i].UUID = a.Shared[i].UUID
		a.AllShared = append(a.AllShared, SharedDevice{a.Shared[i].UUID, 16000, 100})
	}
	return a
}

// TestChooseShareSlots checks the devices of several tasks' shares, by policy.
func TestChooseShareSlots(t *testing.T) {
	whole, used := "16000/100", "8000/100"
	half := gpu.ShareRequest{MemMiB: 8000}
	small := gpu.ShareRequest{MemMiB: 4000}
	typical := []TypicalTask{{Demand: Demand{Request: gpu.Request{GPUs: 1, Share: half}}, Weight: 1}}
	for _, c := range []struct {
		name, policy string
		agents       []AgentResources
		gpus         int
		share        gpu.ShareRequest
		want         string // shares of one task are joined by +
	}{
		{"pack on one device", "binpack", []AgentResources{sharedByMethod("a", whole, whole)}, 1, small, "a0 a0 a0 a0 a1 a1 a1 a1"},
		{"the device in use first", "binpack", []AgentResources{sharedByMethod("a", whole, used)}, 1, half, "a1 a0 a0"},
		{"the agent in use first, though it has more", "binpack",
			[]AgentResources{sharedByMethod("a", whole), sharedByMethod("b", used, whole)}, 1, half, "b0 a0 a0 b1 b1"},
		{"the tightest that fits", "binpack", []AgentResources{sharedByMethod("a", "7000/100", "12000/100", "9000/100")}, 1, half, "a2 a1"},
		{"tight in cores", "binpack", []AgentResources{sharedByMethod("a", "9000/90", "9000/20")}, 1, gpu.ShareRequest{MemMiB: 1000, Cores: 20}, "a1 a0 a0 a0 a0"},
		{"topology packs", "topology", []AgentResources{sharedByMethod("a", whole, used)}, 1, half, "a1 a0 a0"},
		{"fgd without a workload packs", "fgd", []AgentResources{sharedByMethod("a", whole), sharedByMethod("b", used, whole)}, 1, half, "b0 a0 a0 b1 b1"},
		{"headroom without a workload packs", "headroom", []AgentResources{sharedByMethod("a", whole), sharedByMethod("b", used, whole)}, 1, half, "b0 a0 a0 b1 b1"},
		{"spread over devices and agents", "spread", []AgentResources{sharedByMethod("a", whole, whole), sharedByMethod("b", whole)}, 1, half, "a0 a1 b0 a0 a1 b0"},
		{"spread prefers an unused device", "spread", []AgentResources{sharedByMethod("a", used, used, used), sharedByMethod("b", whole)}, 1, half, "b0 a0 a1 a2 b0"},
		{"alone", "binpack", []AgentResources{sharedByMethod("a", used, whole, "16000/99", whole)}, 1, gpu.ShareRequest{Cores: 100}, "a1 a3"},
		{"several devices", "binpack", []AgentResources{sharedByMethod("a", whole, used, whole)}, 2, half, "a1+a0 a0+a2"},
		{"the pair that leaves room for another", "binpack", []AgentResources{sharedByMethod("a", used, used, whole)}, 2, half, "a0+a2 a1+a2"},
		{"several, spread", "spread", []AgentResources{sharedByMethod("a", whole, used, whole)}, 2, half, "a0+a2 a0+a1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cluster := NewCluster(c.agents, PlacementPolicy{Name: c.policy}, noon)
			var got []string
			for _, s := range cluster.PlaceTasks(&Demand{Request: gpu.Request{GPUs: c.gpus, Share: c.share}}, 9) {
				var ids []string
				for _, p := range s.Shares {
					ids = append(ids, p.UUID)
				}
				got = append(got, strings.Join(ids, "+"))
			}
			if text := strings.Join(got, " "); text != c.want {
				t.Errorf("parts come of %s, want %s", text, c.want)
			}
		})
	}
	// Tasks that request only memory fill a device completely, whatever is left of its cores, and use the device in
	// use first.
	for _, policy := range []string{"fgd", "headroom"} {
		for _, list := range [][]TypicalTask{
			{{Demand: Demand{Request: gpu.Request{GPUs: 1, Share: small}}, Weight: 1}},
			{{Demand: Demand{Request: gpu.Request{GPUs: 1, Share: small}}, Weight: 1}, {Demand: Demand{Request: gpu.Request{GPUs: 1}}, Weight: 1}},
		} {
			c := NewCluster([]AgentResources{sharedByMethod("a", whole, "12000/100")}, PlacementPolicy{Name: policy, Typical: list}, noon)
			got := ""
			for _, s := range c.PlaceTasks(&Demand{Request: gpu.Request{GPUs: 1, Share: small}}, 9) {
				got += s.Shares[0].UUID + " "
			}
			if want := "a1 a1 a1 a0 a0 a0 a0 "; got != want {
				t.Errorf("%s, %d kinds: parts come of %s, want %s", policy, len(list), got, want)
			}
		}
	}
	// On a0, 4000 MiB would be left, too little for half a device.
	for _, policy := range []string{"fgd", "headroom"} {
		c := NewCluster([]AgentResources{sharedByMethod("a", used, whole)}, PlacementPolicy{Name: policy, Typical: typical}, noon)
		if spots := c.PlaceTasks(&Demand{Request: gpu.Request{GPUs: 1, Share: small}}, 1); len(spots) != 1 || spots[0].Shares[0].UUID != "a1" {
			t.Errorf("%s takes %+v, want of a1", policy, spots)
		}
	}
}

// TestMilliOfShares checks what a share counts for, also with oversubscription.
func TestMilliOfShares(t *testing.T) {
	a := sharedByMethod("a", "24000/150")
	a.AllShared = []SharedDevice{{"a0", 24000, 150}}
	for share, want := range map[gpu.ShareRequest]gpu.DeviceShare{
		{MemMiB: 4000}:            {MemMiB: 4000, MilliDevices: 250},
		{MemMiB: 4000, Cores: 30}: {MemMiB: 4000, Cores: 30, MilliDevices: 300},
		{MemMiB: 1}:               {MemMiB: 1, MilliDevices: 1},
		{MemMiB: 20000}:           {MemMiB: 20000, MilliDevices: 1000},
		{MemPercent: 50}:          {MemMiB: 8000, MilliDevices: 500},
		{Cores: 50}:               {MemMiB: 8000, Cores: 50, MilliDevices: 500},
		{Cores: 100}:              {MemMiB: 24000, Cores: 150, MilliDevices: 1000},
	} {
		spots := NewCluster([]AgentResources{a}, PlacementPolicy{}, noon).PlaceTasks(&Demand{Request: gpu.Request{GPUs: 1, Share: share}}, 1)
		want.UUID, want.Type, want.Product = "a0", "V100", v100
		if len(spots) != 1 || len(spots[0].Shares) != 1 || spots[0].Shares[0] != want {
			t.Errorf("%v: got %+v, want %+v", share, spots, want)
		}
	}
}

// A device changes from whole to shared and back between two clusters. What an
// older list reports about it is ignored.
func TestDeviceBecomesShared(t *testing.T) {
	whole := &Demand{Request: gpu.Request{GPUs: 1}}
	part := &Demand{Request: gpu.Request{GPUs: 1, Share: gpu.ShareRequest{MemMiB: 1000}}}
	a := sharedByMethod("a", "16000/100")
	b := a
	b.GPUs, b.DeviceIDs, b.Shared = 1, []string{"a0"}, nil
	for _, c := range []struct {
		agent       AgentResources
		whole, part int
	}{{a, 1, 1}, {b, 1, 0}} {
		if got := len(NewCluster([]AgentResources{c.agent}, PlacementPolicy{}, noon).PlaceTasks(whole, 1)); got != c.whole {
			t.Errorf("%+v: %d whole, want %d", c.agent, got, c.whole)
		}
		if got := len(NewCluster([]AgentResources{c.agent}, PlacementPolicy{}, noon).PlaceTasks(part, 1)); got != c.part {
			t.Errorf("%+v: %d parts, want %d", c.agent, got, c.part)
		}
	}
}

// Demands that may fit different agents have different keys.
func TestDemandKeysDiffer(t *testing.T) {
	changes := map[string]func(*Demand){
		"role":       func(d *Demand) { d.Role = "x" },
		"amount":     func(d *Demand) { d.Amount.CPUs = 1 },
		"ports":      func(d *Demand) { d.Ports = 1 },
		"runs":       func(d *Demand) { d.RunTime = 1 },
		"beyond":     func(d *Demand) { d.AvoidReserved = true },
		"gpus":       func(d *Demand) { d.Request.GPUs = 2 },
		"memory":     func(d *Demand) { d.Request.MinMemMiB = 1 },
		"driver":     func(d *Demand) { d.Request.MinDriver = "1" },
		"cuda":       func(d *Demand) { d.Request.MinCUDA = "1" },
		"topology":   func(d *Demand) { d.Request.Topology = gpu.NVLink },
		"type":       func(d *Demand) { d.Request.Types.Include = []string{"V100"} },
		"not":        func(d *Demand) { d.Request.Types.Exclude = []string{"V100"} },
		"uuid":       func(d *Demand) { d.Request.Devices.Include = []string{"a"} },
		"not uuid":   func(d *Demand) { d.Request.Devices.Exclude = []string{"a"} },
		"part":       func(d *Demand) { d.Request.Share.MemMiB = 1 },
		"percent":    func(d *Demand) { d.Request.Share.MemPercent = 1 },
		"cores":      func(d *Demand) { d.Request.Share.Cores = 1 },
		"constraint": func(d *Demand) { d.Constraints = []job.Constraint{{Field: "rack", Operator: job.Unique}} },
		"nothing":    func(*Demand) {},
	}
	seen := map[string]string{}
	for name, change := range changes {
		d := Demand{Request: gpu.Request{GPUs: 1}}
		change(&d)
		if other, ok := seen[d.Key()]; ok {
			t.Errorf("%s and %s have one key", name, other)
		}
		seen[d.Key()] = name
	}
}
