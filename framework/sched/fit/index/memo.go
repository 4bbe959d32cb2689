package index

// Memo stores the result of a function for each argument.
type Memo[K comparable, V any] struct{ values map[K]V }

// Get returns the result for the key, which compute returns on the first call.
func (m *Memo[K, V]) Get(key K, compute func() V) V {
	v, ok := m.values[key]
	if !ok {
		v = compute()
		if m.values == nil {
			m.values = map[K]V{}
		}
		m.values[key] = v
	}
	return v
}

// Len returns how many results are stored.
func (m *Memo[K, V]) Len() int { return len(m.values) }

// Clear removes all results.
func (m *Memo[K, V]) Clear() { clear(m.values) }

// Numbered stores the result of a function for each small number, such as the
// number of a value in a Table.
type Numbered[V any] struct{ values []*V }

// Get returns the result for the number, which compute returns on the first
// call. The caller must not change it.
func (n *Numbered[V]) Get(id int32, compute func() V) *V {
	if int(id) < len(n.values) && n.values[id] != nil {
		return n.values[id]
	}
	v := compute()
	for len(n.values) <= int(id) {
		n.values = append(n.values, nil)
	}
	n.values[id] = &v
	return &v
}

// Recent stores a few values, and drops all of them when there are too many.
type Recent[V any] struct{ values []V }

// maxRecent bounds the values of one Recent.
const maxRecent = 4

// Get returns the stored value that matches. Otherwise it stores and returns the result of create.
func (r *Recent[V]) Get(matches func(*V) bool, create func() V) *V {
	for i := range r.values {
		if matches(&r.values[i]) {
			return &r.values[i]
		}
	}
	v := create()
	if len(r.values) >= maxRecent {
		r.values = r.values[:0]
	}
	r.values = append(r.values, v)
	return &r.values[len(r.values)-1]
}

// Clear removes all values.
func (r *Recent[V]) Clear() { r.values = nil }
