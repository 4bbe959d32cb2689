package leader

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"mesos-gpu/framework/artifacts"
	"mesos-gpu/framework/master"
	"mesos-gpu/framework/readmodel"
	"mesos-gpu/framework/request"
	"mesos-gpu/framework/taskoutput"
)

// forgottenOutputInterval is the time between two removals of output whose attempts are no longer recorded.
const forgottenOutputInterval = time.Minute

// OutputCopies stores the end of the output of each attempt, as long as the attempt is recorded.
type OutputCopies struct {
	leader *Leader
	// store is nil if the operator has named none.
	store *artifacts.Store
	// limit bounds the output of one attempt, in bytes; 0 stores none.
	limit int64
}

// StoreOutput stores the output of attempts after their ends, and removes it with their records, until ctx ends. The store is
// the only record of what is stored, so that a new leader continues where the previous one stopped.
func (o *OutputCopies) StoreOutput(ctx context.Context) error {
	if o.store == nil || !o.loadStored(ctx) {
		return nil
	}
	var workers sync.WaitGroup
	defer workers.Wait()
	workers.Go(func() { o.removeForgotten(ctx) })
	if o.limit > 0 {
		newEndedTaskQueue(o.leader, "output is not stored yet", o.needsCopy, o.copyOutput).run(ctx)
	}
	return nil
}

// loadStored loads what is stored, and returns false if ctx ends before.
func (o *OutputCopies) loadStored(ctx context.Context) bool {
	for {
		err := o.store.LoadOutput(ctx, func(task string) (string, bool) {
			e, ok := o.leader.Model.FindEndedTask(task)
			return e.Owner, ok
		})
		if err == nil || ctx.Err() != nil {
			return err == nil
		}
		o.leader.loop.log.WithError(err).Warn("output is not stored yet")
		select {
		case <-time.After(copyRetry):
		case <-ctx.Done():
			return false
		}
	}
}

// removeForgotten removes output whose attempts are no longer recorded, until ctx ends.
func (o *OutputCopies) removeForgotten(ctx context.Context) {
	next := time.NewTicker(forgottenOutputInterval)
	defer next.Stop()
	for {
		select {
		case <-next.C:
		case <-ctx.Done():
			return
		}
		err := o.store.RemoveOutput(ctx, func(task string) bool {
			_, err := o.leader.Model.FindTask(task)
			return err != nil
		})
		if err != nil && ctx.Err() == nil {
			o.leader.loop.log.WithError(err).Warn("the output of forgotten tasks is not removed yet")
		}
	}
}

// needsCopy reports whether the output of an attempt is to be stored: it has run, and is not too old.
func (o *OutputCopies) needsCopy(e *readmodel.EndedTask) bool {
	return e.Task.AgentID != "" && !o.isTooOld(e) && !o.store.HasOutput(e.Task.ID)
}

// isTooOld reports whether an attempt ended so long ago that its output is not stored any more.
func (o *OutputCopies) isTooOld(e *readmodel.EndedTask) bool {
	return o.leader.loop.clock().Sub(cmp.Or(e.Task.Ended, e.Task.Changed)) > copyGiveUp
}

// copyOutput stores the output of an attempt. It returns no error if the agent has none, the task has made it unreadable, or
// its owner has no room.
func (o *OutputCopies) copyOutput(ctx context.Context, e *readmodel.EndedTask) error {
	tail, err := o.readTail(ctx, e)
	if err == nil {
		err = o.store.WriteOutput(ctx, e.Task.ID, e.Owner, tail, o.leader.loop.clock())
	}
	if errors.Is(err, request.ErrNoLog) || errors.Is(err, master.ErrUnreadable) || errors.Is(err, artifacts.ErrNoRoom) {
		return nil
	}
	return err
}

// readTail reads the end of an attempt's output. That of a task that has finished in an earlier run may be stored already.
func (o *OutputCopies) readTail(ctx context.Context, e *readmodel.EndedTask) (*taskoutput.Tail, error) {
	if e.Task.FinishedAs != "" {
		if tail, err := o.store.ReadOutput(ctx, e.Task.FinishedAs); err != nil || tail != nil {
			return tail, err
		}
	}
	return taskoutput.ReadTail(func(file string, offset, length uint64) ([]byte, uint64, error) {
		return o.leader.ReadTaskLog(ctx, e.Task, file, offset, length)
	}, o.limit)
}
