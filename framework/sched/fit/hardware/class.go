package hardware

import (
	"encoding/binary"
	"slices"
	"strconv"

	"mesos-gpu/framework/sched/fit/index"
	"mesos-gpu/gpu"
)

// Description contains an agent's report about its GPUs as a whole.
type Description struct {
	// Types are the attributes gpu_type.
	Types []string
	// Driver and CUDA are the versions of the host, "" if unknown.
	Driver, CUDA string
	// MemMiB is the least memory of a device by the attribute gpu_memory, in MiB; 0 if unknown.
	MemMiB int64
	// ShareLimit is how the agent limits tasks to their shares of devices.
	ShareLimit gpu.EnforcementMethod
	// HasInventory is set if the agent lists its devices.
	HasInventory bool
	// HasGPUs is set if the agent has GPUs, free or not.
	HasGPUs bool
	// Divisible is set if tasks may take thousandths of each device.
	Divisible bool
}

// Class is the GPU hardware of an agent, driver included. Agents with equal hardware share it, so that it is matched
// once for all of them. It never changes.
type Class struct {
	// ID numbers the classes of a Catalog from 0.
	ID int32
	// Slots are the agent's devices, sorted by minor and UUID. The position in this list is the slot of a device.
	Slots []Slot
	// HasInventory is set if the agent lists its devices, so that the slots are all of its devices.
	HasInventory bool
	// HasGPUs is set if the agent has GPUs, free or not.
	HasGPUs bool
	// Divisible is set if tasks may take thousandths of each device.
	Divisible bool
	// MemMiB is the least memory of a device by the attribute gpu_memory, in MiB; 0 without the attribute.
	MemMiB int64
	// ShareLimit is how the agent limits tasks to their shares of devices.
	ShareLimit gpu.EnforcementMethod
	// Driver and CUDA are the versions of the host.
	Driver, CUDA Version

	// types are the attributes gpu_type. They describe the devices of an agent without an inventory.
	types []string
	// isUniform is set if all slots are interchangeable.
	isUniform bool
	// groupOf is the topology group of each slot: the slots that NVLink joins, or else those of one NUMA node. It is
	// -1 for a slot without a group. groupSize is the number of slots of each group.
	groupOf, groupSize []int
	// links counts the NVLinks between each two slots; nil if there are none.
	links [][]int
}

// Slot is one device of a class.
type Slot struct {
	// Model is gpu.Product.Model, "" if unknown, and Type its short type. MemMiB is 0 and NUMA -1 where they are unknown.
	Model, Type string
	MemMiB      int64
	NUMA        int
}

// Product returns what names of types distinguish about the device.
func (s *Slot) Product() gpu.Product { return gpu.Product{Model: s.Model, MemMiB: s.MemMiB} }

// Products lists the products of the devices. Without an inventory it includes the types of the attributes.
func (c *Class) Products() []gpu.Product {
	var products []gpu.Product
	if !c.HasInventory {
		for _, name := range c.types {
			products = append(products, gpu.Product{Model: name})
		}
		if len(products) == 1 {
			products[0].MemMiB = c.MemMiB
		}
	}
	for i := range c.Slots {
		if p := c.Slots[i].Product(); !slices.Contains(products, p) {
			products = append(products, p)
		}
	}
	return products
}

// maxLinks bounds the links that an inventory may report between two devices.
const maxLinks = 64

func newClass(id int32, d *Description, devices []gpu.Device) *Class {
	k := &Class{
		ID: id, types: d.Types, HasInventory: d.HasInventory, HasGPUs: d.HasGPUs, Divisible: d.Divisible, MemMiB: d.MemMiB,
		ShareLimit: d.ShareLimit, Driver: parseVersion(d.Driver), CUDA: parseVersion(d.CUDA),
	}
	for _, d := range devices {
		p := d.Product()
		k.Slots = append(k.Slots, Slot{p.Model, p.Type(), d.MemMiB, d.NUMA})
	}
	k.links = countLinks(devices)
	k.groupOf = slices.Repeat([]int{-1}, len(devices))
	if k.links != nil {
		k.groupByLinks()
	} else {
		k.groupByNUMANode()
	}
	k.isUniform = k.links == nil && !slices.ContainsFunc(k.Slots, func(s Slot) bool { return s != k.Slots[0] })
	return k
}

// appendKey appends everything that a class depends on.
func (d *Description) appendKey(b []byte, devices []gpu.Device) []byte {
	b = index.AppendTexts(b, d.Types)
	b = index.AppendText(b, d.Driver)
	b = index.AppendText(b, d.CUDA)
	b = binary.AppendVarint(b, d.MemMiB)
	b = index.AppendText(b, string(d.ShareLimit))
	for _, is := range [...]bool{d.HasInventory, d.HasGPUs, d.Divisible} {
		b = strconv.AppendBool(b, is)
	}
	for i := range devices {
		d := &devices[i]
		b = index.AppendText(b, d.Model)
		b = strconv.AppendBool(b, d.MIG != nil)
		if d.MIG != nil {
			b = index.AppendText(b, d.MIG.Profile)
		}
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

// countLinks returns the NVLinks between each two devices, or nil if there are none. A link counts if one of its two
// ends reports it.
func countLinks(devices []gpu.Device) (links [][]int) {
	for i := range devices {
		for j := range devices {
			n := max(devices[i].NVLinks[devices[j].UUID], devices[j].NVLinks[devices[i].UUID])
			if i == j || n <= 0 {
				continue
			}
			if links == nil {
				links = make([][]int, len(devices))
				for l := range links {
					links[l] = make([]int, len(devices))
				}
			}
			links[i][j] = min(n, maxLinks)
		}
	}
	return links
}

func (c *Class) groupByLinks() {
	for i := range c.groupOf {
		if c.groupOf[i] < 0 {
			c.groupSize = append(c.groupSize, 0)
			c.joinLinked(i)
		}
	}
}

// joinLinked adds a slot, and those that links connect with it, to the newest group.
func (c *Class) joinLinked(slot int) {
	g := len(c.groupSize) - 1
	c.groupOf[slot] = g
	c.groupSize[g]++
	for other, n := range c.links[slot] {
		if n > 0 && c.groupOf[other] < 0 {
			c.joinLinked(other)
		}
	}
}

func (c *Class) groupByNUMANode() {
	groups := map[int]int{}
	for i, s := range c.Slots {
		if s.NUMA < 0 {
			continue
		}
		g, ok := groups[s.NUMA]
		if !ok {
			g = len(groups)
			groups[s.NUMA] = g
			c.groupSize = append(c.groupSize, 0)
		}
		c.groupOf[i] = g
		c.groupSize[g]++
	}
}

// CanEnforceShares reports whether the agent can limit one task to shares of that many devices. MPS cannot for two: a
// process uses one MPS server, and each device has its own.
func (c *Class) CanEnforceShares(devices int32) bool {
	return devices <= 1 || c.ShareLimit != gpu.EnforcedByMPS
}
