package fit

import (
	"math/bits"

	"mesos-gpu/gpu"
)

// wish is what a demand asks of devices, with the answers it had: a cluster
// has few kinds of agents and many agents.
type wish struct {
	request  gpu.Request
	topology gpu.Topology
	include  map[string]bool // by UUID; nil: any
	exclude  map[string]bool
	named    bool // it names devices
	answers  []*match
}

// match is how a wish fares on one kind of agent, devices named by UUID aside.
type match struct {
	host bool     // driver and CUDA will do
	mask []uint64 // slots that will do
	all  bool     // every slot does
	// counted: every GPU of an agent that hands them out by count will do.
	// Where one would not, nobody can say which the task would get.
	counted bool
	some    bool // it has GPUs that would do if they were free
}

func (w *world) wish(r gpu.Request) *wish {
	n := r.GPUs
	if r.GPUs = 0; n == 0 {
		r = gpu.Request{} // work without GPUs asks nothing of them
	}
	if n <= 1 || r.Topology == gpu.AnyTopology || !r.Share.Whole() {
		r.Topology = "" // one device always hangs together, and parts never do
	}
	r.Share = gpu.Share{}
	w.key = appendRequest(w.key[:0], r)
	if it := w.wishes[string(w.key)]; it != nil {
		return it
	}
	it := &wish{request: r, topology: r.Topology, named: !r.Devices.Any()}
	it.include, it.exclude = set(r.Devices.Include), set(r.Devices.Exclude)
	w.wishes[string(w.key)] = it
	return it
}

func set(list []string) map[string]bool {
	if len(list) == 0 {
		return nil
	}
	m := make(map[string]bool, len(list))
	for _, s := range list {
		m[s] = true
	}
	return m
}

// uuid reports whether the device of that name will do by its name.
func (w *wish) uuid(id string) bool {
	return !w.exclude[id] && (w.include == nil || w.include[id])
}

// on answers for a kind of agent.
func (w *wish) on(k *kind, world *world) *match {
	if int(k.id) < len(w.answers) {
		if m := w.answers[k.id]; m != nil {
			return m
		}
	}
	for len(w.answers) <= int(k.id) {
		w.answers = append(w.answers, nil)
	}
	m := w.answer(k, world)
	w.answers[k.id] = m
	return m
}

func (w *wish) answer(k *kind, world *world) *match {
	r := &w.request
	m := &match{host: k.driver.least(r.MinDriver) && k.cuda.least(r.MinCUDA), mask: make([]uint64, words(len(k.slots))), all: true}
	for i, s := range k.slots {
		if w.device(s, world) {
			m.mask[i/64] |= 1 << (i % 64)
			m.some = true
		} else {
			m.all = false
		}
	}
	m.counted = !w.named && w.topology == "" && w.counted(k, world)
	if !k.listed && !m.some {
		m.some = w.someCounted(k, world)
	}
	if !m.host {
		m.mask, m.all, m.counted, m.some = make([]uint64, len(m.mask)), false, false, false
	}
	return m
}

// device reports whether a device will do but for its name. One of no known
// model will do for who takes any; one of unknown memory has no minimum.
func (w *wish) device(s slot, world *world) bool {
	return world.types(w.request.Types, s.model) && (w.request.MinMemMiB <= 0 || s.mem >= w.request.MinMemMiB)
}

func (w *wish) counted(k *kind, world *world) bool {
	if k.listed {
		for _, s := range k.slots {
			if !w.device(s, world) {
				return false
			}
		}
		return true
	}
	for _, model := range k.models {
		if !w.device(slot{model: model, mem: k.mem}, world) {
			return false
		}
	}
	return len(k.models) > 0 || w.device(slot{mem: k.mem}, world)
}

// someCounted: an agent of which only types are known has some that will do.
func (w *wish) someCounted(k *kind, world *world) bool {
	if !k.hasGPUs {
		return false
	}
	for _, model := range k.models {
		if w.device(slot{model: model, mem: k.mem}, world) {
			return true
		}
	}
	return len(k.models) == 0 && w.device(slot{mem: k.mem}, world)
}

func words(slots int) int { return (slots + 63) / 64 }

func count(mask []uint64) int {
	n := 0
	for _, m := range mask {
		n += bits.OnesCount64(m)
	}
	return n
}

// members lists the slots of a mask in order.
func members(mask []uint64, to []int) []int {
	for w, m := range mask {
		for ; m != 0; m &= m - 1 {
			to = append(to, w*64+bits.TrailingZeros64(m))
		}
	}
	return to
}
