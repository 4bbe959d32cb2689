package framework

import "mesos-gpu/framework/master"

// Leadership is a scheduler's part in the election. A scheduler with a journal in a file is
// Leading as soon as it has read the journal.
type Leadership int

const (
	// Starting: the journal has not been read and no election has been joined.
	Starting Leadership = iota
	// StandingBy: another scheduler leads, or the election is not decided.
	StandingBy
	// Leading: this scheduler has read the journal and places jobs.
	Leading
	// LostLeadership: the session with ZooKeeper or the journal was lost. The scheduler joins
	// the election again.
	LostLeadership
)

// Status is a scheduler's state as an operator sees it.
type Status struct {
	Leadership Leadership
	// LeadershipError is why leadership was lost; set only with LostLeadership.
	LeadershipError error
	// ZooKeeperError is why there is no connection to the journal's ZooKeeper; nil while
	// there is one, and with a journal in a file.
	ZooKeeperError error
	// Master is the connection to the master. It has its zero value unless Leadership is
	// Leading.
	Master master.ConnectionStatus
}

// updateStatus changes the status and publishes it. Calls of OnStatus are in the order of the
// changes.
func (s *Scheduler) updateStatus(change func(*Status)) {
	s.statusMu.Lock()
	defer s.statusMu.Unlock()
	change(&s.status)
	s.cfg.OnStatus(s.status)
}

func (s *Scheduler) setLeadershipStatus(l Leadership) {
	s.updateStatus(func(now *Status) { *now = Status{Leadership: l, ZooKeeperError: now.ZooKeeperError} })
}

func (s *Scheduler) setZooKeeperStatus(err error) {
	s.updateStatus(func(now *Status) { now.ZooKeeperError = err })
}

func (s *Scheduler) setMasterStatus(m master.ConnectionStatus) {
	s.updateStatus(func(now *Status) { now.Master = m })
}
