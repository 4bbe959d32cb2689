package watch

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"mesos-gpu/gpu"
)

// ConditionUpdate is a device's condition when it has changed.
type ConditionUpdate struct {
	Device    string              `json:"device"`
	Condition gpu.DeviceCondition `json:"condition"`
}

// changeSubscriber holds what its reader has not taken yet: of each device the
// newest. A reader may be as slow as it likes.
type changeSubscriber struct {
	devices []string
	wake    chan struct{}

	mu      sync.Mutex
	pending []ConditionUpdate
}

func (s *changeSubscriber) queueUpdate(u ConditionUpdate) {
	if !slices.Contains(s.devices, u.Device) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.pending, func(p ConditionUpdate) bool { return p.Device == u.Device })
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

func (s *changeSubscriber) takeUpdate() (u ConditionUpdate, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pending) == 0 {
		return ConditionUpdate{}, false
	}
	u, s.pending = s.pending[0], s.pending[1:]
	return u, true
}

// WatchConditions sends the condition of each device at once and then at each change,
// of several changes that the reader was too slow for the last, until ctx
// ends; the channel is then closed. No device named means all. One that the
// host does not have has failed; where it has none of those named, the error
// wraps ErrUnknownDevice.
func (w *Watcher) WatchConditions(ctx context.Context, uuids ...string) (<-chan ConditionUpdate, error) {
	s := &changeSubscriber{devices: slices.Clone(uuids), wake: make(chan struct{}, 1)}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(uuids) == 0 {
		for _, d := range w.devices {
			s.devices = append(s.devices, d.UUID)
		}
	}
	known := len(uuids) == 0
	for _, name := range s.devices {
		now := gpu.DeviceCondition{Health: gpu.Failed, Reason: "not on this host"}
		if i := slices.IndexFunc(w.devices, func(d *watchedDevice) bool { return d.UUID == name }); i >= 0 {
			known, now = true, w.currentCondition(w.devices[i])
		}
		s.queueUpdate(ConditionUpdate{Device: name, Condition: now})
	}
	if !known {
		return nil, fmt.Errorf("watch device %s: %w", strings.Join(uuids, ", "), ErrUnknownDevice)
	}
	w.subscribers[s] = true
	updates := make(chan ConditionUpdate)
	go w.deliverUpdates(ctx, s, updates)
	return updates, nil
}

func (w *Watcher) deliverUpdates(ctx context.Context, s *changeSubscriber, updates chan<- ConditionUpdate) {
	defer close(updates)
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.subscribers, s)
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		}
		for u, ok := s.takeUpdate(); ok; u, ok = s.takeUpdate() {
			select {
			case <-ctx.Done():
				return
			case updates <- u:
			}
		}
	}
}

// WatchHosts sends the host with the devices that tasks may get and those that they
// may not, at once and each time these change, of several the newest, until ctx
// ends; the channel is then closed. Of a device that is sick it has what was
// seen first.
func (w *Watcher) WatchHosts(ctx context.Context) <-chan gpu.Host {
	hosts := make(chan gpu.Host, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	hosts <- w.offeredHost()
	w.hosts[hosts] = true
	context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.hosts, hosts)
		close(hosts)
	})
	return hosts
}

// notifySubscribers is called with mu held, which makes it the only sender.
func (w *Watcher) notifySubscribers(changed []ConditionUpdate) {
	for s := range w.subscribers {
		for _, u := range changed {
			s.queueUpdate(u)
		}
	}
	offered, withheld := w.splitOffered()
	if slices.Equal(offered, w.offered) && slices.Equal(withheld, w.withheld) {
		return
	}
	w.offered, w.withheld = offered, withheld
	for hosts := range w.hosts {
		select {
		case <-hosts:
		default:
		}
		hosts <- w.offeredHost()
	}
}
