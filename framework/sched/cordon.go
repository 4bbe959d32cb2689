package sched

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/job"
)

// Cordoned says that the agents of a host get no tasks of ours. It is about a
// host, as Mesos's own maintenance is: one that is mended comes back under its
// name, though its agent may have another id.
type Cordoned struct {
	Reason string `json:"reason"`
	// Drain: the tasks that were there have been stopped, too.
	Drain bool      `json:"drain,omitempty"`
	Since time.Time `json:"since"`
}

// What operators have said stands beside the extensions' documents, below
// these keys.
const (
	ownPrefix    = "scheduler/"
	cordonPrefix = ownPrefix + "cordon/"
	quotaPrefix  = ownPrefix + "quota/"
)

// CountedKey is the document that Counted writes.
const CountedKey = ownPrefix + "counted"

// Own reports whether a document is the scheduler's.
func Own(key string) bool {
	return strings.HasPrefix(key, ownPrefix) || strings.HasPrefix(key, attemptPrefix)
}

// Cordons are those among documents, by host.
func Cordons(documents map[string][]byte) map[string]Cordoned {
	all := map[string]Cordoned{}
	for key, value := range documents {
		if host, ok := strings.CutPrefix(key, cordonPrefix); ok {
			all[host] = readCordon(value)
		}
	}
	return all
}

// readCordon keeps tasks off a host though nobody can read why.
func readCordon(value []byte) (c Cordoned) {
	if json.Unmarshal(value, &c) != nil {
		c = Cordoned{Reason: "its record cannot be read"}
	}
	return c
}

// CordonedBy is the Cordoned that keeps tasks off an agent, if any does.
func CordonedBy(cordons map[string]Cordoned, hostname, agentID string) (Cordoned, bool) {
	c, ok := cordons[hostOf(hostname, agentID)]
	return c, ok
}

// hostOf is what an agent is cordoned by.
func hostOf(hostname, agentID string) string { return cmp.Or(hostname, agentID) }

// Cordoned is what keeps tasks off a host; zero where nothing does.
func (s *State) Cordoned(host string) Cordoned { return s.cordons[host] }

// Host is what the agent of that id or hostname is cordoned by, "" where none
// is known and no such host is cordoned.
func (s *State) Host(agent string) string {
	if agent == "" {
		return ""
	}
	if a, ok := s.cluster[agent]; ok {
		return hostOf(a.Hostname, agent)
	}
	if _, ok := s.cordons[agent]; ok {
		return agent
	}
	for id, a := range s.cluster {
		if a.Hostname == agent {
			return hostOf(a.Hostname, id)
		}
	}
	for key, a := range s.agents {
		if key.id == agent || a.Hostname == agent {
			return hostOf(a.Hostname, key.id)
		}
	}
	return ""
}

// shut reports whether an agent takes no tasks, by a word of ours or Mesos's.
func (s *State) shut(hostname, agentID string) bool {
	_, cordoned := CordonedBy(s.cordons, hostname, agentID)
	return cordoned || s.cluster[agentID].Draining
}

// closed has agents that take no tasks offer nothing. They are still told of:
// constraints count the tasks on them.
func (s *State) closed(agents []fit.Agent) []fit.Agent {
	for i := range agents {
		if a := &agents[i]; s.shut(a.Hostname, a.ID) {
			empty(a)
			a.Closed = true
		}
	}
	return agents
}

// empty has an agent offer nothing of what it had free.
func empty(a *fit.Agent) {
	a.Free, a.GPUs, a.DeviceIDs, a.Shared, a.Ports = Amount{}, 0, nil, nil, nil
}

func (s *State) cordon(now time.Time, e Cordon) []Op {
	before, again := s.cordons[e.Host]
	c := Cordoned{Reason: e.Reason, Drain: e.Drain || before.Drain, Since: now}
	if again {
		c.Since = before.Since
	}
	s.cordons[e.Host] = c
	s.record(cordonPrefix+e.Host, c)
	s.explained, s.turns, s.pool.stale = nil, nil, true
	if !e.Drain {
		return nil
	}
	return s.drain(now, e)
}

// record writes a document of the scheduler's own. What it is given is of
// texts, flags and times alone.
func (s *State) record(key string, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	s.write(key, text)
}

// drain stops our tasks on a host. They go back into the queue.
func (s *State) drain(now time.Time, e Cordon) []Op {
	message := "its agent is drained"
	if e.Reason != "" {
		message += ": " + e.Reason
	}
	var ops []Op
	for _, name := range s.queue {
		j := s.jobs[name]
		for i := range j.Tasks {
			if t := &j.Tasks[i]; t.State.Placed() && hostOf(t.Hostname, t.AgentID) == e.Host {
				ops = append(ops, s.end(now, taskRef{j, i}, job.ByDrain, message)...)
			}
		}
	}
	return ops
}

func (s *State) uncordon(e Uncordon) {
	if _, ok := s.cordons[e.Host]; !ok {
		return
	}
	delete(s.cordons, e.Host)
	s.write(cordonPrefix+e.Host, nil)
	s.reconsider()
}

// refuseCordoned declines the offers of agents that take no tasks.
func (s *State) refuseCordoned(now time.Time) []Op {
	if len(s.cordons) == 0 {
		return nil
	}
	var refused []Declined
	for id, h := range s.pool.offers {
		if c, ok := CordonedBy(s.cordons, h.Hostname, h.AgentID); ok {
			refused = append(refused, Declined{OfferID: id, Reason: "its agent is cordoned: " + c.Reason, Why: OnCordoned, Refuse: s.cfg.Policy.RefuseLong})
		}
	}
	return s.refuse(now, refused)
}
