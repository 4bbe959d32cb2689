package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/sirupsen/logrus"

	driver "mesos-gpu/executor/image"
	"mesos-gpu/internal/local/link"
	"mesos-gpu/isolator"
)

// DeviceIsolator decides which devices a container may open.
type DeviceIsolator interface {
	ResolveTaskGrant(container string, gpus int, ids []string) (isolator.DeviceGrant, error)
	ApplyGrant(cgroupPath string, g isolator.DeviceGrant) error
}

// AgentConfig of an Agent. Zero durations and Runc have Mesos's defaults.
type AgentConfig struct {
	Log    logrus.FieldLogger
	Master link.MasterLink
	// WorkDir holds sandboxes, unpacked images and what runs. One agent at a
	// time may use it.
	WorkDir string
	// Addr is the HOST:PORT at which the handler is served.
	Addr string
	// Hostname is what offers name the agent by; Addr's host if empty.
	Hostname   string
	Resources  []mesos.Resource
	Attributes []mesos.Attribute

	// Root confines every container by cgroups and namespaces; it needs uid
	// 0. Otherwise containers are plain processes, images are refused and
	// nothing keeps a task from any device.
	Root bool
	// Isolator confines containers to their devices, where Root is set. Nil
	// means one that knows no GPU.
	Isolator DeviceIsolator
	// ExecutorPath is the mesos-gpu program. It runs the tasks that bring no
	// executor of their own, and every container starts with it.
	ExecutorPath string
	// ExecutorEnv is added to every executor's environment.
	ExecutorEnv map[string]string
	// ImagesDir holds docker archives, NAME:TAG.tar.
	ImagesDir string
	// Volume gives the folder of the driver's files, for images that want
	// it. It may be nil where there is no driver.
	Volume func(ctx context.Context) (path string, err error)
	// Driver is what is known of the driver, of which images may ask much.
	Driver driver.HostDriver
	// Runc is the program that runs containers with images.
	Runc string

	// RegistrationTimeout is how long an executor may take to subscribe.
	RegistrationTimeout time.Duration
	// ShutdownGrace is how long one may take to end after SHUTDOWN, unless
	// its ExecutorInfo says otherwise.
	ShutdownGrace time.Duration
	// RetryMin and RetryMax bound the pauses between two attempts to deliver
	// a status update.
	RetryMin, RetryMax time.Duration
	// Heartbeat is the pause between two HEARTBEAT events to executors.
	Heartbeat time.Duration
	// RecoveryTimeout and SubscriptionBackoff tell executors of frameworks
	// that checkpoint how long and how often to look for their agent.
	RecoveryTimeout, SubscriptionBackoff time.Duration
	// PublishTimeout bounds a resource provider's answer before a launch.
	PublishTimeout time.Duration
}

// withDefaults fills in what Mesos has as defaults.
func (c AgentConfig) withDefaults() AgentConfig {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&c.RegistrationTimeout, time.Minute},
		{&c.ShutdownGrace, 5 * time.Second},
		{&c.RetryMin, 10 * time.Second},
		{&c.RetryMax, 10 * time.Minute},
		{&c.Heartbeat, 30 * time.Minute},
		{&c.RecoveryTimeout, 15 * time.Minute},
		{&c.SubscriptionBackoff, 2 * time.Second},
		{&c.PublishTimeout, 15 * time.Second},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	if c.Runc == "" {
		c.Runc = "runc"
	}
	if c.Hostname == "" {
		c.Hostname = c.hostIP()
	}
	return c
}

// hostIP is the agent's own address, without port.
func (c *AgentConfig) hostIP() string {
	host, _, err := net.SplitHostPort(c.Addr)
	if err != nil {
		return "" // validate says so
	}
	return host
}

// validateConfig names the first thing that is missing or wrong.
func (c AgentConfig) validateConfig() error {
	switch _, _, err := net.SplitHostPort(c.Addr); {
	case err != nil:
		return fmt.Errorf("agent address: %w", err)
	case c.Log == nil:
		return errors.New("agent needs a Log")
	case c.Master == nil:
		return errors.New("agent needs a Master")
	case !filepath.IsAbs(c.WorkDir):
		return fmt.Errorf("agent work directory %q is no absolute path", c.WorkDir)
	case !filepath.IsAbs(c.ExecutorPath):
		return fmt.Errorf("executor program %q is no absolute path", c.ExecutorPath)
	}
	return nil
}
