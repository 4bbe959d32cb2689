package cluster

import (
	"cmp"
	"fmt"

	"mesos-gpu/framework/api"
	"mesos-gpu/gpu"
)

// usageRow is a row of top: one GPU of a task, or an agent. The JSON output has agents
// only.
type usageRow struct {
	Hostname string `json:"hostname"`
	// Tasks and GPUs are counts. A GPU that several tasks share counts once.
	Tasks      int      `json:"tasks"`
	GPUs       int      `json:"gpus"`
	Duty       *float64 `json:"duty,omitempty"`
	MemUsedMiB *float64 `json:"mem_used_mib,omitempty"`
	MemMiB     *float64 `json:"mem_mib,omitempty"`
	Watts      *float64 `json:"watts,omitempty"`
	Celsius    *float64 `json:"celsius,omitempty"`
	AgeSeconds *float64 `json:"age_seconds,omitempty"`
	Note       string   `json:"note"`

	Task, GPU, health string   `json:"-"`
	throttled         *float64 `json:"-"`
}

// taskUsageRows returns a row for each GPU of each task.
func taskUsageRows(tasks []api.TaskUsage) []usageRow {
	var uses []usageRow
	for i := range tasks {
		t := &tasks[i]
		line := usageRow{Hostname: t.Hostname, AgeSeconds: t.AgeSeconds, Note: usageNote(t), Task: t.Task}
		for j := range t.Devices {
			d, u := &t.Devices[j], line
			u.Duty, u.MemUsedMiB, u.MemMiB, u.Watts, u.Celsius, u.throttled = d.Duty, d.MemUsedMiB, d.MemMiB, d.Watts, d.Celsius, d.ThrottledSeconds
			u.GPU, u.health = d.UUID, string(d.Health)
			if d.Shared {
				u.GPU += " (shared)"
			}
			uses = append(uses, u)
		}
		if len(t.Devices) == 0 {
			uses = append(uses, line)
		}
	}
	return uses
}

// agentUsage accumulates the usage of an agent's GPUs.
type agentUsage struct {
	usageRow
	seen       map[string]bool // UUIDs of the GPUs counted so far
	dutyCount  int             // number of GPUs that Duty is the sum of
	staleTasks int             // tasks without current values
}

// agentUsageRows returns a row for each agent. The sums exclude values that are not
// current.
func agentUsageRows(tasks []api.TaskUsage) []usageRow {
	byHost := map[string]*agentUsage{}
	var hosts []string
	for i := range tasks {
		t := &tasks[i]
		s := byHost[t.Hostname]
		if s == nil {
			s = &agentUsage{usageRow: usageRow{Hostname: t.Hostname}, seen: map[string]bool{}}
			byHost[t.Hostname], hosts = s, append(hosts, t.Hostname)
		}
		s.addTask(t)
	}
	uses := make([]usageRow, 0, len(hosts))
	for _, host := range hosts {
		uses = append(uses, byHost[host].finishRow())
	}
	return uses
}

func (s *agentUsage) addTask(t *api.TaskUsage) {
	s.Tasks++
	for i := range t.Devices {
		d := &t.Devices[i]
		again := s.seen[d.UUID]
		s.seen[d.UUID] = true
		if !again {
			s.GPUs++
		}
		if t.Note == "" {
			s.addDevice(d, again)
		}
	}
	if t.Note != "" {
		s.staleTasks++
		s.Note = cmp.Or(s.Note, usageNote(t))
		return
	}
	if t.Simulated {
		s.Note = cmp.Or(s.Note, "simulated")
	}
	s.AgeSeconds = maxKnown(s.AgeSeconds, t.AgeSeconds)
}

// addDevice adds a device of a task. again is set if another task shares the device:
// then only memory is added, because each task reports its own.
func (s *agentUsage) addDevice(d *gpu.DeviceUsage, again bool) {
	s.MemUsedMiB, s.MemMiB = addKnown(s.MemUsedMiB, d.MemUsedMiB), addKnown(s.MemMiB, d.MemMiB)
	if again {
		return
	}
	if d.Duty != nil {
		s.dutyCount++
	}
	s.Duty, s.Watts, s.Celsius = addKnown(s.Duty, d.Duty), addKnown(s.Watts, d.Watts), maxKnown(s.Celsius, d.Celsius)
}

func (s *agentUsage) finishRow() usageRow {
	if s.Duty != nil {
		*s.Duty /= float64(s.dutyCount)
	}
	if s.staleTasks > 0 {
		s.Note = fmt.Sprintf("%d of %d %s: %s", s.staleTasks, s.Tasks, gpu.Plural(s.Tasks, "task"), s.Note)
	}
	return s.usageRow
}

// addKnown returns the sum of the known values, and nil if both are unknown.
func addKnown(a, b *float64) *float64 {
	if a == nil || b == nil {
		return copyValue(cmp.Or(a, b))
	}
	sum := *a + *b
	return &sum
}

func maxKnown(a, b *float64) *float64 {
	if a == nil || b == nil {
		return copyValue(cmp.Or(a, b))
	}
	most := max(*a, *b)
	return &most
}

func copyValue(v *float64) *float64 {
	if v == nil {
		return nil
	}
	c := *v
	return &c
}

// usageNote returns the note of a task's usage; it marks simulated values.
func usageNote(t *api.TaskUsage) string {
	switch {
	case t.Simulated && t.Note == "":
		return "simulated"
	case t.Simulated:
		return "simulated; " + t.Note
	}
	return t.Note
}
