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

// optionValidator returns an error for a value of an option that no agent accepts.
type optionValidator func(value string) error

// optionValidators are the options of docker run that Parameters may contain, which
// the executor passes on. Other options open devices (privileged, device,
// device-cgroup-rule, gpus, runtime, security-opt, cgroup-parent, pid), are decided
// by the task's resources (memory, cpus) or by the executor (name, restart, rm,
// publish), or have not been requested.
func optionValidators() map[string]optionValidator {
	return map[string]optionValidator{
		"add-host": acceptAny, "cap-add": checkCapability, "cap-drop": acceptAny, "cpuset-cpus": acceptAny,
		"dns": acceptAny, "dns-opt": acceptAny, "dns-option": acceptAny, "dns-search": acceptAny,
		"entrypoint": acceptAny, "env": acceptAny, "group-add": acceptAny, "hostname": acceptAny,
		"init": checkBoolean, "ipc": checkIPCMode, "label": checkLabel, "log-driver": checkLogDriver, "log-opt": checkPair,
		"memory-swap": checkBytes, "memory-swappiness": checkInteger, "network": checkNetwork, "pids-limit": checkInteger,
		"read-only": checkBoolean, "shm-size": checkBytes, "stop-signal": acceptAny, "sysctl": checkPair, "tmpfs": acceptAny,
		"ulimit": checkUlimit, "user": acceptAny, "volume": checkBind, "workdir": acceptAny,
	}
}

// DockerOptions returns the names of the supported options of docker run, sorted.
func DockerOptions() []string { return slices.Sorted(maps.Keys(optionValidators())) }

// OptionName returns the long name of the parameter's option.
func (p DockerParameter) OptionName() string {
	if long := map[string]string{"net": "network", "e": "env", "h": "hostname", "l": "label", "u": "user", "v": "volume", "w": "workdir"}[p.Key]; long != "" {
		return long
	}
	return p.Key
}

// Validate returns an error if no agent's executor supports the parameter. An agent's
// operator may forbid more parameters, such as ipc=host.
func (p DockerParameter) Validate() error {
	if p.Key == "" || strings.HasPrefix(p.Key, "-") {
		return fmt.Errorf("%q is not an option of docker run without its dashes", p.Key)
	}
	check := optionValidators()[p.OptionName()]
	if check == nil {
		return fmt.Errorf("%q is not served: served are %s", p.Key, strings.Join(DockerOptions(), ", "))
	}
	if err := check(p.Value); err != nil {
		return fmt.Errorf("%q: %w", p.Key+"="+p.Value, err)
	}
	return nil
}

func acceptAny(string) error { return nil }

func checkBoolean(v string) error {
	if _, err := strconv.ParseBool(v); err != nil {
		return errors.New("it is neither true nor false")
	}
	return nil
}

func checkInteger(v string) error {
	if _, err := strconv.ParseInt(v, 10, 64); err != nil {
		return errors.New("it is not a whole number")
	}
	return nil
}

func checkBytes(v string) error {
	if v == "-1" {
		return nil
	}
	_, err := units.RAMInBytes(v)
	return err
}

func checkUlimit(v string) error {
	_, err := units.ParseUlimit(v)
	return err
}

// safeCapabilities do not give access to the devices of other tasks. With SYS_ADMIN,
// for example, a process could change its own devices cgroup.
var safeCapabilities = []string{"IPC_LOCK", "NET_ADMIN", "NET_RAW", "SYS_NICE", "SYS_PTRACE", "SYS_RESOURCE"}

// CapabilityName returns the name of a capability as the Docker engine expects it.
func CapabilityName(v string) string { return strings.TrimPrefix(strings.ToUpper(v), "CAP_") }

func checkCapability(v string) error {
	if !slices.Contains(safeCapabilities, CapabilityName(v)) {
		return fmt.Errorf("this capability may open every GPU of the agent: served are %s", strings.Join(safeCapabilities, ", "))
	}
	return nil
}

func checkIPCMode(v string) error {
	if !slices.Contains([]string{"host", "private", "shareable", "none"}, v) {
		return errors.New("served are private, shareable, none and, where the operator allows it, host")
	}
	return nil
}

func checkNetwork(v string) error {
	if strings.HasPrefix(v, "container:") {
		return errors.New("another container's network is not served")
	}
	return nil
}

func checkLabel(v string) error {
	if strings.HasPrefix(v, reservedLabels) {
		return errors.New("labels of that prefix are the executor's own")
	}
	return nil
}

// checkLogDriver requires a name. An empty one means the engine's default, which
// may keep logs without a bound.
func checkLogDriver(v string) error {
	if v == "" {
		return errors.New("it names no driver")
	}
	return nil
}

func checkPair(v string) error {
	if !strings.Contains(v, "=") {
		return errors.New("it reads NAME=VALUE")
	}
	return nil
}

// checkBind accepts HOST:CONTAINER[:MODE], as docker run does.
func checkBind(v string) error {
	source, _, ok := strings.Cut(v, ":")
	if !ok || source == "" || strings.Contains(source, "/") && source[0] != '/' {
		return errors.New("it reads HOST:CONTAINER[:MODE], with absolute paths")
	}
	return nil
}
