package job

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"mesos-gpu/gpu"
)

// Defaults and bounds of a Spec.
const (
	DefaultCPUs      = 1
	DefaultMemMiB    = 256
	DefaultKillGrace = 5 * time.Second
	// MaxTasks bounds the tasks of one job.
	MaxTasks = 10_000
	// MaxRetries bounds the retries of one task.
	MaxRetries = 1000
	// MaxGPUs bounds the GPUs of one task.
	MaxGPUs = 1024
	// MaxPriority bounds the priority in both directions.
	MaxPriority = 1_000_000
	// MaxPorts bounds the ports of one task.
	MaxPorts = 100
	// MaxHealthChecks bounds the health checks of one task.
	MaxHealthChecks = 20
	maxPort         = 65535
)

// Bounds above which a value is a mistake: no machine has more, and Mesos or the kernel
// would reject it later with a less helpful message.
const (
	maxCPUs      = 4096
	maxMiB       = 1 << 30 // a PiB
	maxKillGrace = 24 * time.Hour
	maxTime      = 366 * 24 * time.Hour
	maxVolumes   = 100
	maxLabels    = 100
	maxGroup     = 255
	// maxConstraints bounds the work of matching one agent.
	maxConstraints = 50
	// maxTextBytes is the kernel's limit for one argument or variable.
	// maxTotalTextBytes bounds the sum of a task: one ACCEPT carries it for each
	// task.
	maxTextBytes      = 128<<10 - 1
	maxTotalTextBytes = 256 << 10
)

// Complete fills in defaults and validates the result. A Spec is completed once, where
// it is parsed or created. Code that receives a Spec relies on that.
func (s *Spec) Complete() error {
	s.SetDefaults()
	return s.Validate()
}

// SetDefaults fills in what is absent.
func (s *Spec) SetDefaults() {
	if s.Tasks == 0 && s.Matrix != nil {
		s.Tasks = s.Matrix.taskCount()
	}
	if s.Tasks == 0 {
		s.Tasks = 1
	}
	if s.Request.GPUs == 0 && !s.Request.Share.IsWhole() {
		s.Request.GPUs = 1
	}
	if s.CPUs == 0 {
		s.CPUs = DefaultCPUs
	}
	if s.MemMiB == 0 {
		s.MemMiB = DefaultMemMiB
	}
	if s.KillGrace == 0 {
		s.KillGrace = DefaultKillGrace
	}
	if s.Containerizer == "" {
		s.Containerizer = Mesos
		if s.Image != "" {
			s.Containerizer = Docker
		}
	}
	s.Container.setDefaults()
	if s.Service != nil {
		s.Service.setDefaults()
	}
	if s.Schedule != nil {
		s.Schedule.setDefaults()
	}
}

var (
	namePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)
	// groupPattern allows paths, such as Marathon's ids.
	groupPattern = regexp.MustCompile(`^[A-Za-z0-9._/-]+$`)
)

