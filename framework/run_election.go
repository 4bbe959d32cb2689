package framework

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"mesos-gpu/framework/apiserver"
	"mesos-gpu/framework/election"
	"mesos-gpu/framework/internal/zkconn"
	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/leader"
	"mesos-gpu/framework/master"
	"mesos-gpu/framework/standby"
)

// The journal's and the election's folders, relative to the journal's path in ZooKeeper.
const (
	journalFolder  = "/journal"
	electionFolder = "/election"
)

// reelectionDelay is how long a scheduler that lost leadership waits before it
// joins the election again.
const reelectionDelay = time.Second

// lastCallTimeout is how long ZooKeeper may take to answer the call in progress when the
// scheduler stops. The end of ctx does not end a call, only that of the session does.
const lastCallTimeout = time.Second

// runElection joins the election until ctx ends. When elected the scheduler leads;
// when it loses leadership it joins again as the last candidate. It returns nil
// when ctx ends, and an error from which no scheduler can recover.
func (s *Scheduler) runElection(ctx context.Context) error {
	target, err := zkconn.ParseTarget(s.cfg.JournalPath)
	if err != nil {
		return err
	}
	target.AuthFile = s.cfg.JournalAuthFile
	for again := false; ; again = true {
		err := s.runSession(ctx, target, again)
		if ctx.Err() != nil {
			return nil
		}
		if !lostLeadership(err) {
			return err
		}
		s.cfg.Log.WithError(err).Warn("this scheduler is a standby now: tasks continue")
		s.updateStatus(func(now *Status) { *now = Status{Leadership: LostLeadership, LeadershipError: err} })
		select {
		case <-time.After(reelectionDelay):
		case <-ctx.Done():
			return nil
		}
	}
}

// lostLeadership reports whether err means only that this scheduler cannot lead any
// more. Tasks and other schedulers are then unaffected and the caller may join the
// election again.
func lostLeadership(err error) bool {
	reasons := []error{zkconn.ErrLost, journal.ErrFenced, journal.ErrUnknown, master.ErrReplaced, leader.ErrAbdicated}
	return slices.ContainsFunc(reasons, func(e error) bool { return errors.Is(err, e) })
}

// runSession runs one session with ZooKeeper, first as a standby and, once elected,
// as the leader. With again false, an invalid address is a permanent error; with
// again true it counts as a lost session, because the address has worked before.
func (s *Scheduler) runSession(ctx context.Context, target zkconn.TargetFolder, again bool) error {
	s.setBackend(apiserver.NewUnavailableBackend("there is no session with ZooKeeper yet"))
	session, err := zkconn.DialObserved(ctx, target, s.cfg.SessionTimeout, s.cfg.Log, s.setZooKeeperStatus)
	if err != nil && again {
		return fmt.Errorf("%w: %w", zkconn.ErrLost, err)
	}
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	defer session.Close()
	defer close(ended)
	defer context.AfterFunc(ctx, func() {
		select {
		case <-time.After(lastCallTimeout):
			session.Close()
		case <-ended:
		}
	})()
	return runTogether(ctx,
		session.AwaitLoss,
		func(ctx context.Context) error { return s.standByUntilElected(ctx, session, target) },
	)
}

// standByUntilElected runs the standby until this scheduler is elected, and then the leader.
func (s *Scheduler) standByUntilElected(ctx context.Context, session *zkconn.Session, target zkconn.TargetFolder) error {
	candidate, err := election.JoinElection(ctx, session, target.Path+electionFolder, election.CandidateInfo{URL: s.url})
	if err != nil {
		return err
	}
	by := standby.New(standby.Config{
		Session: session, JournalPath: target.Path + journalFolder, ElectionPath: target.Path + electionFolder, URL: s.url,
		NewClient: func() (*master.Client, error) { return s.cfg.newMasterClient("", "", nil, nil) },
		Serve: func(reads *standby.Standby) {
			s.setBackend(apiserver.Backend{
				Reads: &apiserver.ReadBackend{
					Jobs:         reads,
					Names:        reads,
					TaskFiles:    reads,
					StoredOutput: s.artifacts,
					Agents:       reads,
					Queue:        reads,
					Events:       reads,
					Status:       reads,
				},
				Redirect: reads.LeaderRedirect,
			})
		},
		Sched: s.cfg.Sched, LoadPolicy: s.loadPolicy, Counters: s.cfg.counters, Clock: s.cfg.Clock, Accounting: s.accounting,
	})
	defer by.CloseListeners()
	defer s.setBackend(apiserver.NewUnavailableBackend("this scheduler has lost its session with ZooKeeper"))
	s.cfg.Log.WithField("candidate", candidate.ZnodePath()).Info("standing by")
	s.setLeadershipStatus(StandingBy)
	elected := errors.New("elected")
	err = runTogether(ctx,
		by.Run,
		func(ctx context.Context) error {
			if err := candidate.AwaitLeadership(ctx); err != nil {
				return err
			}
			return elected
		},
	)
	if !errors.Is(err, elected) {
		return err
	}
	// The standby's read model serves requests until the leader's replaces it.
	opened, err := journal.OpenZooKeeper(ctx, journal.ZooKeeperConfig{
		Session: session, Path: target.Path + journalFolder, Candidate: candidate.ZnodePath(), Leader: s.url, Log: s.cfg.Log,
	})
	if err != nil {
		return err
	}
	s.cfg.Log.WithField("journal", s.cfg.JournalPath).Info("this scheduler leads")
	store := s.cfg.WrapJournal(opened)
	return errors.Join(s.runLeader(ctx, store, session.IsHeld, by.CloseListeners), store.Close())
}
