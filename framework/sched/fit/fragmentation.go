package fit

// MeasureFragmentation is how many of the cluster's GPUs are idle and of no use to a
// typical task, weighted by how often such a task comes.
func (c *Cluster) MeasureFragmentation(list []TypicalTask) float64 {
	own := c.index.fragmentation
	defer func() { c.index.setFragmentationModel(own) }()
	f := newFragments(c.index, list, false)
	c.index.setFragmentationModel(f)
	if !f.enabled {
		return 0
	}
	sum := 0.0
	for i := range c.capacities {
		sum += c.fragmentationOf(&c.capacities[i])
	}
	return sum / f.totalWeight / wholeDevice
}

// setFragmentationModel forgets what was found out with other typical tasks.
func (w *clusterIndex) setFragmentationModel(f *fragmentationModel) {
	w.fragmentation = f
	for _, k := range w.hardwareClasses {
		k.alikeKnown, k.scarcityKnown = false, false
	}
}
