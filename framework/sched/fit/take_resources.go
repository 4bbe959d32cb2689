package fit

// TakeAt takes what a task has from the agent of that index, as if the task were placed there: it takes back what
// ReleaseAt freed. What the agent does not have free is ignored.
func (c *Cluster) TakeAt(i int, h TaskResources) {
	r := &c.capacities[i]
	r.free = r.free.minus(h.Amount.toMilli())
	r.scalarGPUs = max(r.scalarGPUs-int32(min(max(h.GPUs, 0), maxGPUs)), 0)
	for _, id := range h.DeviceIDs {
		if s := slotOf(r.uuids, id); s >= 0 {
			c.takeSlot(r, s)
		}
	}
	for _, p := range h.Shares {
		if s := slotOf(r.uuids, p.UUID); s >= 0 && r.shareOffset >= 0 {
			c.takeShare(r, s, newShareAmount(p.MemMiB, p.Cores))
		}
	}
	if len(h.Ports) > 0 {
		r.ports = WithoutPorts(r.ports, h.Ports)
		r.portCount = int32(countPorts(r.ports))
	}
	c.agentChanged(i)
}
