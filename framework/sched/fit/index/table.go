package index

import "encoding/binary"

// Table stores one value for each binary key and numbers the values from 0 in
// the order of their creation.
type Table[V any] struct {
	// byKey has the values by key. Values never change.
	byKey map[string]V
	// values are the same values by number.
	values []V
	// scratch is the memory of the last key.
	scratch []byte
}

// Scratch returns an empty buffer to append a key to. The key is valid until
// the next call of Scratch on the same table.
func (t *Table[V]) Scratch() []byte { return t.scratch[:0] }

// Get returns the value of the key. For a new key it stores what create returns for the value's number.
func (t *Table[V]) Get(key []byte, create func(id int32) V) V {
	t.scratch = key
	if v, ok := t.byKey[string(key)]; ok {
		return v
	}
	stored := string(key)
	v := create(int32(len(t.values)))
	if t.byKey == nil {
		t.byKey = map[string]V{}
	}
	t.byKey[stored] = v
	t.values = append(t.values, v)
	return v
}

// Values returns all values by number. The caller must not change the slice.
func (t *Table[V]) Values() []V { return t.values }

// Len returns how many values the table holds.
func (t *Table[V]) Len() int { return len(t.values) }

// Clear removes all values. Numbers start at 0 again.
func (t *Table[V]) Clear() {
	clear(t.byKey)
	clear(t.values)
	t.values = t.values[:0]
}

// AppendText appends s with a length prefix to a key, so that different lists of texts have different keys.
func AppendText(key []byte, s string) []byte {
	return append(binary.AppendUvarint(key, uint64(len(s))), s...)
}

// AppendTexts appends the length of a list and its texts to a key.
func AppendTexts(key []byte, list []string) []byte {
	key = binary.AppendUvarint(key, uint64(len(list)))
	for _, s := range list {
		key = AppendText(key, s)
	}
	return key
}
