package main

import (
	"cmp"
	"fmt"

	"mesos-gpu/framework/api"
	"mesos-gpu/gpu"
)

// use is a line of top: a GPU of a task, or an agent. As JSON it is an agent's.
type use struct {
	Hostname string `json:"hostname"`
	// Tasks and GPUs are counted; GPUs that several share once.
	Tasks      int      `json:"tasks"`
	GPUs       int      `json:"gpus"`
	Duty       *float64 `json:"duty,omitempty"`
	MemUsedMiB *float64 `json:"mem_used_mib,omitempty"`
	MemMiB     *float64 `json:"mem_mib,omitempty"`
	Watts      *float64 `json:"watts,omitempty"`
	Celsius    *float64 `json:"celsius,omitempty"`
	AgeSeconds *float64 `json:"age_seconds,omitempty"`
	Note       string   `json:"note"`

	task, gpu, health string
	throttled         *float64
}

// usesOf has a line for each GPU of each task.
func usesOf(tasks []api.TaskUsage) []use {
	var uses []use
	for i := range tasks {
		t := &tasks[i]
		line := use{Hostname: t.Hostname, AgeSeconds: t.AgeSeconds, Note: usageNote(t), task: t.Task}
		for j := range t.Devices {
			d, u := &t.Devices[j], line
			u.Duty, u.MemUsedMiB, u.MemMiB, u.Watts, u.Celsius, u.throttled = d.Duty, d.MemUsedMiB, d.MemMiB, d.Watts, d.Celsius, d.ThrottledSeconds
			u.gpu, u.health = d.UUID, string(d.Health)
			if d.Shared {
				u.gpu += " (shared)"
			}
			uses = append(uses, u)
		}
		if len(t.Devices) == 0 {
			uses = append(uses, line)
		}
	}
	return uses
}

// sums add up an agent's GPUs.
type sums struct {
	use
	seen   map[string]bool // GPUs, some shared
	duties int             // of which Duty is the sum
	silent int             // tasks whose figures are not of now
}

// usesOfAgents has a line for each agent. Figures that are not of now are in no
// sum.
func usesOfAgents(tasks []api.TaskUsage) []use {
	byHost := map[string]*sums{}
	var hosts []string
	for i := range tasks {
		t := &tasks[i]
		s := byHost[t.Hostname]
		if s == nil {
			s = &sums{use: use{Hostname: t.Hostname}, seen: map[string]bool{}}
			byHost[t.Hostname], hosts = s, append(hosts, t.Hostname)
		}
		s.add(t)
	}
	uses := make([]use, 0, len(hosts))
	for _, host := range hosts {
		uses = append(uses, byHost[host].total())
	}
	return uses
}

func (s *sums) add(t *api.TaskUsage) {
	s.Tasks++
	for i := range t.Devices {
		d := &t.Devices[i]
		again := s.seen[d.UUID]
		s.seen[d.UUID] = true
		if !again {
			s.GPUs++
		}
		if t.Note == "" {
			s.measure(d, again)
		}
	}
	if t.Note != "" {
		s.silent++
		s.Note = cmp.Or(s.Note, usageNote(t))
		return
	}
	if t.Simulated {
		s.Note = cmp.Or(s.Note, "simulated")
	}
	s.AgeSeconds = larger(s.AgeSeconds, t.AgeSeconds)
}

// measure adds a device. Of one that tasks share each has its own memory.
func (s *sums) measure(d *gpu.DeviceUsage, again bool) {
	s.MemUsedMiB, s.MemMiB = plus(s.MemUsedMiB, d.MemUsedMiB), plus(s.MemMiB, d.MemMiB)
	if again {
		return
	}
	if d.Duty != nil {
		s.duties++
	}
	s.Duty, s.Watts, s.Celsius = plus(s.Duty, d.Duty), plus(s.Watts, d.Watts), larger(s.Celsius, d.Celsius)
}

func (s *sums) total() use {
	if s.Duty != nil {
		*s.Duty /= float64(s.duties)
	}
	if s.silent > 0 {
		s.Note = fmt.Sprintf("%d of %d %s: %s", s.silent, s.Tasks, gpu.Plural(s.Tasks, "task"), s.Note)
	}
	return s.use
}

// plus is the sum of what is known.
func plus(a, b *float64) *float64 {
	if a == nil || b == nil {
		return copied(cmp.Or(a, b))
	}
	sum := *a + *b
	return &sum
}

func larger(a, b *float64) *float64 {
	if a == nil || b == nil {
		return copied(cmp.Or(a, b))
	}
	most := max(*a, *b)
	return &most
}

func copied(v *float64) *float64 {
	if v == nil {
		return nil
	}
	c := *v
	return &c
}
