package journal

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"
	"github.com/sirupsen/logrus"

	"mesos-gpu/framework/internal/zkconn"
)

// ZooKeeperConfig configures a ZooKeeperJournal.
type ZooKeeperConfig struct {
	// Session is the session with which this scheduler was elected. Path is the journal's znode.
	Session *zkconn.Session
	Path    string
	// Candidate is the znode with which this scheduler was elected. If it no longer
	// exists, the journal cannot be opened; "" skips this check.
	Candidate string
	// Leader is this scheduler's URL, for operators who inspect the epoch.
	Leader string
	// Log reports compactions that fail.
	Log logrus.FieldLogger
}

// ZooKeeperJournal is a Journal that several schedulers can reach and one may write. All fields belong to the goroutine
// that uses the journal. A compaction runs in a goroutine of its own and uses a copy of the image; see logCompaction.
type ZooKeeperJournal struct {
	znodeStore
	// cfg is the configuration with which the journal was opened.
	cfg ZooKeeperConfig
	// epoch is the term of this scheduler as leader. version is the version of the epoch's znode: a write fails if another
	// scheduler has increased it.
	epoch   leaderEpoch
	version int32
	// next is the number of the next log entry. It increases by one with each commit; there are no gaps.
	next int64
	// image is the content of the journal after the last commit, in encoded form, from which snapshots are written. It
	// saves reading the log again, at the price of its size in memory.
	image *contentsImage
	// loaded is the image as read at opening. The first Load returns and clears it.
	loaded *JournalContents
	// failed is why Commit fails from now on; nil until an error or Close.
	failed error
	// compact replaces the log by a snapshot when it is long enough.
	compact logCompaction

	// faultHook lets tests simulate a crash before the named step.
	faultHook func(step string) error
}

// OpenZooKeeper opens or creates the journal and prevents all schedulers that opened
// it earlier from writing. It returns ErrCorrupt or ErrNewer, wrapped with the remedy,
// if it cannot read the journal, which it then leaves unchanged. It returns ErrFenced
// if the candidate no longer exists.
func OpenZooKeeper(ctx context.Context, cfg ZooKeeperConfig) (*ZooKeeperJournal, error) {
	z := &ZooKeeperJournal{
		znodeStore: znodeStore{cfg.Session, cfg.Path}, cfg: cfg, image: newImage(),
		faultHook: func(string) error { return nil },
	}
	if err := z.createIfMissing(ctx); err != nil {
		return nil, err
	}
	if err := z.takeEpoch(ctx); err != nil {
		return nil, err
	}
	if err := z.readJournal(ctx); err != nil {
		return nil, err
	}
	return z, nil
}

// createIfMissing creates a journal unless one exists. One request creates all its parts, so that a journal without one
// of them is damaged.
func (z *ZooKeeperJournal) createIfMissing(ctx context.Context) error {
	_, _, err := z.readHead(ctx)
	if !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	if err := z.session.MakeFolder(ctx, z.path); err != nil {
		return err
	}
	h, err := json.Marshal(logHead{Schema: Schema, Next: 1})
	if err != nil {
		return fmt.Errorf("encode head: %w", err)
	}
	e, err := json.Marshal(leaderEpoch{})
	if err != nil {
		return fmt.Errorf("encode epoch: %w", err)
	}
	err = z.session.Retry(ctx, func() error {
		_, err := z.session.Conn.Multi(z.createRequest(headNode, h), z.createRequest(epochNode, e), z.createRequest(logNode, nil), z.createRequest(partsNode, nil))
		return err
	})
	if errors.Is(err, zk.ErrNodeExists) { // created by another scheduler, or by a request whose answer was lost
		_, _, err = z.readHead(ctx)
		if errors.Is(err, zk.ErrNoNode) {
			return z.corruptJournal(errHeadMissing)
		}
		return err
	}
	return wrapZnodeError("begin a journal at", z.path, err)
}

// errHeadMissing is the damage of a journal that has lost its head.
var errHeadMissing = errors.New("there are parts of a journal without its head")

func (z *ZooKeeperJournal) createRequest(name string, data []byte) *zk.CreateRequest {
	return &zk.CreateRequest{Path: z.path + name, Data: data, Acl: z.session.ACL}
}

// takeEpoch replaces the epoch, after which only this scheduler can write to the log. A request whose answer was lost is
// recognized by the random ID. If two schedulers open the journal at a time, the later one leads, and the other's first
// write fails.
func (z *ZooKeeperJournal) takeEpoch(ctx context.Context) error {
	id := rand.Text()
	err := z.session.Retry(ctx, func() error {
		for {
			data, stat, err := z.session.Conn.Get(z.path + epochNode)
			if errors.Is(err, zk.ErrNoNode) {
				return z.corruptJournal(fmt.Errorf("%s is missing", epochNode))
			}
			if err != nil {
				return err
			}
			var old leaderEpoch
			if err := json.Unmarshal(data, &old); err != nil {
				return z.corruptJournal(fmt.Errorf("parse %s: %w", epochNode, err))
			}
			if old.ID == id { // the answer to an earlier attempt was lost
				z.epoch, z.version = old, stat.Version
				return nil
			}
			ours := leaderEpoch{Number: old.Number + 1, ID: id, Leader: z.cfg.Leader}
			err = z.replaceEpoch(ours, stat.Version)
			if err == nil {
				z.epoch, z.version = ours, stat.Version+1
			}
			if !errors.Is(err, zk.ErrBadVersion) {
				return err
			}
		}
	})
	return wrapZnodeError("lead with", z.path+epochNode, err)
}

