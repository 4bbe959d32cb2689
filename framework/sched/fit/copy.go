package fit

import "maps"

// Clone is a cluster of its own that is in the same state.
func (c *Cluster) Clone() *Cluster {
	d := &Cluster{}
	d.CopyFrom(c)
	return d
}

// CopyFrom puts the cluster into the state of another one, in the memory that
// it has.
func (c *Cluster) CopyFrom(o *Cluster) {
	c.rooms = append(c.rooms[:0], o.rooms...)
	c.world = o.world
	c.copyRest(o)
}

// Focus is CopyFrom for who asks about one role alone: what the cluster then
// says of agents of others means nothing.
func (c *Cluster) Focus(o *Cluster, role string) {
	id, ok := o.world.roles[role]
	if c.world != o.world || !ok {
		c.CopyFrom(o)
		return
	}
	for _, i := range o.world.members(id) {
		c.rooms[i] = o.rooms[i]
	}
	c.copyRest(o)
}

// copyRest is for what is small or not kept by agent.
func (c *Cluster) copyRest(o *Cluster) {
	c.policy, c.now = o.policy, o.now
	c.whole = append(c.whole[:0], o.whole...)
	c.parts, c.alls = append(c.parts[:0], o.parts...), append(c.alls[:0], o.alls...)
	c.plain, c.glances = append(c.plain[:0], o.plain...), append(c.glances[:0], o.glances...)
	c.holds = append(c.holds[:0], o.holds...)
	c.companies = nil
	for _, of := range o.companies {
		c.companies = append(c.companies, maps.Clone(of))
	}
	c.ranks.again(len(c.rooms))
}
