package master

import (
	"context"
	"sync"
	"time"

	"mesos-gpu/framework/sched"
)

const (
	// listDutyFactor bounds the master's load from agent lists: a list is
	// followed by a pause of at least listDutyFactor times its duration.
	listDutyFactor = 50
	// maxListInterval is the longest time between two lists, however long they take.
	maxListInterval = 5 * time.Minute
	// minListInterval is the minimum time between two lists.
	minListInterval = time.Second
)

// WatchAgents lists the agents now, after each event that changes the list,
// and every listInterval, until ctx ends. It then returns nil. Mesos's
// operator API could stream the changes, but that stream starts with all tasks
// of all frameworks, reports each change of each task, and does not report
// that an agent drains.
func (c *Client) WatchAgents(ctx context.Context, emit func([]ListedAgent)) error {
	deliver := func(agents []ListedAgent) {
		c.listTrigger.noteListed(agents)
		emit(agents)
	}
	return repeatList(ctx, &c.cfg, "agents", c.ListAgents, deliver, func(soon, most time.Duration) bool {
		return c.listTrigger.waitForChange(ctx, soon, most)
	})
}

// repeatList passes a list to deliver now and after each wait, until ctx ends or wait returns false. It then returns nil.
// wait gets the pauses of listPauses. what names the list in the log.
func repeatList[T any](
	ctx context.Context, cfg *ConnectionConfig, what string, list func(context.Context) (T, error), deliver func(T),
	wait func(soon, most time.Duration) bool,
) error {
	logged := "" // the last error that was logged: it is not repeated with each list
	for {
		began := time.Now()
		answer, err := list(ctx)
		took := time.Since(began)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			logged = ""
			deliver(answer)
		case err.Error() != logged:
			logged = err.Error()
			cfg.Log.WithError(err).Debug("no list of " + what)
		}
		if !wait(listPauses(cfg.listInterval, took)) {
			return nil
		}
	}
}

// listPauses returns the time until the next list, after a change (soon) and
// without one (most). took is the duration of the last list.
func listPauses(every, took time.Duration) (soon, most time.Duration) {
	most = min(max(every, took*listDutyFactor), maxListInterval)
	return min(max(minListInterval, most/10), most), most
}

// agentListTrigger records whether the last list of agents is outdated.
type agentListTrigger struct {
	// mu protects knownAgents.
	mu sync.Mutex
	// knownAgents are the IDs of agents that were listed, or whose offers have requested a list.
	knownAgents map[string]bool
	// wake has an element if a list is requested.
	wake chan struct{}
}

func newAgentListTrigger() *agentListTrigger {
	return &agentListTrigger{knownAgents: map[string]bool{}, wake: make(chan struct{}, 1)}
}

// notify requests a new list.
func (n *agentListTrigger) notify() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// noteOffers requests a new list if an offer is from an agent that no list
// had.
func (n *agentListTrigger) noteOffers(offers []sched.Offer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range offers {
		if id := offers[i].AgentID; !n.knownAgents[id] {
			n.knownAgents[id] = true
			n.notify()
		}
	}
}

// maxKnownAgents bounds the map, because agents register under new ids.
const maxKnownAgents = 100_000

// noteListed adds the listed agents. It keeps agents that are not listed: the
// master may hide agents whose offers it sends.
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

// waitForChange returns after most, or after soon if a new list is requested.
// It returns false if ctx ended.
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
