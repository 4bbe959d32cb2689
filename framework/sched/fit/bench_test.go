package fit

import (
	"fmt"
	"math/rand"
	"runtime"
	"testing"
	"time"

	"mesos-gpu/gpu"
)

// reportDecisions reports the cost of one decision.
func reportDecisions(b *testing.B, pass func() (decisions int)) {
	b.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	decisions := 0
	for b.Loop() {
		decisions += pass()
	}
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(decisions)/b.Elapsed().Seconds(), "decisions/s")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/float64(decisions), "allocs/decision")
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/float64(decisions), "B/decision")
	b.ReportMetric(float64(after.Sys)/(1<<20), "MiB") // of the whole process
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/pass")
}

// tenThousandAgents returns agents with eight GPUs each: most of one model, some
// with NVLink in groups of four, some with two models.
func tenThousandAgents() []AgentResources {
	agents := make([]AgentResources, 10_000)
	for i := range agents {
		a := AgentResources{
			ID: fmt.Sprintf("agent-%05d", i), Hostname: fmt.Sprintf("h%05d", i), GPUs: 8, Driver: "550.54.15", CUDA: "12.4",
			Free:  Amount{CPUs: float64(64 + i%3*32), MemMiB: float64(256+i%2*256) * 1024, DiskMiB: 1e6},
			Ports: []PortRange{{31000, 32000}}, Attributes: []Attribute{{"rack", fmt.Sprintf("r%d", i%100)}},
		}
		for g := range 8 {
			d := gpu.Device{UUID: fmt.Sprintf("GPU-%05d-%d", i, g), Model: "NVIDIA A100-SXM4-80GB", MemMiB: 81920, Minor: g, NUMA: g / 4}
			if i%10 == 0 && g >= 4 || i%10 == 1 {
				d.Model, d.MemMiB = "Tesla V100-SXM2-16GB", 16160
			}
			if i%10 > 5 {
				d.NVLinks = map[string]int{}
				for o := g / 4 * 4; o < g/4*4+4; o++ {
					if o != g {
						d.NVLinks[fmt.Sprintf("GPU-%05d-%d", i, o)] = 4
					}
				}
			}
			a.Inventory = append(a.Inventory, d)
			a.DeviceIDs = append(a.DeviceIDs, d.UUID)
		}
		a.Types = []string{"A100", "V100"}
		agents[i] = a
	}
	return agents
}

// waitingDemands returns jobs that together request up to the whole cluster. kinds is the number of different
// demands.
func waitingDemands(jobs, kinds int) []Demand {
	r := rand.New(rand.NewSource(1))
	list := make([]Demand, kinds)
	for i := range list {
		d := &list[i]
		d.Request.GPUs = []int{0, 1, 1, 1, 2, 2, 4, 8}[r.Intn(8)]
		d.Amount = Amount{CPUs: float64(1+r.Intn(32)) + float64(i)/1e4, MemMiB: float64(1+r.Intn(64)) * 1024}
		switch {
		case d.Request.GPUs == 0:
		case r.Intn(4) == 0:
			d.Request.Types.Include = []string{[]string{"A100", "V100"}[r.Intn(2)]}
		case r.Intn(8) == 0:
			d.Request.MinMemMiB = 40_000
		case r.Intn(8) == 0 && d.Request.GPUs <= 4:
			d.Request.Topology = gpu.NVLink
		}
		d.Ports = r.Intn(10) / 9
	}
	queue := make([]Demand, jobs)
	for i := range queue {
		queue[i] = list[i%kinds]
	}
	return queue
}

// BenchmarkTenThousandAgents measures one pass over 10,000 waiting jobs, including
// the creation of the cluster.
func BenchmarkTenThousandAgents(b *testing.B) {
	empty := tenThousandAgents()
	for _, policy := range PolicyNames() {
		for _, kinds := range []int{200, 10_000} {
			b.Run(fmt.Sprintf("%s/demands=%d", policy, kinds), func(b *testing.B) { benchPass(b, empty, policy, kinds) })
		}
	}
	// Little is free: most jobs are refused after a search of all agents.
	busy := tenThousandAgents()
	for i := range busy {
		busy[i].Free.CPUs, busy[i].GPUs, busy[i].DeviceIDs = float64(i%8), i%2, busy[i].DeviceIDs[:i%2]
	}
	for _, kinds := range []int{200, 10_000} {
		b.Run(fmt.Sprintf("busy/demands=%d", kinds), func(b *testing.B) { benchPass(b, busy, "binpack", kinds) })
	}
}

func benchPass(b *testing.B, agents []AgentResources, policy string, kinds int) {
	queue := waitingDemands(10_000, kinds)
	p := PlacementPolicy{Name: policy}
	for i := range 100 {
		p.Typical = append(p.Typical, TypicalTask{Demand: queue[i], Weight: 1})
	}
	reportDecisions(b, func() int {
		c := NewCluster(agents, p, time.Time{})
		for i := range queue {
			c.PlaceTasks(&queue[i], 1)
		}
		return len(queue)
	})
}

func BenchmarkNewCluster(b *testing.B) {
	agents := tenThousandAgents()
	b.ReportAllocs()
	for b.Loop() {
		NewCluster(agents, PlacementPolicy{}, time.Time{})
	}
}

func BenchmarkClone(b *testing.B) {
	c := NewCluster(tenThousandAgents(), PlacementPolicy{}, time.Time{})
	b.ReportAllocs()
	for b.Loop() {
		c.Clone()
	}
}
