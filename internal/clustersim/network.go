package clustersim

import "time"

// connection is a TCP connection between two nodes. Messages of each direction arrive in order, or not at all once
// it is broken. While the network is cut they wait: TCP repeats them.
type connection struct {
	world  *World
	broken bool
	// cut points at whether the network between the nodes is cut.
	cut *partition
	// lastArrival is when the last message of each direction arrives. waiting are those that have arrived while the network
	// was cut, the oldest first.
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
	if c.broken {
		return
	}
	at := max(c.world.now+c.world.delay(), c.lastArrival[direction])
	c.lastArrival[direction] = at
	c.world.after(at-c.world.now, what, func() { c.arrive(direction, message{what, deliver}) })
}

// message is a message on its way.
type message struct {
	what    string
	deliver func()
}

// arrive delivers a message, or lets it wait for the end of the partition.
func (c *connection) arrive(direction int, m message) {
	switch {
	case c.broken:
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
			if !c.broken {
				c.world.note("event", m.what, "", 0)
				m.deliver()
			}
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
	c.world.after(c.world.delay(), "connection broken", c.onBreak)
}

// heartbeatTimeout is how long either side waits for the other before it gives a connection up.
const heartbeatTimeout = 75 * time.Second

// watch breaks the connection if the network stays cut for too long.
func (c *connection) watch(length time.Duration) {
	if c != nil && length > heartbeatTimeout {
		c.world.after(heartbeatTimeout, "heartbeats missed", c.breakUp)
	}
}
