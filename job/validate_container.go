package job

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
)

// Defaults of checks. The grace is Marathon's: loading a model takes minutes.
const (
	DefaultCheckInterval  = 10 * time.Second
	DefaultCheckTimeout   = 20 * time.Second
	DefaultHealthGrace    = 5 * time.Minute
	DefaultHealthFailures = 3
)

// setDefaults fills in what is absent of the checks. Other fields have no defaults here: what is absent is decided by
// the agent or the image.
func (c *Container) setDefaults() {
	for _, check := range c.allChecks() {
		check.setDefaults()
	}
	for _, h := range c.HealthChecks() {
		if h.Grace == 0 {
			h.Grace = DefaultHealthGrace
		}
		if h.Failures == 0 {
			h.Failures = DefaultHealthFailures
		}
	}
}

func (c *Check) setDefaults() {
	if c.Interval == 0 {
		c.Interval = DefaultCheckInterval
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultCheckTimeout
	}
	if c.HTTP != nil && c.HTTP.Path == "" {
		c.HTTP.Path = "/"
	}
}

// reservedPaths are paths that every container has, or that must not be replaced.
var reservedPaths = []string{"/", "/dev", "/proc", "/sys", sandboxPath, "/usr/local/nvidia"}

// ulimitNames are supported by setrlimit(2), the Docker engine and Mesos alike.
var ulimitNames = []string{
	"core", "cpu", "data", "fsize", "locks", "memlock", "msgqueue", "nice", "nofile", "nproc", "rss", "rtprio", "rttime", "sigpending", "stack",
}

// reservedLabels is the prefix of labels that only the scheduler sets.
const reservedLabels = "mesos-gpu."

// validateContainer checks the keys of the container.
func (s *Spec) validateContainer(bad reportFunc) {
	s.validateVolumes(bad)
	s.validateDevices(bad)
	s.validateNetwork(bad)
	if !(s.ShmMiB >= 0 && s.ShmMiB <= maxMiB) {
		bad(field("shm_size"), "shm_size: %g MiB is not between 0 and %d", s.ShmMiB, maxMiB)
	}
	if s.ShmMiB > s.MemMiB {
		bad(field("shm_size").and("mem"), "shm_size: %g MiB are more than the task's mem of %g MiB, which they count as: raise mem", s.ShmMiB, s.MemMiB)
	}
	if s.IPC != "" && s.IPC != PrivateIPC && s.IPC != HostIPC {
		bad(field("ipc"), "ipc: %q is neither %s nor %s", s.IPC, PrivateIPC, HostIPC)
	}
	if s.IPC == HostIPC && s.ShmMiB > 0 {
		bad(field("shm_size").and("ipc"), "shm_size: ipc: %s shares the agent's /dev/shm, so the job cannot set its size", HostIPC)
	}
	for i, u := range s.Ulimits {
		if err := u.validate(); err != nil {
			bad(field("ulimits", u.Name), "ulimits: %w", err)
		}
		if slices.ContainsFunc(s.Ulimits[:i], func(o Ulimit) bool { return o.Name == u.Name }) {
			bad(field("ulimits", u.Name), "ulimits: %s is given twice", u.Name)
		}
	}
	if len(s.Labels) > maxLabels {
		bad(field("labels"), "labels: %d are more than %d", len(s.Labels), maxLabels)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Labels)) {
		if name == "" || strings.HasPrefix(name, reservedLabels) {
			bad(field("labels", name), "labels: %q is empty or begins with %s, which is reserved for the scheduler", name, reservedLabels)
		}
	}
	if s.HealthCheck == nil && len(s.MoreHealthChecks) > 0 {
		bad(field("health_check"), "more_health_checks: %d, and there is no health_check: set the first one there", len(s.MoreHealthChecks))
	}
	if n := len(s.HealthChecks()); n > MaxHealthChecks {
		bad(field("health_check"), "health_check: %d are more than %d", n, MaxHealthChecks)
	}
	for i, h := range s.HealthChecks() {
		at, key := field("health_check"), "health_check"
		if len(s.MoreHealthChecks) > 0 {
			at, key = field("health_check", i), fmt.Sprintf("health_check: item %d", i+1)
		}
		s.validateHealth(at, key, h, bad)
	}
	if s.Check != nil {
		s.validateCheck(field("check"), "check", s.Check, bad)
		if s.Check.HTTP != nil && s.Check.HTTP.TLS {
			bad(field("check", "http", "tls"), "check: http: tls: Mesos has no words for it: use a health_check, or a command")
		}
	}
	if s.Containerizer == Mesos {
		s.validateMesos(bad)
	}
}

