package fit

import (
	"encoding/binary"
	"slices"

	"mesos-gpu/gpu"
)

// hardwareClass is the GPU hardware of an agent, driver included. Agents with
// equal hardware share it, so that it is matched once for all of them.
type hardwareClass struct {
	id    int32
	slots []deviceSlot
	// models are all known models, for agents that offer GPUs by count.
	models       []string
	hasInventory bool // slots come from an inventory
	hasGPUs      bool // free or not
	// divisible is AgentResources.Divisible.
	divisible bool
	memMiB    int64 // the gpu_memory attribute; 0 without it
	// shareLimit is how the agent limits tasks to their shares, from the
	// attribute gpu_share_limit.
	shareLimit gpu.EnforcementMethod
	driver     dottedVersion
	cuda       dottedVersion
	// isUniform is set if all slots are interchangeable.
	isUniform bool
	// groupOf is the topology group of each slot: the slots that NVLink joins,
	// or else those of one NUMA node; -1 if unknown.
	groupOf    []int
	groupCount int
	links      [][]int // NVLinks between each two slots; nil if there are none
}

// deviceSlot is one device of an agent. Slots are sorted by minor and UUID.
type deviceSlot struct {
	model   string
	gpuType string // of the model
	memMiB  int64
	numa    int
}

// newHardwareClass returns the hardware of an agent with these devices; see
// findHardwareClass.
func newHardwareClass(number int32, a *AgentResources, devices []gpu.Device) *hardwareClass {
	k := &hardwareClass{
		id: number, models: a.Models(), hasInventory: len(a.Inventory) > 0, hasGPUs: a.HasGPUs(),
		divisible: a.Divisible, memMiB: attributeMemory(a), shareLimit: ShareLimitOf(a.Attributes), driver: parseVersion(a.Driver), cuda: parseVersion(a.CUDA),
	}
	for _, d := range devices {
		k.slots = append(k.slots, deviceSlot{d.Model, gpu.TypeOf(d.Model), d.MemMiB, d.NUMA})
	}
	k.groupSlots(devices)
	k.isUniform = k.links == nil && !slices.ContainsFunc(k.slots, func(s deviceSlot) bool { return s != k.slots[0] })
	return k
}

func appendHardwareKey(b []byte, a *AgentResources, devices []gpu.Device) []byte {
	b = appendTexts(b, a.Types)
	b = appendText(b, a.Driver)
	b = appendText(b, a.CUDA)
	b = binary.AppendVarint(b, attributeMemory(a))
	b = appendText(b, string(ShareLimitOf(a.Attributes)))
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

// groupSlots computes links and groups. A link counts if one of its two ends
// reports it.
func (k *hardwareClass) groupSlots(devices []gpu.Device) {
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
	k.groupOf = make([]int, len(devices))
	for i := range k.groupOf {
		k.groupOf[i] = -1
	}
	if k.links != nil {
		k.groupByLinks()
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
		k.groupOf[i] = ids[s.numa]
	}
	k.groupCount = len(ids)
}

// maxLinks bounds the links that an inventory may report between two devices.
const maxLinks = 64

func (k *hardwareClass) groupByLinks() {
	for i := range k.groupOf {
		if k.groupOf[i] >= 0 {
			continue
		}
		reach := []int{i}
		for len(reach) > 0 {
			at := reach[len(reach)-1]
			reach = reach[:len(reach)-1]
			k.groupOf[at] = k.groupCount
			for j, n := range k.links[at] {
				if n > 0 && k.groupOf[j] < 0 {
					reach = append(reach, j)
				}
			}
		}
		k.groupCount++
	}
}

// canEnforceShares reports whether the agent can limit one task to shares of that many devices. MPS cannot for two: a
// process uses one MPS server, and each device has its own.
func (k *hardwareClass) canEnforceShares(devices int32) bool {
	return devices <= 1 || k.shareLimit != gpu.EnforcedByMPS
}

// deviceMemory returns the memory that percentages refer to: that of the
// inventory, or else the total to share.
func deviceMemory(k *hardwareClass, s int, all shareAmount) int64 {
	if k.slots[s].memMiB > 0 {
		return k.slots[s].memMiB
	}
	return int64(all.mem)
}
