package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
	"sync"

	"github.com/go-zookeeper/zk"

	"mesos-gpu/framework/internal/zkconn"
)

// Nodes below the journal's path:
//
//	head      the head: schema, snapshot, and the first log entry after it
//	epoch     the epoch: which scheduler may write; writes check its version
//	log       the number of the last change, so that its removal is noticed
//	log/N     the Nth change: a blob header, and the text if it is small
//	parts/ID.I  the Ith part of the text of a large blob
const (
	headNode  = "/head"
	epochNode = "/epoch"
	logNode   = "/log"
	partsNode = "/parts"
)

// maxPart is the most bytes of a text in one znode. ZooKeeper rejects requests above
// 1 MiB by default (jute.maxbuffer).
const maxPart = 512 << 10

// logHead determines what the journal contains: the snapshot, and the entries from Next on. A compaction
// takes effect when it changes.
type logHead struct {
	// Schema is the version of the format. A release refuses a newer one.
	Schema int `json:"schema"`
	// Next is the number of the first log entry that is not in the snapshot.
	Next int64 `json:"next"`
	// Snapshot locates the snapshot that the log continues; nil if the log is complete.
	Snapshot *blobHeader `json:"snapshot,omitempty"`
}

// leaderEpoch is the term of the scheduler that may write. Each write checks the version of its znode, so that the
// writes of an earlier leader fail even if they arrive late.
type leaderEpoch struct {
	// Number counts the leaders of this journal. Each increases it when it opens the journal.
	Number int64 `json:"number"`
	// ID is random: unlike the number, two schedulers never write the same one.
	ID string `json:"id"`
	// Leader is the leader's URL, for operators who inspect the znode.
	Leader string `json:"leader,omitempty"`
}

// blobHeader locates a text and holds its size and checksum.
type blobHeader struct {
	// ID is in the names of the part's znodes, so that a new text never overwrites the parts of another one.
	ID string `json:"id"`
	// Parts is the number of znodes; 0 if the text follows the header after a line feed.
	Parts int `json:"parts,omitempty"`
	// Size is the length of the text in bytes, Sum its CRC. Both are checked when it is read.
	Size int    `json:"size"`
	Sum  uint32 `json:"sum"`
}

// newBlobHeader returns the header of a text, with the number of znodes that it needs.
func newBlobHeader(id string, text []byte) blobHeader {
	b := blobHeader{ID: id, Size: len(text), Sum: blobChecksum(text)}
	if len(text) > maxPart {
		b.Parts = (len(text) + maxPart - 1) / maxPart
	}
	return b
}

func blobChecksum(text []byte) uint32 { return crc32.Checksum(text, crc32.MakeTable(crc32.Castagnoli)) }

// textPart returns the Ith part of the text.
func (b blobHeader) textPart(text []byte, i int) []byte {
	return text[i*maxPart : min((i+1)*maxPart, len(text))]
}

// partName returns the name of the znode of the Ith part below partsNode.
func (b blobHeader) partName(i int) string { return b.ID + "." + strconv.Itoa(i) }

// checkText returns the text, or an error if its size or checksum does not match.
func (b blobHeader) checkText(text []byte) ([]byte, error) {
	if len(text) != b.Size || blobChecksum(text) != b.Sum {
		return nil, fmt.Errorf("%s has %d bytes with the checksum %x, it was written with %d and %x", b.ID, len(text), blobChecksum(text), b.Size, b.Sum)
	}
	return text, nil
}

// encodeEntry returns the data of a log entry's znode.
func encodeEntry(b blobHeader, text []byte) ([]byte, error) {
	data, err := json.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", b.ID, err)
	}
	if data = append(data, '\n'); b.Parts == 0 {
		data = append(data, text...)
	}
	return data, nil
}

// znodeStore reads and writes znodes below one path and retries after broken connections.
type znodeStore struct {
	// session is shared with the election: a lost session ends both.
	session *zkconn.Session
	// path is the journal's znode; all others are below it.
	path string
}

func entryNodeName(n int64) string { return fmt.Sprintf("%s/%016d", logNode, n) }

// getZnode reads a znode. It returns zk.ErrNoNode, wrapped, if the znode does not exist.
func (z znodeStore) getZnode(ctx context.Context, name string) (data []byte, stat *zk.Stat, err error) {
	err = z.session.Retry(ctx, func() (err error) {
		data, stat, err = z.session.Conn.Get(z.path + name)
		return err
	})
	return data, stat, wrapZnodeError("read", z.path+name, err)
}

func (z znodeStore) listChildren(ctx context.Context, name string) (names []string, err error) {
	err = z.session.Retry(ctx, func() (err error) {
		names, _, err = z.session.Conn.Children(z.path + name)
		return err
	})
	return names, wrapZnodeError("list", z.path+name, err)
}

