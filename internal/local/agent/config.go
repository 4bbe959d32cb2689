package agent

import (
	"context"
	"net"
	"path/filepath"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/sirupsen/logrus"

	driver "mesos-gpu/executor/image"
	"mesos-gpu/internal/local/link"
	"mesos-gpu/isolator"
)

// DefaultKeepSandboxes is the default of AgentConfig.KeepSandboxes, as Mesos's --gc_delay.
const DefaultKeepSandboxes = 7 * 24 * time.Hour

// DeviceIsolator decides which devices a container may open.
type DeviceIsolator interface {
	ResolveTaskGrant(container string, gpus int, ids []string) (isolator.DeviceGrant, error)
	ApplyGrant(cgroupPath string, g isolator.DeviceGrant) error
}

// AgentConfig configures an EmbeddedAgent. Zero durations and an empty runc
// select Mesos's defaults.
type AgentConfig struct {
	Log    logrus.FieldLogger
	Master link.MasterLink
	// WorkDir is the absolute path of the folder with the sandboxes, the unpacked
	// images and the run state. Only one agent at a time may use it.
	WorkDir string
	// Recover keeps executors running when this process is killed, and adopts those
	// of an earlier one: the agent then needs the same Addr. They end after
	// RecoveryTimeout without an agent.
	Recover bool
	// Addr is the HOST:PORT at which the handler is served, as reported by its
	// listener.
	Addr string
	// Hostname is the agent's name in offers. It defaults to the host of Addr.
	Hostname   string
	Resources  []mesos.Resource
	Attributes []mesos.Attribute

	// Root confines every container with cgroups and namespaces; it requires
	// uid 0. Without it, containers are plain processes, images are rejected
	// and tasks can open any device.
	Root bool
	// Isolator restricts containers to their devices when Root is set. Nil
	// selects an isolator without GPUs.
	Isolator DeviceIsolator
	// ExecutorPath is the absolute path of the mesos-gpu program. It runs tasks without a custom
	// executor, and it is the first process of every container.
	ExecutorPath string
	// ExecutorEnv is added to every executor's environment.
	ExecutorEnv map[string]string
	// ImagesDir contains docker archives named NAME:TAG.tar.
	ImagesDir string
	// Volume returns the folder with the driver's files, for images that need
	// it. It may be nil on a machine without a driver.
	Volume func(ctx context.Context) (path string, err error)
	// Driver describes the host's driver. Image requirements are checked
	// against it.
	Driver driver.HostDriver
	// runc is the program that runs containers with images.
	runc string

	// KeepSandboxes is how long the sandbox of an ended executor, or an image that no
	// container uses, is kept on an empty disk; less on a fuller one, see allowedAge.
	// collectInterval is the time between two collections of those that are not kept.
	KeepSandboxes, collectInterval time.Duration
	// diskUse returns the used part of the disk with a folder, from 0 to 1; nil measures it.
	diskUse func(dir string) (float64, error)

	// registrationTimeout limits the time between an executor's start and its
	// SUBSCRIBE call.
	registrationTimeout time.Duration
	// shutdownGrace limits the time between SHUTDOWN and the executor's exit. A
	// value in the ExecutorInfo takes precedence.
	shutdownGrace time.Duration
	// stopMargin limits the time between the end of the last executor's grace
	// period and the agent's end.
	stopMargin time.Duration
	// RetryMin and RetryMax bound the interval between two attempts to deliver
	// a status update.
	RetryMin, RetryMax time.Duration
	// heartbeat is the interval of HEARTBEAT events to executors.
	heartbeat time.Duration
	// RecoveryTimeout and SubscriptionBackoff configure how long and how often
	// executors of checkpointing frameworks try to reconnect to the agent.
	RecoveryTimeout, SubscriptionBackoff time.Duration
	// publishTimeout limits the time a resource provider may take to publish
	// resources before a launch.
	publishTimeout time.Duration
}

// withDefaults replaces zero values by Mesos's defaults.
func (c AgentConfig) withDefaults() AgentConfig {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&c.registrationTimeout, time.Minute},
		{&c.shutdownGrace, 5 * time.Second},
		{&c.stopMargin, 15 * time.Second},
		{&c.RetryMin, 10 * time.Second},
		{&c.RetryMax, 10 * time.Minute},
		{&c.heartbeat, 30 * time.Minute},
		{&c.RecoveryTimeout, 15 * time.Minute},
		{&c.SubscriptionBackoff, 2 * time.Second},
		{&c.publishTimeout, 15 * time.Second},
		{&c.KeepSandboxes, DefaultKeepSandboxes},
		{&c.collectInterval, time.Minute},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	if c.diskUse == nil {
		c.diskUse = measureDiskUse
	}
	if c.runc == "" {
		c.runc = "runc"
	}
	if c.Hostname == "" {
		c.Hostname = c.hostIP()
	}
	return c
}

// recordsDir returns the folder with the records of containers, "" if containers
// end with the agent.
func (c *AgentConfig) recordsDir() string {
	if !c.Recover {
		return ""
	}
	return filepath.Join(c.WorkDir, recoverFolder, containersFolder)
}

// hostIP returns the host part of Addr.
func (c *AgentConfig) hostIP() string {
	host, _, _ := net.SplitHostPort(c.Addr) // the address of a listener is well-formed
	return host
}
