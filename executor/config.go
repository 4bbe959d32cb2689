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

// ExecutorConfig is the input of Run. ConfigFromEnv sets what the agent passes
// in the environment; the caller sets the functions.
type ExecutorConfig struct {
	// Endpoint is the agent's host:port. ProcessID is its libprocess name
	// ("slave(1)"), the first part of every path of its API. If Socket is set,
	// calls go through that unix socket. TLS selects https.
	Endpoint  string
	ProcessID string
	Socket    string
	TLS       bool
	// Token is the bearer token for executor authentication; empty sends none.
	Token string

	FrameworkID string
	ExecutorID  string
	// ContainerID is the executor's container, used if SUBSCRIBED has none.
	ContainerID string
	// Sandbox is the sandbox's path for this process, Directory its path on
	// the host.
	Sandbox   string
	Directory string

	// Checkpoint means that the agent may restart while the task runs. The
	// executor then waits for it for up to RecoveryTimeout, with pauses of at
	// most BackoffMax between attempts. Without Checkpoint the executor ends
	// with its agent.
	Checkpoint      bool
	RecoveryTimeout time.Duration
	BackoffMax      time.Duration
	// ShutdownGrace is how long the agent waits after SHUTDOWN before it
	// destroys the container. ackTimeout bounds the wait for the
	// acknowledgement of the terminal status while the agent is there.
	ShutdownGrace time.Duration
	ackTimeout    time.Duration

	// DevDir has the GPU device nodes, as a path on the Docker engine's host.
	// VolumesDir and DriverRoot are settings for the caller's PrepareVolume.
	DevDir     string
	VolumesDir string
	DriverRoot string
	// containerLocksDir has one lock file for each Docker container of this
	// agent's executors (docker.RemoveOrphans). The default is a folder next
	// to VolumesDir.
	containerLocksDir string
	// NewDockerClient returns a client of the engine at DockerHost.
	NewDockerClient func() (*client.Client, error)
	DockerHost      string
	// DockerConfig is the path of a docker config.json with registry
	// credentials; empty if none exists.
	DockerConfig string
	// SecretsDir has the secrets that jobs may use, in one folder for each
	// role; empty if the agent has none.
	SecretsDir string
	// AllowHostIPC allows docker tasks to share the host's memory segments and
	// semaphores.
	AllowHostIPC bool
	// AllowedDevices are device nodes, or folders of them, that docker tasks may open besides their GPUs.
	AllowedDevices []string
	// LogBytes is the size at which the task's stdout and stderr are rotated:
	// 0 for never, else at least 64 KiB. LogFiles is how many files of each
	// are kept.
	LogBytes int64
	LogFiles int
	// DiskInterval is the minimum time between two measurements of a task with
	// a disk limit.
	DiskInterval time.Duration
	// HealthSocket is the unix socket of the agent's GPU daemon. It is a
	// setting for the caller's ClaimDevices, WatchConditions and ReadUsage.
	HealthSocket string

	// ReadGrantedGPUs returns the GPUs that this process may open
	// (isolator.DetectDeviceAccess).
	ReadGrantedGPUs func() (gpu.DeviceAccess, error)
	// WatchConditions, if set, calls report with the condition of each of the
	// devices at once and after each change, until ctx ends.
	WatchConditions func(ctx context.Context, devices []string, report func(device string, c gpu.DeviceCondition))
	// ClaimDevices, if set, returns once the agent's daemon has confirmed that no
	// other container holds the devices, which it then keeps for this one. The
	// error is a *DeviceRefusedError if the daemon refuses, and wraps ErrNoDaemon
	// or ErrNoClaims if there is no daemon that answers claims.
	ClaimDevices func(ctx context.Context, container string, devices []string) error
	// ReadShareLimits, if set, returns how the agent enforces a container's
	// shares of devices. It returns an error if the agent cannot.
	ReadShareLimits func(ctx context.Context, container string) (ShareEnforcement, error)
	// ReadUsage, if set, returns the utilization of a container's devices.
	// Without device names it covers all devices of the container. shared
	// means that the container has only shares of them.
	ReadUsage func(ctx context.Context, container string, devices []string, shared bool) (gpu.TaskUsage, error)
	// PrepareVolume creates the driver volume if needed and returns its path
	// on the host.
	PrepareVolume func(ctx context.Context) (path string, err error)
	// ReadHost, if set, returns the host's driver and GPUs, which the
	// requirements of images are checked against.
	ReadHost func(ctx context.Context) image.HostDriver
	// Runtimes replaces the runtimes that run tasks; nil means the Docker
	// engine and the agent. Tests set it.
	Runtimes map[job.Containerizer]task.Runtime
	// Transport replaces the connection to the agent. Tests set it.
	Transport http.RoundTripper
	// Log receives the executor's log; nil means executor.log in the sandbox.
	Log logrus.FieldLogger
}

// Defaults, equal to the Mesos agent's.
const (
	defaultProcessID       = "slave(1)"
	defaultRecoveryTimeout = 15 * time.Minute
	defaultBackoffMax      = 2 * time.Second
	defaultShutdownGrace   = 5 * time.Second
	defaultAckTimeout      = time.Minute
	defaultLogBytes        = 100 << 20
	minLogBytes            = 64 << 10 // a multiple of every file system's block size
	defaultLogFiles        = 5
	defaultDiskInterval    = 10 * time.Second
	// firstContactTimeout bounds the wait for the first answer of an agent
	// without checkpointing. That agent has just started this process.
	firstContactTimeout = 15 * time.Second

	defaultDevDir     = "/dev"
	defaultVolumesDir = "/var/lib/mesos-gpu/volumes"
	defaultDriverRoot = "/"
	// defaultHealthSocket is the default socket of `mesos-gpu agent`.
	defaultHealthSocket = "/run/mesos-gpu/agent.sock"
)

func setIfZero[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// ContainerLocksDirFor returns the default containerLocksDir for a folder of
// volumes.
func ContainerLocksDirFor(volumesDir string) string {
	return filepath.Join(filepath.Dir(volumesDir), "claims")
}

func (c *ExecutorConfig) setDefaults() {
	setIfZero(&c.ProcessID, defaultProcessID)
	setIfZero(&c.RecoveryTimeout, defaultRecoveryTimeout)
	setIfZero(&c.BackoffMax, defaultBackoffMax)
	setIfZero(&c.ShutdownGrace, defaultShutdownGrace)
	setIfZero(&c.ackTimeout, defaultAckTimeout)
	setIfZero(&c.Directory, c.Sandbox)
	setIfZero(&c.DevDir, defaultDevDir)
	setIfZero(&c.VolumesDir, defaultVolumesDir)
	setIfZero(&c.containerLocksDir, ContainerLocksDirFor(c.VolumesDir))
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
	need(c.ReadGrantedGPUs != nil, "no function ReadGrantedGPUs")
	need(c.PrepareVolume != nil, "no function PrepareVolume")
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("executor configuration: %w: this program is started by a Mesos agent, not by hand", err)
	}
	return nil
}

// agentURL returns the URL of one of the agent's APIs, "/api/v1" or
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
