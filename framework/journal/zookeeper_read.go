package journal

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"
)

// upgradeSchema sets the head's schema to this release's, before this release writes an entry: from then on older
// releases refuse the journal.
func (z *ZooKeeperJournal) upgradeSchema(ctx context.Context, h *logHead, stat *zk.Stat) error {
	h.Schema = Schema
	data, err := json.Marshal(h)
	if err != nil {
		return err
	}
	if err := z.setHead(ctx, data, stat.Version); err != nil {
		return err
	}
	stat.Version++
	return nil
}

// readJournal reads the image and finds the end of the log. It then removes what a
// crashed scheduler left incomplete.
func (z *ZooKeeperJournal) readJournal(ctx context.Context) error {
	if err := z.syncServer(ctx); err != nil {
		return err
	}
	h, stat, err := z.readHead(ctx)
	if err != nil {
		return err
	}
	if h.Schema < Schema {
		// An older release must not open a journal that it cannot read.
		if err := z.upgradeSchema(ctx, &h, stat); err != nil {
			return fmt.Errorf("bring journal %s to schema %d: %w", z.path, Schema, err)
		}
	}
	size, err := z.readSnapshot(ctx, h)
	if err != nil {
		return z.corruptJournal(err)
	}
	old, names, err := z.splitEntries(ctx, h.Next)
	if err != nil {
		return z.corruptJournal(err)
	}
	z.next = h.Next + int64(len(names))
	last, err := z.lastEntry(ctx)
	if err != nil {
		return z.corruptJournal(err)
	}
	if last >= z.next {
		return z.corruptJournal(fmt.Errorf("log entry %d is missing, the last one is %d", z.next, last))
	}
	live, named := 0, []string{}
	datas, err := z.getZnodes(ctx, names)
	if err != nil {
		return z.corruptJournal(err)
	}
	for i, data := range datas {
		b, all, err := z.decodeEntry(ctx, data)
		if err == nil {
			err = z.image.applyRecords(all)
		}
		if err != nil {
			return z.corruptJournal(fmt.Errorf("%s: %w", names[i], err))
		}
		live += b.Size
		named = append(named, b.ID)
	}
	loaded, err := z.image.decodeContents(ctx)
	if err != nil {
		return z.corruptJournal(err)
	}
	z.loaded = &loaded
	z.compact.resetCounters(stat.Version, size, len(names), live)
	return z.removeUnreferenced(ctx, h, old, named)
}

// readSnapshot reads the snapshot of a head into the image, which must be empty, and returns its packed size; 0 if the
// head has none.
func (z *ZooKeeperJournal) readSnapshot(ctx context.Context, h logHead) (size int, err error) {
	if h.Snapshot == nil {
		return 0, nil
	}
	text, err := z.readBlob(ctx, *h.Snapshot)
	if err != nil {
		return 0, err
	}
	all, err := unpackRecords(text)
	if err != nil {
		return 0, err
	}
	return len(text), z.image.applyRecords(all)
}

// splitEntries returns the names of the log entries before entry next, which a snapshot
// contains, and of those from it on. It fails if one of the latter is missing.
func (z znodeStore) splitEntries(ctx context.Context, next int64) (old, live []string, err error) {
	numbers, err := z.entryNumbers(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, n := range numbers {
		switch {
		case n < next:
			old = append(old, entryNodeName(n))
		case n != next+int64(len(live)):
			return nil, nil, fmt.Errorf("log entry %d is missing, the next is %d", next+int64(len(live)), n)
		default:
			live = append(live, entryNodeName(n))
		}
	}
	return old, live, nil
}

// lastEntry returns the number of the last log entry that was written, 0 if an older
// release has written all of them.
func (z znodeStore) lastEntry(ctx context.Context) (int64, error) {
	data, _, err := z.getZnode(ctx, logNode)
	if err != nil || len(data) == 0 {
		return 0, err
	}
	n, err := strconv.ParseInt(string(data), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("parse %s: %w", logNode, err)
	}
	return n, nil
}

// setLastEntryRequest returns the part of a commit that lets lastEntry return n.
func (z znodeStore) setLastEntryRequest(n int64) *zk.SetDataRequest {
	return &zk.SetDataRequest{Path: z.path + logNode, Data: strconv.AppendInt(nil, n, 10), Version: -1}
}

// entryNumbers returns the numbers of the log entries in ascending order.
func (z znodeStore) entryNumbers(ctx context.Context) ([]int64, error) {
	names, err := z.listChildren(ctx, logNode)
	if err != nil {
		return nil, err
	}
	numbers := make([]int64, len(names))
	for i, name := range names {
		if numbers[i], err = strconv.ParseInt(name, 10, 64); err != nil {
			return nil, fmt.Errorf("log entry %q has no number", name)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// removeUnreferenced deletes the old log entries, and all parts that neither the
// snapshot nor an entry refers to.
func (z *ZooKeeperJournal) removeUnreferenced(ctx context.Context, h logHead, old, named []string) error {
	if h.Snapshot != nil {
		named = append(named, h.Snapshot.ID)
	}
	parts, err := z.listChildren(ctx, partsNode)
	if err != nil {
		return z.corruptJournal(err)
	}
	for _, name := range parts {
		if id, _, _ := strings.Cut(name, "."); !slices.Contains(named, id) {
			old = append(old, partsNode+"/"+name)
		}
	}
	return z.deleteZnodes(ctx, old)
}

// maxDeletesPerRequest limits how many znodes one request deletes.
const maxDeletesPerRequest = 256

// deleteZnodes deletes znodes, many with each request. A request deletes all of its znodes or none.
func (z *ZooKeeperJournal) deleteZnodes(ctx context.Context, names []string) error {
	for chunk := range slices.Chunk(names, maxDeletesPerRequest) {
		ops := make([]any, len(chunk))
		for i, name := range chunk {
			ops[i] = &zk.DeleteRequest{Path: z.path + name, Version: -1}
		}
		tried := false
		err := z.session.Retry(ctx, func() error {
			err := z.multiIfLeading(ops...)
			if tried && err == zk.ErrNoNode {
				return nil // deleted by a request whose answer was lost
			}
			tried = true
			return err
		})
		if err != nil {
			return fmt.Errorf("remove what journal %s no longer needs: %w", z.path, err)
		}
	}
	return nil
}
