package marathon

// App is an app definition in the form of Marathon's answers: ParseApp has filled in
// defaults and converted old forms. A nil pointer or slice is a field that the
// definition does not set and that has no default.
//
// The deprecated fields are read. ParseApp leaves them empty.
type App struct {
	// ID is absolute: /group/name.
	ID                    string             `json:"id"`
	Cmd                   string             `json:"cmd,omitempty"`
	Args                  []string           `json:"args,omitempty"`
	User                  string             `json:"user,omitempty"`
	Env                   map[string]EnvVar  `json:"env,omitempty"`
	Instances             int                `json:"instances"`
	CPUs                  float64            `json:"cpus"`
	MemMiB                float64            `json:"mem"`
	DiskMiB               float64            `json:"disk"`
	GPUs                  int                `json:"gpus"`
	ResourceLimits        *ResourceLimits    `json:"resourceLimits,omitempty"`
	Executor              string             `json:"executor"`
	ExecutorResources     *ExecutorResources `json:"executorResources,omitempty"`
	Role                  string             `json:"role,omitempty"`
	AcceptedResourceRoles []string           `json:"acceptedResourceRoles,omitempty"`
	// Constraints are [field, operator] or [field, operator, value], with the
	// operator in capitals.
	Constraints  [][]string        `json:"constraints,omitempty"`
	Labels       map[string]string `json:"labels"`
	Dependencies []string          `json:"dependencies,omitempty"`
	Fetch        []Artifact        `json:"fetch,omitempty"`
	Container    *Container        `json:"container,omitempty"`
	Networks     []Network         `json:"networks"`
	// PortDefinitions are nil unless the app uses the host's network.
	PortDefinitions []PortDefinition `json:"portDefinitions,omitzero"`
	RequirePorts    bool             `json:"requirePorts"`

	HealthChecks    []HealthCheck    `json:"healthChecks,omitempty"`
	ReadinessChecks []ReadinessCheck `json:"readinessChecks,omitempty"`
	Check           *Check           `json:"check,omitempty"`

	BackoffSeconds             int                  `json:"backoffSeconds"`
	BackoffFactor              float64              `json:"backoffFactor"`
	MaxLaunchDelaySeconds      int                  `json:"maxLaunchDelaySeconds"`
	TaskKillGracePeriodSeconds *int                 `json:"taskKillGracePeriodSeconds,omitempty"`
	KillSelection              string               `json:"killSelection"`
	UnreachableStrategy        *UnreachableStrategy `json:"unreachableStrategy,omitempty"`
	UpgradeStrategy            *UpgradeStrategy     `json:"upgradeStrategy,omitempty"`

	Secrets   map[string]Secret `json:"secrets,omitempty"`
	Residency *Residency        `json:"residency,omitempty"`
	TTY       *bool             `json:"tty,omitempty"`
	// Version and VersionInfo are set by the scheduler, in RFC 3339.
	Version     string       `json:"version,omitempty"`
	VersionInfo *VersionInfo `json:"versionInfo,omitempty"`

	URIs      []string   `json:"uris,omitzero"`
	Ports     []int      `json:"ports,omitzero"`
	IPAddress *IPAddress `json:"ipAddress,omitempty"`
}

// ExecutorResources contains the resources of an executor itself.
type ExecutorResources struct {
	CPUs    float64 `json:"cpus"`
	MemMiB  float64 `json:"mem"`
	DiskMiB float64 `json:"disk"`
}

// Artifact is a file that the agent fetches into the sandbox.
type Artifact struct {
	URI        string `json:"uri"`
	Extract    bool   `json:"extract"`
	Executable bool   `json:"executable"`
	Cache      bool   `json:"cache"`
	DestPath   string `json:"destPath,omitempty"`
}

// UpgradeStrategy bounds a rolling update by fractions of the instances.
type UpgradeStrategy struct {
	MaximumOverCapacity   float64 `json:"maximumOverCapacity"`
	MinimumHealthCapacity float64 `json:"minimumHealthCapacity"`
}

// Residency is deprecated and has no effect in Marathon either.
type Residency struct {
	RelaunchEscalationTimeoutSeconds int64  `json:"relaunchEscalationTimeoutSeconds"`
	TaskLostBehavior                 string `json:"taskLostBehavior"`
}

// Secret names where a secret store keeps a secret.
type Secret struct {
	Source string `json:"source"`
}

// VersionInfo is when the app last changed, in RFC 3339.
type VersionInfo struct {
	LastScalingAt      string `json:"lastScalingAt"`
	LastConfigChangeAt string `json:"lastConfigChangeAt"`
}

// IsSingleInstance reports whether the app may never have two instances at the same
// time. Marathon expresses that by a label.
func (a *App) IsSingleInstance() bool { return a.Labels["MARATHON_SINGLE_INSTANCE_APP"] == "true" }
