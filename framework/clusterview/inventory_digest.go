package clusterview

import (
	"hash/maphash"
	"strings"

	"mesos-gpu/framework/master"
	"mesos-gpu/framework/sched"
	"mesos-gpu/gpu"
)

// InventoryDigest detects changes of agents and their GPUs between two consecutive
// agent lists. It ignores which task holds a GPU, because that has its own events.
// It is used by one goroutine.
type InventoryDigest struct {
	// seed is of the hash; it stays the same, so that digests of equal lists are equal.
	seed maphash.Seed
	// last is the digest of the previous list; hasLast is false before the first one.
	last    uint64
	hasLast bool
}

// UpdateAndCompare reports whether the list differs from the previous one. It returns
// false for the first list, because no client has seen an earlier one.
func (d *InventoryDigest) UpdateAndCompare(agents []master.ListedAgent) bool {
	if !d.hasLast {
		d.seed = maphash.MakeSeed()
	}
	now := d.hashAgents(agents)
	changed := d.hasLast && now != d.last
	d.last, d.hasLast = now, true
	return changed
}

// hashAgents returns a hash that is independent of the order of agents and devices: it is the sum of the hashes of all
// facts, each together with the agent's ID.
func (d *InventoryDigest) hashAgents(agents []master.ListedAgent) (digest uint64) {
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
		digest += maphash.Comparable(d.seed, summarizeAgent(a))
		for _, id := range a.DeviceIDs {
			digest += maphash.Comparable(d.seed, offered{a.ID, id})
		}
		for _, w := range a.Withheld {
			digest += maphash.Comparable(d.seed, withheld{a.ID, w})
		}
		for _, s := range a.Shared {
			digest += maphash.Comparable(d.seed, shared{a.ID, s})
		}
	}
	return digest
}

// agentSummary holds the fields of an agent that the API shows, without its devices.
type agentSummary struct {
	id, hostname, url, driver, cuda, types string
	active, draining, simulated            bool
	gpus                                   int
	cpus, memMiB                           float64
}

// summarizeAgent returns the fields of an agent that a client may have shown.
func summarizeAgent(a *master.ListedAgent) agentSummary {
	return agentSummary{
		a.ID, a.Hostname, a.URL, a.Host.Driver, a.Host.CUDA, strings.Join(a.Types, " "),
		a.Active, a.Draining, a.Host.Simulated, a.GPUs, a.CPUs, a.MemMiB,
	}
}
