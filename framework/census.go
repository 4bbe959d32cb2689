package framework

import (
	"hash/maphash"
	"strings"

	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/master"
	"mesos-gpu/framework/sched"
	"mesos-gpu/gpu"
)

// census tells whether a list of agents says anything else of agents and
// their GPUs than the one before. Who holds a GPU is no part of it: that has
// events of its own, as far as it is known. One goroutine uses it.
type census struct {
	seed  maphash.Seed
	last  uint64
	begun bool
}

// changed compares the list with the last one; the first is no change, for
// nobody can have seen another.
func (c *census) changed(agents []master.Agent) bool {
	if !c.begun {
		c.seed = maphash.MakeSeed()
	}
	now := c.sum(agents)
	changed := c.begun && now != c.last
	c.last, c.begun = now, true
	return changed
}

// sum is the same in whichever order Mesos lists agents and devices.
func (c *census) sum(agents []master.Agent) (sum uint64) {
	type offered struct{ agent, device string }
	type withheld struct {
		agent string
		gpu.Withheld
	}
	type shared struct {
		agent string
		sched.Shared
	}
	for i := range agents {
		a := &agents[i]
		sum += maphash.Comparable(c.seed, standingOf(a))
		for _, id := range a.DeviceIDs {
			sum += maphash.Comparable(c.seed, offered{a.ID, id})
		}
		for _, w := range a.Withheld {
			sum += maphash.Comparable(c.seed, withheld{a.ID, w})
		}
		for _, s := range a.Shared {
			sum += maphash.Comparable(c.seed, shared{a.ID, s})
		}
	}
	return sum
}

// standing is what is shown of an agent beside its devices.
type standing struct {
	id, hostname, url, driver, cuda, types string
	active, draining, simulated            bool
	gpus                                   int
	cpus, memMiB                           float64
}

func standingOf(a *master.Agent) standing {
	return standing{
		a.ID, a.Hostname, a.URL, a.Host.Driver, a.Host.CUDA, strings.Join(a.Types, " "),
		a.Active, a.Draining, a.Host.Simulated, a.GPUs, a.CPUs, a.MemMiB,
	}
}

// cordons tells that a change says which agents are cordoned or drained.
func cordons(c journal.Change) bool { return len(sched.Cordons(c.Documents)) > 0 }
