package master

import (
	"context"
	"sync"
	"time"

	"mesos-gpu/framework/sched"
)

const (
	// listDutyFactor bounds the part of its time that the master spends on our
	// lists: so many times as long as one took passes before the next.
	listDutyFactor  = 50
	maxListInterval = 5 * time.Minute
	// minListInterval is the least time between two lists, whatever happens.
	minListInterval = time.Second
)

// WatchAgents lists the agents now, whenever an event says that the list has
// changed, and every Config.ListInterval, until ctx ends; it then returns nil.
// The operator API could stream the changes, but begins with all tasks of all
// frameworks and tells each change of each task, and not that an agent is
// drained.
func (c *Client) WatchAgents(ctx context.Context, emit func([]ListedAgent)) error {
	said := ""
	for {
		began := time.Now()
		agents, err := c.ListAgents(ctx)
		took := time.Since(began)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			said = ""
			c.listTrigger.noteListed(agents)
			emit(agents)
		case err.Error() != said:
			said = err.Error()
			c.cfg.Log.WithError(err).Debug("no list of agents")
		}
		soon, most := listPauses(c.cfg.ListInterval, took)
		if !c.listTrigger.waitForChange(ctx, soon, most) {
			return nil
		}
	}
}

// listPauses is the time between two lists, with news and without, where one took
// so long.
func listPauses(every, took time.Duration) (soon, most time.Duration) {
	most = min(max(every, took*listDutyFactor), maxListInterval)
	return min(max(minListInterval, most/10), most), most
}

// agentListTrigger knows when the list of agents is out of date.
type agentListTrigger struct {
	mu          sync.Mutex
	knownAgents map[string]bool // agents listed, and those offered since
	wake        chan struct{}
}

func newAgentListTrigger() *agentListTrigger {
	return &agentListTrigger{knownAgents: map[string]bool{}, wake: make(chan struct{}, 1)}
}

// notify says that something about agents has changed.
func (n *agentListTrigger) notify() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// noteOffers stirs where an agent is offered that no list had.
func (n *agentListTrigger) noteOffers(noteOffers []sched.Offer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range noteOffers {
		if id := noteOffers[i].AgentID; !n.knownAgents[id] {
			n.knownAgents[id] = true
			n.notify()
		}
	}
}

// maxKnownAgents bounds the memory of agents, which register under new ids.
const maxKnownAgents = 100_000

// noteListed keeps those that are not in the list: the master may not show us all
// that it offers.
func (n *agentListTrigger) noteListed(agents []ListedAgent) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.knownAgents) > maxKnownAgents {
		clear(n.knownAgents)
	}
	for i := range agents {
		n.knownAgents[agents[i].ID] = true
	}
}

// waitForChange returns after most, or after soon if there are news by then. It
// returns false where ctx ended.
func (n *agentListTrigger) waitForChange(ctx context.Context, soon, most time.Duration) bool {
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
