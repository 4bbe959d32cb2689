package journal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"mesos-gpu/framework/internal/zkconn"
)

// Replica is a copy of a journal's contents that FollowJournal keeps up to date. Its
// methods are called by one goroutine.
type Replica interface {
	// ReplaceAll replaces the whole contents.
	ReplaceAll(JournalContents)
	// ApplyChange applies one change. Changes arrive in the order of their commits.
	ApplyChange(Change)
	// ConfirmUpToDate reports that the replica has received every change that was
	// committed before asked.
	ConfirmUpToDate(asked time.Time)
	// RefreshRequests returns a channel that has an element while the replica
	// waits for ConfirmUpToDate.
	RefreshRequests() <-chan struct{}
}

// confirmInterval is how often an idle journal is checked for new entries.
const confirmInterval = time.Second

// FollowJournal copies another scheduler's commits to the replica until ctx ends or
// the session is lost. If there is no journal yet, it waits for one. It returns
// ErrCorrupt or ErrNewer, wrapped, if it cannot read the journal.
func FollowJournal(ctx context.Context, session *zkconn.Session, path string, to Replica) error {
	f := logFollower{znodeStore{session, path}, to}
	for {
		if err := f.followFromSnapshot(ctx); !errors.Is(err, errLogCompacted) {
			return err
		}
	}
}

// errLogCompacted means that compaction has removed the entry that the follower needs next.
var errLogCompacted = errors.New("the log moved on")

// logFollower copies the journal of the leader. It only reads, and it takes no part in fencing: it may see an entry
// before the leader learns that the entry is written.
type logFollower struct {
	znodeStore
	// replica receives the journal's contents, and then each change.
	replica Replica
}

// followFromSnapshot loads the current snapshot and follows the log from there. It returns errLogCompacted if a
// compaction has removed what it was about to read; the caller starts again with the new snapshot.
func (f *logFollower) followFromSnapshot(ctx context.Context) error {
	h, moved, err := f.awaitHead(ctx)
	if err != nil {
		return err
	}
	m := &ZooKeeperJournal{znodeStore: f.znodeStore, image: newImage()}
	if _, err = m.readSnapshot(ctx, h); err == nil {
		_, _, err = f.splitEntries(ctx, h.Next)
	}
	if err != nil {
		return f.compactedOrCorrupt(ctx, h.Next, err)
	}
	all, err := m.image.decodeContents(ctx)
	if err != nil {
		return f.corruptJournal(err)
	}
	f.replica.ReplaceAll(all)
	for n := h.Next; ; {
		data, changed, err := f.nextEntry(ctx, n)
		if err != nil {
			return err
		}
		if data != nil {
			if err := f.applyEntry(ctx, n, data); err != nil {
				return err
			}
			n++
			continue
		}
		if err := f.awaitChange(ctx, changed, moved, func() (bool, error) { return f.isBehind(ctx, n) }); err != nil {
			return err
		}
		if h, moved, err = f.awaitHead(ctx); err != nil {
			return err
		}
		if h.Next > n {
			return errLogCompacted
		}
	}
}

// applyEntry decodes entry n and applies it to the replica.
func (f *logFollower) applyEntry(ctx context.Context, n int64, data []byte) error {
	_, all, err := f.decodeEntry(ctx, data)
	if err != nil {
		return f.compactedOrCorrupt(ctx, n, err)
	}
	c, err := decodeChange(all)
	if err != nil {
		return f.corruptJournal(err)
	}
	f.replica.ApplyChange(c)
	return nil
}

// compactedOrCorrupt returns errLogCompacted if compaction has meanwhile removed entry n
// and the snapshot before it, so that they could not be read. It returns ErrCorrupt,
// wrapped, if the head still refers to them: each compaction moves the head to a later
// entry.
func (f *logFollower) compactedOrCorrupt(ctx context.Context, n int64, err error) error {
	h, _, again := f.readHead(ctx)
	if again != nil {
		return again
	}
	if h.Next > n {
		return errLogCompacted
	}
	return f.corruptJournal(err)
}

