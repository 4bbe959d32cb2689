package sched

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/job"
)

// CordonState says that the agents of a host get no tasks of ours. It is about a
// host, as Mesos's own maintenance is: one that is mended comes back under its
// name, though its agent may have another id.
type CordonState struct {
	Reason string `json:"reason"`
	// Drain: the tasks that were there have been stopped, too.
	Drain bool      `json:"drain,omitempty"`
	Since time.Time `json:"since"`
}

// What operators have said stands beside the extensions' documents, below
// these keys.
const (
	reservedPrefix = "scheduler/"
	cordonPrefix   = reservedPrefix + "cordon/"
	quotaPrefix    = reservedPrefix + "quota/"
)

// CountersKey is the document that Counted writes.
const CountersKey = reservedPrefix + "counted"

// IsReservedDocument reports whether a document is the scheduler's.
func IsReservedDocument(key string) bool {
	return strings.HasPrefix(key, reservedPrefix) || strings.HasPrefix(key, attemptPrefix)
}

// ParseCordons are those among documents, by host.
func ParseCordons(documents map[string][]byte) map[string]CordonState {
	all := map[string]CordonState{}
	for key, value := range documents {
		if host, ok := strings.CutPrefix(key, cordonPrefix); ok {
			all[host] = decodeCordon(value)
		}
	}
	return all
}

// decodeCordon keeps tasks off a host though nobody can read why.
func decodeCordon(value []byte) (c CordonState) {
	if json.Unmarshal(value, &c) != nil {
		c = CordonState{Reason: "its record cannot be read"}
	}
	return c
}

// FindCordon is the Cordoned that keeps tasks off an agent, if any does.
func FindCordon(cordons map[string]CordonState, hostname, agentID string) (CordonState, bool) {
	c, ok := cordons[cordonHost(hostname, agentID)]
	return c, ok
}

// cordonHost is what an agent is cordoned by.
func cordonHost(hostname, agentID string) string { return cmp.Or(hostname, agentID) }

// CordonOf is what keeps tasks off a host; zero where nothing does.
func (s *State) CordonOf(host string) CordonState { return s.cordons[host] }

// ResolveHost is what the agent of that id or hostname is cordoned by, "" where none
// is known and no such host is cordoned.
func (s *State) ResolveHost(agent string) string {
	if agent == "" {
		return ""
	}
	if a, ok := s.listedAgents[agent]; ok {
		return cordonHost(a.Hostname, agent)
	}
	if _, ok := s.cordons[agent]; ok {
		return agent
	}
	for id, a := range s.listedAgents {
		if a.Hostname == agent {
			return cordonHost(a.Hostname, id)
		}
	}
	for key, a := range s.lastOffered {
		if key.ID == agent || a.Hostname == agent {
			return cordonHost(a.Hostname, key.ID)
		}
	}
	return ""
}

// isClosed reports whether an agent takes no tasks, by a word of ours or Mesos's.
func (s *State) isClosed(hostname, agentID string) bool {
	_, cordoned := FindCordon(s.cordons, hostname, agentID)
	return cordoned || s.listedAgents[agentID].Draining
}

func (s *State) cordonHost(now time.Time, e CordonHost) []Operation {
	before, again := s.cordons[e.Host]
	c := CordonState{Reason: e.Reason, Drain: e.Drain || before.Drain, Since: now}
	if again {
		c.Since = before.Since
	}
	s.cordons[e.Host] = c
	s.writeJSONDocument(cordonPrefix+e.Host, c)
	s.explanations, s.reservationReasons, s.offers.stale = nil, nil, true
	if !e.Drain {
		return nil
	}
	return s.drainHost(now, e)
}

// writeJSONDocument writes a document of the scheduler's own. What it is given is of
// texts, flags and times alone.
func (s *State) writeJSONDocument(key string, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	s.writeDocument(key, text)
}

// drainHost stops our tasks on a host. They go back into the queue.
func (s *State) drainHost(now time.Time, e CordonHost) []Operation {
	message := "its agent is drained"
	if e.Reason != "" {
		message += ": " + e.Reason
	}
	var ops []Operation
	for _, name := range s.queue {
		j := s.jobs[name]
		for i := range j.Tasks {
			if t := &j.Tasks[i]; t.State.IsPlaced() && cordonHost(t.Hostname, t.AgentID) == e.Host {
				ops = append(ops, s.requestEnd(now, taskRef{j, i}, job.KillByDrain, message)...)
			}
		}
	}
	return ops
}

func (s *State) uncordonHost(e UncordonHost) {
	if _, ok := s.cordons[e.Host]; !ok {
		return
	}
	delete(s.cordons, e.Host)
	s.writeDocument(cordonPrefix+e.Host, nil)
	s.reconsiderAll()
}

// declineCordoned declines the offers of agents that take no tasks.
func (s *State) declineCordoned(now time.Time) []Operation {
	if len(s.cordons) == 0 {
		return nil
	}
	var refused []placement.DeclinedOffer
	for id, h := range s.offers.offers {
		if c, ok := FindCordon(s.cordons, h.Hostname, h.AgentID); ok {
			refused = append(refused, placement.DeclinedOffer{OfferID: id, Reason: "its agent is cordoned: " + c.Reason, Category: placement.DeclineCordoned, Refuse: s.cfg.Policy.RefuseLong})
		}
	}
	return s.declineOffers(now, refused)
}
