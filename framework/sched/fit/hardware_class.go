package fit

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strconv"

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

// devicesOf returns the agent's devices and the extra ones that it does not
// list, sorted by minor and UUID.
func devicesOf(a *AgentResources, extraIDs []string) []gpu.Device {
	devices := make([]gpu.Device, 0, max(len(a.Inventory), len(extraIDs)))
	known := func(uuid string) bool {
		return uuid != "" && slices.ContainsFunc(devices, func(d gpu.Device) bool { return d.UUID == uuid })
	}
	for _, d := range a.Inventory {
		if !known(d.UUID) {
			devices = append(devices, d)
		}
	}
	for _, id := range extraIDs {
		if !known(id) {
			devices = append(devices, unlistedDevice(a, id))
		}
	}
	slices.SortStableFunc(devices, func(x, y gpu.Device) int {
		return cmp.Or(cmp.Compare(x.Minor, y.Minor), cmp.Compare(x.UUID, y.UUID))
	})
	return devices
}

// unlistedDevice describes a device that the inventory lacks. If the agent has
// one type only, the device is of that type.
func unlistedDevice(a *AgentResources, uuid string) gpu.Device {
	d := gpu.Device{UUID: uuid, Minor: -1, NUMA: -1}
	if len(a.Types) == 1 {
		d.Model = a.Types[0]
	}
	if len(a.Inventory) == 0 {
		d.MemMiB = attributeMemory(a)
	}
	return d
}

// attributeMemory returns the minimum memory of the agent's devices by its
// attribute gpu_memory, in MiB; 0 if unknown.
func attributeMemory(a *AgentResources) int64 {
	least := int64(0)
	for _, at := range a.Attributes {
		if at.Name != "gpu_memory" {
			continue
		}
		f, err := strconv.ParseFloat(at.Value, 64)
		if err != nil || !(f > 0) || f > float64(maxMilli) {
			return 0
		}
		if n := int64(f); least == 0 || n < least {
			least = n
		}
	}
	return least
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