// validateMesos rejects what only the Docker engine supports.
func (s *Spec) validateMesos(bad reportFunc) {
	needs := func(f fieldSet, what string) { bad(f.and("container"), "%s needs container: %s", what, Docker) }
	if s.Network == BridgeNetwork || s.Network == NoNetwork {
		bad(field("network").and("container"), "network: %s needs container: %s; with container: %s name a CNI network of the agents", s.Network, Docker, Mesos)
	}
	if s.IPC != "" {
		needs(field("ipc"), "ipc")
	}
	if len(s.Devices) > 0 {
		needs(field("devices"), "devices")
	}
	for i, v := range s.Volumes {
		if v.IsNamed() {
			needs(field("volumes", i), fmt.Sprintf("volumes: the named volume %s", v.Source))
		}
	}
	if s.Image == "" && (len(s.Volumes) > 0 || s.ShmMiB > 0) {
		bad(field("volumes").and("shm_size", "image"), "volumes and shm_size need an image: without one a task sees its agent's own files and shared memory")
	}
}

// validateVolumes checks the volumes alone and together: targets are unique, and the engine takes one driver.
func (s *Spec) validateVolumes(bad reportFunc) {
	if len(s.Volumes) > maxVolumes {
		bad(field("volumes"), "volumes: %d are more than %d", len(s.Volumes), maxVolumes)
	}
	seen, driver := map[string]bool{}, ""
	for i, v := range s.Volumes {
		if v.Driver != "" && driver != "" && v.Driver != driver {
			bad(field("volumes", i), "volumes: drivers %s and %s: the Docker engine takes one for a container", driver, v.Driver)
		}
		driver = max(driver, v.Driver)
		if err := v.validate(); err != nil {
			bad(field("volumes", i), "volumes: %w", err)
		}
		if seen[v.Target] {
			bad(field("volumes", i), "volumes: two are at %s", v.Target)
		}
		seen[v.Target] = true
	}
}

func (v Volume) validate() error {
	if strings.ContainsAny(v.Source+v.Target, ":\x00") {
		return fmt.Errorf("%q at %q: a colon separates paths: rename it", v.Source, v.Target)
	}
	if !path.IsAbs(v.Target) || path.Clean(v.Target) != v.Target || slices.Contains(reservedPaths, v.Target) {
		return fmt.Errorf("%q is not a path of a container such as /data, or a reserved one", v.Target)
	}
	switch {
	case v.Source == "":
		return fmt.Errorf("%s has no source: write SOURCE:%s", v.Target, v.Target)
	case !v.IsNamed() && path.Clean(v.Source) != v.Source:
		return fmt.Errorf("%q is not a plain absolute path: write %s", v.Source, path.Clean(v.Source))
	case !v.IsNamed() && v.Driver != "":
		return fmt.Errorf("%s is a path of the agent, which takes no driver %s", v.Source, v.Driver)
	case v.IsNamed() && !namePattern.MatchString(v.Source):
		return fmt.Errorf("%q is neither an absolute path of the agent nor a volume's name", v.Source)
	}
	return nil
}

// maxDevices limits Container.Devices.
const maxDevices = 20

