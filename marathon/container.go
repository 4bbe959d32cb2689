package marathon

// Container types.
const (
	DockerType = "DOCKER"
	MesosType  = "MESOS"
)

// Container is the container of a task.
type Container struct {
	// Type is DockerType or MesosType.
	Type      string      `json:"type"`
	Docker    *DockerInfo `json:"docker,omitempty"`
	LinuxInfo *LinuxInfo  `json:"linuxInfo,omitempty"`
	Volumes   []Volume    `json:"volumes"`
	// PortMappings are nil in the host's network.
	PortMappings []PortMapping `json:"portMappings,omitzero"`
}

// DockerInfo is an image and its options, for either containerizer.
type DockerInfo struct {
	Image          string      `json:"image"`
	ForcePullImage bool        `json:"forcePullImage"`
	Privileged     bool        `json:"privileged"`
	Parameters     []Parameter `json:"parameters"`
	PullConfig     *PullConfig `json:"pullConfig,omitempty"`

	// Network, PortMappings and Credential are old forms: see App.
	Network      string        `json:"network,omitempty"`
	PortMappings []PortMapping `json:"portMappings,omitzero"`
	Credential   *Credential   `json:"credential,omitempty"`
}

// Parameter is an option of docker run.
type Parameter struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// PullConfig names the secret with a docker config.json, whose credentials pull the image.
type PullConfig struct {
	Secret string `json:"secret"`
}

// Credential is the old form of PullConfig, before Marathon 1.5.
type Credential struct {
	Principal string `json:"principal"`
	Secret    string `json:"secret,omitempty"`
}

// LinuxInfo has options of Mesos containers.
type LinuxInfo struct {
	Seccomp *SeccompProfile `json:"seccomp,omitempty"`
	IPCInfo *IPCInfo        `json:"ipcInfo,omitempty"`
}

// SeccompProfile names a profile on the agent.
type SeccompProfile struct {
	ProfileName string `json:"profileName,omitempty"`
	Unconfined  bool   `json:"unconfined"`
}

// IPCInfo describes a container's shared memory.
type IPCInfo struct {
	Mode       string `json:"mode"`
	ShmSizeMiB *int   `json:"shmSize,omitempty"`
}

// Volume is one of four kinds: a path of the host, a volume of a volume driver, a
// persistent volume, or a secret.
type Volume struct {
	ContainerPath string `json:"containerPath"`
	// Mode is RO or RW.
	Mode       string            `json:"mode,omitempty"`
	HostPath   string            `json:"hostPath,omitempty"`
	External   *ExternalVolume   `json:"external,omitempty"`
	Persistent *PersistentVolume `json:"persistent,omitempty"`
	Secret     string            `json:"secret,omitempty"`
}

// ExternalVolume is a volume of a volume driver. The options of provider dvdi are texts.
// Those of csi, which is not supported, may be objects.
type ExternalVolume struct {
	Name     string         `json:"name,omitempty"`
	Provider string         `json:"provider,omitempty"`
	SizeGiB  *int64         `json:"size,omitempty"`
	Options  map[string]any `json:"options,omitempty"`
	Shared   bool           `json:"shared"`
}

// PersistentVolume is disk that Mesos reserves for the app on one agent.
type PersistentVolume struct {
	Type        string     `json:"type,omitempty"`
	SizeMiB     int64      `json:"size"`
	MaxSizeMiB  *int64     `json:"maxSize,omitempty"`
	ProfileName string     `json:"profileName,omitempty"`
	Constraints [][]string `json:"constraints"`
}
