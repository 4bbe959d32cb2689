package job

import "time"

// Container says how a task's container differs from a plain one. Its fields
// are part of Spec. What only the Docker engine can do, Validate refuses of
// mesos tasks by name.
type Container struct {
	// Volumes are what the container sees beside its image and sandbox.
	Volumes []Volume `json:"volumes,omitempty"`
	// Entrypoint replaces the image's, for docker tasks; Command are then its
	// arguments.
	Entrypoint string `json:"entrypoint,omitempty"`
	// ImageEntrypoint has the image's own entrypoint run Command as its
	// arguments, as it does in docker tasks anyway. Otherwise Command takes its
	// place in mesos tasks.
	ImageEntrypoint bool `json:"image_entrypoint,omitempty"`
	// User is whom the task runs as; empty is the image's, or the framework's
	// without one.
	User string `json:"user,omitempty"`
	// Fetch are put into the sandbox before the task starts.
	Fetch []FetchArtifact `json:"fetch,omitempty"`
	// Limits are what the task may use beyond CPUs and MemMiB.
	Limits ResourceLimits `json:"limits,omitzero"`
	// Network is HostNetwork where it is empty; any other value is for docker
	// tasks.
	Network NetworkMode `json:"network,omitempty"`
	// Ports are the host ports of each task, in the order of PORT0, PORT1, …
	Ports []Port `json:"ports,omitempty"`
	// ForcePull fetches the image anew for each attempt.
	ForcePull bool `json:"force_pull,omitempty"`
	// ShmMiB is the size of /dev/shm; 0 is as much as the task's memory.
	ShmMiB float64 `json:"shm_mib,omitempty"`
	// IPCMode is PrivateIPC where it is empty.
	IPC     IPCMode  `json:"ipc,omitempty"`
	Ulimits []Ulimit `json:"ulimits,omitempty"`
	// Parameters are options of docker run, for docker tasks: those that
	// docs/executor.md lists.
	Parameters []DockerParameter `json:"parameters,omitempty"`
	// Labels are for people and their tools: the master, the agent and the
	// Docker engine show them.
	Labels map[string]string `json:"labels,omitempty"`
	// HealthCheck ends a task that fails too often, and so does each of
	// MoreHealthChecks: a task is healthy when it is by all of them. Mesos has
	// words for the first alone. Check only tells what it finds.
	HealthCheck      *HealthCheck  `json:"health_check,omitempty"`
	MoreHealthChecks []HealthCheck `json:"more_health_checks,omitempty"`
	Check            *Check        `json:"check,omitempty"`
}

// HealthChecks are all of them, the one that Mesos has words for first.
func (c *Container) HealthChecks() []*HealthCheck {
	var all []*HealthCheck
	if c.HealthCheck != nil {
		all = append(all, c.HealthCheck)
	}
	for i := range c.MoreHealthChecks {
		all = append(all, &c.MoreHealthChecks[i])
	}
	return all
}

// Volume is a directory or file of the agent, or a named volume of its Docker
// engine, that the container sees.
type Volume struct {
	// Source is an absolute path of the agent, or a volume's name.
	Source string `json:"source"`
	// Target is the absolute path in the container.
	Target   string `json:"target"`
	ReadOnly bool   `json:"read_only,omitempty"`
	// Driver is the Docker volume driver of a named volume; empty is the
	// engine's own.
	Driver string `json:"driver,omitempty"`
}

// IsNamed reports whether the volume is one of the Docker engine's rather than
// a path of the agent.
func (v Volume) IsNamed() bool { return v.Source == "" || v.Source[0] != '/' }

// FetchArtifact is a file that the agent's fetcher gets.
type FetchArtifact struct {
	URI string `json:"uri"`
	// Path is its name in the sandbox; empty is the last part of the URI.
	Path string `json:"path,omitempty"`
	// Extract unpacks an archive, Executable makes the file a program, Cache
	// lets the agent keep it for others.
	Extract    bool `json:"extract,omitempty"`
	Executable bool `json:"executable,omitempty"`
	Cache      bool `json:"cache,omitempty"`
}

