package framework

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/election"
	"mesos-gpu/framework/internal/zkconn"
	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/master"
	"mesos-gpu/framework/standby"
)

// Below the journal's path in ZooKeeper.
const (
	journalFolder  = "/journal"
	electionFolder = "/election"
)

// reelectionDelay is how long a scheduler that lost the lead waits before it stands
// for election again.
const reelectionDelay = time.Second

// runElection stands for election until ctx ends, leads when elected, and stands
// again, at the end of the line, when it leads no more.
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
		s.cfg.Log.WithError(err).Warn("this scheduler stands by: tasks go on")
		select {
		case <-time.After(reelectionDelay):
		case <-ctx.Done():
			return nil
		}
	}
}

// lostLeadership distinguishes the loss of the lead, of which tasks and other schedulers know
// nothing, from what no scheduler can go on with.
func lostLeadership(err error) bool {
	for _, e := range []error{zkconn.ErrLost, journal.ErrFenced, journal.ErrUnknown, master.ErrReplaced} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// runSession lives one session with ZooKeeper: as a standby, then perhaps as the
// leader. What is wrong with the address is an error the first time only: a
// name that could be resolved will be again.
func (s *Scheduler) runSession(ctx context.Context, target zkconn.TargetFolder, again bool) error {
	s.setBackend(api.NewUnavailableBackend("there is no session with ZooKeeper yet"))
	session, err := zkconn.Dial(ctx, target, s.cfg.SessionTimeout, s.cfg.Log)
	if err != nil && again {
		return fmt.Errorf("%w: %w", zkconn.ErrLost, err)
	}
	if err != nil {
		return err
	}
	defer session.Close()
	return runTogether(ctx,
		session.AwaitLoss,
		func(ctx context.Context) error { return s.standByUntilElected(ctx, session, target) },
	)
}

// standByUntilElected stands by until elected, and then leads.
func (s *Scheduler) standByUntilElected(ctx context.Context, session *zkconn.Session, target zkconn.TargetFolder) error {
	candidate, err := election.JoinElection(ctx, session, target.Path+electionFolder, election.CandidateInfo{URL: s.url})
	if err != nil {
		return err
	}
	by := standby.New(standby.Config{
		Session: session, JournalPath: target.Path + journalFolder, ElectionPath: target.Path + electionFolder, URL: s.url,
		NewClient: func() (*master.Client, error) { return s.cfg.newMasterClient("") }, SetBackend: s.setBackend,
		Sched: s.cfg.Sched, LoadPolicy: s.loadPolicy, Counters: s.cfg.counters, Clock: s.cfg.Clock,
	})
	defer by.CloseListeners()
	defer s.setBackend(api.NewUnavailableBackend("this scheduler has lost its session with ZooKeeper"))
	s.cfg.Log.WithField("candidate", candidate.ZnodePath()).Info("standing by")
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
	// Until it leads the standby's view answers, as of now.
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
