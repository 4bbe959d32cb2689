package journal

import bolt "go.etcd.io/bbolt"

// Size returns the size of the file in bytes, as of the last change.
func (b *BoltJournal) Size() (size int64) {
	_ = b.db.View(func(tx *bolt.Tx) error { // fails only if the file is closed: 0
		size = tx.Size()
		return nil
	})
	return size
}

// Size returns the size of the snapshot and of the log entries after it, in bytes.
func (z *ZooKeeperJournal) Size() int64 { return int64(z.compact.size + z.compact.bytes) }
