package executor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	"github.com/docker/docker/client"
	"github.com/sirupsen/logrus"

	"mesos-gpu/executor/image"
	"mesos-gpu/executor/task"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// ExecutorConfig is what Run needs. ConfigFromEnv fills what the agent says in the
// environment; the functions are the caller's.
type ExecutorConfig struct {
	// Endpoint is the agent's host:port, ProcessID its libprocess name
	// ("slave(1)"), the first part of every path below it. Where Socket is
	// set, calls go through that unix socket. TLS asks for https.
	Endpoint  string
	ProcessID string
	Socket    string
	TLS       bool
	// Token is the bearer token of executor authentication, empty without.
	Token string

	FrameworkID string
	ExecutorID  string
	// ContainerID is the executor's container where SUBSCRIBED names none.
	ContainerID string
	// Sandbox is the sandbox as this process sees it, Directory as the host
	// does.
	Sandbox   string
	Directory string

	// Checkpoint says that the agent may go and come back: the executor then
	// waits RecoveryTimeout for it and pauses at most BackoffMax between two
	// attempts. Otherwise it ends with its agent.
	Checkpoint      bool
	RecoveryTimeout time.Duration
	BackoffMax      time.Duration
	// ShutdownGrace is how long the agent waits after SHUTDOWN before it
	// destroys the container. AckTimeout bounds the wait for the terminal
	// status's acknowledgement.
	ShutdownGrace time.Duration
	AckTimeout    time.Duration

	// DevDir holds the GPU nodes as the Docker engine's host sees them.
	// VolumesDir and DriverRoot are for Volume, which the caller supplies.
	DevDir     string
	VolumesDir string
	DriverRoot string
	// ContainerLocksDir is the agent's record of containers and the executors that
	// own them (docker.RemoveOrphans); by default beside VolumesDir.
	ContainerLocksDir string
	// NewDockerClient makes a client of the engine, DockerHost is its address.
	NewDockerClient func() (*client.Client, error)
	DockerHost      string
	// DockerConfig is a config.json of Docker's with what registries ask for
	// of those that pull.
	DockerConfig string
	// SecretsDir holds the secrets that jobs may name, in a folder for each
	// role; empty is none.
	SecretsDir string
	// AllowHostIPC lets docker tasks share their agent's memory segments and
	// semaphores.
	AllowHostIPC bool
	// LogBytes is the size at which the task's stdout and stderr are rotated,
	// 0 for never and else 64 KiB or more; LogFiles is how many of each are kept.
	LogBytes int64
	LogFiles int
	// DiskInterval is the least time between two measurements of a task with
	// a disk limit.
	DiskInterval time.Duration
	// HealthSocket is where the agent's GPU daemon may answer; for Conditions,
	// which the caller supplies.
	HealthSocket string

	// ReadGrantedGPUs says which GPUs this process may open: isolator.DetectDeviceAccess.
	ReadGrantedGPUs func() (gpu.DeviceAccess, error)
	// WatchConditions, where set, tells how those devices are, at once and at each
	// change, until ctx ends.
	WatchConditions func(ctx context.Context, devices []string, tell func(device string, c gpu.DeviceCondition))
	// ReadShareLimits, where set, tells how the agent holds a container to its parts of
	// shared devices. Its error says why it cannot.
	ReadShareLimits func(ctx context.Context, container string) (ShareEnforcement, error)
	// ReadUsage, where set, tells what the devices of a container do now: those
	// named, or without names those that it holds. parts says that it shares
	// them.
	ReadUsage func(ctx context.Context, container string, devices []string, parts bool) (gpu.TaskUsage, error)
	// PrepareVolume returns the host path of the driver's volume, made if need be.
	// Its error says why there is none.
	PrepareVolume func(ctx context.Context) (path string, err error)
	// ReadHost, where set, tells what is known of the driver, which an image may
	// ask much of.
	ReadHost func(ctx context.Context) image.HostDriver
	// Runtimes overrides what runs the tasks; nil means the Docker engine
	// and the agent.
	Runtimes map[job.Containerizer]task.Runtime
	// Transport overrides how the agent is reached.
	Transport http.RoundTripper
	// Log is where the executor logs; nil means executor.log in the sandbox.
	Log logrus.FieldLogger
}

