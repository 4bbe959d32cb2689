package jobfile

import (
	"maps"
	"slices"
	"strconv"

	"mesos-gpu/job"
)

// encodeJob is a job file's keys, for each that is read.
func encodeJob(s *job.Spec) *yamlMapping {
	m := newMapping()
	m.addNonZero("name", s.Name)
	if s.Matrix == nil {
		m.addKey("tasks", s.Tasks)
	}
	m.addNonZero("matrix", encodeMatrix(s.Matrix))
	m.addNonZero("max_parallel", s.MaxParallel)
	m.addNonZero("gpus", s.Request.GPUs)
	m.addNonZero("share", encodeShare(s))
	m.addNonZero("gpu_type", encodeIncluded(s.Request.Types.Include, s.Request.Types.Exclude))
	m.addNonZero("gpu_uuid", encodeIncluded(s.Request.Devices.Include, s.Request.Devices.Exclude))
	m.addNonZero("gpu_mem", formatSize(float64(s.Request.MinMemMiB)))
	m.addNonZero("gpu_driver", s.Request.MinDriver)
	m.addNonZero("gpu_cuda", s.Request.MinCUDA)
	m.addNonZero("gpu_topology", string(s.Request.Topology))
	m.addKey("cpus", s.CPUs)
	m.addKey("mem", formatSize(s.MemMiB))
	m.addNonZero("disk", formatSize(s.DiskMiB))
	m.addNonZero("limits", encodeLimits(s.Limits))
	m.addNonZero("constraints", encodeConstraints(s.Constraints))
	m.addNonZero("container", string(s.Containerizer))
	m.addNonZero("image", s.Image)
	m.addNonZero("force_pull", s.ForcePull)
	m.addNonZero("entrypoint", s.Entrypoint)
	m.addNonZero("image_entrypoint", s.ImageEntrypoint)
	m.addNonZero("command", encodeCommand(s.Command))
	m.addNonZero("user", s.User)
	m.addNonZero("env", s.Env)
	m.addNonZero("secrets", s.Secrets)
	m.addNonZero("fetch", encodeFetch(s.Fetch))
	m.addNonZero("volumes", encodeVolumes(s.Volumes))
	m.addNonZero("shm_size", formatSize(s.ShmMiB))
	m.addNonZero("ipc", string(s.IPC))
	m.addNonZero("ulimits", encodeUlimits(s.Ulimits))
	m.addNonZero("network", string(s.Network))
	m.addNonZero("ports", encodePorts(s.Ports))
	m.addNonZero("parameters", encodeParameters(s.Parameters))
	m.addNonZero("labels", s.Labels)
	switch all := s.HealthChecks(); len(all) {
	case 0:
	case 1:
		m.addKey("health_check", encodeHealth(all[0]))
	default:
		var list []*yamlMapping
		for _, h := range all {
			list = append(list, encodeHealth(h))
		}
		m.addKey("health_check", list)
	}
	if s.Check != nil {
		m.addKey("check", encodeCheck(s.Check))
	}
	encodeQueueing(m, s)
	m.addKey("kill_grace", s.KillGrace)
	return m
}

// encodeQueueing is when the job runs, and in whose name.
func encodeQueueing(m *yamlMapping, s *job.Spec) {
	if s.Service != nil {
		m.addKey("service", encodeService(s.Service))
	}
	m.addNonZero("group", s.Group)
	m.addNonZero("role", s.Role)
	m.addNonZero("priority", s.Priority)
	m.addNonZero("preemptible", s.Preemptible)
	m.addNonZero("gang", s.Gang)
	m.addNonZero("retries", s.Retries)
	m.addNonZero("timeout", s.Timeout)
	m.addNonZero("run_time", s.RunTime)
	m.addNonZero("max_wait", s.MaxWait)
	m.addNonZero("after", encodeEach(s.After, func(m *yamlMapping, d job.Dependency) {
		m.addNonZero("job", d.Job)
		m.addNonZero("state", string(d.Outcome))
	}))
	if v := s.Schedule; v != nil {
		m.addKey("schedule", encodeSchedule(v))
	}
}

func encodeMatrix(x *job.Matrix) *yamlMapping {
	if x == nil {
		return nil
	}
	m := newMapping()
	for _, a := range x.Axes {
		m.addNonZero(a.Name, a.Values)
	}
	m.addNonZero("include", encodeEach(x.Include, addAll))
	m.addNonZero("exclude", encodeEach(x.Exclude, addAll))
	return m
}

func addAll(m *yamlMapping, pairs map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(pairs)) {
		m.addKey(name, pairs[name])
	}
}

func encodeSchedule(v *job.Schedule) *yamlMapping {
	m := newMapping()
	m.addNonZero("cron", v.Cron)
	m.addNonZero("time_zone", v.TimeZone)
	m.addNonZero("overlap", string(v.Overlap))
	m.addNonZero("history", v.History)
	return m
}

func encodeIncluded(include, exclude []string) any {
	if len(exclude) == 0 {
		return include
	}
	m := newMapping()
	m.addNonZero("include", include)
	m.addNonZero("exclude", exclude)
	return m
}

