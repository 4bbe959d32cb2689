package fit

// The policies that Weng et al. compare FGD with ("Beware of Fragmentation",
// USENIX ATC 2023), scored as their simulator scores them: in whole points,
// so that many agents are equal and the first by id wins. Memory plays no
// part. They are there to be compared with.

// The largest agent that the published scores know of.
const (
	largestCPUs = 128_000
	largestGPUs = 8 * wholeDevice
)

// asks is how many GPU thousandths a task of the class takes.
func (cl *class) asks() int64 {
	if cl.shared {
		return int64(cl.gpus) * int64(cl.milli)
	}
	return int64(cl.gpus) * wholeDevice
}

// idle is how many GPU thousandths of an agent are free.
func (c *Cluster) idle(r *room) int64 {
	idle := int64(r.freeGPUs()) * wholeDevice
	if r.partial == 0 {
		return idle
	}
	for s, p := range c.partsOf(r) {
		if p.mem > 0 && (!r.kind.divisible || p.mem < wholeDevice) {
			_, both := c.idleOf(r, s, p)
			idle += int64(both)
		}
	}
	return idle
}

// alike ranks all agents the same.
func alike(*Cluster, int, *class) int64 { return 1 }

// leastAligned prefers the agent whose free CPUs and GPUs have the smallest
// dot product with the task's, as Tetris packs.
func leastAligned(c *Cluster, i int, cl *class) int64 {
	r := &c.rooms[i]
	cpus := float64(r.free.cpus) / largestCPUs * (float64(cl.need.cpus) / largestCPUs)
	gpus := float64(c.idle(r)) / largestGPUs * (float64(cl.asks()) / largestGPUs)
	return 1 + int64(100*(1-(cpus+gpus)/2))
}

// leastLeft prefers the agent that the task leaves with the least. The
// published scores are spread over 0 to 100 afterwards, which keeps their
// order and their equals.
func leastLeft(c *Cluster, i int, cl *class) int64 {
	r := &c.rooms[i]
	left := float64(r.free.cpus-cl.need.cpus)/largestCPUs*0.5 + float64(c.idle(r)-cl.asks())/largestGPUs*0.5
	return 101 + int64((1-left)*100) // below 0 on agents larger than the largest
}

// mostPacked prefers devices that are shared already, then free ones on an
// agent in use, then an idle agent, the smallest first.
func mostPacked(c *Cluster, i int, cl *class) int64 {
	r := &c.rooms[i]
	free := int64(r.freeGPUs())
	switch {
	case cl.gpus == 0:
		return 1
	case free == int64(len(r.kind.slots)):
		return 1 + max(33-free, free)
	case !cl.shared:
		return 1 + max(50-int64(cl.gpus), 33)
	}
	s := c.slotsFor(i, cl)[0]
	_, left := c.idleOf(r, s, c.partsOf(r)[s])
	if left == wholeDevice {
		return 1 + 50 - 1
	}
	return 1 + max(100-int64(left)*100/wholeDevice/10, 50)
}

// company counts an agent's tasks by how many devices each takes; 0 is a part
// of one.
type company map[int32]int

// meet counts a task in, or out with sign -1, where the policy asks who is on
// an agent. Tasks that ran before the cluster was made are not known.
func (c *Cluster) meet(i int, cl *class, sign int) {
	if !c.policy.company || cl.gpus == 0 {
		return
	}
	if c.companies == nil {
		c.companies = make([]company, len(c.rooms))
	}
	of, size := c.companies[i], sizeOf(cl)
	if of == nil {
		of = company{}
		c.companies[i] = of
	}
	if of[size] += sign; of[size] <= 0 {
		delete(of, size)
	}
}

func sizeOf(cl *class) int32 {
	if cl.shared {
		return 0
	}
	return cl.gpus
}

// amongItsLike prefers the agent whose tasks all take as many devices, then
// one that has such among others, then an idle one; among those the fullest.
func amongItsLike(c *Cluster, i int, cl *class) int64 {
	if cl.gpus == 0 {
		return 1
	}
	var of company
	if c.companies != nil {
		of = c.companies[i]
	}
	above := int64(0)
	switch like := of[sizeOf(cl)] > 0; {
	case like && len(of) == 1:
		above = 75
	case like:
		above = 50
	case len(of) == 0:
		above = 25
	}
	return 26 + above + 25*(largestGPUs-c.idle(&c.rooms[i]))/largestGPUs
}

// anyShare is one of the slots that will do, by lot.
func anyShare(c *Cluster, i int, cl *class) int {
	best, n := -1, 0
	c.partSlots(&c.rooms[i], cl, func(s int) bool {
		if n++; c.lot(n) {
			best = s
		}
		return true
	})
	return best
}
