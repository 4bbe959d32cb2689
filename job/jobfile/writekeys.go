package jobfile

import (
	"maps"
	"slices"
	"strconv"

	"mesos-gpu/job"
)

// ofJob is a job file's keys, for each that is read.
func ofJob(s *job.Spec) *mapping {
	m := newMapping()
	m.put("name", s.Name)
	if s.Matrix == nil {
		m.set("tasks", s.Tasks)
	}
	m.put("matrix", ofMatrix(s.Matrix))
	m.put("max_parallel", s.MaxParallel)
	m.put("gpus", s.Request.GPUs)
	m.put("share", ofShare(s))
	m.put("gpu_type", ofIncluded(s.Request.Types.Include, s.Request.Types.Exclude))
	m.put("gpu_uuid", ofIncluded(s.Request.Devices.Include, s.Request.Devices.Exclude))
	m.put("gpu_mem", sized(float64(s.Request.MinMemMiB)))
	m.put("gpu_driver", s.Request.MinDriver)
	m.put("gpu_cuda", s.Request.MinCUDA)
	m.put("gpu_topology", string(s.Request.Topology))
	m.set("cpus", s.CPUs)
	m.set("mem", sized(s.MemMiB))
	m.put("disk", sized(s.DiskMiB))
	m.put("limits", ofLimits(s.Limits))
	m.put("constraints", ofConstraints(s.Constraints))
	m.put("container", string(s.Containerizer))
	m.put("image", s.Image)
	m.put("force_pull", s.ForcePull)
	m.put("entrypoint", s.Entrypoint)
	m.put("image_entrypoint", s.ImageEntrypoint)
	m.put("command", ofCommand(s.Command))
	m.put("user", s.User)
	m.put("env", s.Env)
	m.put("secrets", s.Secrets)
	m.put("fetch", ofFetch(s.Fetch))
	m.put("volumes", ofVolumes(s.Volumes))
	m.put("shm_size", sized(s.ShmMiB))
	m.put("ipc", string(s.IPC))
	m.put("ulimits", ofUlimits(s.Ulimits))
	m.put("network", string(s.Network))
	m.put("ports", ofPorts(s.Ports))
	m.put("parameters", ofParameters(s.Parameters))
	m.put("labels", s.Labels)
	switch all := s.HealthChecks(); len(all) {
	case 0:
	case 1:
		m.set("health_check", ofHealth(all[0]))
	default:
		var list []*mapping
		for _, h := range all {
			list = append(list, ofHealth(h))
		}
		m.set("health_check", list)
	}
	if s.Check != nil {
		m.set("check", ofCheck(s.Check))
	}
	ofQueueing(m, s)
	m.set("kill_grace", s.KillGrace)
	return m
}

// ofQueueing is when the job runs, and in whose name.
func ofQueueing(m *mapping, s *job.Spec) {
	if s.Service != nil {
		m.set("service", ofService(s.Service))
	}
	m.put("group", s.Group)
	m.put("role", s.Role)
	m.put("priority", s.Priority)
	m.put("preemptible", s.Preemptible)
	m.put("gang", s.Gang)
	m.put("retries", s.Retries)
	m.put("timeout", s.Timeout)
	m.put("run_time", s.RunTime)
	m.put("max_wait", s.MaxWait)
	m.put("after", ofList(s.After, func(m *mapping, d job.Dependency) {
		m.put("job", d.Job)
		m.put("state", string(d.Outcome))
	}))
	if v := s.Schedule; v != nil {
		m.set("schedule", ofSchedule(v))
	}
}

func ofMatrix(x *job.Matrix) *mapping {
	if x == nil {
		return nil
	}
	m := newMapping()
	for _, a := range x.Axes {
		m.put(a.Name, a.Values)
	}
	m.put("include", ofList(x.Include, setAll))
	m.put("exclude", ofList(x.Exclude, setAll))
	return m
}

func setAll(m *mapping, pairs map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(pairs)) {
		m.set(name, pairs[name])
	}
}

func ofSchedule(v *job.Schedule) *mapping {
	m := newMapping()
	m.put("cron", v.Cron)
	m.put("time_zone", v.TimeZone)
	m.put("overlap", string(v.Overlap))
	m.put("history", v.History)
	return m
}

func ofIncluded(include, exclude []string) any {
	if len(exclude) == 0 {
		return include
	}
	m := newMapping()
	m.put("include", include)
	m.put("exclude", exclude)
	return m
}