// syncServer waits until the connected server has received all earlier writes: servers of ZooKeeper may be behind.
func (z znodeStore) syncServer(ctx context.Context) error {
	err := z.session.Retry(ctx, func() error { _, err := z.session.Conn.Sync(z.path); return err })
	return wrapZnodeError("synchronize", z.path, err)
}

func wrapZnodeError(verb, name string, err error) error {
	if err != nil {
		return fmt.Errorf("%s %s: %w", verb, name, err)
	}
	return nil
}

// maxRequestsInFlight limits the concurrent requests of getZnodes.
const maxRequestsInFlight = 16

// getZnodes reads znodes concurrently and returns their data in the order of names.
func (z znodeStore) getZnodes(ctx context.Context, names []string) ([][]byte, error) {
	all, errs := make([][]byte, len(names)), make([]error, maxRequestsInFlight)
	var done sync.WaitGroup
	for w := range maxRequestsInFlight {
		done.Go(func() {
			for i := w; i < len(names) && errs[w] == nil; i += maxRequestsInFlight {
				all[i], _, errs[w] = z.getZnode(ctx, names[i])
			}
		})
	}
	done.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// readBlob reads the parts of a blob and verifies its text.
func (z znodeStore) readBlob(ctx context.Context, b blobHeader) ([]byte, error) {
	if b.Size < 0 || b.Size > maxUnpacked || b.Parts != max(1, (b.Size+maxPart-1)/maxPart) {
		return nil, fmt.Errorf("%s has %d parts of %d bytes", b.ID, b.Parts, b.Size)
	}
	names := make([]string, b.Parts)
	for i := range names {
		names[i] = partsNode + "/" + b.partName(i)
	}
	parts, err := z.getZnodes(ctx, names)
	if err != nil {
		return nil, err
	}
	return b.checkText(bytes.Join(parts, nil))
}

// decodeEntry returns the header and the records of a log entry.
func (z znodeStore) decodeEntry(ctx context.Context, data []byte) (blobHeader, []journalRecord, error) {
	line, text, _ := bytes.Cut(data, []byte("\n"))
	var b blobHeader
	if err := json.Unmarshal(line, &b); err != nil {
		return b, nil, fmt.Errorf("parse log entry: %w", err)
	}
	var err error
	if b.Parts > 0 {
		text, err = z.readBlob(ctx, b)
	} else {
		text, err = b.checkText(text)
	}
	if err != nil {
		return b, nil, err
	}
	all, err := unpackRecords(text)
	return b, all, err
}

// readHead returns the journal's head. It returns zk.ErrNoNode, wrapped, if there is no
// journal, and ErrNewer or ErrCorrupt if this release cannot read it.
func (z znodeStore) readHead(ctx context.Context) (logHead, *zk.Stat, error) {
	data, stat, err := z.getZnode(ctx, headNode)
	if err != nil {
		return logHead{}, nil, err
	}
	h, err := z.parseHead(data)
	return h, stat, err
}

// parseHead decodes and checks a head.
func (z znodeStore) parseHead(data []byte) (h logHead, err error) {
	err = json.Unmarshal(data, &h)
	switch {
	case err != nil:
		return h, z.corruptJournal(fmt.Errorf("parse %s: %w", headNode, err))
	case h.Schema > Schema:
		return h, fmt.Errorf("open journal %s: %w: it has schema version %d, this release reads up to %d: install the newer release again",
			z.path, ErrNewer, h.Schema, Schema)
	case h.Schema < 2 || h.Next < 1: // journals in ZooKeeper start with schema 2
		return h, z.corruptJournal(fmt.Errorf("schema version %d, log from entry %d", h.Schema, h.Next))
	case h.Snapshot == nil && h.Next != 1:
		return h, z.corruptJournal(fmt.Errorf("log from entry %d without a snapshot", h.Next))
	case h.Snapshot != nil && !strings.HasSuffix(h.Snapshot.ID, fmt.Sprintf("-%d", h.Next)):
		return h, z.corruptJournal(fmt.Errorf("log from entry %d after the snapshot %q", h.Next, h.Snapshot.ID))
	}
	return h, nil
}

// corruptJournal wraps err with ErrCorrupt and the remedy, unless only the connection failed.
func (z znodeStore) corruptJournal(err error) error {
	if errors.Is(err, zkconn.ErrLost) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("open journal %s: %w", z.path, err)
	}
	return fmt.Errorf("open journal %s: %w (%v): restore ZooKeeper from a backup, or name another path to begin without the jobs it remembers",
		z.path, ErrCorrupt, err)
}
