package isolator

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"

	"github.com/sirupsen/logrus"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/advertise"
)

// DaemonConfig says what a Daemon serves.
type DaemonConfig struct {
	// AgentURL is the Mesos agent's, "http://127.0.0.1:5051/slave(1)".
	AgentURL string
	// StateDir keeps the provider id, and the lock that lets one daemon serve
	// an agent.
	StateDir string
	// Discover tells what GPUs the machine has: nvml.Discover, or one that
	// makes them up.
	Discover func() (gpu.Host, error)
	// Advertised, where set, is called each time the agent has taken the GPUs.
	Advertised func()
	Log        logrus.FieldLogger
	// Authorization and TLS are for agents that ask for them.
	Authorization string
	TLS           *tls.Config
}

// Daemon is what `mesos-gpu agent` runs beside a Mesos agent.
type Daemon struct{ cfg DaemonConfig }

// NewDaemon checks the configuration; it touches nothing yet.
func NewDaemon(cfg DaemonConfig) (*Daemon, error) {
	switch {
	case cfg.Discover == nil:
		return nil, errors.New("agent daemon: no way given to discover GPUs")
	case cfg.Log == nil:
		return nil, errors.New("agent daemon: no log given")
	}
	return &Daemon{cfg: cfg}, nil
}

// Run discovers the GPUs and advertises them until ctx ends.
func (d *Daemon) Run(ctx context.Context) error {
	h, err := d.cfg.Discover()
	if err != nil {
		return fmt.Errorf("discover GPUs: %w", err)
	}
	if err := check(h); err != nil {
		return fmt.Errorf("discover GPUs: %w", err)
	}
	d.cfg.Log.WithFields(logrus.Fields{
		"gpus": len(h.Devices), "types": h.Types(), "driver": h.Driver, "cuda": h.CUDA, "simulated": h.Simulated,
	}).Info("GPUs discovered")
	return advertise.Run(ctx, advertise.Config{
		AgentURL: d.cfg.AgentURL, StateDir: d.cfg.StateDir, Host: h, Log: d.cfg.Log, Advertised: d.cfg.Advertised,
		Authorization: d.cfg.Authorization, TLS: d.cfg.TLS,
	})
}