func sized(mib float64) string {
	if mib == 0 {
		return ""
	}
	return decimal(mib) + "MiB"
}

func ofList[T any](list []T, each func(*mapping, T)) []*mapping {
	var all []*mapping
	for _, v := range list {
		m := newMapping()
		each(m, v)
		all = append(all, m)
	}
	return all
}

func ofLimits(l job.Limits) *mapping {
	if l == (job.Limits{}) {
		return nil
	}
	m := newMapping()
	m.put("cpus", ofLimit(l.CPUs, l.CPUs))
	m.put("mem", ofLimit(l.MemMiB, sized(l.MemMiB)))
	return m
}

func ofLimit(v float64, written any) any {
	if v == job.Unlimited {
		return job.UnlimitedText
	}
	return written
}

func ofConstraints(list []job.Constraint) [][]string {
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

// ofCommand writes a line for the shell as one.
func ofCommand(argv []string) any {
	if len(argv) == 3 && slices.Equal(argv[:2], shell("")[:2]) && argv[2] != "" {
		return argv[2]
	}
	return argv
}

func ofFetch(list []job.Artifact) []*mapping {
	return ofList(list, func(m *mapping, a job.Artifact) {
		m.put("uri", a.URI)
		m.put("path", a.Path)
		m.put("extract", a.Extract)
		m.put("executable", a.Executable)
		m.put("cache", a.Cache)
	})
}

func ofVolumes(list []job.Volume) []*mapping {
	return ofList(list, func(m *mapping, v job.Volume) {
		m.put("source", v.Source)
		m.put("target", v.Target)
		m.put("read_only", v.ReadOnly)
		m.put("driver", v.Driver)
	})
}

// ofPorts writes how many, where they have nothing else.
func ofPorts(list []job.Port) any {
	if !slices.ContainsFunc(list, func(p job.Port) bool { return p != job.Port{} }) {
		return len(list)
	}
	return ofList(list, func(m *mapping, p job.Port) {
		m.put("name", p.Name)
		m.put("container", p.Container)
		m.put("host", p.Host)
		m.put("protocol", string(p.Protocol))
	})
}

func ofUlimits(list []job.Ulimit) *mapping {
	if len(list) == 0 {
		return nil
	}
	m := newMapping()
	for _, u := range list {
		limits := ofUlimit(u.Soft)
		if u.Hard != u.Soft {
			limits += ":" + ofUlimit(u.Hard)
		}
		m.set(u.Name, limits)
	}
	return m
}

func ofUlimit(v int64) string {
	if v == job.Unlimited {
		return job.UnlimitedText
	}
	return strconv.FormatInt(v, 10)
}

func ofParameters(list []job.Parameter) []*mapping {
	return ofList(list, func(m *mapping, p job.Parameter) {
		m.set("key", p.Key)
		m.set("value", p.Value)
	})
}

func ofHealth(h *job.HealthCheck) *mapping {
	m := ofCheck(&h.Check)
	m.set("grace", h.Grace)
	if h.Failures == job.Unlimited {
		m.set("failures", never)
	} else {
		m.set("failures", h.Failures)
	}
	return m
}

func ofCheck(c *job.Check) *mapping {
	m := newMapping()
	m.put("command", ofCommand(c.Command))
	if c.HTTP != nil {
		http := ofCheckPort(c.HTTP.CheckPort)
		http.put("path", c.HTTP.Path)
		http.put("tls", c.HTTP.TLS)
		m.set("http", http)
	}
	if c.TCP != nil {
		m.set("tcp", ofCheckPort(c.TCP.CheckPort))
	}
	m.put("delay", c.Delay)
	m.set("interval", c.Interval)
	m.set("timeout", c.Timeout)
	return m
}

func ofCheckPort(p job.CheckPort) *mapping {
	m := newMapping()
	if p.Port != 0 {
		m.set("port", p.Port)
	} else {
		m.set("port_index", p.Index)
	}
	return m
}

// ofService writes a time that is never as people do.
func ofService(v *job.Service) *mapping {
	m := newMapping()
	m.set("backoff", v.Backoff.Initial)
	m.set("backoff_factor", v.Backoff.Factor)
	m.set("backoff_max", v.Backoff.Max)
	switch after := v.ReplaceAfter; {
	case after < 0:
		m.set("replace_after", never)
	case after > 0:
		m.set("replace_after", after)
	}
	return m
}
