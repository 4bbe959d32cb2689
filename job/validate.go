package job

import (
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
	MaxPorts = 1000
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
	if s.Tasks == 0 && s.Service != nil {
		s.Tasks = s.Service.Autoscaling.Min
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

// Validate returns all mistakes joined, as FieldErrors. Each names the key and what to write instead.
func (s *Spec) Validate() error {
	return collectErrors(s.validateFields)
}

// validateFields reports all mistakes: first in single fields, then by subject. A mistake in one field may cause reports
// about others that depend on it.
func (s *Spec) validateFields(bad reportFunc) {
	if !namePattern.MatchString(s.Name) {
		bad(field("name"), "name %q: use 1 to 63 letters, digits, dots, dashes or underscores, starting with a letter or digit", s.Name)
	}
	if s.Tasks < 1 || s.Tasks > MaxTasks {
		bad(field("tasks"), "tasks: %d is not between 1 and %d", s.Tasks, MaxTasks)
	}
	if s.Request.GPUs < 0 || s.Request.GPUs > MaxGPUs {
		bad(field("gpus"), "gpus: %d is not between 0 and %d", s.Request.GPUs, MaxGPUs)
	}
	if s.Request.GPUs == 0 && !s.Request.Types.AcceptsAny() {
		bad(field("gpu_type").and("gpus"), "gpu_type %s needs gpus: 1 or more", s.Request.Types)
	}
	if s.Request.Types.Same && s.Request.Types.AcceptsAny() && s.Request.GPUs == 0 {
		bad(field("gpu_type").and("gpus"), "gpu_type: same needs gpus: 1 or more")
	}
	if s.Guaranteed && s.Preemptible {
		bad(field("guaranteed").and("preemptible"), "guaranteed: the job is preemptible, and guaranteed tasks are never stopped for others: use one of them")
	}
	if s.Request.Types.Same && !s.Gang && (s.Tasks > 1 || s.Matrix != nil || s.Service != nil) {
		bad(field("gpu_type").and("gang"), "gpu_type: same is for the tasks of a gang, which start together: set gang: true")
	}
	if t := s.Request.Types; len(t.Include) > 0 && !slices.ContainsFunc(t.Include, t.MayMatch) {
		bad(field("gpu_type"), "gpu_type: %s leaves no type", t)
	}
	for _, name := range slices.Concat(s.Request.Types.Include, s.Request.Types.Exclude) {
		if err := gpu.CheckTypeName(name); err != nil {
			bad(field("gpu_type"), "gpu_type: %v", err)
		}
	}
	if t := s.Request.Types.Include; s.Request.GPUs > 1 && s.Request.Share.IsWhole() && slices.ContainsFunc(t, gpu.NamesMIG) &&
		slices.ContainsFunc(t, func(name string) bool { return !gpu.NamesMIG(name) }) {
		bad(field("gpu_type").and("gpus"), "gpu_type: %s: a task with several devices gets whole GPUs or MIG devices, not both: name one of them",
			strings.Join(t, " or "))
	}
	if !(s.CPUs > 0 && s.CPUs <= maxCPUs) { // also rejects NaN
		bad(field("cpus"), "cpus: %g is not above 0 and at most %d", s.CPUs, maxCPUs)
	}
	if !(s.MemMiB > 0 && s.MemMiB <= maxMiB) {
		bad(field("mem"), "mem: %g MiB is not above 0 and at most %d", s.MemMiB, maxMiB)
	}
	if !(s.DiskMiB >= 0 && s.DiskMiB <= maxMiB) {
		bad(field("disk"), "disk: %g MiB is not between 0 and %d", s.DiskMiB, maxMiB)
	}
	if s.KillGrace < 0 || s.KillGrace > maxKillGrace {
		bad(field("kill_grace"), "kill_grace: %s is not between 0 and %s", s.KillGrace, maxKillGrace)
	}
	s.validateRequest(bad)
	s.validateContainer(bad)
	s.validateLaunch(bad)
	s.validateService(bad)
	s.validateQueueing(bad)
	s.validateInteractive(bad)
	s.validateMatrix(bad)
	s.validateDependencies(bad)
	s.validateSchedule(bad)
	s.validateSecrets(bad)
	s.validateSecretFiles(bad)
	s.validatePullSecret(bad)
	s.validateProgram(bad)
	reportNotificationRules(s.Notify, bad)
}

// uuidPattern matches NVML's UUIDs of devices and MIG instances.
var uuidPattern = regexp.MustCompile(`^(GPU|MIG)-[A-Za-z0-9/-]{1,120}$`)

// versionPattern matches numbers separated by dots.
var versionPattern = regexp.MustCompile(`^[0-9]{1,6}(\.[0-9]{1,6}){0,3}$`)

// validateRequest checks the requirements on GPUs and agents.
func (s *Spec) validateRequest(bad reportFunc) {
	r := &s.Request
	wants := !r.Devices.AcceptsAny() || r.MinMemMiB != 0 || r.MinDriver != "" || r.MinCUDA != "" || r.Topology != "" && r.Topology != gpu.AnyTopology
	if r.GPUs == 0 && wants {
		bad(field("gpu_uuid").and("gpu_mem", "gpu_driver", "gpu_cuda", "gpu_topology", "gpus"), "what is wanted of the GPUs needs gpus: 1 or more")
	}
	for i, id := range append(slices.Clone(r.Devices.Include), r.Devices.Exclude...) {
		if !uuidPattern.MatchString(id) {
			at := field("gpu_uuid", "include", i)
			if excluded := i - len(r.Devices.Include); excluded >= 0 {
				at = field("gpu_uuid", "exclude", excluded)
			}
			bad(at, "gpu_uuid: %q is not a UUID as mesos-gpu gpus shows", id)
		}
	}
	if n := len(r.Devices.Include); n > 0 && n < r.GPUs {
		bad(field("gpu_uuid").and("gpus"), "gpu_uuid: %d devices are named, a task needs %d", n, r.GPUs)
	}
	if r.MinMemMiB < 0 || r.MinMemMiB > maxMiB {
		bad(field("gpu_mem"), "gpu_mem: %d MiB is not between 0 and %d", r.MinMemMiB, maxMiB)
	}
	for _, v := range [][2]string{{"gpu_driver", r.MinDriver}, {"gpu_cuda", r.MinCUDA}} {
		if v[1] != "" && !versionPattern.MatchString(v[1]) {
			bad(field(v[0]), "%s: %q is not a version such as 12.2", v[0], v[1])
		}
	}
	s.validateShare(bad)
	if r.Topology != "" && !slices.Contains(gpu.AllTopologies(), r.Topology) {
		bad(field("gpu_topology"), "gpu_topology: %q is not one of %v", r.Topology, gpu.AllTopologies())
	}
	if len(s.Constraints) > maxConstraints {
		bad(field("constraints"), "constraints: %d are more than %d", len(s.Constraints), maxConstraints)
	}
	steps := 0
	for i, c := range s.Constraints[:min(len(s.Constraints), maxConstraints)] {
		if err := c.Validate(); err != nil {
			bad(field("constraints", i), "%w", err)
		} else if c.Operator == Like || c.Operator == Unlike {
			pattern, _ := c.CompilePattern()
			steps += pattern.Steps
		}
	}
	if err := CheckPatternSteps(steps); err != nil {
		bad(field("constraints"), "constraints: %w", err)
	}
}

// validateShare checks the share of devices.
func (s *Spec) validateShare(bad reportFunc) {
	r := &s.Request
	if r.Share.IsWhole() {
		return
	}
	if r.GPUs == 0 {
		bad(field("share").and("gpus"), "share needs gpus: 1 or more")
	}
	if err := r.Share.Validate(); err != nil {
		key := "memory"
		if memory := (gpu.ShareRequest{MemMiB: r.Share.MemMiB, MemPercent: r.Share.MemPercent}); memory.Validate() == nil {
			key = "cores"
		}
		bad(field("share", key), "share: %w", err)
	}
	if r.Share.MemMiB > maxMiB {
		bad(field("share", "memory"), "share: memory: %d MiB is more than %d", r.Share.MemMiB, maxMiB)
	}
	if r.Topology != "" && r.Topology != gpu.AnyTopology {
		bad(field("share").and("gpu_topology"), "share: parts of devices have no gpu_topology: leave %s out, or ask for whole GPUs", r.Topology)
	}
}

// validateQueueing checks the role, the priority and the durations.
func (s *Spec) validateQueueing(bad reportFunc) {
	if s.Role != "" {
		if err := ValidateRole(s.Role); err != nil {
			bad(field("role"), "%w", err)
		}
	}
	if s.Priority < -MaxPriority || s.Priority > MaxPriority {
		bad(field("priority"), "priority: %d is not between -%d and %d", s.Priority, MaxPriority, MaxPriority)
	}
	if s.Retries < 0 || s.Retries > MaxRetries {
		bad(field("retries"), "retries: %d is not between 0 and %d", s.Retries, MaxRetries)
	}
	for _, d := range []struct {
		key string
		d   time.Duration
	}{{"timeout", s.Timeout}, {"run_time", s.RunTime}, {"max_wait", s.MaxWait}, {"idle_timeout", s.IdleTimeout}} {
		if d.d < 0 || d.d > maxTime {
			bad(field(d.key), "%s: %s is not between 0 and %s", d.key, d.d, maxTime)
		}
	}
	if s.Timeout > 0 && s.RunTime > s.Timeout {
		bad(field("run_time").and("timeout"), "run_time: %s is longer than the timeout of %s", s.RunTime, s.Timeout)
	}
}

// ValidateRole returns an error if Mesos does not accept the name of a role.
func ValidateRole(role string) error {
	if role == "*" {
		return nil
	}
	for part := range strings.SplitSeq(role, "/") {
		if part == "" || part == "." || part == ".." || part == "*" || part[0] == '-' || len(role) > 255 ||
			strings.ContainsFunc(part, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '\\' }) {
			return fmt.Errorf("role %q: use words with slashes between, without spaces or backslashes, none beginning with a dash", role)
		}
	}
	return nil
}

// imagePattern matches the references of the OCI distribution specification: an optional registry, a repository, a tag and a digest.
var imagePattern = regexp.MustCompile(`^(?:[\w.:\[\]-]+/)?` + repositoryPart + `(?:/` + repositoryPart + `)*(?::\w[\w.-]{0,127})?(?:@[a-z0-9]+(?:[+._-][a-z0-9]+)*:[0-9a-fA-F]{32,})?$`)

// repositoryPart is a part of a repository's name between slashes.
const repositoryPart = `[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*`

// maxImageName limits the bytes of a repository with its tag: engines accept 255 of the one and 128 of the other.
const maxImageName = 255 + 128

// CheckImageName returns an error unless an image is empty or a valid reference. An engine reports an invalid reference only when
// a task starts.
func CheckImageName(image string) error {
	if repository, _, _ := strings.Cut(image, "@"); image != "" && (!imagePattern.MatchString(image) || len(repository) > maxImageName) {
		return fmt.Errorf("%.300q is not REPOSITORY, REPOSITORY:TAG or REPOSITORY@DIGEST, such as debian:12", image)
	}
	return nil
}

// validateProgram checks the command, the image and the sizes of texts.
func (s *Spec) validateProgram(bad reportFunc) {
	switch s.Containerizer {
	case Docker:
		if s.Image == "" {
			bad(field("image"), "image: a docker task needs one, for example image: debian:12")
		}
	case Mesos:
		if s.Image == "" && len(s.Command) == 0 {
			bad(field("command").and("image"), "command: a task without an image needs one")
		}
	default:
		bad(field("container"), "container: %q is neither docker nor mesos", s.Containerizer)
	}
	if err := CheckImageName(s.Image); err != nil {
		bad(field("image"), "image: %s", err)
	}
	if len(s.Command) > 0 && s.Command[0] == "" {
		bad(field("command", 0), "command: its first word, the program, is empty")
	}
	total, longest := 0, s.Matrix.longestValues()
	word := func(f fieldSet, what, text string) {
		total += len(text)
		if strings.ContainsRune(text, 0) {
			bad(f, "%s holds a NUL byte", what)
		}
		if len(text) > maxTextBytes {
			bad(f, "%s has %d bytes, more than the kernel's %d: put it into a file", what, len(text), maxTextBytes)
		}
	}
	for i, arg := range s.Command {
		word(field("command", i), fmt.Sprintf("command: word %d", i+1), fillPlaceholders(arg, longest))
	}
	for _, name := range slices.Sorted(maps.Keys(longest)) {
		word(field("matrix", name), "matrix: "+name, name+"="+longest[name])
	}
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		if name == "" || strings.Contains(name, "=") {
			bad(field("env", name), "env: %q is not a variable's name: it is empty, or holds an equals sign", name)
		}
		word(field("env", name), "env: "+name, name+"="+fillPlaceholders(s.Env[name], longest))
	}
	for _, name := range slices.Sorted(maps.Keys(s.NetworkLabels)) {
		word(field("network_labels", name), "network_labels: "+name, name+"="+s.NetworkLabels[name])
	}
	for _, name := range slices.Sorted(maps.Keys(s.Labels)) {
		word(field("labels", name), "labels: "+name, name+"="+s.Labels[name])
	}
	for _, c := range s.allChecks() {
		for i, arg := range c.Command {
			word(field("check", "command", i).and("health_check"), fmt.Sprintf("check: command: word %d", i+1), arg)
		}
	}
	if total > maxTotalTextBytes {
		bad(field("command").and("env", "labels"),
			"command, env and labels have %d bytes together, more than %d: put what is large into files", total,
			maxTotalTextBytes)
	}
}
