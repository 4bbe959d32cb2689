package sched

import (
	"cmp"
	"fmt"
	"time"

	"mesos-gpu/internal/backoff"
	"mesos-gpu/job"
)

const (
	// maxLostLaunches is how many launches in a row an agent may lose before it gets none for a while.
	maxLostLaunches = 2
	// firstAgentPause is how long it gets none after these. Each further loss doubles the pause, up to RetryDelayMax.
	firstAgentPause = 5 * time.Second
)

// launchLosses counts the launches in a row that were lost before their agent reported anything about the task. Without
// a pause such an agent looks free after each loss, and would get the same tasks again while other agents are idle.
type launchLosses struct {
	// count is the number of lost launches. Those that were sent before an earlier one was known to be lost count once, so
	// that the loss of all launches during a master failover counts once for each agent.
	count int
	// last is when the last one was counted.
	last time.Time
	// pausedUntil is the end of the pause; zero before the first one.
	pausedUntil time.Time
	// fault is why the agent could not start the last tasks, "" if their launches were lost. faults counts them.
	fault  string
	faults int
}

// countLostLaunch counts the loss of an attempt that an agent never reported. launching is the attempt before that.
func (s *State) countLostLaunch(launching *job.Task) {
	l := s.launchLosses[launching.AgentID]
	if launching.Changed.Before(l.last) {
		return
	}
	l.count, l.last = l.count+1, s.now
	if l.count >= maxLostLaunches {
		s.pauseAgent(&l, l.count-maxLostLaunches)
	}
	s.launchLosses[launching.AgentID] = l
}

// pauseAgent gives the agent of the losses no launches for a while, which earlier pauses have doubled.
func (s *State) pauseAgent(l *launchLosses, pauses int) {
	l.pausedUntil = s.now.Add(backoff.Delay(firstAgentPause, s.cfg.RetryDelayMax, pauses))
	s.explanations, s.reservationReasons, s.offers.stale = nil, nil, true
}

// pauseFaultyAgent gives an agent no launches for a while, since it has reported that it cannot start an attempt: it would
// look free after each failure and get the tasks of other agents. Attempts that were launched before the last fault was
// known count once.
func (s *State) pauseFaultyAgent(old *job.Task, fault string) {
	l := s.launchLosses[old.AgentID]
	if old.Launched.Before(l.last) {
		return
	}
	l.faults, l.fault, l.last = l.faults+1, fault, s.now
	s.pauseAgent(&l, l.faults-1)
	s.launchLosses[old.AgentID] = l
}

// forgetLostLaunches forgets the losses of an agent that runs a task.
func (s *State) forgetLostLaunches(agentID string) {
	if l := s.launchLosses[agentID]; l.count >= maxLostLaunches || l.faults > 0 {
		s.reconsiderAll()
	}
	delete(s.launchLosses, agentID)
}

// launchPause returns how long an agent gets no launches because it lost or could not start the last ones, and the reason.
func (t *agentTable) launchPause(agentID string, now time.Time) (rest time.Duration, reason string) {
	l := t.launchLosses[agentID]
	if rest = l.pausedUntil.Sub(now); rest <= 0 {
		return 0, ""
	}
	return rest, cmp.Or(l.fault, fmt.Sprintf("its last %d launches were lost", l.count))
}
