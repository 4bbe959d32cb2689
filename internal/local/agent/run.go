package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/mesos/mesos-go/api/v1/lib/executor"
	"github.com/sirupsen/logrus"

	"mesos-gpu/internal/filelock"
)

// Run registers with the master and serves until ctx ends. It then shuts down
// all executors, and returns once all containers have ended and their cgroups
// are removed, or stopMargin after the longest grace period of an executor. The caller must serve Handler until Run returns, so that
// executors can report terminal statuses.
func (a *EmbeddedAgent) Run(ctx context.Context) error {
	// Background work continues after ctx ends, because it ends the containers.
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	unlock, err := a.prepareWorkDir(background)
	if err != nil {
		return err
	}
	defer unlock()
	a.background = func() context.Context { return background }
	release, err := a.engine.HoldAlive()
	if err != nil {
		return err
	}
	defer release()
	if err := a.recoverExecutors(background); err != nil {
		return err
	}
	id, err := a.cfg.Master.Register(a.info, a.cfg.Resources, a.runningExecutors(), masterCalls{a})
	if err != nil {
		return fmt.Errorf("register with master: %w", err)
	}
	a.info.ID = &id
	if err := a.saveAgentID(id.Value); err != nil {
		return err
	}
	a.forwardStatuses(a.streams.Unacknowledged(now()))
	close(a.ready)
	a.cfg.Log.WithField("agent", id.Value).Info("agent registered")
	stopCollecting := a.startCollecting(background)
	a.runLoop(ctx)
	stopCollecting()
	a.loop.closeQueue()
	a.providers.Close()
	a.cfg.Master.Lost(id)
	if err := a.engine.ClearCgroups(background); err != nil {
		return fmt.Errorf("end agent: %w", err)
	}
	return nil
}

// prepareWorkDir locks the work directory and removes what a killed agent left
// there.
func (a *EmbeddedAgent) prepareWorkDir(ctx context.Context) (unlock func(), err error) {
	if err := os.MkdirAll(a.cfg.WorkDir, 0o755); err != nil {
		return nil, fmt.Errorf("prepare work directory: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(a.cfg.WorkDir, "agent.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("prepare work directory: %w", err)
	}
	unlock = func() { _ = lock.Close() } // closing the file releases the lock
	if err := filelock.LockAfterKill(lock); err != nil {
		unlock()
		return nil, fmt.Errorf("work directory %s is another agent's: %w", a.cfg.WorkDir, err)
	}
	err = a.images.RemovePartial()
	if !a.cfg.Recover {
		err = errors.Join(err, a.engine.ClearCgroups(ctx), os.RemoveAll(filepath.Join(a.cfg.WorkDir, runFolder)))
	}
	if err != nil {
		unlock()
		return nil, fmt.Errorf("clear what an earlier agent left: %w", err)
	}
	return unlock, nil
}

// runLoop runs the loop until ctx has ended and all other work is done.
func (a *EmbeddedAgent) runLoop(ctx context.Context) {
	heartbeat := time.NewTicker(a.cfg.heartbeat)
	defer heartbeat.Stop()
	retry := time.NewTimer(time.Hour)
	defer retry.Stop()
	stop := ctx.Done()
	var late <-chan time.Time
	for {
		a.loop.queue.RunCalls()
		if a.stopping && a.isIdle() {
			return
		}
		if next, ok := a.streams.NextDue(); ok {
			retry.Reset(time.Until(next))
		}
		select {
		case <-a.loop.wake:
		case now := <-retry.C:
			a.forwardStatuses(a.streams.DueUpdates(now))
		case <-heartbeat.C:
			a.sendHeartbeats()
		case <-stop:
			stop = nil
			late = time.After(a.shutdownExecutors() + a.cfg.stopMargin)
		case <-late:
			a.logRemainingWork()
			return
		}
	}
}

// shutdownExecutors shuts every executor down. It returns the longest of their
// grace periods.
func (a *EmbeddedAgent) shutdownExecutors() (longest time.Duration) {
	a.stopping = true
	a.cfg.Log.Info("agent is stopping")
	for e := range a.liveExecutors() {
		longest = max(longest, e.killGrace(a.cfg.shutdownGrace))
		a.shutdownExecutor(e, termination{message: "The agent was stopped"})
	}
	return longest
}

// logRemainingWork reports why the agent is not idle, although every executor was
// killed after its grace period.
func (a *EmbeddedAgent) logRemainingWork() {
	for e := range a.liveExecutors() {
		a.cfg.Log.WithFields(e.logFields()).WithFields(logrus.Fields{
			"exited": e.exited, "nested": e.countNested(), "changing devices": e.resizing,
		}).Error("executor did not end after it was killed")
	}
	a.cfg.Log.WithField("background", a.working).Error("agent stops with work in progress")
}

// isIdle reports whether no executor and no background work remains.
func (a *EmbeddedAgent) isIdle() bool {
	for range a.liveExecutors() {
		return false
	}
	return a.working == 0
}

// liveExecutors iterates over the executors that have not ended.
func (a *EmbeddedAgent) liveExecutors() func(yield func(*executorState) bool) {
	return func(yield func(*executorState) bool) {
		for _, f := range a.frameworks {
			for _, e := range f.executors {
				if !yield(e) {
					return
				}
			}
		}
	}
}

func (a *EmbeddedAgent) sendHeartbeats() {
	for e := range a.liveExecutors() {
		e.sendEvent(&executor.Event{Type: executor.Event_HEARTBEAT})
	}
}

// updateTotal reports the resources of the agent and its providers to the master.
func (a *EmbeddedAgent) updateTotal() {
	a.cfg.Master.UpdateTotal(*a.info.ID, a.totalResources())
}
