package apiserver

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"mesos-gpu/framework/internal/apihttp"
	"mesos-gpu/framework/request"
)

const (
	// maxFirstAnswers is how many event streams of one client send the present states at a time. The states of a large cluster are
	// megabytes of JSON: many at once would leave no CPU time to the scheduler.
	maxFirstAnswers = 2
	// sharedAnswerAge is how long encoded states are sent to further streams. The changes since then follow them.
	sharedAnswerAge = 5 * time.Second
	// minSharedAnswer is the size from which encoded states are shared, in bytes. Fewer are encoded for each stream.
	minSharedAnswer = 256 << 10
	// maxSharedAnswers limits the memory of all encoded states, in bytes. Beyond it a stream encodes a part at a time.
	maxSharedAnswers = 128 << 20
	// firstAnswerWrite is how much of the states a client reads within one write timeout.
	firstAnswerWrite = 64 << 10
)

// firstAnswers has the encoded present states with which event streams of all jobs begin, shared by the streams whose requesters
// may see the same, and the turns of each client to send them. The zero value is ready.
type firstAnswers struct {
	turns clientTurns
	// encoding is held while states are encoded: it occupies one core, for however many clients.
	encoding sync.Mutex
	// mu protects the fields below.
	mu     sync.Mutex
	shared map[firstAnswerKey]*firstAnswer
	// bytes is the size of the answers that are shared or sent.
	bytes int
}

// firstAnswerKey identifies what a first answer contains, except for its time.
type firstAnswerKey struct {
	// visibility is access.Grant.VisibilityKey.
	visibility string
	liveOnly   bool
}

// firstAnswer is the text of the present states. position is the ID of the event after which the stream continues.
type firstAnswer struct {
	text     []byte
	position string
	// users counts the streams that send the text, and the table of shared answers.
	users int
}

// open returns the present states for the streams of a requester, or nil if their memory is used up. The caller calls close.
func (f *firstAnswers) open(r *http.Request, reads *ReadBackend, q request.EventQuery) (*firstAnswer, error) {
	f.encoding.Lock()
	defer f.encoding.Unlock()
	key := firstAnswerKey{apihttp.GrantOf(r.Context()).VisibilityKey(), q.LiveOnly}
	a, full := f.find(key, reads.Events)
	if a != nil || full {
		return a, nil
	}
	a = &firstAnswer{users: 1}
	everyone := r.WithContext(context.WithoutCancel(r.Context())) // other streams send the text if this client leaves
	var err error
	if a.position, err = reads.Events.ReadStates(q, func(b *request.EventBatch) error {
		a.text = appendBatch(everyone, reads, a.text, b)
		return nil
	}); err != nil {
		return nil, err
	}
	f.share(key, a)
	return a, nil
}

// find returns a shared answer after which the stream can continue. full means that there is no memory for another one.
func (f *firstAnswers) find(key firstAnswerKey, events EventSource) (a *firstAnswer, full bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if a = f.shared[key]; a != nil && events.KnowsEvent(a.position) {
		a.users++
		return a, false
	}
	return nil, f.bytes >= maxSharedAnswers
}

// share makes an answer available to other streams for sharedAnswerAge, if it is large.
func (f *firstAnswers) share(key firstAnswerKey, a *firstAnswer) {
	a.text = slices.Clip(a.text)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.bytes += len(a.text)
	if len(a.text) < minSharedAnswer {
		return
	}
	if f.shared == nil {
		f.shared = map[firstAnswerKey]*firstAnswer{}
	}
	if old := f.shared[key]; old != nil {
		f.removeUser(old)
	}
	f.shared[key] = a
	a.users++
	time.AfterFunc(sharedAnswerAge, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.shared[key] == a {
			delete(f.shared, key)
			f.removeUser(a)
		}
	})
}

// close ends the use of an answer by a stream.
func (f *firstAnswers) close(a *firstAnswer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.removeUser(a)
}

// removeUser frees the memory of an answer with its last user. The caller holds the lock.
func (f *firstAnswers) removeUser(a *firstAnswer) {
	if a.users--; a.users == 0 {
		f.bytes -= len(a.text)
	}
}

// send writes the present states to a stream of the requester, and returns the ID of the event after which it continues.
func (f *firstAnswers) send(r *http.Request, reads *ReadBackend, q request.EventQuery, write func([]byte) error) (position string, err error) {
	a, err := f.open(r, reads, q)
	if err != nil {
		return "", err
	}
	if a == nil {
		return reads.Events.ReadStates(q, func(b *request.EventBatch) error { return writeBatch(r, reads, b, write) })
	}
	defer f.close(a)
	for part := range slices.Chunk(a.text, firstAnswerWrite) {
		if err := write(part); err != nil {
			return "", err
		}
	}
	return a.position, nil
}

// clientTurns gives the streams of each client their turns. The zero value is ready.
type clientTurns struct {
	mu sync.Mutex
	// clients has the clients with streams that have a turn or wait for it.
	clients map[string]*turnQueue
}

// turnQueue are the turns of one client.
type turnQueue struct {
	// running has an element for each stream that has a turn: a stream sends one to begin its turn and receives one to end it.
	running chan struct{}
	// streams counts the streams that have a turn or wait. The client is forgotten with the last.
	streams int
}

// join returns the turns of a client. The caller calls leave when it needs none.
func (c *clientTurns) join(client string) *turnQueue {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.clients == nil {
		c.clients = map[string]*turnQueue{}
	}
	q := c.clients[client]
	if q == nil {
		q = &turnQueue{running: make(chan struct{}, maxFirstAnswers)}
		c.clients[client] = q
	}
	q.streams++
	return q
}

func (c *clientTurns) leave(client string, q *turnQueue) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if q.streams--; q.streams == 0 {
		delete(c.clients, client)
	}
}
