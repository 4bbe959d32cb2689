package watch

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"mesos-gpu/gpu"
)

// ConditionUpdate is the new condition of a device.
type ConditionUpdate struct {
	Device    string              `json:"device"`
	Condition gpu.DeviceCondition `json:"condition"`
}

// changeSubscriber stores what its reader has not received yet: the latest
// update of each device. Slow readers block nothing.
type changeSubscriber struct {
	// devices are the UUIDs whose changes it receives.
	devices []string
	// wake has a token if pending is not empty.
	wake chan struct{}

	mu sync.Mutex
	// pending has at most one update of each device. A newer update replaces
	// the one of its device and keeps its place.
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

// WatchConditions sends the condition of each device at once and after each
// change, until ctx ends; then it closes the channel. A slow reader gets only
// the latest change of each device. Without UUIDs it covers all devices. A
// UUID that is not on the host is reported as failed; if none of them is, the
// error wraps ErrUnknownDevice.
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

// WatchHosts sends the host with the available and the withheld devices, at
// once and after each change, until ctx ends; then it closes the channel. A
// slow reader gets only the latest state. The reason of an unhealthy device is
// the one that was observed first.
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

// The caller of notifySubscribers holds mu, so there is only one sender.
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