// validateDevices checks the paths. Whether a device may be opened is decided by the operators.
func (s *Spec) validateDevices(bad reportFunc) {
	if len(s.Devices) > maxDevices {
		bad(field("devices"), "devices: %d are more than %d", len(s.Devices), maxDevices)
	}
	for i, d := range s.Devices {
		if err := ValidateDevicePath(d); err != nil {
			bad(field("devices", i), "devices: %w", err)
		}
		if slices.Contains(s.Devices[:i], d) {
			bad(field("devices", i), "devices: %s is given twice", d)
		}
	}
}

// gpuDevicePaths are nodes of GPUs, which tasks get by their allocation alone: prefixes of paths.
var gpuDevicePaths = []string{"/dev/nvidia", "/dev/dri"}

// ValidateDevicePath returns an error for a path that no job may have among its devices.
func ValidateDevicePath(name string) error {
	switch {
	case strings.ContainsAny(name, ":\x00") || path.Clean(name) != name || !strings.HasPrefix(name, "/dev/"):
		return fmt.Errorf("%q is not a plain path below /dev, such as /dev/infiniband", name)
	case strings.HasPrefix(name, "/dev/nvidia-fs"): // of GPUDirect Storage, not of a GPU
		return nil
	case slices.ContainsFunc(gpuDevicePaths, func(prefix string) bool { return strings.HasPrefix(name, prefix) }):
		return fmt.Errorf("%s belongs to GPUs, which a task gets by gpus", name)
	}
	return nil
}

// validateNetwork checks the network and the ports. Only the agents know which networks exist.
func (s *Spec) validateNetwork(bad reportFunc) {
	if s.Network != "" && !namePattern.MatchString(string(s.Network)) {
		bad(field("network"), "network: %q is not a network's name", s.Network)
	}
	if len(s.NetworkLabels) > 0 && s.CNINetwork() == "" {
		bad(field("network_labels").and("network", "container"),
			"network_labels: %d, which only the plugins of a CNI network read: set container: %s and name the network",
			len(s.NetworkLabels), Mesos)
	}
	if len(s.NetworkLabels) > maxLabels {
		bad(field("network_labels"), "network_labels: %d are more than %d", len(s.NetworkLabels), maxLabels)
	}
	if _, ok := s.NetworkLabels[""]; ok {
		bad(field("network_labels"), "network_labels: a name is empty")
	}
	if len(s.Ports) > MaxPorts {
		bad(field("ports"), "ports: %d are more than %d", len(s.Ports), MaxPorts)
	}
	seen, hosts := map[string]bool{}, map[int]bool{0: false}
	for _, p := range s.Ports {
		for _, n := range [...]int{p.Container, p.Host, p.Service} {
			if n < 0 || n > maxPort {
				bad(field("ports"), "ports: %d is not between 0 and %d", n, maxPort)
			}
		}
		if hosts[p.Host] {
			bad(field("ports"), "ports: host port %d is given twice: an agent offers a port once, for tcp and udp alike", p.Host)
		}
		hosts[p.Host] = p.Host != 0
		if p.Container != 0 && s.Network.IsHost() {
			bad(field("ports").and("network"), "ports: the container's own port %d needs network: %s, or the name of a network", p.Container, BridgeNetwork)
		}
		if p.Protocol != "" && p.Protocol != TCP && p.Protocol != UDP {
			bad(field("ports"), "ports: %q is neither %s nor %s", p.Protocol, TCP, UDP)
		}
		if p.Name != "" && (seen[p.Name] || !namePattern.MatchString(p.Name)) {
			bad(field("ports"), "ports: the name %q is used twice, or has other than letters, digits, dots, dashes and underscores", p.Name)
		}
		seen[p.Name] = true
	}
	if s.Network == NoNetwork && len(s.Ports) > 0 {
		bad(field("ports").and("network"), "ports: %d, and network: %s reaches none of them", len(s.Ports), NoNetwork)
	}
}

