package job

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/docker/go-units"
)

// checkOption says what is wrong with an option's value, as far as that does
// not depend on the agent.
type checkOption func(value string) error

// options are those of docker run that parameters may name; the executor serves
// them. What is not here either opens devices (privileged, device,
// device-cgroup-rule, gpus, runtime, security-opt, cgroup-parent, pid), is
// decided by the task's resources (memory, cpus) or by the executor (name,
// restart, rm, publish), or nobody has asked for.
func options() map[string]checkOption {
	return map[string]checkOption{
		"add-host": anything, "cap-add": capability, "cap-drop": anything, "cpuset-cpus": anything,
		"dns": anything, "dns-opt": anything, "dns-option": anything, "dns-search": anything,
		"entrypoint": anything, "env": anything, "group-add": anything, "hostname": anything,
		"init": boolean, "ipc": ipcMode, "label": label, "log-driver": logDriver, "log-opt": pair,
		"memory-swap": bytesOf, "memory-swappiness": integer, "network": network, "pids-limit": integer,
		"read-only": boolean, "shm-size": bytesOf, "stop-signal": anything, "sysctl": pair, "tmpfs": anything,
		"ulimit": ulimit, "user": anything, "volume": bind, "workdir": anything,
	}
}

// Options are the names of the options of docker run that are served, sorted.
func Options() []string { return slices.Sorted(maps.Keys(options())) }

// Option is the full name of a parameter's option: docker run has short ones.
func (p Parameter) Option() string {
	if long := map[string]string{"net": "network", "e": "env", "h": "hostname", "l": "label", "u": "user", "v": "volume", "w": "workdir"}[p.Key]; long != "" {
		return long
	}
	return p.Key
}

// Validate says why no agent's executor would serve the parameter. One that it
// accepts may still be refused where the agent's operator does not allow it,
// as ipc=host.
func (p Parameter) Validate() error {
	if p.Key == "" || strings.HasPrefix(p.Key, "-") {
		return fmt.Errorf("%q is no option of docker run without its dashes", p.Key)
	}
	check := options()[p.Option()]
	if check == nil {
		return fmt.Errorf("%q is not served: served are %s", p.Key, strings.Join(Options(), ", "))
	}
	if err := check(p.Value); err != nil {
		return fmt.Errorf("%q: %w", p.Key+"="+p.Value, err)
	}
	return nil
}

func anything(string) error { return nil }

func boolean(v string) error {
	if _, err := strconv.ParseBool(v); err != nil {
		return errors.New("it is neither true nor false")
	}
	return nil
}

func integer(v string) error {
	if _, err := strconv.ParseInt(v, 10, 64); err != nil {
		return errors.New("it is not a whole number")
	}
	return nil
}

func bytesOf(v string) error {
	if v == "-1" {
		return nil
	}
	_, err := units.RAMInBytes(v)
	return err
}

func ulimit(v string) error {
	_, err := units.ParseUlimit(v)
	return err
}

// harmless are the capabilities that give no way to the devices of others:
// with SYS_ADMIN a process could write its own devices cgroup.
var harmless = []string{"IPC_LOCK", "NET_ADMIN", "NET_RAW", "SYS_NICE", "SYS_PTRACE", "SYS_RESOURCE"}

// Capability is the name of a capability as the engine takes it.
func Capability(v string) string { return strings.TrimPrefix(strings.ToUpper(v), "CAP_") }

func capability(v string) error {
	if !slices.Contains(harmless, Capability(v)) {
		return fmt.Errorf("this capability may open every GPU of the agent: served are %s", strings.Join(harmless, ", "))
	}
	return nil
}

func ipcMode(v string) error {
	if !slices.Contains([]string{"host", "private", "shareable", "none"}, v) {
		return errors.New("served are private, shareable, none and, where the operator allows it, host")
	}
	return nil
}

func network(v string) error {
	if strings.HasPrefix(v, "container:") {
		return errors.New("another container's network is not served")
	}
	return nil
}

func label(v string) error {
	if strings.HasPrefix(v, reservedLabels) {
		return errors.New("labels of that prefix are the executor's own")
	}
	return nil
}

// logDriver takes a driver by its name: the engine's default, which an empty
// one means, may be one without an end.
func logDriver(v string) error {
	if v == "" {
		return errors.New("it names no driver")
	}
	return nil
}

func pair(v string) error {
	if !strings.Contains(v, "=") {
		return errors.New("it reads NAME=VALUE")
	}
	return nil
}

// bind is docker run's HOST:CONTAINER[:MODE].
func bind(v string) error {
	source, _, ok := strings.Cut(v, ":")
	if !ok || source == "" || strings.Contains(source, "/") && source[0] != '/' {
		return errors.New("it reads HOST:CONTAINER[:MODE], with absolute paths")
	}
	return nil
}
