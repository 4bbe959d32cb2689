package fit

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strconv"

	"mesos-gpu/gpu"
)

// kind is the hardware of agents that have the same, so that questions about
// it are answered once for all of them.
type kind struct {
	id    int32
	slots []slot
	// models are all that is known to be there, where GPUs go by count.
	models  []string
	listed  bool // an inventory told
	hasGPUs bool // free or not
	// divisible: see Agent.
	divisible bool
	mem       int64 // the gpu_memory attribute; 0 where there is none
	// limit is what holds tasks to parts of devices, by the gpu_share_limit
	// attribute.
	limit  gpu.Method
	driver version
	cuda   version
	// even: nothing tells one slot from another.
	even bool
	// group says which slots hang together: those joined by NVLink, else
	// those of one NUMA node; -1 where nobody knows.
	group  []int
	groups int
	links  [][]int // between slots; nil where there are none
	// alike is what fragments.alike found, once it was asked.
	asked, alike bool
	// scarce is what fragments.scarcity found, once it was asked: of GPUs that
	// go whole, and of those that tasks share.
	weighed bool
	scarce  [2]float64
}

// slot is a device's place on its agent. Slots are in order of minor and UUID.
type slot struct {
	model string
	short string // the type of that model
	mem   int64
	numa  int
}

// devicesOf lists the agent's devices and those it does not list but offers
// or takes back.
func devicesOf(a *Agent, more []string) []gpu.Device {
	devices := make([]gpu.Device, 0, max(len(a.Inventory), len(more)))
	known := func(uuid string) bool {
		return uuid != "" && slices.ContainsFunc(devices, func(d gpu.Device) bool { return d.UUID == uuid })
	}
	for _, d := range a.Inventory {
		if !known(d.UUID) {
			devices = append(devices, d)
		}
	}
	for _, id := range more {
		if !known(id) {
			devices = append(devices, unlisted(a, id))
		}
	}
	slices.SortStableFunc(devices, func(x, y gpu.Device) int {
		return cmp.Or(cmp.Compare(x.Minor, y.Minor), cmp.Compare(x.UUID, y.UUID))
	})
	return devices
}

// unlisted is a device that the inventory lacks. It gets the agent's type, if
// the agent has but one.
func unlisted(a *Agent, uuid string) gpu.Device {
	d := gpu.Device{UUID: uuid, Minor: -1, NUMA: -1}
	if len(a.Types) == 1 {
		d.Model = a.Types[0]
	}
	if len(a.Inventory) == 0 {
		d.MemMiB = attributeMemory(a)
	}
	return d
}

// attributeMemory is what the agent says that each of its devices has at
// least, in MiB; 0 where it does not.
func attributeMemory(a *Agent) int64 {
	least := int64(0)
	for _, at := range a.Attributes {
		if at.Name != "gpu_memory" {
			continue
		}
		f, err := strconv.ParseFloat(at.Value, 64)
		if err != nil || !(f > 0) || f > float64(most) {
			return 0
		}
		if n := int64(f); least == 0 || n < least {
			least = n
		}
	}
	return least
}

// kind finds or makes the one of an agent with those devices.
func (w *world) kind(a *Agent, devices []gpu.Device) *kind {
	w.key = appendKind(w.key[:0], a, devices)
	if k := w.kindOf[string(w.key)]; k != nil {
		return k
	}
	k := &kind{
		id: int32(len(w.kinds)), models: a.Models(), listed: len(a.Inventory) > 0, hasGPUs: a.HasGPUs(),
		divisible: a.Divisible, mem: attributeMemory(a), limit: LimitOf(a.Attributes), driver: parseVersion(a.Driver), cuda: parseVersion(a.CUDA),
	}
	for _, d := range devices {
		k.slots = append(k.slots, slot{d.Model, gpu.TypeOf(d.Model), d.MemMiB, d.NUMA})
	}
	k.join(devices)
	k.even = k.links == nil && !slices.ContainsFunc(k.slots, func(s slot) bool { return s != k.slots[0] })
	w.kinds = append(w.kinds, k)
	w.kindOf[string(w.key)] = k
	return k
}

func appendKind(b []byte, a *Agent, devices []gpu.Device) []byte {
	b = appendTexts(b, a.Types)
	b = appendText(b, a.Driver)
	b = appendText(b, a.CUDA)
	b = binary.AppendVarint(b, attributeMemory(a))
	b = appendText(b, string(LimitOf(a.Attributes)))
	b = binary.AppendVarint(b, int64(len(a.Inventory)))
	if a.HasGPUs() {
		b = append(b, 'G')
	}
	if a.Divisible {
		b = append(b, 'D')
	}
	for i := range devices {
		d := &devices[i]
		b = appendText(b, d.Model)
		b = binary.AppendVarint(b, d.MemMiB)
		b = binary.AppendVarint(b, int64(d.NUMA))
		for j := range devices {
			if n := d.NVLinks[devices[j].UUID]; n != 0 {
				b = binary.AppendVarint(b, int64(j+1))
				b = binary.AppendVarint(b, int64(n))
			}
		}
		b = binary.AppendVarint(b, 0)
	}
	return b
}

// join finds out which slots hang together. A link that one end alone tells
// of counts.
func (k *kind) join(devices []gpu.Device) {
	for i := range devices {
		for j := range devices {
			n := max(devices[i].NVLinks[devices[j].UUID], devices[j].NVLinks[devices[i].UUID])
			if i == j || n <= 0 {
				continue
			}
			if k.links == nil {
				k.links = make([][]int, len(devices))
				for l := range k.links {
					k.links[l] = make([]int, len(devices))
				}
			}
			k.links[i][j] = min(n, maxLinks)
		}
	}
	k.group = make([]int, len(devices))
	for i := range k.group {
		k.group[i] = -1
	}
	if k.links != nil {
		k.joinLinked()
		return
	}
	ids := map[int]int{}
	for i, s := range k.slots {
		if s.numa < 0 {
			continue
		}
		if _, ok := ids[s.numa]; !ok {
			ids[s.numa] = len(ids)
		}
		k.group[i] = ids[s.numa]
	}
	k.groups = len(ids)
}

// maxLinks bounds what an inventory may claim between two devices.
const maxLinks = 64

func (k *kind) joinLinked() {
	for i := range k.group {
		if k.group[i] >= 0 {
			continue
		}
		reach := []int{i}
		for len(reach) > 0 {
			at := reach[len(reach)-1]
			reach = reach[:len(reach)-1]
			k.group[at] = k.groups
			for j, n := range k.links[at] {
				if n > 0 && k.group[j] < 0 {
					reach = append(reach, j)
				}
			}
		}
		k.groups++
	}
}
