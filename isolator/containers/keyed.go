package containers

import "sync"

// keyed is a lock for each key. The zero value is ready.
type keyed struct {
	mu   sync.Mutex
	held map[string]*turn
}

// turn is a key's lock and how many hold it or wait for it.
type turn struct {
	mu    sync.Mutex
	users int
}

func (k *keyed) lock(key string) (unlock func()) {
	k.mu.Lock()
	t := k.held[key]
	if t == nil {
		t = k.add(key)
	}
	t.users++
	k.mu.Unlock()
	t.mu.Lock()
	return func() { k.unlock(key, t) }
}

// tryLock takes the lock only where nobody holds it.
func (k *keyed) tryLock(key string) (unlock func(), ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.held[key] != nil {
		return nil, false
	}
	t := k.add(key)
	t.users++
	t.mu.Lock() // it is new: nobody else has it
	return func() { k.unlock(key, t) }, true
}

func (k *keyed) add(key string) *turn {
	if k.held == nil {
		k.held = map[string]*turn{}
	}
	t := &turn{}
	k.held[key] = t
	return t
}

func (k *keyed) unlock(key string, t *turn) {
	t.mu.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	if t.users--; t.users == 0 {
		delete(k.held, key)
	}
}
