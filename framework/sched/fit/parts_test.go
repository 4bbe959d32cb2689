package fit

import (
	"fmt"
	"strings"
	"testing"

	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// sharedBy is an agent of that id whose devices have so much free of 16000
// MiB and 100 % each, "MIB/PERCENT".
func sharedBy(id string, free ...string) Agent {
	a := shared(len(free), 16000)
	a.ID, a.Role = id, ""
	for i, text := range free {
		if _, err := fmt.Sscanf(text, "%d/%d", &a.Shared[i].MemMiB, &a.Shared[i].Cores); err != nil {
			panic(text)
		}
		a.Shared[i].UUID = id + fmt.Sprint(i)
		a.Inventory[i].UUID = a.Shared[i].UUID
		a.AllShared = append(a.AllShared, Shared{a.Shared[i].UUID, 16000, 100})
	}
	return a
}

// Which devices the parts of several tasks come from, by policy.
func TestWherePartsComeFrom(t *testing.T) {
	whole, used := "16000/100", "8000/100"
	half := gpu.Share{MemMiB: 8000}
	small := gpu.Share{MemMiB: 4000}
	typical := []Typical{{Demand{Request: gpu.Request{GPUs: 1, Share: half}}, 1}}
	for _, c := range []struct {
		name, policy string
		agents       []Agent
		gpus         int
		share        gpu.Share
		want         string // parts of one task with + between
	}{
		{"pack on one device", "binpack", []Agent{sharedBy("a", whole, whole)}, 1, small, "a0 a0 a0 a0 a1 a1 a1 a1"},
		{"the device in use first", "binpack", []Agent{sharedBy("a", whole, used)}, 1, half, "a1 a0 a0"},
		{"the agent in use first, though it has more", "binpack", []Agent{sharedBy("a", whole), sharedBy("b", used, whole)}, 1, half, "b0 a0 a0 b1 b1"},
		{"the tightest that will do", "binpack", []Agent{sharedBy("a", "7000/100", "12000/100", "9000/100")}, 1, half, "a2 a1"},
		{"tight in cores", "binpack", []Agent{sharedBy("a", "9000/90", "9000/20")}, 1, gpu.Share{MemMiB: 1000, Cores: 20}, "a1 a0 a0 a0 a0"},
		{"topology packs", "topology", []Agent{sharedBy("a", whole, used)}, 1, half, "a1 a0 a0"},
		{"fgd without a workload packs", "fgd", []Agent{sharedBy("a", whole), sharedBy("b", used, whole)}, 1, half, "b0 a0 a0 b1 b1"},
		{"headroom without a workload packs", "headroom", []Agent{sharedBy("a", whole), sharedBy("b", used, whole)}, 1, half, "b0 a0 a0 b1 b1"},
		{"spread over devices and agents", "spread", []Agent{sharedBy("a", whole, whole), sharedBy("b", whole)}, 1, half, "a0 a1 b0 a0 a1 b0"},
		{"spread goes where nobody is", "spread", []Agent{sharedBy("a", used, used, used), sharedBy("b", whole)}, 1, half, "b0 a0 a1 a2 b0"},
		{"alone", "binpack", []Agent{sharedBy("a", used, whole, "16000/99", whole)}, 1, gpu.Share{Cores: 100}, "a1 a3"},
		{"several devices", "binpack", []Agent{sharedBy("a", whole, used, whole)}, 2, half, "a1+a0 a0+a2"},
		{"the pair that leaves room for another", "binpack", []Agent{sharedBy("a", used, used, whole)}, 2, half, "a0+a2 a1+a2"},
		{"several, spread", "spread", []Agent{sharedBy("a", whole, used, whole)}, 2, half, "a0+a2 a0+a1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cluster := NewCluster(c.agents, Policy{Name: c.policy}, noon)
			var got []string
			for _, s := range cluster.Fill(&Demand{Request: gpu.Request{GPUs: c.gpus, Share: c.share}}, 9) {
				var ids []string
				for _, p := range s.Parts {
					ids = append(ids, p.UUID)
				}
				got = append(got, strings.Join(ids, "+"))
			}
			if text := strings.Join(got, " "); text != c.want {
				t.Errorf("parts come of %s, want %s", text, c.want)
			}
		})
	}
	// Who asks for memory alone fills a device to the last, whatever of its
	// cores is left, and the one in use first.
	for _, policy := range []string{"fgd", "headroom"} {
		for _, list := range [][]Typical{{{Demand{Request: gpu.Request{GPUs: 1, Share: small}}, 1}}, {{Demand{Request: gpu.Request{GPUs: 1, Share: small}}, 1}, {Demand{Request: gpu.Request{GPUs: 1}}, 1}}} {
			c := NewCluster([]Agent{sharedBy("a", whole, "12000/100")}, Policy{Name: policy, Typical: list}, noon)
			got := ""
			for _, s := range c.Fill(&Demand{Request: gpu.Request{GPUs: 1, Share: small}}, 9) {
				got += s.Parts[0].UUID + " "
			}
			if want := "a1 a1 a1 a0 a0 a0 a0 "; got != want {
				t.Errorf("%s, %d kinds: parts come of %s, want %s", policy, len(list), got, want)
			}
		}
	}
	// On a0, 4000 MiB would be left, which half a device does not fit into.
	for _, policy := range []string{"fgd", "headroom"} {
		c := NewCluster([]Agent{sharedBy("a", used, whole)}, Policy{Name: policy, Typical: typical}, noon)
		if spots := c.Fill(&Demand{Request: gpu.Request{GPUs: 1, Share: small}}, 1); len(spots) != 1 || spots[0].Parts[0].UUID != "a1" {
			t.Errorf("%s takes %+v, want of a1", policy, spots)
		}
	}
}

