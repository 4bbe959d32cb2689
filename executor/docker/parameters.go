package docker

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/go-units"
	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/executor/task"
	"mesos-gpu/job"
)

// parameterSetters has a function for each of job.DockerOptions that sets the
// engine's field. job.DockerParameter has validated the values before.
func (s containerSpec) parameterSetters() map[string]func(value string) error {
	c, h := s.config, s.host
	envs := 0 // the parameters' variables come first: later entries win, and the task's own are last
	return map[string]func(string) error{
		"add-host":          appendTo(&h.ExtraHosts),
		"cap-add":           s.addCapability,
		"cap-drop":          appendTo((*[]string)(&h.CapDrop)),
		"cpuset-cpus":       assignTo(&h.CpusetCpus),
		"dns":               appendTo(&h.DNS),
		"dns-opt":           appendTo(&h.DNSOptions),
		"dns-option":        appendTo(&h.DNSOptions),
		"dns-search":        appendTo(&h.DNSSearch),
		"entrypoint":        func(v string) error { c.Entrypoint = []string{v}; return nil },
		"env":               func(v string) error { c.Env = slices.Insert(c.Env, envs, v); envs++; return nil },
		"group-add":         appendTo(&h.GroupAdd),
		"hostname":          assignTo(&c.Hostname),
		"init":              func(v string) (err error) { h.Init, err = parseBoolean(v); return err },
		"ipc":               s.setIPCMode,
		"label":             s.addLabel,
		"log-driver":        assignTo(&h.LogConfig.Type),
		"log-opt":           s.addLogOption,
		"memory-swap":       parseSizeInto(&h.MemorySwap),
		"memory-swappiness": func(v string) (err error) { h.MemorySwappiness, err = parseInteger(v); return err },
		"network":           s.setNetwork,
		"pids-limit":        func(v string) (err error) { h.PidsLimit, err = parseInteger(v); return err },
		"read-only":         func(v string) error { on, err := parseBoolean(v); h.ReadonlyRootfs = err == nil && *on; return err },
		"shm-size":          parseSizeInto(&h.ShmSize),
		"stop-signal":       assignTo(&c.StopSignal),
		"sysctl":            s.addSysctl,
		"tmpfs":             s.addTmpfs,
		"ulimit":            s.addUlimit,
		"user":              assignTo(&c.User),
		"volume":            s.addVolumeOption,
		"workdir":           assignTo(&c.WorkingDir),
	}
}

// applyParameters applies docker.parameters in order.
func (s containerSpec) applyParameters(_ task.TaskSpec, _ hostInfo, c *mesos.ContainerInfo) error {
	setters := s.parameterSetters()
	for _, one := range c.Docker.Parameters {
		p := job.DockerParameter{Key: one.Key, Value: one.Value}
		if err := p.Validate(); err != nil {
			return fmt.Errorf("docker.parameters: %w", err)
		}
		if err := setters[p.OptionName()](p.Value); err != nil {
			return fmt.Errorf("docker.parameters: %s=%s: %w", p.Key, p.Value, err)
		}
	}
	if l := &s.host.LogConfig; l.Type == "json-file" && l.Config["max-size"] == "" {
		return s.addLogOption("max-size=" + maxEngineLogSize)
	}
	return nil
}

func appendTo(list *[]string) func(string) error {
	return func(v string) error { *list = append(*list, v); return nil }
}

func assignTo(field *string) func(string) error {
	return func(v string) error { *field = v; return nil }
}

func parseSizeInto(field *int64) func(string) error {
	return func(v string) error {
		if v == "-1" {
			*field = -1
			return nil
		}
		n, err := units.RAMInBytes(v)
		*field = n
		return err
	}
}

func parseInteger(v string) (*int64, error) {
	n, err := strconv.ParseInt(v, 10, 64)
	return &n, err
}

func parseBoolean(v string) (*bool, error) {
	b, err := strconv.ParseBool(v)
	return &b, err
}

func (s containerSpec) addCapability(v string) error {
	s.host.CapAdd = append(s.host.CapAdd, job.CapabilityName(v))
	return nil
}

const hostIPCAdvice = "set MESOS_GPU_ALLOW_HOST_IPC=1 for the agent's executors"

// setIPCMode allows the host's IPC namespace only if the operator does: the
// task could read and write the memory segments of all other tasks that use
// it.
func (s containerSpec) setIPCMode(v string) error {
	if v == "host" && !s.hostIPC {
		return fmt.Errorf("the operator does not allow shared memory with the agent: %s, or use private, shareable or none", hostIPCAdvice)
	}
	s.host.IpcMode = container.IpcMode(v)
	return nil
}

// setNetwork sets the network of a parameter or of a NetworkInfo.
func (s containerSpec) setNetwork(v string) error {
	if err := (job.DockerParameter{Key: "network", Value: v}).Validate(); err != nil {
		return err
	}
	s.host.NetworkMode = container.NetworkMode(v)
	return nil
}

func (s containerSpec) addLabel(v string) error {
	name, value, _ := strings.Cut(v, "=")
	s.config.Labels[name] = value
	return nil
}

// maxEngineLogSize bounds the engine's own copy of the output with the driver
// json-file, which is unlimited by default.
const maxEngineLogSize = "100m"

func (s containerSpec) addLogOption(v string) error { return addPair(&s.host.LogConfig.Config, v) }
func (s containerSpec) addSysctl(v string) error    { return addPair(&s.host.Sysctls, v) }

func (s containerSpec) addTmpfs(v string) error {
	target, options, _ := strings.Cut(v, ":")
	if s.host.Tmpfs == nil {
		s.host.Tmpfs = map[string]string{}
	}
	s.host.Tmpfs[target] = options
	return nil
}

func addPair(values *map[string]string, v string) error {
	name, value, _ := strings.Cut(v, "=")
	if *values == nil {
		*values = map[string]string{}
	}
	(*values)[name] = value
	return nil
}

func (s containerSpec) addUlimit(v string) error {
	u, err := units.ParseUlimit(v)
	if err == nil {
		s.host.Ulimits = append(s.host.Ulimits, u)
	}
	return err
}

// addVolumeOption parses docker run's HOST:CONTAINER[:MODE].
func (s containerSpec) addVolumeOption(v string) error {
	source, rest, _ := strings.Cut(v, ":")
	return s.addBind(source, rest)
}