// Defaults are those of Mesos's agent.
const (
	defaultProcessID       = "slave(1)"
	defaultRecoveryTimeout = 15 * time.Minute
	defaultBackoffMax      = 2 * time.Second
	defaultShutdownGrace   = 5 * time.Second
	defaultAckTimeout      = time.Minute
	defaultLogBytes        = 100 << 20
	minLogBytes            = 64 << 10 // whole blocks of any file system
	defaultLogFiles        = 5
	defaultDiskInterval    = 10 * time.Second
	// firstContactTimeout is how long an agent without checkpointing may take to
	// answer the first time: it has just started us.
	firstContactTimeout = 15 * time.Second

	defaultDevDir     = "/dev"
	defaultVolumesDir = "/var/lib/mesos-gpu/volumes"
	defaultDriverRoot = "/"
	// defaultHealthSocket is where `mesos-gpu agent` answers by default.
	defaultHealthSocket = "/run/mesos-gpu/agent.sock"
)

func setIfZero[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// ContainerLocksDirFor is where the claims lie of executors with that folder of volumes.
func ContainerLocksDirFor(volumesDir string) string {
	return filepath.Join(filepath.Dir(volumesDir), "claims")
}

func (c *ExecutorConfig) setDefaults() {
	setIfZero(&c.ProcessID, defaultProcessID)
	setIfZero(&c.RecoveryTimeout, defaultRecoveryTimeout)
	setIfZero(&c.BackoffMax, defaultBackoffMax)
	setIfZero(&c.ShutdownGrace, defaultShutdownGrace)
	setIfZero(&c.AckTimeout, defaultAckTimeout)
	setIfZero(&c.Directory, c.Sandbox)
	setIfZero(&c.DevDir, defaultDevDir)
	setIfZero(&c.VolumesDir, defaultVolumesDir)
	setIfZero(&c.ContainerLocksDir, ContainerLocksDirFor(c.VolumesDir))
	setIfZero(&c.DriverRoot, defaultDriverRoot)
	setIfZero(&c.LogFiles, defaultLogFiles)
	setIfZero(&c.DiskInterval, defaultDiskInterval)
	setIfZero(&c.HealthSocket, defaultHealthSocket)
	setIfZero(&c.DockerHost, client.DefaultDockerHost)
	if c.NewDockerClient == nil {
		host := c.DockerHost
		c.NewDockerClient = func() (*client.Client, error) {
			return client.NewClientWithOpts(client.WithHost(host), client.WithAPIVersionNegotiation())
		}
	}
}

func (c *ExecutorConfig) validate() error {
	var errs []error
	need := func(ok bool, what string) {
		if !ok {
			errs = append(errs, errors.New(what))
		}
	}
	need(c.Endpoint != "" || c.Socket != "", "no agent endpoint (MESOS_AGENT_ENDPOINT)")
	need(c.FrameworkID != "", "no framework id (MESOS_FRAMEWORK_ID)")
	need(c.ExecutorID != "", "no executor id (MESOS_EXECUTOR_ID)")
	need(c.Sandbox != "", "no sandbox (MESOS_SANDBOX)")
	need(c.ReadGrantedGPUs != nil, "no function Granted")
	need(c.PrepareVolume != nil, "no function Volume")
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("executor configuration: %w: an agent starts this program, people do not", err)
	}
	return nil
}

// agentURL is the address of one of the agent's APIs, "/api/v1" or
// "/api/v1/executor".
func (c *ExecutorConfig) agentURL(path string) string {
	scheme, host := "http", c.Endpoint
	if c.TLS {
		scheme = "https"
	}
	if c.Socket != "" {
		scheme, host = "http", "agent"
	}
	return scheme + "://" + host + "/" + c.ProcessID + path
}
