package master

import (
	"context"
	"sync"
	"time"

	"mesos-gpu/framework/sched"
)

const (
	// listShare bounds the part of its time that the master spends on our
	// lists: so many times as long as one took passes before the next.
	listShare = 50
	listMax   = 5 * time.Minute
	// listSoon is the least time between two lists, whatever happens.
	listSoon = time.Second
)

// WatchAgents lists the agents now, whenever an event says that the list has
// changed, and every Config.ListEvery, until ctx ends; it then returns nil.
// The operator API could stream the changes, but begins with all tasks of all
// frameworks and tells each change of each task, and not that an agent is
// drained.
func (c *Client) WatchAgents(ctx context.Context, emit func([]Agent)) error {
	said := ""
	for {
		began := time.Now()
		agents, err := c.Agents(ctx)
		took := time.Since(began)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			said = ""
			c.news.listed(agents)
			emit(agents)
		case err.Error() != said:
			said = err.Error()
			c.cfg.Log.WithError(err).Debug("no list of agents")
		}
		soon, most := pause(c.cfg.ListEvery, took)
		if !c.news.wait(ctx, soon, most) {
			return nil
		}
	}
}

// pause is the time between two lists, with news and without, where one took
// so long.
func pause(every, took time.Duration) (soon, most time.Duration) {
	most = min(max(every, took*listShare), listMax)
	return min(max(listSoon, most/10), most), most
}

// news knows when the list of agents is out of date.
type news struct {
	mu    sync.Mutex
	known map[string]bool // agents listed, and those offered since
	wake  chan struct{}
}

func newNews() *news { return &news{known: map[string]bool{}, wake: make(chan struct{}, 1)} }

// stir says that something about agents has changed.
func (n *news) stir() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// offers stirs where an agent is offered that no list had.
func (n *news) offers(offers []sched.Offer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range offers {
		if id := offers[i].AgentID; !n.known[id] {
			n.known[id] = true
			n.stir()
		}
	}
}

// maxKnown bounds the memory of agents, which register under new ids.
const maxKnown = 100_000

// listed keeps those that are not in the list: the master may not show us all
// that it offers.
func (n *news) listed(agents []Agent) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.known) > maxKnown {
		clear(n.known)
	}
	for i := range agents {
		n.known[agents[i].ID] = true
	}
}

// wait returns after most, or after soon if there are news by then. It
// returns false where ctx ended.
func (n *news) wait(ctx context.Context, soon, most time.Duration) bool {
	first, last := time.After(soon), time.After(most)
	select {
	case <-first:
	case <-ctx.Done():
		return false
	}
	select {
	case <-n.wake:
	case <-last:
	case <-ctx.Done():
		return false
	}
	return true
}
