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
	// compactEntries and compactBytes are the length of the log from which a
	// snapshot replaces it. The log may also grow to the size of the snapshot, so
	// that writing snapshots costs no more than writing the log.
	compactEntries = 2048
	compactBytes   = 4 << 20
	// compactRetryEntries is the number of entries after which a failed compaction is retried.
	compactRetryEntries = 256
)

// logCompaction writes snapshots concurrently with commits and removes the log
// entries that they contain. A snapshot takes effect when the head refers to it, so
// after a crash either the old or the new snapshot is in effect, with its log.
//
// The fields belong to the goroutine that commits. The goroutine of a compaction gets copies and returns its result by
// finished, which the next commit reads.
type logCompaction struct {
	// version is the version of the head's znode. A finished compaction increases it.
	version int32
	// size is the size of the current snapshot, packed, in bytes.
	size int
	// entries counts the log entries since the last snapshot was started, bytes is their total size.
	entries, bytes int
	// notUntil is how many entries must exist before the next attempt. It is 0 unless the last one failed.
	notUntil int
	// limit is the number of entries that starts a compaction.
	limit int

	// running waits for the compaction in progress, and cancel ends it. cancel is nil before the first.
	running sync.WaitGroup
	cancel  context.CancelFunc
	// finished receives the result of the compaction in progress; it is nil while none runs.
	finished chan compactionResult
}

// compactionResult is how a compaction ended.
type compactionResult struct {
	// size is the size of the new snapshot in bytes, 0 if it did not take effect.
	size int
	// err is why there is no snapshot or, if size is not 0, why entries that it replaces still exist.
	err error
}

// resetCounters sets the state of a journal that was opened.
func (c *logCompaction) resetCounters(version int32, size, entries, bytes int) {
	c.version, c.size, c.entries, c.bytes, c.limit = version, size, entries, bytes, compactEntries
}

// countEntry counts one entry, takes the result of a compaction that has ended, and starts one if it is due.
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

// startSnapshot starts a compaction of the entries before the journal's next one. Commits continue meanwhile.
func (c *logCompaction) startSnapshot(z *ZooKeeperJournal) {
	still, next, version := z.image.cloneImage(), z.next, c.version
	c.entries, c.bytes, c.notUntil = 0, 0, 0
	c.finished = make(chan compactionResult, 1)
	var ctx context.Context
	ctx, c.cancel = context.WithCancel(context.Background()) // Close cancels it
	finished := c.finished
	c.running.Go(func() {
		size, err := z.writeSnapshot(ctx, still, next, version)
		finished <- compactionResult{size, err}
	})
}

// finishSnapshot takes the result of a compaction. A failure is logged; the log only remains longer.
func (c *logCompaction) finishSnapshot(z *ZooKeeperJournal, done compactionResult) {
	c.cancel()
	c.finished = nil
	if done.size > 0 {
		c.size = done.size
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

// cloneImage returns a copy that shares the values, which are never modified, and none of the maps and lists.
func (m *contentsImage) cloneImage() *contentsImage {
	c := &contentsImage{frameworkID: m.frameworkID, jobs: maps.Clone(m.jobs), documents: maps.Clone(m.documents)}
	for name, j := range c.jobs {
		c.jobs[name] = jobImage{j.job, slices.Clone(j.tasks)}
	}
	return c
}

// writeSnapshot writes m, the result of all entries before next, and then removes
// those entries. Once the head refers to the snapshot it returns the snapshot's size,
// even if the removal failed: the next compaction removes the remaining entries.
func (z *ZooKeeperJournal) writeSnapshot(ctx context.Context, m *contentsImage, next int64, version int32) (int, error) {
	text, err := packRecords(m.allRecords())
	if err != nil {
		return 0, err
	}
	b := newBlobHeader(fmt.Sprintf("snap-%d-%d", z.epoch.Number, next), text)
	b.Parts = max(1, b.Parts)
	if err := z.writeParts(ctx, b, text); err != nil {
		return 0, err
	}
	h := logHead{Schema: Schema, Next: next, Snapshot: &b}
	data, err := json.Marshal(h)
	if err != nil {
		return 0, fmt.Errorf("encode head: %w", err)
	}
	if err := z.faultHook("snapshot"); err != nil {
		return 0, err
	}
	if err := z.setHead(ctx, data, version); err != nil {
		return 0, err
	}
	if err := z.faultHook("remove"); err != nil {
		return len(text), err
	}
	return len(text), z.removeBefore(ctx, h)
}

// setHead replaces the head if its znode has that version and this scheduler leads. ErrFenced after a request whose
// answer was lost may mean that this request has changed the version: the head then has the data.
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

// removeBefore removes the log entries and parts that precede the head. It keeps
// parts of entries from h.Next on, which may be being written now.
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

// parseEntryNumber returns the number of the log entry to which the parts with this id belong.
func parseEntryNumber(id string) (int64, bool) {
	rest, ok := strings.CutPrefix(id, "log-")
	_, number, _ := strings.Cut(rest, "-")
	n, err := strconv.ParseInt(number, 10, 64)
	return n, ok && err == nil
}
