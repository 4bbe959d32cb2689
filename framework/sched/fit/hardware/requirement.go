package hardware

import (
	"encoding/binary"
	"strconv"

	"mesos-gpu/framework/sched/fit/index"
	"mesos-gpu/gpu"
)

// Requirement lists a demand's conditions on devices and their host, for any number of devices.
type Requirement struct {
	// Topology is required between the devices of one task, "" for none.
	Topology gpu.Topology
	// NamesDevices is set if devices are selected by UUID.
	NamesDevices bool

	request gpu.Request
	// matches caches computeMatch by class.
	matches index.Numbered[Match]
	// products caches which products the request accepts, because types are regular expressions.
	products index.Memo[gpu.Product, bool]
}

// Match is which devices of a class satisfy a requirement. It ignores UUIDs, which differ between agents of the class.
type Match struct {
	// Slots satisfy the requirement. AllSlots is set if all slots of the class do.
	Slots    index.Bits
	AllSlots bool
	// AllCounted is set if every GPU of an agent that offers GPUs by count satisfies the requirement. Otherwise it is
	// not known which GPU the task would get.
	AllCounted bool
	// AnyDevice is set if some GPU satisfies the requirement, free or not.
	AnyDevice bool
}

// normalizeRequest removes what does not matter to a single device or host.
func normalizeRequest(r gpu.Request) gpu.Request {
	n := r.GPUs
	r.MIG = r.MIGUse()
	if r.GPUs = 0; n == 0 {
		r = gpu.Request{} // a demand without GPUs requires nothing of them
	}
	if n <= 1 || r.Topology == gpu.AnyTopology || !r.Share.IsWhole() {
		r.Topology = "" // it has no meaning for one device or for shares
	}
	r.Share = gpu.ShareRequest{}
	return r
}

// AppendRequest appends a request to a key.
func AppendRequest(b []byte, r gpu.Request) []byte {
	for _, n := range [...]int64{int64(r.GPUs), r.Share.MemMiB, int64(r.Share.MemPercent), int64(r.Share.Cores), r.MinMemMiB} {
		b = binary.AppendVarint(b, n)
	}
	for _, list := range [...][]string{r.Types.Include, r.Types.Exclude, r.Devices.Include, r.Devices.Exclude} {
		b = index.AppendTexts(b, list)
	}
	b = binary.AppendUvarint(b, uint64(len(r.Types.Rules)))
	for i := range r.Types.Rules {
		b = index.AppendText(b, r.Types.Rules[i].Text)
	}
	b = strconv.AppendBool(b, r.Types.Same)
	b = append(b, byte(r.MIG))
	for _, s := range [...]string{r.MinDriver, r.MinCUDA, string(r.Topology)} {
		b = index.AppendText(b, s)
	}
	return b
}

// newRequirement returns the requirement of a normalized request.
func newRequirement(r gpu.Request) *Requirement {
	return &Requirement{request: r, Topology: r.Topology, NamesDevices: !r.Devices.AcceptsAny()}
}

// AsksMoreThanType reports whether the requirement is about more than types.
func (req *Requirement) AsksMoreThanType() bool {
	r := &req.request
	return req.NamesDevices || req.Topology != "" || r.MinMemMiB > 0 || r.MinDriver != "" || r.MinCUDA != ""
}

// AcceptsUUID reports whether the requirement accepts the device by its UUID.
func (req *Requirement) AcceptsUUID(id string) bool { return req.request.Devices.Match(id) }

// AcceptsProduct reports whether a product satisfies the types of the requirement.
func (req *Requirement) AcceptsProduct(p gpu.Product) bool {
	return req.products.Get(p, func() bool { return req.request.AcceptsProduct(p) })
}

// acceptsDevice reports whether a device satisfies the requirement, its UUID ignored. A device of unknown memory
// satisfies only requirements without a minimum.
func (req *Requirement) acceptsDevice(s Slot) bool {
	return req.AcceptsProduct(s.Product()) && req.hasMemory(s.MemMiB)
}

func (req *Requirement) hasMemory(memMiB int64) bool {
	return req.request.MinMemMiB <= 0 || memMiB >= req.request.MinMemMiB
}

// MatchOn returns which devices of a class satisfy the requirement.
func (req *Requirement) MatchOn(k *Class) *Match {
	return req.matches.Get(k.ID, func() Match { return req.computeMatch(k) })
}

func (req *Requirement) computeMatch(k *Class) Match {
	m := Match{Slots: index.NewBits(len(k.Slots))}
	if !k.Driver.IsAtLeast(req.request.MinDriver) || !k.CUDA.IsAtLeast(req.request.MinCUDA) {
		return m
	}
	for i, s := range k.Slots {
		if req.acceptsDevice(s) {
			m.Slots.Add(i)
		}
	}
	good := m.Slots.Len()
	m.AllSlots, m.AnyDevice = good == len(k.Slots), good > 0
	allCounted, anyCounted := m.AllSlots, false
	if !k.HasInventory {
		allCounted, anyCounted = req.matchCounted(k)
	}
	m.AllCounted = allCounted && !req.NamesDevices && req.Topology == ""
	m.AnyDevice = m.AnyDevice || anyCounted && k.HasGPUs
	return m
}

// matchCounted reports whether all GPUs, and whether some, of an agent without an inventory satisfy the requirement by
// the attributes of the agent.
func (req *Requirement) matchCounted(k *Class) (all, some bool) {
	types := k.types
	if len(types) == 0 {
		types = []string{""} // of unknown model
	}
	all = true
	for _, model := range types {
		p := gpu.Product{Model: model, MemMiB: k.MemMiB}
		if len(types) > 1 {
			p.MemMiB = 0 // that of another type, perhaps
		}
		ok := req.AcceptsProduct(p) && req.hasMemory(k.MemMiB)
		all, some = all && ok, some || ok
	}
	return all, some
}
