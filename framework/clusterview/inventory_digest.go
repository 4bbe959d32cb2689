package clusterview

import (
	"hash/maphash"
	"strings"

	"mesos-gpu/framework/master"
	"mesos-gpu/framework/sched"
	"mesos-gpu/gpu"
)

// InventoryDigest detects whether a list of agents differs from the one before in agents and
// their GPUs than the one before. Who holds a GPU is no part of it: that has
// events of its own, as far as it is known. One goroutine uses it.
type InventoryDigest struct {
	seed    maphash.Seed
	last    uint64
	hasLast bool
}

// UpdateAndCompare compares the list with the last one; the first is no change, for
// nobody can have seen another.
func (c *InventoryDigest) UpdateAndCompare(agents []master.ListedAgent) bool {
	if !c.hasLast {
		c.seed = maphash.MakeSeed()
	}
	now := c.hashAgents(agents)
	changed := c.hasLast && now != c.last
	c.last, c.hasLast = now, true
	return changed
}

// hashAgents is the same in whichever order Mesos lists agents and devices.
func (c *InventoryDigest) hashAgents(agents []master.ListedAgent) (hashAgents uint64) {
	type offered struct{ agent, device string }
	type withheld struct {
		agent string
		gpu.WithheldDevice
	}
	type shared struct {
		agent string
		sched.SharedDevice
	}
	for i := range agents {
		a := &agents[i]
		hashAgents += maphash.Comparable(c.seed, summarizeAgent(a))
		for _, id := range a.DeviceIDs {
			hashAgents += maphash.Comparable(c.seed, offered{a.ID, id})
		}
		for _, w := range a.Withheld {
			hashAgents += maphash.Comparable(c.seed, withheld{a.ID, w})
		}
		for _, s := range a.Shared {
			hashAgents += maphash.Comparable(c.seed, shared{a.ID, s})
		}
	}
	return hashAgents
}

// agentSummary has the fields of an agent, without its devices, that the API shows.
type agentSummary struct {
	id, hostname, url, driver, cuda, types string
	active, draining, simulated            bool
	gpus                                   int
	cpus, memMiB                           float64
}

func summarizeAgent(a *master.ListedAgent) agentSummary {
	return agentSummary{
		a.ID, a.Hostname, a.URL, a.Host.Driver, a.Host.CUDA, strings.Join(a.Types, " "),
		a.Active, a.Draining, a.Host.Simulated, a.GPUs, a.CPUs, a.MemMiB,
	}
}
