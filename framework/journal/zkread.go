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

// renew gives the head this release's schema.
func (z *ZooKeeper) renew(ctx context.Context, h *head, stat *zk.Stat) error {
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

// read makes the image and finds the end of the log. What a scheduler that
// died left half done is removed then.
func (z *ZooKeeper) read(ctx context.Context) error {
	if err := z.sync(ctx); err != nil {
		return err
	}
	h, stat, err := z.readHead(ctx)
	if err != nil {
		return err
	}
	if h.Schema < Schema {
		// An older release must not follow what it cannot read.
		if err := z.renew(ctx, &h, stat); err != nil {
			return fmt.Errorf("bring journal %s to schema %d: %w", z.path, Schema, err)
		}
	}
	size, err := z.readSnapshot(ctx, h)
	if err != nil {
		return z.corrupt(err)
	}
	numbers, err := z.numbers(ctx)
	if err != nil {
		return z.corrupt(err)
	}
	live, named := 0, []string{}
	var old, names []string
	z.next = h.Next
	for _, n := range numbers {
		switch {
		case n < h.Next:
			old = append(old, entryNode(n))
			continue
		case n != z.next:
			return z.corrupt(fmt.Errorf("log entry %d is missing, the next is %d", z.next, n))
		}
		names = append(names, entryNode(n))
		z.next++
	}
	datas, err := z.getAll(ctx, names)
	if err != nil {
		return z.corrupt(err)
	}
	for i, data := range datas {
		b, all, err := z.open(ctx, data)
		if err == nil {
			err = z.image.apply(all)
		}
		if err != nil {
			return z.corrupt(fmt.Errorf("%s: %w", names[i], err))
		}
		live += b.Size
		named = append(named, b.ID)
	}
	loaded, err := z.image.contents()
	if err != nil {
		return z.corrupt(err)
	}
	z.loaded = &loaded
	z.compact.begin(h, stat.Version, size, len(names), live)
	return z.clean(ctx, h, old, named)
}

func (z *ZooKeeper) readSnapshot(ctx context.Context, h head) (size int, err error) {
	if h.Snapshot == nil {
		return 0, nil
	}
	text, err := z.text(ctx, *h.Snapshot)
	if err != nil {
		return 0, err
	}
	all, err := unpack(text)
	if err != nil {
		return 0, err
	}
	return len(text), z.image.apply(all)
}

// numbers are those of the log entries, in order.
func (z znodes) numbers(ctx context.Context) ([]int64, error) {
	names, err := z.children(ctx, logNode)
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

// clean removes log entries that the snapshot holds, and parts that nothing
// names.
func (z *ZooKeeper) clean(ctx context.Context, h head, old, named []string) error {
	if h.Snapshot != nil {
		named = append(named, h.Snapshot.ID)
	}
	parts, err := z.children(ctx, partsNode)
	if err != nil {
		return err
	}
	for _, name := range parts {
		if id, _, _ := strings.Cut(name, "."); !slices.Contains(named, id) {
			old = append(old, partsNode+"/"+name)
		}
	}
	return z.remove(ctx, old)
}

// deletes bounds how many znodes one request deletes.
const deletes = 256

func (z *ZooKeeper) remove(ctx context.Context, names []string) error {
	for chunk := range slices.Chunk(names, deletes) {
		ops := make([]any, len(chunk))
		for i, name := range chunk {
			ops[i] = &zk.DeleteRequest{Path: z.path + name, Version: -1}
		}
		tried := false
		err := z.session.Do(ctx, func() error {
			err := z.guarded(ops...)
			if tried && err == zk.ErrNoNode {
				return nil // by a request whose answer was lost
			}
			tried = true
			return err
		})
		if err != nil {
			return fmt.Errorf("remove what journal %s needs no more: %w", z.path, err)
		}
	}
	return nil
}
