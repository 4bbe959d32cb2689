package fit

// MeasureFragmentation returns how many of the cluster's GPUs are idle and useless to a typical task, weighted by how
// often such a task arrives.
func (c *Cluster) MeasureFragmentation(list []TypicalTask) float64 {
	own := c.index.fragmentation
	defer func() { c.index.fragmentation = own }()
	f := newFragmentationModel(c.index, list, false)
	c.index.fragmentation = f
	if !f.enabled {
		return 0
	}
	sum := 0.0
	for i := range c.capacities {
		sum += c.fragmentationOf(&c.capacities[i])
	}
	return sum / f.totalWeight / wholeDevice
}
