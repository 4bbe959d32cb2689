package journal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"mesos-gpu/framework/internal/zkconn"
)

// Replica is a copy of a journal's contents that Follow keeps up to date. Its
// methods are called by one goroutine.
type Replica interface {
	// Reset replaces all.
	Reset(Contents)
	// Apply adds one change, in the order in which they were committed.
	Apply(Change)
	// Fresh says that all that was committed before asked has been handed
	// over.
	Fresh(asked time.Time)
	// Wanted has an element when Fresh is to be called soon.
	Wanted() <-chan struct{}
}

// confirmEvery is how often a journal that rests is asked whether it does.
const confirmEvery = time.Second

// Follow hands over what another scheduler commits, until ctx ends or the
// session is lost. Where there is no journal yet it waits for one. Returns
// ErrCorrupt or ErrNewer, wrapped, for what it cannot read.
func Follow(ctx context.Context, session *zkconn.Session, path string, to Replica) error {
	f := follower{znodes{session, path}, to}
	for {
		if err := f.pass(ctx); !errors.Is(err, errMoved) {
			return err
		}
	}
}

// errMoved says that the log was compacted beyond where the follower is.
var errMoved = errors.New("the log moved on")

type follower struct {
	znodes
	to Replica
}

// pass follows the log from the snapshot of now.
func (f *follower) pass(ctx context.Context) error {
	h, moved, err := f.awaitHead(ctx)
	if err != nil {
		return err
	}
	m := &ZooKeeper{znodes: f.znodes, image: newImage()}
	if _, err := m.readSnapshot(ctx, h); err != nil {
		return f.moved(ctx, 0, err)
	}
	all, err := m.image.contents()
	if err != nil {
		return f.corrupt(err)
	}
	f.to.Reset(all)
	for n := h.Next; ; {
		data, changed, err := f.next(ctx, n)
		if err != nil {
			return err
		}
		if data != nil {
			if err := f.apply(ctx, n, data); err != nil {
				return err
			}
			n++
			continue
		}
		if err := f.rest(ctx, changed, moved, func() (bool, error) { return f.behind(ctx, n) }); err != nil {
			return err
		}
		if h, moved, err = f.awaitHead(ctx); err != nil {
			return err
		}
		if h.Next > n {
			return errMoved
		}
	}
}

func (f *follower) apply(ctx context.Context, n int64, data []byte) error {
	_, all, err := f.open(ctx, data)
	if err != nil {
		return f.moved(ctx, n, err)
	}
	c, err := decode(all)
	if err != nil {
		return f.corrupt(err)
	}
	f.to.Apply(c)
	return nil
}

// moved tells what is missing because it is needed no more from what should
// be there.
func (f *follower) moved(ctx context.Context, n int64, err error) error {
	if !errors.Is(err, zk.ErrNoNode) {
		return f.corrupt(err)
	}
	h, _, again := f.readHead(ctx)
	if again != nil {
		return again
	}
	if n == 0 || h.Next > n {
		return errMoved
	}
	return f.corrupt(err)
}

// awaitHead returns the head, and a channel that tells when it has changed.
func (f *follower) awaitHead(ctx context.Context) (h head, changed <-chan zk.Event, err error) {
	for {
		var data []byte
		var events <-chan zk.Event
		err = f.session.Do(ctx, func() (err error) {
			if data, _, events, err = f.session.Conn.GetW(f.path + headNode); errors.Is(err, zk.ErrNoNode) {
				var there bool
				if there, _, events, err = f.session.Conn.ExistsW(f.path + headNode); there && err == nil {
					return zk.ErrConnectionClosed // made in between: once more
				}
			}
			return err
		})
		if err != nil {
			return h, nil, fmt.Errorf("follow journal %s: %w", f.path, err)
		}
		if data != nil {
			h, err = f.parseHead(data)
			return h, events, err
		}
		f.to.Reset(Contents{})
		begun := func() (bool, error) {
			_, _, err := f.get(ctx, headNode)
			if errors.Is(err, zk.ErrNoNode) {
				return false, nil
			}
			return true, err
		}
		if err := f.rest(ctx, events, nil, begun); err != nil {
			return h, nil, err
		}
	}
}

// next returns the entry, or a channel that tells when it may be there.
func (f *follower) next(ctx context.Context, n int64) (data []byte, changed <-chan zk.Event, err error) {
	name := f.path + entryNode(n)
	err = f.session.Do(ctx, func() error {
		data, changed = nil, nil
		got, _, err := f.session.Conn.Get(name)
		if err == nil {
			data = got
			return nil
		}
		if !errors.Is(err, zk.ErrNoNode) {
			return err
		}
		there, _, events, err := f.session.Conn.ExistsW(name)
		if there && err == nil {
			return zk.ErrConnectionClosed // written in between: once more
		}
		changed = events
		return err
	})
	return data, changed, wrap("follow", name, err)
}

// rest waits until one of both watches has an event (nil never does), and says
// meanwhile that nothing has changed. It asks for that instead of trusting the
// watches: after a broken connection they are set again later than it asks.
func (f *follower) rest(ctx context.Context, first, second <-chan zk.Event, behind func() (bool, error)) error {
	ticks := time.NewTicker(confirmEvery)
	defer ticks.Stop()
	for {
		asked := time.Now()
		if err := f.sync(ctx); err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
		if changed, err := behind(); changed || err != nil {
			return err
		}
		f.to.Fresh(asked)
		select {
		case <-first:
			return nil
		case <-second:
			return nil
		case <-ticks.C:
		case <-f.to.Wanted():
		case <-f.session.Lost():
			return fmt.Errorf("follow journal %s: %w", f.path, zkconn.ErrLost)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// behind reports whether there is an entry n, or it has come and gone.
func (f *follower) behind(ctx context.Context, n int64) (bool, error) {
	if _, _, err := f.get(ctx, entryNode(n)); !errors.Is(err, zk.ErrNoNode) {
		return true, err
	}
	h, _, err := f.readHead(ctx)
	return h.Next > n, err
}
