package watch

import (
	"maps"

	"mesos-gpu/gpu"
)

// SetHolders replaces the descriptions of the containers that hold devices and are none of the
// agent's tasks, by device. Such a device is not offered. Devices that the host does not have are
// ignored.
func (w *Watcher) SetHolders(holders map[string]string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if maps.Equal(w.holders, holders) {
		return
	}
	w.changeConditions(func() { w.holders = maps.Clone(holders) })
}

// SetNoDriver sets why the machine has no usable driver files, or "" if it has. Without them no
// device is offered, whatever its health.
func (w *Watcher) SetNoDriver(reason string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.noDriver != reason {
		w.changeConditions(func() { w.noDriver = reason })
	}
}

// changeConditions applies a change, and notifies the subscribers of the devices that it affects.
// The caller holds mu.
func (w *Watcher) changeConditions(change func()) {
	before := make([]gpu.DeviceCondition, len(w.devices))
	for i, d := range w.devices {
		before[i] = w.currentCondition(d)
	}
	change()
	var changed []ConditionUpdate
	for i, d := range w.devices {
		if c := w.currentCondition(d); c != before[i] {
			changed = append(changed, ConditionUpdate{Device: d.UUID, Condition: c})
		}
	}
	w.notifySubscribers(changed)
}