// Validate returns all mistakes joined. Each names the key and what to write instead.
func (s *Spec) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !namePattern.MatchString(s.Name) {
		bad("name %q: use 1 to 63 letters, digits, dots, dashes or underscores, starting with a letter or digit", s.Name)
	}
	if s.Tasks < 1 || s.Tasks > MaxTasks {
		bad("tasks: %d is not between 1 and %d", s.Tasks, MaxTasks)
	}
	if s.Request.GPUs < 0 || s.Request.GPUs > MaxGPUs {
		bad("gpus: %d is not between 0 and %d", s.Request.GPUs, MaxGPUs)
	}
	if s.Request.GPUs == 0 && !s.Request.Types.AcceptsAny() {
		bad("gpu_type %s needs gpus: 1 or more", s.Request.Types)
	}
	if t := s.Request.Types; len(t.Include) > 0 && !slices.ContainsFunc(t.Include, t.Match) {
		bad("gpu_type: %s leaves no type", t)
	}
	if slices.Contains(s.Request.Types.Include, "") || slices.Contains(s.Request.Types.Exclude, "") {
		bad("gpu_type: a type is empty")
	}
	if !(s.CPUs > 0 && s.CPUs <= maxCPUs) { // also rejects NaN
		bad("cpus: %g is not above 0 and at most %d", s.CPUs, maxCPUs)
	}
	if !(s.MemMiB > 0 && s.MemMiB <= maxMiB) {
		bad("mem: %g MiB is not above 0 and at most %d", s.MemMiB, maxMiB)
	}
	if !(s.DiskMiB >= 0 && s.DiskMiB <= maxMiB) {
		bad("disk: %g MiB is not between 0 and %d", s.DiskMiB, maxMiB)
	}
	if s.KillGrace < 0 || s.KillGrace > maxKillGrace {
		bad("kill_grace: %s is not between 0 and %s", s.KillGrace, maxKillGrace)
	}
	s.validateRequest(bad)
	s.validateContainer(bad)
	s.validateLaunch(bad)
	s.validateService(bad)
	s.validateQueueing(bad)
	s.validateMatrix(bad)
	s.validateDependencies(bad)
	s.validateSchedule(bad)
	s.validateSecrets(bad)
	s.validateProgram(bad)
	return errors.Join(errs...)
}

// uuidPattern matches NVML's UUIDs of devices and MIG instances.
var uuidPattern = regexp.MustCompile(`^(GPU|MIG)-[A-Za-z0-9/-]{1,120}$`)

// versionPattern matches numbers separated by dots.
var versionPattern = regexp.MustCompile(`^[0-9]{1,6}(\.[0-9]{1,6}){0,3}$`)

// validateRequest checks the requirements on GPUs and agents.
func (s *Spec) validateRequest(bad func(format string, args ...any)) {
	r := &s.Request
	wants := !r.Devices.AcceptsAny() || r.MinMemMiB != 0 || r.MinDriver != "" || r.MinCUDA != "" || r.Topology != "" && r.Topology != gpu.AnyTopology
	if r.GPUs == 0 && wants {
		bad("what is wanted of the GPUs needs gpus: 1 or more")
	}
	for _, id := range append(slices.Clone(r.Devices.Include), r.Devices.Exclude...) {
		if !uuidPattern.MatchString(id) {
			bad("gpu_uuid: %q is not a UUID as mesos-gpu gpus shows", id)
		}
	}
	if n := len(r.Devices.Include); n > 0 && n < r.GPUs {
		bad("gpu_uuid: %d devices are named, a task wants %d", n, r.GPUs)
	}
	if r.MinMemMiB < 0 || r.MinMemMiB > maxMiB {
		bad("gpu_mem: %d MiB is not between 0 and %d", r.MinMemMiB, maxMiB)
	}
	for _, v := range [][2]string{{"gpu_driver", r.MinDriver}, {"gpu_cuda", r.MinCUDA}} {
		if v[1] != "" && !versionPattern.MatchString(v[1]) {
			bad("%s: %q is no version such as 12.2", v[0], v[1])
		}
	}
	s.validateShare(bad)
	if r.Topology != "" && !slices.Contains(gpu.AllTopologies(), r.Topology) {
		bad("gpu_topology: %q is not one of %v", r.Topology, gpu.AllTopologies())
	}
	if len(s.Constraints) > maxConstraints {
		bad("constraints: %d are more than %d", len(s.Constraints), maxConstraints)
	}
	for _, c := range s.Constraints {
		if err := c.Validate(); err != nil {
			bad("%w", err)
		}
	}
}

// validateShare checks the share of devices.
func (s *Spec) validateShare(bad func(format string, args ...any)) {
	r := &s.Request
	if r.Share.IsWhole() {
		return
	}
	if r.GPUs == 0 {
		bad("share needs gpus: 1 or more")
	}
	if err := r.Share.Validate(); err != nil {
		bad("share: %w", err)
	}
	if r.Share.MemMiB > maxMiB {
		bad("share: memory: %d MiB is more than %d", r.Share.MemMiB, maxMiB)
	}
	if r.Topology != "" && r.Topology != gpu.AnyTopology {
		bad("share: parts of devices have no gpu_topology: leave %s out, or ask for whole GPUs", r.Topology)
	}
}