// ResourceLimits are above what a task is sure of: 0 is no more than that, Unlimited
// as much as there is.
type ResourceLimits struct {
	CPUs   float64 `json:"cpus,omitempty"`
	MemMiB float64 `json:"mem_mib,omitempty"`
}

// DockerParameter is an option of docker run without its dashes.
type DockerParameter struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// NetworkMode is one of the three below, or the name of a network of the agents'
// Docker engines.
type NetworkMode string

const (
	// HostNetwork is the agent's own.
	HostNetwork NetworkMode = "host"
	// BridgeNetwork gives the container an address of its own on its agent.
	BridgeNetwork NetworkMode = "bridge"
	// NoNetwork leaves it the loopback.
	NoNetwork NetworkMode = "none"
)

// IsHost reports whether the tasks use their agents' network.
func (n NetworkMode) IsHost() bool { return n == "" || n == HostNetwork }

// Port is one host port of each task.
type Port struct {
	// Name is for health checks and people; it may be empty.
	Name string `json:"name,omitempty"`
	// Container is the port in a container with a network of its own; 0 is
	// the number of the host's.
	Container int `json:"container,omitempty"`
	// Host is the host port's number: the task is placed only where the agent
	// offers that very port. 0 is any port of the offer.
	Host int `json:"host,omitempty"`
	// Protocol is TCP where it is empty.
	Protocol PortProtocol `json:"protocol,omitempty"`
}

// PortProtocol is what a port speaks.
type PortProtocol string

const (
	TCP PortProtocol = "tcp"
	UDP PortProtocol = "udp"
)

// IPCMode is how a task shares memory and semaphores.
type IPCMode string

const (
	// PrivateIPC: with no other task.
	PrivateIPC IPCMode = "private"
	// HostIPC: with its agent, where the agent's operator allows that.
	HostIPC IPCMode = "host"
)

// Ulimit is a resource limit of the container's processes, by the names of
// setrlimit(2) in lower case: "memlock", "nofile". Unlimited is -1.
type Ulimit struct {
	Name string `json:"name"`
	Soft int64  `json:"soft"`
	Hard int64  `json:"hard"`
}

// Unlimited is no limit.
const Unlimited = -1

// Check asks a running task how it is, by exactly one of Command, HTTP and
// TCP.
type Check struct {
	// Command is an argument vector that runs beside the task; it is well
	// where that exits with 0.
	Command []string   `json:"command,omitempty"`
	HTTP    *HTTPCheck `json:"http,omitempty"`
	TCP     *TCPCheck  `json:"tcp,omitempty"`

	// Delay passes before the first try, Interval between two; a try may take
	// Timeout.
	Delay    time.Duration `json:"delay,omitempty"`
	Interval time.Duration `json:"interval,omitempty"`
	Timeout  time.Duration `json:"timeout,omitempty"`
}

// HTTPCheck is well where a GET answers 200 to 399.
type HTTPCheck struct {
	CheckPort
	Path string `json:"path,omitempty"`
	TLS  bool   `json:"tls,omitempty"`
}

// TCPCheck is well where a connection is accepted.
type TCPCheck struct{ CheckPort }

// CheckPort is a port number as the task knows it or, where that is 0, the
// index of one of the job's Ports.
type CheckPort struct {
	Port  int `json:"port,omitempty"`
	Index int `json:"port_index,omitempty"`
}

// HealthCheck is a Check that ends its task.
type HealthCheck struct {
	Check
	// Grace is how long a starting task's failures do not count; Failures is
	// how many in a row end it, and Unlimited is never.
	Grace    time.Duration `json:"grace,omitempty"`
	Failures int           `json:"failures,omitempty"`
}
