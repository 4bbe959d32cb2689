package readmodel

import (
	"context"
	"sync"
)

// maxFirstAnswers is how many streams of one client send the present states at a time. The states of a large cluster are megabytes
// of JSON: many at once would leave no CPU time to the scheduler.
const maxFirstAnswers = 2

// firstAnswers gives the streams of each client their turns to send the present states. The zero value is ready.
type firstAnswers struct {
	mu sync.Mutex
	// clients has the clients with streams that send the states or wait for it.
	clients map[string]*clientTurns
}

// clientTurns are the turns of one client.
type clientTurns struct {
	// running has an element for each stream that sends the states.
	running chan struct{}
	// streams counts the streams that send or wait. The client is forgotten with the last.
	streams int
}

// awaitTurn waits until fewer than maxFirstAnswers streams of the client send the present states. The caller calls done once it has
// sent them. ok is false if ctx ends first.
func (f *firstAnswers) awaitTurn(ctx context.Context, client string) (done func(), ok bool) {
	f.mu.Lock()
	if f.clients == nil {
		f.clients = map[string]*clientTurns{}
	}
	turns := f.clients[client]
	if turns == nil {
		turns = &clientTurns{running: make(chan struct{}, maxFirstAnswers)}
		f.clients[client] = turns
	}
	turns.streams++
	f.mu.Unlock()
	leave := func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if turns.streams--; turns.streams == 0 {
			delete(f.clients, client)
		}
	}
	select {
	case turns.running <- struct{}{}:
		return func() { <-turns.running; leave() }, true
	case <-ctx.Done():
		leave()
		return nil, false
	}
}