// What a part counts for, and what oversubscription makes of it.
func TestThousandthsOfParts(t *testing.T) {
	a := sharedBy("a", "24000/150")
	a.AllShared = []Shared{{"a0", 24000, 150}}
	for share, want := range map[gpu.Share]gpu.Part{
		{MemMiB: 4000}:            {MemMiB: 4000, Milli: 250},
		{MemMiB: 4000, Cores: 30}: {MemMiB: 4000, Cores: 30, Milli: 300},
		{MemMiB: 1}:               {MemMiB: 1, Milli: 1},
		{MemMiB: 20000}:           {MemMiB: 20000, Milli: 1000},
		{MemPercent: 50}:          {MemMiB: 8000, Milli: 500},
		{Cores: 50}:               {MemMiB: 8000, Cores: 50, Milli: 500},
		{Cores: 100}:              {MemMiB: 24000, Cores: 150, Milli: 1000},
	} {
		spots := NewCluster([]Agent{a}, Policy{}, noon).Fill(&Demand{Request: gpu.Request{GPUs: 1, Share: share}}, 1)
		want.UUID, want.Type = "a0", "V100"
		if len(spots) != 1 || len(spots[0].Parts) != 1 || spots[0].Parts[0] != want {
			t.Errorf("%v: got %+v, want %+v", share, spots, want)
		}
	}
}

// A device turns from whole to shared, and back, between two clusters; what
// an older list says of it does not count.
func TestADeviceTurns(t *testing.T) {
	whole := &Demand{Request: gpu.Request{GPUs: 1}}
	part := &Demand{Request: gpu.Request{GPUs: 1, Share: gpu.Share{MemMiB: 1000}}}
	a := sharedBy("a", "16000/100")
	b := a
	b.GPUs, b.DeviceIDs, b.Shared = 1, []string{"a0"}, nil
	for _, c := range []struct {
		agent       Agent
		whole, part int
	}{{a, 0, 1}, {b, 1, 0}} {
		if got := len(NewCluster([]Agent{c.agent}, Policy{}, noon).Fill(whole, 1)); got != c.whole {
			t.Errorf("%+v: %d whole, want %d", c.agent, got, c.whole)
		}
		if got := len(NewCluster([]Agent{c.agent}, Policy{}, noon).Fill(part, 1)); got != c.part {
			t.Errorf("%+v: %d parts, want %d", c.agent, got, c.part)
		}
	}
}

// Demands that may find different places have different keys.
func TestKeysTellDemandsApart(t *testing.T) {
	changes := map[string]func(*Demand){
		"role": func(d *Demand) { d.Role = "x" }, "amount": func(d *Demand) { d.Amount.CPUs = 1 }, "ports": func(d *Demand) { d.Ports = 1 }, "runs": func(d *Demand) { d.Runs = 1 },
		"beyond": func(d *Demand) { d.Beyond = true }, "gpus": func(d *Demand) { d.Request.GPUs = 2 }, "memory": func(d *Demand) { d.Request.MinMemMiB = 1 },
		"driver": func(d *Demand) { d.Request.MinDriver = "1" }, "cuda": func(d *Demand) { d.Request.MinCUDA = "1" }, "topology": func(d *Demand) { d.Request.Topology = gpu.NVLink },
		"type": func(d *Demand) { d.Request.Types.Include = []string{"V100"} }, "not": func(d *Demand) { d.Request.Types.Exclude = []string{"V100"} },
		"uuid": func(d *Demand) { d.Request.Devices.Include = []string{"a"} }, "not uuid": func(d *Demand) { d.Request.Devices.Exclude = []string{"a"} },
		"part": func(d *Demand) { d.Request.Share.MemMiB = 1 }, "percent": func(d *Demand) { d.Request.Share.MemPercent = 1 }, "cores": func(d *Demand) { d.Request.Share.Cores = 1 },
		"constraint": func(d *Demand) { d.Constraints = []job.Constraint{{Field: "rack", Operator: job.Unique}} }, "nothing": func(*Demand) {},
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
