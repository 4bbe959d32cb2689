package master

import "sync"

// ConnectionStatus is the state of the connection to the leading master.
type ConnectionStatus struct {
	// URL is the master to which the framework is subscribed; "" without a subscription.
	URL string
	// Err is why there is no subscription; nil with one, and before the first attempt.
	Err error
}

// statusPublisher publishes the state of a Client's connection.
type statusPublisher struct {
	// publish receives each state; nil discards them.
	publish func(ConnectionStatus)

	// mu protects subscribed, and keeps the calls of publish in order.
	mu sync.Mutex
	// subscribed is whether the last state was a subscription.
	subscribed bool
}

// setSubscribed publishes that the framework is subscribed to the master.
func (p *statusPublisher) setSubscribed(url string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.subscribed = true
	p.send(ConnectionStatus{URL: url})
}

// setDisconnected publishes why there is no subscription.
func (p *statusPublisher) setDisconnected(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.subscribed = false
	p.send(ConnectionStatus{Err: err})
}

// setNoLeader publishes why no leading master is known. A subscription is not affected: the
// last leader is kept until another one is named.
func (p *statusPublisher) setNoLeader(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.subscribed {
		p.send(ConnectionStatus{Err: err})
	}
}

func (p *statusPublisher) send(s ConnectionStatus) {
	if p.publish != nil {
		p.publish(s)
	}
}