func (u Ulimit) validate() error {
	switch {
	case !slices.Contains(ulimitNames, u.Name):
		return fmt.Errorf("%q is not one of %s", u.Name, strings.Join(ulimitNames, ", "))
	case u.Soft < Unlimited || u.Hard < Unlimited:
		return fmt.Errorf("%s: %d:%d is below 0: unlimited is %d", u.Name, u.Soft, u.Hard, Unlimited)
	case u.Hard != Unlimited && (u.Soft == Unlimited || u.Soft > u.Hard):
		return fmt.Errorf("%s: the soft limit %d is above the hard limit %d", u.Name, u.Soft, u.Hard)
	}
	return nil
}

// validateHealth checks a health check. at is its place in the job file, key its name in messages.
func (s *Spec) validateHealth(at fieldSet, key string, h *HealthCheck, bad reportFunc) {
	s.validateCheck(at, key, &h.Check, bad)
	if h.Grace < 0 || h.Grace > maxTime {
		bad(at.at("grace"), "%s: grace: %s is not between 0 and %s", key, h.Grace, maxTime)
	}
	if h.Failures < Unlimited || h.Failures == 0 || h.Failures > MaxRetries {
		bad(at.at("failures"), "%s: failures: %d is not between 1 and %d, nor %d for never", key, h.Failures, MaxRetries, Unlimited)
	}
}

// validateCheck checks what a check and a health check have in common.
func (s *Spec) validateCheck(at fieldSet, key string, c *Check, bad reportFunc) {
	ways := 0
	for _, way := range []bool{len(c.Command) > 0, c.HTTP != nil, c.TCP != nil} {
		if way {
			ways++
		}
	}
	if ways != 1 {
		bad(at, "%s: has %d of command, http and tcp: name one", key, ways)
	}
	if c.HTTP != nil {
		s.validateCheckPort(at.at("http"), key+": http", c.HTTP.CheckPort, bad)
		if !strings.HasPrefix(c.HTTP.Path, "/") || strings.ContainsFunc(c.HTTP.Path, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
			bad(at.at("http", "path"), "%s: http: path %q does not begin with a slash, or holds a blank", key, c.HTTP.Path)
		}
	}
	if c.TCP != nil {
		s.validateCheckPort(at.at("tcp"), key+": tcp", c.TCP.CheckPort, bad)
	}
	if len(c.Command) > 0 && c.Command[0] == "" {
		bad(at.at("command", 0), "%s: command: its first word, the program, is empty", key)
	}
	for _, d := range []struct {
		name string
		d    time.Duration
		min  time.Duration
	}{{"delay", c.Delay, 0}, {"interval", c.Interval, time.Millisecond}, {"timeout", c.Timeout, time.Millisecond}} {
		if d.d < d.min || d.d > maxTime {
			bad(at.at(d.name), "%s: %s: %s is not between %s and %s", key, d.name, d.d, d.min, maxTime)
		}
	}
}

// allChecks returns the health checks and the check.
func (c *Container) allChecks() []*Check {
	var all []*Check
	for _, h := range c.HealthChecks() {
		all = append(all, &h.Check)
	}
	if c.Check != nil {
		all = append(all, c.Check)
	}
	return all
}

// validateCheckPort checks the port of a check, which is a number or an index of the job's ports.
func (s *Spec) validateCheckPort(at fieldSet, key string, p CheckPort, bad reportFunc) {
	switch {
	case s.Network == NoNetwork:
		bad(at.and("network"), "%s: network: %s has no ports: use command", key, NoNetwork)
	case p.Port < 0 || p.Port > 65535:
		bad(at.at("port"), "%s: port %d is not between 1 and 65535", key, p.Port)
	case p.Port == 0 && (p.Index < 0 || p.Index >= len(s.Ports)):
		bad(at.at("port_index").and("ports"), "%s: port_index %d, and the job has %d ports: name a port, or ask for more", key, p.Index, len(s.Ports))
	}
}
