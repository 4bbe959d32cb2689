package translate

import (
	"slices"

	"mesos-gpu/job"
)

// ofJob is a job file's keys, as job/jobfile has them.
func ofJob(s *job.Spec) *mapping {
	m := newMapping()
	m.put("name", s.Name)
	m.set("tasks", s.Tasks)
	m.put("gpus", s.Request.GPUs)
	m.set("cpus", s.CPUs)
	m.set("mem", size(s.MemMiB))
	m.put("disk", size(s.DiskMiB))
	m.put("limits", ofLimits(s.Limits))
	m.put("constraints", ofConstraints(s.Constraints))
	m.put("container", string(s.Containerizer))
	m.put("image", s.Image)
	m.put("force_pull", s.ForcePull)
	m.put("entrypoint", s.Entrypoint)
	m.put("command", ofCommand(s.Command))
	m.put("user", s.User)
	m.put("env", s.Env)
	m.put("fetch", ofFetch(s.Fetch))
	m.put("volumes", ofVolumes(s.Volumes))
	m.put("shm_size", size(s.ShmMiB))
	m.put("network", string(s.Network))
	m.put("ports", ofPorts(s.Ports))
	m.put("parameters", ofParameters(s.Parameters))
	m.put("labels", s.Labels)
	if s.HealthCheck != nil {
		m.set("health_check", ofHealth(s.HealthCheck))
	}
	if s.Check != nil {
		m.set("check", ofCheck(s.Check))
	}
	if s.Service != nil {
		m.set("service", ofService(s.Service))
	}
	m.put("group", s.Group)
	m.put("role", s.Role)
	m.set("kill_grace", s.KillGrace)
	return m
}

func size(mib float64) string {
	if mib == 0 {
		return ""
	}
	return decimal(mib) + "MiB"
}

// optional leaves out an empty mapping.
func (m *mapping) optional() any {
	if len(m.node.Content) == 0 && m.err == nil {
		return ""
	}
	return m
}

// ofList leaves out an empty list.
func ofList[T any](list []T, each func(*mapping, T)) any {
	if len(list) == 0 {
		return ""
	}
	var all []*mapping
	for _, v := range list {
		m := newMapping()
		each(m, v)
		all = append(all, m)
	}
	return all
}

func ofLimits(l job.Limits) any {
	m := newMapping()
	if l.CPUs == job.Unlimited {
		m.set("cpus", "unlimited")
	} else {
		m.put("cpus", l.CPUs)
	}
	if l.MemMiB == job.Unlimited {
		m.set("mem", "unlimited")
	} else {
		m.put("mem", size(l.MemMiB))
	}
	return m.optional()
}

func ofConstraints(list []job.Constraint) any {
	if len(list) == 0 {
		return ""
	}
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

func ofFetch(list []job.Artifact) any {
	return ofList(list, func(m *mapping, a job.Artifact) {
		m.put("uri", a.URI)
		m.put("path", a.Path)
		m.put("extract", a.Extract)
		m.put("executable", a.Executable)
		m.put("cache", a.Cache)
	})
}

func ofVolumes(list []job.Volume) any {
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
		m.put("protocol", string(p.Protocol))
	})
}

func ofParameters(list []job.Parameter) any {
	return ofList(list, func(m *mapping, p job.Parameter) {
		m.set("key", p.Key)
		m.set("value", p.Value)
	})
}

func ofHealth(h *job.HealthCheck) *mapping {
	m := ofCheck(&h.Check)
	m.set("grace", h.Grace)
	if h.Failures == job.Unlimited {
		m.set("failures", "never")
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
	if c.Delay != 0 {
		m.set("delay", c.Delay)
	}
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
		m.set("replace_after", "never")
	case after > 0:
		m.set("replace_after", after)
	}
	return m
}
