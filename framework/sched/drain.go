package sched

import (
	"mesos-gpu/job"
)

// cordonHost excludes a host from placement and, if requested, stops the tasks on it. They are queued again.
func (s *State) cordonHost(e CordonHost) (ops []Operation) {
	before, again := s.cordons[e.Host]
	c := CordonState{Reason: e.Reason, Drain: e.Drain || before.Drain, Since: s.now}
	if again {
		c.Since = before.Since
	}
	s.cordons[e.Host] = c
	s.writeJSONDocument(cordonPrefix+e.Host, c)
	s.explanations, s.reservationReasons, s.offers.stale = nil, nil, true
	if !e.Drain {
		return nil
	}
	message := "its agent is drained"
	if e.Reason != "" {
		message += ": " + e.Reason
	}
	for ref := range s.placedTasks() {
		if t := ref.get(); cordonHost(t.Hostname, t.AgentID) == e.Host {
			ops = append(ops, s.requestEnd(ref, job.KillByDrain, "", message)...)
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
