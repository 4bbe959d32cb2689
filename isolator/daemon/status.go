package daemon

import "mesos-gpu/isolator/advertise"

// Status is the daemon's state as an operator sees it.
type Status struct {
	// GPUs is the number of devices of this host that respond, and Lost that of the others.
	// Discovered is set once both are known.
	GPUs, Lost int
	Discovered bool
	// Provider describes the agent's offers; nil before the agent has answered for the first
	// time, and if the GPUs are in the agent's flags. Its error wraps advertise.ErrRemoved if
	// no GPU is offered until the daemon is restarted.
	Provider *advertise.ProviderStatus
	// VolumeError is why there is no driver volume: no GPU is offered, unless they are simulated.
	// ConfinementError is why the kernel cannot confine containers.
	VolumeError, ConfinementError error
}

// updateStatus changes the status and publishes it. Calls of OnStatus are in the order of the
// changes.
func (d *Daemon) updateStatus(change func(*Status)) {
	d.statusMu.Lock()
	defer d.statusMu.Unlock()
	change(&d.status)
	if d.cfg.OnStatus != nil {
		d.cfg.OnStatus(d.status)
	}
}

func (d *Daemon) setProviderStatus(p advertise.ProviderStatus) {
	d.updateStatus(func(s *Status) { s.Provider = &p })
	if p.Err == nil && d.cfg.OnAdvertised != nil {
		d.cfg.OnAdvertised()
	}
}
