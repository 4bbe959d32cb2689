package sched

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/job"
)

// CordonState excludes the agents of a host from placement. Like Mesos's maintenance it applies to a host: a repaired
// machine keeps its hostname, while its agent may get another id.
type CordonState struct {
	Reason string `json:"reason"`
	// Drain: the tasks that ran on the host were stopped too.
	Drain bool      `json:"drain,omitempty"`
	Since time.Time `json:"since"`
}

// Keys of the scheduler's own documents, which are stored with those of extensions.
const (
	reservedPrefix = "scheduler/"
	cordonPrefix   = reservedPrefix + "cordon/"
	quotaPrefix    = reservedPrefix + "quota/"
)

// CountersKey is the key of the document that CountersChanged writes.
const CountersKey = reservedPrefix + "counted"

// IsReservedDocument reports whether a key is reserved for the scheduler.
func IsReservedDocument(key string) bool {
	return strings.HasPrefix(key, reservedPrefix) || strings.HasPrefix(key, attemptPrefix)
}

// ParseCordons returns the cordons among documents, by host.
func ParseCordons(documents map[string][]byte) map[string]CordonState {
	all := map[string]CordonState{}
	for key, value := range documents {
		if host, ok := strings.CutPrefix(key, cordonPrefix); ok {
			all[host] = decodeCordon(value)
		}
	}
	return all
}

// decodeCordon decodes a cordon. An unreadable one still keeps tasks off the host.
func decodeCordon(value []byte) (c CordonState) {
	if json.Unmarshal(value, &c) != nil {
		c = CordonState{Reason: "its record cannot be read"}
	}
	return c
}

// FindCordon returns the cordon of an agent.
func FindCordon(cordons map[string]CordonState, hostname, agentID string) (CordonState, bool) {
	c, ok := cordons[cordonHost(hostname, agentID)]
	return c, ok
}

// cordonHost returns the name by which an agent is cordoned.
func cordonHost(hostname, agentID string) string { return cmp.Or(hostname, agentID) }

// CordonOf returns the cordon of a host, or the zero value.
func (s *State) CordonOf(host string) CordonState { return s.cordons[host] }

// ResolveHost returns the name by which an agent is cordoned, given its id or hostname. It returns "" if no such agent
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

// isClosed reports whether an agent takes no tasks, because it is cordoned or Mesos drains it.
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

// writeJSONDocument writes one of the scheduler's own documents. Values consist of strings, booleans and times, which
// always encode.
func (s *State) writeJSONDocument(key string, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	s.writeDocument(key, text)
}

// drainHost stops the tasks on a host. They are queued again.
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

// declineCordoned declines the offers of cordoned agents.
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
