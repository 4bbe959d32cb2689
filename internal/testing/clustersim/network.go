package clustersim

import "time"

// connection is a TCP connection between two nodes. Messages of each direction arrive in order, or not at all once
// it is broken. While the network is cut they wait: TCP repeats them.
type connection struct {
	world  *World
	broken bool
	// cut points at whether the network between the nodes is cut.
	cut *partition
	// lastArrival is when the last message of each direction arrives. waiting lists the messages that arrived while the
	// network was cut, the oldest first.
	lastArrival [2]time.Duration
	waiting     [2][]message
	// onBreak is called once, some time after the connection breaks.
	onBreak func()
}

// The directions of a connection.
const (
	toMaster   = 0
	fromMaster = 1
)

// partition is a cut of the network between two nodes. It is over at the time until.
type partition struct{ until time.Duration }

func (c *connection) send(direction int, what string, deliver func()) {
	c.sendMessage(direction, message{what: what, deliver: deliver, sent: c.world.now})
}

func (c *connection) sendMessage(direction int, m message) {
	if c.broken {
		return
	}
	at := max(c.world.now+c.world.delay(), c.lastArrival[direction])
	c.lastArrival[direction] = at
	c.world.after(at-c.world.now, m.what, func() { c.arrive(direction, m) })
}

// message is a message on its way.
type message struct {
	what    string
	deliver func()
	// deliverLate is called instead of deliver if the message arrives after its connection broke; nil for most.
	deliverLate func()
	sent        time.Duration
}

// arrive delivers a message, or lets it wait for the end of the partition.
func (c *connection) arrive(direction int, m message) {
	switch {
	case c.broken:
		c.lose(m)
	case c.cut.until > c.world.now || len(c.waiting[direction]) > 0:
		if c.waiting[direction] = append(c.waiting[direction], m); len(c.waiting[direction]) == 1 {
			c.awaitNetwork(direction)
		}
	default:
		m.deliver()
	}
}

// awaitNetwork delivers the waiting messages in order when the partition is over, which may last longer than it seems now.
func (c *connection) awaitNetwork(direction int) {
	c.world.after(c.cut.until-c.world.now, "end of partition", func() {
		if c.cut.until > c.world.now && !c.broken {
			c.awaitNetwork(direction)
			return
		}
		for _, m := range c.waiting[direction] {
			if c.broken {
				c.lose(m)
				continue
			}
			c.world.note("event", m.what, "", 0)
			m.deliver()
		}
		c.waiting[direction] = nil
	})
}

// breakUp breaks the connection. Messages that have not arrived are lost.
func (c *connection) breakUp() {
	if c.broken {
		return
	}
	c.broken = true
	for _, waiting := range c.waiting {
		for _, m := range waiting {
			c.lose(m)
		}
	}
	c.waiting = [2][]message{}
	c.world.after(c.world.delay(), "connection broken", c.onBreak)
}

// lose loses a message of a broken connection. Some arrive nevertheless: TCP repeats what it has sent at growing intervals,
// so that a message arrives at most as long after the end of a partition as it was delayed by it.
func (c *connection) lose(m message) {
	w := c.world
	if m.deliverLate == nil || !w.chance(w.plan.lateLaunch, "launch arrives late") {
		return
	}
	c.deliverLate(m)
}

// deliverLate delivers a message some time after the end of the partition, which may be earlier or later than it seems now.
func (c *connection) deliverLate(m message) {
	w, end := c.world, c.cut.until
	if end > w.now {
		w.after(min(end-w.now, time.Second), "partition", func() { c.deliverLate(m) })
		return
	}
	arrives := end + w.between(0, min(max(end-m.sent, 0), maxLateness))
	w.after(max(arrives-w.now, 0), m.what+", late", m.deliverLate)
}

// maxLateness is the longest interval at which TCP repeats what it has sent.
const maxLateness = 2 * time.Minute

// heartbeatTimeout is how long a scheduler and a master wait for each other before they give a connection up, and usually
// agents too.
const heartbeatTimeout = 75 * time.Second

// watch breaks the connection if the network stays cut for longer than its ends wait for each other.
func (c *connection) watch(length, timeout time.Duration) {
	if c != nil && length > timeout {
		c.world.after(timeout, "heartbeats missed", c.breakUp)
	}
}
