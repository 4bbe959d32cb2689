package journal

import bolt "go.etcd.io/bbolt"

// Size is how large the file is, in bytes, as of the last change.
func (b *BoltJournal) Size() (size int64) {
	_ = b.db.View(func(tx *bolt.Tx) error { // a closed one has none
		size = tx.Size()
		return nil
	})
	return size
}

// Size is how large the snapshot and the entries after it are, in bytes.
func (z *ZooKeeperJournal) Size() int64 { return int64(z.compact.size + z.compact.bytes) }
