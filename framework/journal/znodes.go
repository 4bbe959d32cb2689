package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"sync"

	"github.com/go-zookeeper/zk"

	"mesos-gpu/framework/internal/zkconn"
)

// Below the journal's path there are
//
//	head      the head: schema, snapshot, and where the log goes on from it
//	epoch     the epoch: who may write; its version is what writes check
//	log/N     the Nth change: a blob, and its text if it is small
//	parts/ID.I  the text of a large blob, in order
const (
	headNode  = "/head"
	epochNode = "/epoch"
	logNode   = "/log"
	partsNode = "/parts"
)

// maxPart is how much of a text goes into one znode. ZooKeeperJournal refuses
// requests of 1 MiB, unless jute.maxbuffer says otherwise.
const maxPart = 512 << 10

type logHead struct {
	Schema int `json:"schema"`
	// Next is the first log entry that the snapshot does not hold.
	Next     int64       `json:"next"`
	Snapshot *blobHeader `json:"snapshot,omitempty"`
}

type leaderEpoch struct {
	Number int64 `json:"number"`
	// ID is whose it is: unlike the number nobody else can have it.
	ID string `json:"id"`
	// Leader is for people.
	Leader string `json:"leader,omitempty"`
}

// blobHeader says where a text is, and what it must be.
type blobHeader struct {
	ID string `json:"id"`
	// Parts is 0 where the text follows, after a line feed.
	Parts int    `json:"parts,omitempty"`
	Size  int    `json:"size"`
	Sum   uint32 `json:"sum"`
}

func newBlobHeader(id string, text []byte) blobHeader {
	b := blobHeader{ID: id, Size: len(text), Sum: blobChecksum(text)}
	if len(text) > maxPart {
		b.Parts = (len(text) + maxPart - 1) / maxPart
	}
	return b
}

func blobChecksum(text []byte) uint32 { return crc32.Checksum(text, crc32.MakeTable(crc32.Castagnoli)) }

// textPart is the Ith piece of the text.
func (b blobHeader) textPart(text []byte, i int) []byte {
	return text[i*maxPart : min((i+1)*maxPart, len(text))]
}

func (b blobHeader) partName(i int) string { return b.ID + "." + strconv.Itoa(i) }

// checkText returns the text if it is the blob's.
func (b blobHeader) checkText(text []byte) ([]byte, error) {
	if len(text) != b.Size || blobChecksum(text) != b.Sum {
		return nil, fmt.Errorf("%s has %d bytes with the checksum %x, it was written with %d and %x", b.ID, len(text), blobChecksum(text), b.Size, b.Sum)
	}
	return text, nil
}

// encodeEntry is a log entry as a znode's data.
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

// znodeStore reads and writes below one path, through broken connections.
type znodeStore struct {
	session *zkconn.Session
	path    string
}

func entryNodeName(n int64) string { return fmt.Sprintf("%s/%016d", logNode, n) }

// getZnode reads a znode. Returns zk.ErrNoNode if there is none.
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

// syncServer waits until the server that answers has all that others wrote before.
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

// maxRequestsInFlight bounds how many requests wait for their answers at a time.
const maxRequestsInFlight = 16

// getZnodes reads many znodes.
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

// readBlob reads what a blob names.
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

// decodeEntry makes records of a log entry's data.
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

// readHead returns zk.ErrNoNode, wrapped, where there is no journal, and
// ErrNewer or ErrCorrupt where there is none that we can read.
func (z znodeStore) readHead(ctx context.Context) (logHead, *zk.Stat, error) {
	data, stat, err := z.getZnode(ctx, headNode)
	if err != nil {
		return logHead{}, nil, err
	}
	h, err := z.parseHead(data)
	return h, stat, err
}

func (z znodeStore) parseHead(data []byte) (h logHead, err error) {
	err = json.Unmarshal(data, &h)
	switch {
	case err != nil:
		return h, z.corruptJournal(fmt.Errorf("parse %s: %w", headNode, err))
	case h.Schema > Schema:
		return h, fmt.Errorf("open journal %s: %w: it has schema version %d, this release reads up to %d: install the newer release again", z.path, ErrNewer, h.Schema, Schema)
	case h.Schema < 2 || h.Next < 1: // 2 is the first that ZooKeeperJournal held
		return h, z.corruptJournal(fmt.Errorf("schema version %d, log from entry %d", h.Schema, h.Next))
	}
	return h, nil
}

// corruptJournal says what to do, unless the error tells of the connection only.
func (z znodeStore) corruptJournal(err error) error {
	if errors.Is(err, zkconn.ErrLost) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("open journal %s: %w", z.path, err)
	}
	return fmt.Errorf("open journal %s: %w (%v): restore ZooKeeper from a backup, or name another path to begin without the jobs it remembers", z.path, ErrCorrupt, err)
}
