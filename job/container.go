package job

import (
	"cmp"
	"time"
)

// Container describes how a task's container differs from a plain one. Its fields
// are part of Spec. Validate rejects fields that only the Docker engine supports in
// jobs with the Mesos containerizer.
type Container struct {
	// Volumes are mounted into the container in addition to its sandbox.
	Volumes []Volume `json:"volumes,omitempty"`
	// Entrypoint replaces the image's entrypoint. Command is then its
	// arguments. Only docker tasks have it.
	Entrypoint string `json:"entrypoint,omitempty"`
	// ImageEntrypoint passes Command to the image's own entrypoint as arguments.
	// Docker tasks always do that. In mesos tasks Command otherwise replaces
	// the entrypoint.
	ImageEntrypoint bool `json:"image_entrypoint,omitempty"`
	// User is the user that the task runs as. If it is empty, that is the
	// image's user, or the scheduler's process user if there is no image.
	User string `json:"user,omitempty"`
	// HostUser, if set, is the user of the machine that the container runs as, instead of User. The scheduler sets it for
	// containers of the machine's users that reach resources of the machine.
	HostUser *HostUser `json:"host_user,omitempty"`
	// Fetch lists files that the agent puts into the sandbox before it starts
	// the task.
	Fetch []FetchArtifact `json:"fetch,omitempty"`
	// Limits allow the task to use more than CPUs and MemMiB.
	Limits ResourceLimits `json:"limits,omitzero"`
	// Network is HostNetwork if it is empty. NetworkLabels are passed to the
	// plugins of a CNI network, which is one of a mesos task.
	Network       NetworkMode       `json:"network,omitempty"`
	NetworkLabels map[string]string `json:"network_labels,omitempty"`
	// Ports are the host ports of each task, in the order of PORT0, PORT1, …
	Ports []Port `json:"ports,omitempty"`
	// ForcePull pulls the image again for each attempt.
	ForcePull bool `json:"force_pull,omitempty"`
	// PullSecret is the name of a secret, which the agent stores for the role: a
	// docker config.json with the credentials that pull the image. Only docker tasks
	// have it. The task cannot read it.
	PullSecret string `json:"pull_secret,omitempty"`
	// ShmMiB is the size of /dev/shm. 0 means the size of the task's memory.
	ShmMiB float64 `json:"shm_mib,omitempty"`
	// IPC is PrivateIPC if it is empty.
	IPC     IPCMode  `json:"ipc,omitempty"`
	Ulimits []Ulimit `json:"ulimits,omitempty"`
	// Devices are device nodes of the agent, or folders of them, that the task may open besides its GPUs. Only docker
	// tasks have them, where the operators of the scheduler and of the agent allow it.
	Devices []string `json:"devices,omitempty"`
	// Parameters are options of docker run, for docker tasks. docs/reference/executor.md
	// lists the options that are supported.
	Parameters []DockerParameter `json:"parameters,omitempty"`
	// Labels are shown by the master, the agent and the Docker engine. The
	// scheduler ignores them.
	Labels map[string]string `json:"labels,omitempty"`
	// HealthCheck ends a task that fails it too often, and so does each of
	// MoreHealthChecks. A task is healthy if all of them succeed. Mesos's
	// TaskInfo can hold only the first one. Check only reports its result.
	HealthCheck      *HealthCheck  `json:"health_check,omitempty"`
	MoreHealthChecks []HealthCheck `json:"more_health_checks,omitempty"`
	Check            *Check        `json:"check,omitempty"`
}

// HostUser is a user of a machine, by numbers: in a container, names are those of the image.
type HostUser struct {
	UID int `json:"uid"`
	GID int `json:"gid"`
	// Groups are the user's supplementary groups.
	Groups []int `json:"groups,omitempty"`
}

// HealthChecks returns all health checks, HealthCheck first.
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

// Volume is a directory or file of the agent, or a named volume of its Docker engine,
// that is mounted into the container.
type Volume struct {
	// Source is an absolute path of the agent, or the name of a volume.
	Source string `json:"source"`
	// Target is the absolute path inside the container.
	Target   string `json:"target"`
	ReadOnly bool   `json:"read_only,omitempty"`
	// Driver is the Docker volume driver of a named volume. Empty means the
	// engine's default.
	Driver string `json:"driver,omitempty"`
}

// IsNamed reports whether the volume belongs to the Docker engine and is not a path
// of the agent.
func (v Volume) IsNamed() bool { return v.Source == "" || v.Source[0] != '/' }

// FetchArtifact is a file that the agent's fetcher puts into the sandbox.
type FetchArtifact struct {
	// URI is the source for the agent's fetcher: an absolute path of the agent, or a URI of one of fetchSchemes.
	URI string `json:"uri"`
	// Path is its name in the sandbox. Empty means the last part of the URI.
	Path string `json:"path,omitempty"`
	// Extract unpacks an archive. Executable makes the file executable. Cache
	// lets the agent keep the file for other tasks.
	Extract    bool `json:"extract,omitempty"`
	Executable bool `json:"executable,omitempty"`
	Cache      bool `json:"cache,omitempty"`
}