// validateQueueing checks the role, the priority and the durations.
func (s *Spec) validateQueueing(bad func(format string, args ...any)) {
	if s.Role != "" {
		if err := ValidateRole(s.Role); err != nil {
			bad("%w", err)
		}
	}
	if s.Priority < -MaxPriority || s.Priority > MaxPriority {
		bad("priority: %d is not between -%d and %d", s.Priority, MaxPriority, MaxPriority)
	}
	if s.Retries < 0 || s.Retries > MaxRetries {
		bad("retries: %d is not between 0 and %d", s.Retries, MaxRetries)
	}
	for _, d := range []struct {
		key string
		d   time.Duration
	}{{"timeout", s.Timeout}, {"run_time", s.RunTime}, {"max_wait", s.MaxWait}} {
		if d.d < 0 || d.d > maxTime {
			bad("%s: %s is not between 0 and %s", d.key, d.d, maxTime)
		}
	}
	if s.Timeout > 0 && s.RunTime > s.Timeout {
		bad("run_time: %s is longer than the timeout of %s", s.RunTime, s.Timeout)
	}
}

// ValidateRole returns an error if Mesos does not accept the name of a role.
func ValidateRole(role string) error {
	if role == "*" {
		return nil
	}
	for part := range strings.SplitSeq(role, "/") {
		if part == "" || part == "." || part == ".." || part == "*" || part[0] == '-' || len(role) > 255 || strings.ContainsFunc(part, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '\\' }) {
			return fmt.Errorf("role %q: use words with slashes between, without spaces or backslashes, none beginning with a dash", role)
		}
	}
	return nil
}

// validateProgram checks the command, the image and the sizes of texts.
func (s *Spec) validateProgram(bad func(format string, args ...any)) {
	switch s.Containerizer {
	case Docker:
		if s.Image == "" {
			bad("image: a docker task needs one, for example image: debian:12")
		}
	case Mesos:
		if s.Image == "" && len(s.Command) == 0 {
			bad("command: a task without an image needs one")
		}
	default:
		bad("container: %q is neither docker nor mesos", s.Containerizer)
	}
	if strings.ContainsAny(s.Image, " \t\n\x00") {
		bad("image: %q holds white space or a NUL byte", s.Image)
	}
	if len(s.Command) > 0 && s.Command[0] == "" {
		bad("command: its first word, the program, is empty")
	}
	total, longest := 0, s.Matrix.longestValues()
	word := func(what, text string) {
		total += len(text)
		if strings.ContainsRune(text, 0) {
			bad("%s holds a NUL byte", what)
		}
		if len(text) > maxTextBytes {
			bad("%s has %d bytes, more than the kernel's %d: put it into a file", what, len(text), maxTextBytes)
		}
	}
	for i, arg := range s.Command {
		word(fmt.Sprintf("command: word %d", i+1), fillPlaceholders(arg, longest))
	}
	for _, name := range slices.Sorted(maps.Keys(longest)) {
		word("matrix: "+name, name+"="+longest[name])
	}
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		if name == "" || strings.Contains(name, "=") {
			bad("env: %q is not a variable's name: it is empty, or holds an equals sign", name)
		}
		word("env: "+name, name+"="+fillPlaceholders(s.Env[name], longest))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Labels)) {
		word("labels: "+name, name+"="+s.Labels[name])
	}
	for _, c := range s.allChecks() {
		for i, arg := range c.Command {
			word(fmt.Sprintf("check: command: word %d", i+1), arg)
		}
	}
	if total > maxTotalTextBytes {
		bad("command, env and labels have %d bytes together, more than %d: put what is large into files", total, maxTotalTextBytes)
	}
}
