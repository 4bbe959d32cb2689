package clustersim

import "time"

// connection is a TCP connection between two nodes. Messages of each direction arrive in order, or not at all once
// it is broken. While the network is cut they wait: TCP repeats them.
type connection struct {
	world  *World
	broken bool
	// cut points at whether the network between the nodes is cut.
	cut *partition
	// lastArrival is when the last message of each direction arrives.
	lastArrival [2]time.Duration
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
	c.world.after(at-c.world.now, what, func() { c.arrive(what, deliver) })
}

// arrive delivers a message, or waits for the end of the partition. Waiting messages keep their order: they arrive at one
// time, and events of one time happen in the order in which they were added.
func (c *connection) arrive(what string, deliver func()) {
	switch {
	case c.broken:
	case c.cut.until > c.world.now:
		c.world.after(c.cut.until-c.world.now, what, func() { c.arrive(what, deliver) })
	default:
		deliver()
	}
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
