package journal

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// reserveSize is how many bytes of the disk a journal file has in advance. While a full
// disk allows no more, no jobs are added, and the reserve is for changes of the jobs that
// exist. bbolt needs a few pages for each, and uses pages again once no transaction reads them.
const reserveSize = 8 << 20

// diskReserve allocates disk space to a file before it is needed.
type diskReserve struct {
	// allocated is the size in bytes up to which the file has disk space.
	allocated int64
	// unsupported is set if the file system cannot allocate space in advance.
	unsupported bool
}

// extend ensures that the file has space for reserveSize bytes beyond used. It does
// nothing while more than half of the reserve is left.
func (r *diskReserve) extend(path string, used int64) error {
	if r.unsupported || r.allocated >= used+reserveSize/2 {
		return nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	err = unix.Fallocate(int(f.Fd()), 0, 0, used+reserveSize)
	switch {
	case err == nil:
		r.allocated = used + reserveSize
		return f.Sync()
	case isDiskFull(err):
		return err
	}
	r.unsupported = true // the journal works without
	return nil
}

// CheckSpace implements Journal. It extends the reserve of disk space.
func (b *BoltJournal) CheckSpace() error {
	if err := b.reserve.extend(b.path, b.Size()); isDiskFull(err) {
		return fmt.Errorf("journal %s: %w: free space there; until then jobs can be listed and killed, but not added", b.path, ErrFull)
	} else if err != nil {
		return fmt.Errorf("reserve space for journal %s: %w", b.path, err)
	}
	return nil
}
