package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-zookeeper/zk"

	"mesos-gpu/framework/internal/zkconn"
)

const (
	// compactEntries and compactBytes are how long the log grows before a
	// snapshot takes its place. It also grows to the snapshot's size, so that
	// writing snapshots costs no more than writing the log.
	compactEntries = 2048
	compactBytes   = 4 << 20
	// compactRetryEntries is how many entries later a failed one is tried again.
	compactRetryEntries = 256
)

// logCompaction makes a snapshot beside the commits and removes the log that it
// holds. A snapshot counts once the head names it, so that a crash leaves the
// old one with its log or the new one with its.
type logCompaction struct {
	head     logHead
	version  int32 // of the head's znode
	size     int   // of the snapshot, packed
	entries  int   // in the log since
	bytes    int   // in those
	notUntil int   // entries
	limit    int   // of entries

	running  sync.WaitGroup
	cancel   context.CancelFunc
	finished chan compactionResult // nil while none runs
}

type compactionResult struct {
	head logHead
	size int
	err  error
}

func (c *logCompaction) resetCounters(h logHead, version int32, size, entries, bytes int) {
	c.head, c.version, c.size, c.entries, c.bytes, c.limit = h, version, size, entries, bytes, compactEntries
}

// countEntry counts one entry and starts a compaction if one is due.
func (c *logCompaction) countEntry(z *ZooKeeperJournal, bytes int) {
	c.entries++
	c.bytes += bytes
	if c.finished != nil {
		select {
		case done := <-c.finished:
			c.finishSnapshot(z, done)
		default:
		}
	}
	if c.finished == nil && c.entries >= c.notUntil && (c.entries >= c.limit || c.bytes >= max(compactBytes, c.size)) {
		c.startSnapshot(z)
	}
}

func (c *logCompaction) startSnapshot(z *ZooKeeperJournal) {
	old, still, next, version := c.head, z.image.cloneImage(), z.next, c.version
	c.entries, c.bytes, c.notUntil = 0, 0, 0
	c.finished = make(chan compactionResult, 1)
	var ctx context.Context
	ctx, c.cancel = context.WithCancel(context.Background()) // Close ends it
	finished := c.finished
	c.running.Go(func() {
		h, size, err := z.writeSnapshot(ctx, still, next, old, version)
		finished <- compactionResult{h, size, err}
	})
}

func (c *logCompaction) finishSnapshot(z *ZooKeeperJournal, done compactionResult) {
	c.cancel()
	c.finished = nil
	if done.size > 0 {
		c.head, c.size = done.head, done.size
		c.version++
	}
	if done.err != nil {
		c.notUntil = c.entries + compactRetryEntries
		z.cfg.Log.WithError(done.err).WithField("journal", z.path).Warn("the journal was not compacted")
	}
}

func (c *logCompaction) cancelAndWait() {
	if c.cancel != nil {
		c.cancel()
	}
	c.running.Wait()
}

func (m *contentsImage) cloneImage() *contentsImage {
	c := &contentsImage{frameworkID: m.frameworkID, jobs: maps.Clone(m.jobs), documents: maps.Clone(m.documents)}
	for name, j := range c.jobs {
		c.jobs[name] = jobImage{j.job, slices.Clone(j.tasks)}
	}
	return c
}

// writeSnapshot writes m, which all entries before next make, and then removes
// those. It returns the snapshot's size once the head names it, even if the
// removal failed: the next one removes what this one did not.
func (z *ZooKeeperJournal) writeSnapshot(ctx context.Context, m *contentsImage, next int64, old logHead, version int32) (logHead, int, error) {
	text, err := new(recordPacker).packRecords(m.allRecords())
	if err != nil {
		return logHead{}, 0, err
	}
	b := newBlobHeader(fmt.Sprintf("snap-%d-%d", z.epoch.Number, next), text)
	b.Parts = max(1, b.Parts)
	if err := z.writeParts(ctx, b, text); err != nil {
		return logHead{}, 0, err
	}
	h := logHead{Schema: Schema, Next: next, Snapshot: &b}
	data, err := json.Marshal(h)
	if err != nil {
		return logHead{}, 0, fmt.Errorf("encode head: %w", err)
	}
	if err := z.faultHook("snapshot"); err != nil {
		return logHead{}, 0, err
	}
	if err := z.setHead(ctx, data, version); err != nil {
		return logHead{}, 0, err
	}
	if err := z.faultHook("remove"); err != nil {
		return h, len(text), err
	}
	return h, len(text), z.removeBefore(ctx, h)
}

func (z *ZooKeeperJournal) setHead(ctx context.Context, data []byte, version int32) error {
	tried := false
	err := z.session.Retry(ctx, func() error {
		err := z.multiIfLeading(&zk.SetDataRequest{Path: z.path + headNode, Data: data, Version: version})
		switch {
		case zkconn.IsOutcomeUnknown(err):
			tried = true
		case tried && errors.Is(err, ErrFenced):
			now, _, readErr := z.session.Conn.Get(z.path + headNode)
			if readErr != nil || string(now) == string(data) {
				return readErr
			}
		}
		return err
	})
	return wrapZnodeError("set", z.path+headNode, err)
}

// removeBefore removes log entries and parts that the head has left behind.
// Parts of entries from h.Next on may be being written now.
func (z *ZooKeeperJournal) removeBefore(ctx context.Context, h logHead) error {
	numbers, err := z.entryNumbers(ctx)
	if err != nil {
		return err
	}
	var old []string
	for _, n := range numbers {
		if n < h.Next {
			old = append(old, entryNodeName(n))
		}
	}
	parts, err := z.listChildren(ctx, partsNode)
	if err != nil {
		return err
	}
	for _, name := range parts {
		id, _, _ := strings.Cut(name, ".")
		if n, ok := parseEntryNumber(id); ok && n < h.Next || !ok && id != h.Snapshot.ID {
			old = append(old, partsNode+"/"+name)
		}
	}
	return z.deleteZnodes(ctx, old)
}

// parseEntryNumber is the number of the log entry that the parts are of.
func parseEntryNumber(id string) (int64, bool) {
	rest, ok := strings.CutPrefix(id, "log-")
	_, number, _ := strings.Cut(rest, "-")
	n, err := strconv.ParseInt(number, 10, 64)
	return n, ok && err == nil
}
