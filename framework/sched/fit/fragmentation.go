package fit

// Fragmentation is how many of the cluster's GPUs are idle and of no use to a
// typical task, weighted by how often such a task comes.
func (c *Cluster) Fragmentation(list []Typical) float64 {
	own := c.world.frag
	defer func() { c.world.measureBy(own) }()
	f := newFragments(c.world, list, false)
	c.world.measureBy(f)
	if !f.on {
		return 0
	}
	sum := 0.0
	for i := range c.rooms {
		sum += c.fragmented(&c.rooms[i])
	}
	return sum / f.weight / wholeDevice
}

// measureBy forgets what was found out with other typical tasks.
func (w *world) measureBy(f *fragments) {
	w.frag = f
	for _, k := range w.kinds {
		k.asked, k.weighed = false, false
	}
}
