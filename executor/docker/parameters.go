package docker

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/go-units"
	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/executor/task"
)

// served are the options of docker run that docker.parameters may name. What
// is not here either opens devices (privileged, device, device-cgroup-rule,
// gpus, runtime, security-opt, cgroup-parent, pid), is decided by
// the task's resources (memory, cpus) or by this executor (name, restart, rm,
// publish), or nobody has asked for.
func (s spec) served() map[string]func(value string) error {
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
		"log-driver":        s.logDriver,
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

// short are docker run's other names.
func long(name string) string {
	if l := map[string]string{"net": "network", "e": "env", "h": "hostname", "l": "label", "u": "user", "v": "volume", "w": "workdir"}[name]; l != "" {
		return l
	}
	return name
}

// parameters serves docker.parameters, in order.
func (s spec) parameters(_ task.Task, _ facts, c *mesos.ContainerInfo) error {
	served := s.served()
	for _, p := range c.Docker.Parameters {
		option := served[long(p.Key)]
		if option == nil {
			return fmt.Errorf("docker.parameters has %s, which is not served: served are %s", p.Key, strings.Join(slices.Sorted(maps.Keys(served)), ", "))
		}
		if err := option(p.Value); err != nil {
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

// harmless are the capabilities that give no way to the devices of others:
// with SYS_ADMIN a process could write its own devices cgroup.
var harmless = []string{"IPC_LOCK", "NET_ADMIN", "NET_RAW", "SYS_NICE", "SYS_PTRACE", "SYS_RESOURCE"}

func (s spec) capability(v string) error {
	name := strings.TrimPrefix(strings.ToUpper(v), "CAP_")
	if !slices.Contains(harmless, name) {
		return fmt.Errorf("this capability may open every GPU of the agent: served are %s", strings.Join(harmless, ", "))
	}
	s.host.CapAdd = append(s.host.CapAdd, name)
	return nil
}

const allowHostIPC = "set MESOS_GPU_ALLOW_HOST_IPC=1 for the agent's executors"

// ipc lets a task share its agent's memory segments where the operator has
// said so: it could read and write those of any task that does.
func (s spec) ipc(v string) error {
	switch {
	case v == "host" && !s.hostIPC:
		return fmt.Errorf("sharing memory with the agent is the operator's to allow: %s, or use private, shareable or none", allowHostIPC)
	case v != "host" && v != "private" && v != "shareable" && v != "none":
		return fmt.Errorf("served are private, shareable, none and, where the operator allows it, host")
	}
	s.host.IpcMode = container.IpcMode(v)
	return nil
}

// net chooses a network. Another container's is not for the asking.
func (s spec) net(v string) error {
	if strings.HasPrefix(v, "container:") {
		return fmt.Errorf("another container's network is not served")
	}
	s.host.NetworkMode = container.NetworkMode(v)
	return nil
}

func (s spec) label(v string) error {
	name, value, _ := strings.Cut(v, "=")
	if strings.HasPrefix(name, "mesos-gpu.") {
		return fmt.Errorf("labels of that prefix are the executor's own")
	}
	s.config.Labels[name] = value
	return nil
}

// maxEngineLog bounds the copy of a task's output that the engine's driver
// json-file keeps, without an end unless told otherwise.
const maxEngineLog = "100m"

// logDriver takes a driver by its name: the engine's default, which an empty
// one means, may be one without an end.
func (s spec) logDriver(v string) error {
	if v == "" {
		return fmt.Errorf("it names no driver")
	}
	s.host.LogConfig.Type = v
	return nil
}

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
	name, value, ok := strings.Cut(v, "=")
	if !ok {
		return fmt.Errorf("it reads NAME=VALUE")
	}
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
	source, rest, ok := strings.Cut(v, ":")
	if !ok || source == "" || strings.Contains(source, "/") && !path.IsAbs(source) {
		return fmt.Errorf("it reads HOST:CONTAINER[:MODE], with absolute paths")
	}
	return s.bind(source, rest)
}