// replaceEpoch writes the epoch if its znode has that version and the candidate still exists: a scheduler that was
// slow must not take the journal from the leader that was elected meanwhile.
func (z *ZooKeeperJournal) replaceEpoch(ours leaderEpoch, version int32) error {
	data, err := json.Marshal(ours)
	if err != nil {
		return fmt.Errorf("encode epoch: %w", err)
	}
	ops := []any{&zk.SetDataRequest{Path: z.path + epochNode, Data: data, Version: version}}
	if z.cfg.Candidate != "" {
		ops = append(ops, &zk.CheckVersionRequest{Path: z.cfg.Candidate, Version: -1})
	}
	_, err = z.session.Conn.Multi(ops...)
	if errors.Is(err, zk.ErrNoNode) {
		return fmt.Errorf("%w: the candidacy %s has ended", ErrFenced, z.cfg.Candidate)
	}
	return err
}

// Load returns the contents at opening and all changes committed since.
func (z *ZooKeeperJournal) Load(ctx context.Context) (JournalContents, error) {
	if z.loaded != nil {
		all := *z.loaded
		z.loaded = nil
		return all, nil
	}
	all, err := z.image.decodeContents(ctx)
	if err != nil {
		return all, z.corruptJournal(err)
	}
	return all, nil
}

// Commit appends the change to the log, in one request unless it is large.
func (z *ZooKeeperJournal) Commit(ctx context.Context, c Change) error {
	if z.failed != nil {
		return z.failed
	}
	all, err := encodeChange(c)
	if err != nil {
		return err
	}
	text, err := packRecords(all)
	if err != nil {
		return err
	}
	if err := z.appendEntry(ctx, text); err != nil {
		z.failed = fmt.Errorf("write journal %s: entry %d: %w", z.path, z.next, err)
		return z.failed
	}
	z.loaded = nil
	if err := z.image.applyRecords(all); err != nil {
		z.failed = fmt.Errorf("write journal %s: entry %d: %w", z.path, z.next, err)
		return z.failed
	}
	z.next++
	z.compact.countEntry(z, len(text))
	return nil
}

// appendEntry writes one entry. If the connection breaks, it finds out whether the entry was written: it returns nil or
// ErrFenced if that is certain, and ErrUnknown if it is not.
func (z *ZooKeeperJournal) appendEntry(ctx context.Context, text []byte) error {
	b := newBlobHeader(fmt.Sprintf("log-%d-%d", z.epoch.Number, z.next), text)
	if err := z.writeParts(ctx, b, text); err != nil {
		return err
	}
	data, err := encodeEntry(b, text)
	if err != nil {
		return err
	}
	if err := z.faultHook("append"); err != nil {
		return err
	}
	tried := false // an earlier request may have written the entry
	err = z.session.Retry(ctx, func() error {
		err := z.multiIfLeading(z.createRequest(entryNodeName(z.next), data), z.setLastEntryRequest(z.next))
		switch {
		case zkconn.IsOutcomeUnknown(err):
			tried = true
		case errors.Is(err, ErrFenced) && tried, errors.Is(err, zk.ErrNodeExists):
			return z.readBack(data)
		}
		return err
	})
	if tried && err != nil && !errors.Is(err, ErrFenced) && !errors.Is(err, ErrUnknown) {
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	return err
}

// multiIfLeading applies all of the operations atomically, or returns ErrFenced if
// another scheduler has taken the epoch.
func (z *ZooKeeperJournal) multiIfLeading(ops ...any) error {
	check := &zk.CheckVersionRequest{Path: z.path + epochNode, Version: z.version}
	_, err := z.session.Conn.Multi(append([]any{check}, ops...)...)
	if errors.Is(err, zk.ErrBadVersion) {
		return ErrFenced
	}
	return err
}

// ConfirmLeading implements Journal.
func (z *ZooKeeperJournal) ConfirmLeading(ctx context.Context) error {
	return z.session.Retry(ctx, func() error { return z.multiIfLeading() })
}

// readBack determines whether a request whose answer was lost has written the entry.
// It returns nil if so, ErrFenced if not, and ErrUnknown if the entry may have been compacted.
func (z *ZooKeeperJournal) readBack(want []byte) error {
	if _, err := z.session.Conn.Sync(z.path); err != nil {
		return err
	}
	got, _, err := z.session.Conn.Get(z.path + entryNodeName(z.next))
	switch {
	case err == nil && bytes.Equal(got, want):
		return nil
	case err == nil:
		return ErrFenced
	case !errors.Is(err, zk.ErrNoNode):
		return err
	}
	data, _, err := z.session.Conn.Get(z.path + headNode)
	if err != nil {
		return err
	}
	h, err := z.parseHead(data)
	if err != nil {
		return err
	}
	if h.Next > z.next { // the next leader's snapshot may contain the entry
		return ErrUnknown
	}
	return ErrFenced
}

// writeParts writes the parts of a large text. No entry or head refers to them yet.
func (z *ZooKeeperJournal) writeParts(ctx context.Context, b blobHeader, text []byte) error {
	for i := range b.Parts {
		if err := z.faultHook("stage"); err != nil {
			return err
		}
		err := z.session.Retry(ctx, func() error {
			return z.multiIfLeading(z.createRequest(partsNode+"/"+b.partName(i), b.textPart(text, i)))
		})
		if err != nil && !errors.Is(err, zk.ErrNodeExists) { // already written by a request whose answer was lost
			return fmt.Errorf("write part %d of %d: %w", i, b.Parts, err)
		}
	}
	return nil
}

// CheckSpace implements Journal. ZooKeeper's servers do not report their free space.
func (z *ZooKeeperJournal) CheckSpace() error { return nil }

// Close cancels a running compaction and waits for it. It does not close the session.
func (z *ZooKeeperJournal) Close() error {
	z.compact.cancelAndWait()
	z.failed = fmt.Errorf("write journal %s: it is closed", z.path)
	return nil
}