func formatSize(mib float64) string {
	if mib == 0 {
		return ""
	}
	return formatDecimal(mib) + "MiB"
}

func encodeEach[T any](list []T, each func(*yamlMapping, T)) []*yamlMapping {
	var all []*yamlMapping
	for _, v := range list {
		m := newMapping()
		each(m, v)
		all = append(all, m)
	}
	return all
}

func encodeLimits(l job.ResourceLimits) *yamlMapping {
	if l == (job.ResourceLimits{}) {
		return nil
	}
	m := newMapping()
	m.addNonZero("cpus", encodeLimit(l.CPUs, l.CPUs))
	m.addNonZero("mem", encodeLimit(l.MemMiB, formatSize(l.MemMiB)))
	return m
}

func encodeLimit(v float64, written any) any {
	if v == job.Unlimited {
		return job.UnlimitedText
	}
	return written
}

func encodeConstraints(list []job.Constraint) [][]string {
	var all [][]string
	for _, c := range list {
		words := []string{c.Field, string(c.Operator)}
		if c.Value != "" {
			words = append(words, c.Value)
		}
		all = append(all, words)
	}
	return all
}

// encodeCommand writes a line for the shell as one.
func encodeCommand(argv []string) any {
	if len(argv) == 3 && slices.Equal(argv[:2], shellCommand("")[:2]) && argv[2] != "" {
		return argv[2]
	}
	return argv
}

func encodeFetch(list []job.FetchArtifact) []*yamlMapping {
	return encodeEach(list, func(m *yamlMapping, a job.FetchArtifact) {
		m.addNonZero("uri", a.URI)
		m.addNonZero("path", a.Path)
		m.addNonZero("extract", a.Extract)
		m.addNonZero("executable", a.Executable)
		m.addNonZero("cache", a.Cache)
	})
}

func encodeVolumes(list []job.Volume) []*yamlMapping {
	return encodeEach(list, func(m *yamlMapping, v job.Volume) {
		m.addNonZero("source", v.Source)
		m.addNonZero("target", v.Target)
		m.addNonZero("read_only", v.ReadOnly)
		m.addNonZero("driver", v.Driver)
	})
}

// encodePorts writes how many, where they have nothing else.
func encodePorts(list []job.Port) any {
	if !slices.ContainsFunc(list, func(p job.Port) bool { return p != job.Port{} }) {
		return len(list)
	}
	return encodeEach(list, func(m *yamlMapping, p job.Port) {
		m.addNonZero("name", p.Name)
		m.addNonZero("container", p.Container)
		m.addNonZero("host", p.Host)
		m.addNonZero("protocol", string(p.Protocol))
	})
}

func encodeUlimits(list []job.Ulimit) *yamlMapping {
	if len(list) == 0 {
		return nil
	}
	m := newMapping()
	for _, u := range list {
		limits := encodeUlimit(u.Soft)
		if u.Hard != u.Soft {
			limits += ":" + encodeUlimit(u.Hard)
		}
		m.addKey(u.Name, limits)
	}
	return m
}

func encodeUlimit(v int64) string {
	if v == job.Unlimited {
		return job.UnlimitedText
	}
	return strconv.FormatInt(v, 10)
}

func encodeParameters(list []job.DockerParameter) []*yamlMapping {
	return encodeEach(list, func(m *yamlMapping, p job.DockerParameter) {
		m.addKey("key", p.Key)
		m.addKey("value", p.Value)
	})
}

func encodeHealth(h *job.HealthCheck) *yamlMapping {
	m := encodeCheck(&h.Check)
	m.addKey("grace", h.Grace)
	if h.Failures == job.Unlimited {
		m.addKey("failures", neverText)
	} else {
		m.addKey("failures", h.Failures)
	}
	return m
}

func encodeCheck(c *job.Check) *yamlMapping {
	m := newMapping()
	m.addNonZero("command", encodeCommand(c.Command))
	if c.HTTP != nil {
		http := encodeCheckPort(c.HTTP.CheckPort)
		http.addNonZero("path", c.HTTP.Path)
		http.addNonZero("tls", c.HTTP.TLS)
		m.addKey("http", http)
	}
	if c.TCP != nil {
		m.addKey("tcp", encodeCheckPort(c.TCP.CheckPort))
	}
	m.addNonZero("delay", c.Delay)
	m.addKey("interval", c.Interval)
	m.addKey("timeout", c.Timeout)
	return m
}

func encodeCheckPort(p job.CheckPort) *yamlMapping {
	m := newMapping()
	if p.Port != 0 {
		m.addKey("port", p.Port)
	} else {
		m.addKey("port_index", p.Index)
	}
	return m
}

// encodeService writes a time that is never as people do.
func encodeService(v *job.Service) *yamlMapping {
	m := newMapping()
	m.addKey("backoff", v.Backoff.Initial)
	m.addKey("backoff_factor", v.Backoff.Factor)
	m.addKey("backoff_max", v.Backoff.Max)
	switch after := v.ReplaceAfter; {
	case after < 0:
		m.addKey("replace_after", neverText)
	case after > 0:
		m.addKey("replace_after", after)
	}
	return m
}
