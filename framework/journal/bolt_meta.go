package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
)

// The layout of bbolt's first two pages, in bytes: the page header starts with the page's
// number, the meta record follows it.
const (
	metaOffset       = 16
	metaSizeOffset   = 8  // page size, in the meta record
	metaTxOffset     = 48 // transaction number
	metaSumOffset    = 56 // FNV-1a of what precedes it
	metaSize         = 64
	maxMetaPageSize  = 1 << 20
	firstMetaMaxRead = metaOffset + metaSize
)

// checkMetaPages returns an error if one of the two meta pages is damaged. They hold the
// last two transactions, and bbolt silently uses the other page if one is damaged: the
// last change would be lost. A crash does not damage one: a meta record is written
// within one sector of the disk.
func checkMetaPages(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	size, tx0, err := readMetaPage(f, 0, 0)
	if err != nil {
		return err
	}
	_, tx1, err := readMetaPage(f, 1, size)
	if err != nil {
		return err
	}
	if tx0 != tx1+1 && tx1 != tx0+1 {
		return fmt.Errorf("its meta pages have the transactions %d and %d", tx0, tx1)
	}
	return nil
}

// readMetaPage returns the page size and the transaction number of a meta page. The second page is at the offset that
// the first one gives as page size.
func readMetaPage(f io.ReaderAt, page uint64, pageSize int64) (size int64, tx uint64, err error) {
	data := make([]byte, firstMetaMaxRead)
	if _, err := f.ReadAt(data, int64(page)*pageSize); err != nil {
		return 0, 0, fmt.Errorf("read meta page %d: %w", page, err)
	}
	meta, order := data[metaOffset:], binary.NativeEndian
	sum := fnv.New64a()
	sum.Write(meta[:metaSumOffset])
	size = int64(order.Uint32(meta[metaSizeOffset:]))
	if order.Uint64(meta[metaSumOffset:]) != sum.Sum64() || order.Uint64(data) != page {
		return 0, 0, fmt.Errorf("meta page %d is damaged", page)
	}
	if size < 512 || size > maxMetaPageSize {
		return 0, 0, errors.New("its page size is impossible")
	}
	return size, order.Uint64(meta[metaTxOffset:]), nil
}
