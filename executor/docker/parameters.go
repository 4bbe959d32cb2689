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

// setters put the value of each of job.Options where the engine looks for it.
// The values are ones that job.Parameter has found valid.
func (s spec) setters() map[string]func(value string) error {
	c, h := s.config, s.host
	envs := 0 // of the parameters: the last of a name wins, and the task's own above them
	return map[string]func(string) error{
		"add-host":          add(&h.ExtraHosts),
		"cap-add":           s.capability,
		"cap-drop":          add((*[]string)(&h.CapDrop)),
		"cpuset-cpus":       set(&h.CpusetCpus),
		"dns":               add(&h.DNS),
		"dns-opt":           add(&h.DNSOptions),
		"dns-option":        add(&h.DNSOptions),
		"dns-search":        add(&h.DNSSearch),
		"entrypoint":        func(v string) error { c.Entrypoint = []string{v}; return nil },
		"env":               func(v string) error { c.Env = slices.Insert(c.Env, envs, v); envs++; return nil },
		"group-add":         add(&h.GroupAdd),
		"hostname":          set(&c.Hostname),
		"init":              func(v string) (err error) { h.Init, err = boolean(v); return err },
		"ipc":               s.ipc,
		"label":             s.label,
		"log-driver":        set(&h.LogConfig.Type),
		"log-opt":           s.logOption,
		"memory-swap":       size(&h.MemorySwap),
		"memory-swappiness": func(v string) (err error) { h.MemorySwappiness, err = integer(v); return err },
		"network":           s.net,
		"pids-limit":        func(v string) (err error) { h.PidsLimit, err = integer(v); return err },
		"read-only":         func(v string) error { on, err := boolean(v); h.ReadonlyRootfs = err == nil && *on; return err },
		"shm-size":          size(&h.ShmSize),
		"stop-signal":       set(&c.StopSignal),
		"sysctl":            s.sysctl,
		"tmpfs":             s.tmpfs,
		"ulimit":            s.ulimit,
		"user":              set(&c.User),
		"volume":            s.volumeOption,
		"workdir":           set(&c.WorkingDir),
	}
}

// parameters serves docker.parameters, in order.
func (s spec) parameters(_ task.Task, _ facts, c *mesos.ContainerInfo) error {
	setters := s.setters()
	for _, one := range c.Docker.Parameters {
		p := job.Parameter{Key: one.Key, Value: one.Value}
		if err := p.Validate(); err != nil {
			return fmt.Errorf("docker.parameters: %w", err)
		}
		if err := setters[p.Option()](p.Value); err != nil {
			return fmt.Errorf("docker.parameters: %s=%s: %w", p.Key, p.Value, err)
		}
	}
	if l := &s.host.LogConfig; l.Type == "json-file" && l.Config["max-size"] == "" {
		return s.logOption("max-size=" + maxEngineLog)
	}
	return nil
}

func add(list *[]string) func(string) error {
	return func(v string) error { *list = append(*list, v); return nil }
}

func set(field *string) func(string) error {
	return func(v string) error { *field = v; return nil }
}

func size(field *int64) func(string) error {
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

func integer(v string) (*int64, error) {
	n, err := strconv.ParseInt(v, 10, 64)
	return &n, err
}

func boolean(v string) (*bool, error) {
	b, err := strconv.ParseBool(v)
	return &b, err
}

func (s spec) capability(v string) error {
	s.host.CapAdd = append(s.host.CapAdd, job.Capability(v))
	return nil
}

const allowHostIPC = "set MESOS_GPU_ALLOW_HOST_IPC=1 for the agent's executors"

// ipc lets a task share its agent's memory segments where the operator has
// said so: it could read and write those of any task that does.
func (s spec) ipc(v string) error {
	if v == "host" && !s.hostIPC {
		return fmt.Errorf("sharing memory with the agent is the operator's to allow: %s, or use private, shareable or none", allowHostIPC)
	}
	s.host.IpcMode = container.IpcMode(v)
	return nil
}

// net chooses a network, by a parameter or by a NetworkInfo's name.
func (s spec) net(v string) error {
	if err := (job.Parameter{Key: "network", Value: v}).Validate(); err != nil {
		return err
	}
	s.host.NetworkMode = container.NetworkMode(v)
	return nil
}

func (s spec) label(v string) error {
	name, value, _ := strings.Cut(v, "=")
	s.config.Labels[name] = value
	return nil
}

// maxEngineLog bounds the copy of a task's output that the engine's driver
// json-file keeps, without an end unless told otherwise.
const maxEngineLog = "100m"

func (s spec) logOption(v string) error { return pair(&s.host.LogConfig.Config, v) }
func (s spec) sysctl(v string) error    { return pair(&s.host.Sysctls, v) }

func (s spec) tmpfs(v string) error {
	target, options, _ := strings.Cut(v, ":")
	if s.host.Tmpfs == nil {
		s.host.Tmpfs = map[string]string{}
	}
	s.host.Tmpfs[target] = options
	return nil
}

func pair(values *map[string]string, v string) error {
	name, value, _ := strings.Cut(v, "=")
	if *values == nil {
		*values = map[string]string{}
	}
	(*values)[name] = value
	return nil
}

func (s spec) ulimit(v string) error {
	u, err := units.ParseUlimit(v)
	if err == nil {
		s.host.Ulimits = append(s.host.Ulimits, u)
	}
	return err
}

// volumeOption is docker run's HOST:CONTAINER[:MODE].
func (s spec) volumeOption(v string) error {
	source, rest, _ := strings.Cut(v, ":")
	return s.bind(source, rest)
}