// ResourceLimits are how much a task may use. 0 means no more than its request,
// Unlimited for as much as the agent has.
type ResourceLimits struct {
	// CPUs bounds CPU time by the quota of the cgroup; MemMiB is where the kernel ends the task.
	CPUs   float64 `json:"cpus,omitempty"`
	MemMiB float64 `json:"mem_mib,omitempty"`
}

// DockerParameter is an option of docker run, without its dashes.
type DockerParameter struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// NetworkMode is one of the constants below, or the name of a network: one of the
// agents' Docker engines for docker tasks, a CNI network of the agents for mesos tasks.
type NetworkMode string

const (
	// HostNetwork is the network of the agent.
	HostNetwork NetworkMode = "host"
	// BridgeNetwork gives the container an address that only its agent can reach.
	// It and NoNetwork are networks of the Docker engine.
	BridgeNetwork NetworkMode = "bridge"
	// NoNetwork leaves the container only its loopback interface.
	NoNetwork NetworkMode = "none"
)

// IsHost reports whether the tasks use the network of their agents.
func (n NetworkMode) IsHost() bool { return n == "" || n == HostNetwork }

// CNINetwork returns the CNI network that the tasks join, or "" for none.
func (s *Spec) CNINetwork() string {
	if s.Containerizer != Mesos || s.Network.IsHost() {
		return ""
	}
	return string(s.Network)
}

// Port is one host port of each task.
type Port struct {
	// Name is used by health checks and shown to users. It may be empty.
	Name string `json:"name,omitempty"`
	// Container is the port inside a container with a network of its own. 0
	// means the number of the host port.
	Container int `json:"container,omitempty"`
	// Host is the number of the host port. The task is placed only on an agent
	// that offers this port. 0 means any offered port.
	Host int `json:"host,omitempty"`
	// Service is the number by which clients know the port, if it is neither
	// Container nor Host. It names the variable PORT_<number>.
	Service int `json:"service,omitempty"`
	// Protocol is TCP if it is empty.
	Protocol PortProtocol `json:"protocol,omitempty"`
}

// Number returns the number that names the port's variable PORT_<number>, or 0: that of the
// container, which the program knows, or else the service's or the required host port.
func (p Port) Number() int { return cmp.Or(p.Container, p.Service, p.Host) }

// PortProtocol is the transport protocol of a port.
type PortProtocol string

const (
	TCP PortProtocol = "tcp"
	UDP PortProtocol = "udp"
)

// IPCMode is with whom a task shares memory and semaphores.
type IPCMode string

const (
	// PrivateIPC shares with no other task.
	PrivateIPC IPCMode = "private"
	// HostIPC shares with the agent, if the agent's operator allows it.
	HostIPC IPCMode = "host"
)

// Ulimit is a resource limit of the container's processes, named as in setrlimit(2)
// in lower case: "memlock", "nofile". Unlimited means no limit.
type Ulimit struct {
	// Soft applies until a process raises it, at most to Hard.
	Name string `json:"name"`
	Soft int64  `json:"soft"`
	Hard int64  `json:"hard"`
}

// Unlimited means no limit.
const Unlimited = -1

// Check determines the state of a running task by exactly one of Command, HTTP and TCP.
type Check struct {
	// Command is an argument vector that runs in the task's container. The
	// check succeeds if it exits with 0.
	Command []string   `json:"command,omitempty"`
	HTTP    *HTTPCheck `json:"http,omitempty"`
	TCP     *TCPCheck  `json:"tcp,omitempty"`

	// Delay is the wait before the first attempt and Interval the wait between
	// two attempts. An attempt fails after Timeout.
	Delay    time.Duration `json:"delay,omitempty"`
	Interval time.Duration `json:"interval,omitempty"`
	Timeout  time.Duration `json:"timeout,omitempty"`
}

// HTTPCheck succeeds if a GET answers with a status of 200 to 399.
type HTTPCheck struct {
	CheckPort
	Path string `json:"path,omitempty"`
	TLS  bool   `json:"tls,omitempty"`
}

// TCPCheck succeeds if the task accepts a connection.
type TCPCheck struct{ CheckPort }

// CheckPort is a port number inside the container or, if that is 0, an index into
// the job's Ports.
type CheckPort struct {
	Port  int `json:"port,omitempty"`
	Index int `json:"port_index,omitempty"`
}

// HealthCheck is a Check that ends the task if it fails too often.
type HealthCheck struct {
	Check
	// Grace is how long after a task's start failures do not count. Failures is
	// how many failures in a row end the task. With Unlimited none do.
	Grace    time.Duration `json:"grace,omitempty"`
	Failures int           `json:"failures,omitempty"`
}