// awaitHead returns the head and a channel that receives an event when it has changed. If there is no journal, it
// reports an empty one to the replica and waits until a leader creates it.
func (f *logFollower) awaitHead(ctx context.Context) (h logHead, changed <-chan zk.Event, err error) {
	for {
		var data []byte
		var there bool
		var events <-chan zk.Event
		err = f.session.Retry(ctx, func() (err error) {
			there = true
			if data, _, events, err = f.session.Conn.GetW(f.path + headNode); errors.Is(err, zk.ErrNoNode) {
				if there, _, events, err = f.session.Conn.ExistsW(f.path + headNode); there && err == nil {
					return zk.ErrConnectionClosed // created in between: retry
				}
			}
			return err
		})
		if err != nil {
			return h, nil, fmt.Errorf("follow journal %s: %w", f.path, err)
		}
		if there {
			h, err = f.parseHead(data)
			return h, events, err
		}
		if err := f.checkAbsent(ctx); err != nil {
			return h, nil, err
		}
		f.replica.ReplaceAll(JournalContents{})
		begun := func() (bool, error) {
			_, _, err := f.getZnode(ctx, headNode)
			if errors.Is(err, zk.ErrNoNode) {
				return false, nil
			}
			return true, err
		}
		if err := f.awaitChange(ctx, events, nil, begun); err != nil {
			return h, nil, err
		}
	}
}

// checkAbsent returns ErrCorrupt, wrapped, if there are other parts of a journal without
// its head: all are created by one request.
func (f *logFollower) checkAbsent(ctx context.Context) error {
	_, _, err := f.getZnode(ctx, epochNode)
	if err == nil {
		_, _, err = f.getZnode(ctx, headNode) // may have been created in between
		if errors.Is(err, zk.ErrNoNode) {
			return f.corruptJournal(errHeadMissing)
		}
	}
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}

// nextEntry returns entry n, or nil and a channel that receives an event when it may exist.
func (f *logFollower) nextEntry(ctx context.Context, n int64) (data []byte, changed <-chan zk.Event, err error) {
	name := f.path + entryNodeName(n)
	err = f.session.Retry(ctx, func() error {
		data, changed = nil, nil
		got, _, err := f.session.Conn.Get(name)
		if err == nil {
			data = append([]byte{}, got...) // not nil, even if the znode is empty
			return nil
		}
		if !errors.Is(err, zk.ErrNoNode) {
			return err
		}
		there, _, events, err := f.session.Conn.ExistsW(name)
		if there && err == nil {
			return zk.ErrConnectionClosed // written in between: retry
		}
		changed = events
		return err
	})
	return data, changed, wrapZnodeError("follow", name, err)
}

// awaitChange waits for an event of either watch (a nil watch has none). While it
// waits it confirms that the replica is up to date. It checks that with reads
// instead of relying on the watches, which are restored late after a broken connection.
func (f *logFollower) awaitChange(ctx context.Context, first, second <-chan zk.Event, behind func() (bool, error)) error {
	ticks := time.NewTicker(confirmInterval)
	defer ticks.Stop()
	for {
		asked := time.Now()
		if err := f.syncServer(ctx); err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
		if changed, err := behind(); changed || err != nil {
			return err
		}
		f.replica.ConfirmUpToDate(asked)
		select {
		case <-first:
			return nil
		case <-second:
			return nil
		case <-ticks.C:
		case <-f.replica.RefreshRequests():
		case <-f.session.Lost():
			return fmt.Errorf("follow journal %s: %w", f.path, zkconn.ErrLost)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// isBehind reports whether entry n exists, or existed and was compacted.
func (f *logFollower) isBehind(ctx context.Context, n int64) (bool, error) {
	if _, _, err := f.getZnode(ctx, entryNodeName(n)); !errors.Is(err, zk.ErrNoNode) {
		return true, err
	}
	h, _, err := f.readHead(ctx)
	if err != nil || h.Next > n {
		return true, err
	}
	last, err := f.lastEntry(ctx)
	if err != nil {
		return false, f.corruptJournal(err)
	}
	if last < n {
		return false, nil
	}
	// The entry was written meanwhile, unless it is missing.
	if _, _, err = f.getZnode(ctx, entryNodeName(n)); errors.Is(err, zk.ErrNoNode) {
		return true, f.compactedOrCorrupt(ctx, n, fmt.Errorf("log entry %d is missing, the last one is %d", n, last))
	}
	return true, err
}
