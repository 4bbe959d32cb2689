package watch

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"mesos-gpu/gpu"
)

// Update is a device's condition when it has changed.
type Update struct {
	Device    string        `json:"device"`
	Condition gpu.Condition `json:"condition"`
}

// subscriber holds what its reader has not taken yet: of each device the
// newest. A reader may be as slow as it likes.
type subscriber struct {
	devices []string
	wake    chan struct{}

	mu      sync.Mutex
	pending []Update
}

func (s *subscriber) put(u Update) {
	if !slices.Contains(s.devices, u.Device) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.pending, func(p Update) bool { return p.Device == u.Device })
	if i >= 0 {
		s.pending[i] = u
	} else {
		s.pending = append(s.pending, u)
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *subscriber) take() (u Update, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pending) == 0 {
		return Update{}, false
	}
	u, s.pending = s.pending[0], s.pending[1:]
	return u, true
}

// Watch sends the condition of each device at once and then at each change,
// of several changes that the reader was too slow for the last, until ctx
// ends; the channel is then closed. No device named means all. One that the
// host does not have has failed; where it has none of those named, the error
// wraps ErrUnknown.
func (w *Watcher) Watch(ctx context.Context, uuids ...string) (<-chan Update, error) {
	s := &subscriber{devices: slices.Clone(uuids), wake: make(chan struct{}, 1)}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(uuids) == 0 {
		for _, d := range w.devices {
			s.devices = append(s.devices, d.UUID)
		}
	}
	known := len(uuids) == 0
	for _, name := range s.devices {
		now := gpu.Condition{Health: gpu.Failed, Reason: "not on this host"}
		if i := slices.IndexFunc(w.devices, func(d *device) bool { return d.UUID == name }); i >= 0 {
			known, now = true, w.condition(w.devices[i])
		}
		s.put(Update{Device: name, Condition: now})
	}
	if !known {
		return nil, fmt.Errorf("watch device %s: %w", strings.Join(uuids, ", "), ErrUnknown)
	}
	w.subs[s] = true
	updates := make(chan Update)
	go w.deliver(ctx, s, updates)
	return updates, nil
}

func (w *Watcher) deliver(ctx context.Context, s *subscriber, updates chan<- Update) {
	defer close(updates)
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.subs, s)
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		}
		for u, ok := s.take(); ok; u, ok = s.take() {
			select {
			case <-ctx.Done():
				return
			case updates <- u:
			}
		}
	}
}

// Hosts sends the host with the devices that tasks may get and those that they
// may not, at once and each time these change, of several the newest, until ctx
// ends; the channel is then closed. Of a device that is sick it has what was
// seen first.
func (w *Watcher) Hosts(ctx context.Context) <-chan gpu.Host {
	hosts := make(chan gpu.Host, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	hosts <- w.host()
	w.hosts[hosts] = true
	context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.hosts, hosts)
		close(hosts)
	})
	return hosts
}

// tell is called with mu held, which makes it the only sender.
func (w *Watcher) tell(changed []Update) {
	for s := range w.subs {
		for _, u := range changed {
			s.put(u)
		}
	}
	offered, withheld := w.offers()
	if slices.Equal(offered, w.offered) && slices.Equal(withheld, w.withheld) {
		return
	}
	w.offered, w.withheld = offered, withheld
	for hosts := range w.hosts {
		select {
		case <-hosts:
		default:
		}
		hosts <- w.host()
	}
}
