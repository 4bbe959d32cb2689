package containers

import "sync"

// keyedMutex is a mutex for each key. The zero value is ready to use.
type keyedMutex struct {
	mu   sync.Mutex
	held map[string]*keyLock
}

// keyLock is the mutex of one key. users counts the goroutines that hold it or wait for it; at
// 0 the lock is deleted.
type keyLock struct {
	mu    sync.Mutex
	users int
}

func (k *keyedMutex) lockKey(key string) (unlock func()) {
	k.mu.Lock()
	t := k.held[key]
	if t == nil {
		t = k.addKey(key)
	}
	t.users++
	k.mu.Unlock()
	t.mu.Lock()
	return func() { k.unlockKey(key, t) }
}

// tryLock locks the key only if no goroutine holds the lock or waits for it.
func (k *keyedMutex) tryLock(key string) (unlock func(), ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.held[key] != nil {
		return nil, false
	}
	t := k.addKey(key)
	t.users++
	t.mu.Lock() // it is new: no other goroutine has it
	return func() { k.unlockKey(key, t) }, true
}

func (k *keyedMutex) addKey(key string) *keyLock {
	if k.held == nil {
		k.held = map[string]*keyLock{}
	}
	t := &keyLock{}
	k.held[key] = t
	return t
}

func (k *keyedMutex) unlockKey(key string, t *keyLock) {
	t.mu.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	if t.users--; t.users == 0 {
		delete(k.held, key)
	}
}
