package peercases

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/job"
)

// Columns are the columns that describe a case.
var Columns = []string{"agents", "roles", "running", "waiting"}

// ResultColumns are the columns of a table of cases after Columns: the jobs that the other scheduler ends, those that end
// with each policy of reclaim, and the reason of a difference.
var ResultColumns = []string{"theirs", "deserved", "entitled", "why"}

// Case is a case of Columns.
type Case struct {
	Agents  []Agent
	Roles   []queue.Role
	Running []RunningJob
	Waiting []*job.Spec
	// Shared is set if a job has a part of a GPU. Then all devices of the agents are shared.
	Shared bool
}

// Agent is an agent of a case. CPUs and MemMiB include those of executors.
type Agent struct {
	GPUs         int
	Type         string
	CPUs, MemMiB float64
}

// RunningJob is a job that runs when the case begins.
type RunningJob struct {
	Spec *job.Spec
	// Agents has the number of the agent of each task.
	Agents []int
	// Device is the number of the device of which the task has a part, or -1.
	Device int
	// Ends is set if the job ends already.
	Ends bool
}

// DefaultType is the type of GPUs without one.
const DefaultType = "V100"

// Agents without an amount of CPUs and memory have enough for all tasks.
const (
	agentCPUs   = 100
	agentMemMiB = 100_000
)

// Parse parses the cells of Columns.
func Parse(t testing.TB, cells []string) Case {
	t.Helper()
	c := Case{Roles: ParseRoles(t, cells[1]), Shared: strings.Contains(cells[2]+" "+cells[3], "0.")}
	for _, text := range strings.Fields(cells[0]) {
		gpus, cpus, gib, hosts := cutHost(t, text)
		count, gpuType := splitType(gpus)
		a := Agent{GPUs: ParseNumber(t, count), Type: cmp.Or(gpuType, DefaultType), CPUs: agentCPUs, MemMiB: agentMemMiB}
		if hosts {
			a.CPUs, a.MemMiB = cpus+1, gib*1024+1024 // with executors
		}
		c.Agents = append(c.Agents, a)
	}
	for i, text := range strings.Fields(cells[2]) {
		c.Running = append(c.Running, parseRunning(t, fmt.Sprint("r", i), text))
	}
	for i, text := range strings.Fields(cells[3]) {
		role, rest, _ := strings.Cut(text, ":")
		tasks, rest, _ := strings.Cut(rest, "x")
		gpus, flags := splitFlags(rest)
		c.Waiting = append(c.Waiting, newJob(t, fmt.Sprint("w", i), role, ParseNumber(t, tasks), gpus, flags))
	}
	return c
}

// parseRunning parses ROLE:GPUS@AGENT,AGENT#DEVICE and the flags of newJob and ~.
func parseRunning(t testing.TB, name, text string) RunningJob {
	role, rest, _ := strings.Cut(text, ":")
	gpus, place, _ := strings.Cut(rest, "@")
	place, flags := splitFlags(place)
	flags, ends := strings.CutPrefix(flags, "~")
	place, device, _ := strings.Cut(place, "#")
	r := RunningJob{Device: -1, Ends: ends}
	if device != "" {
		r.Device = ParseNumber(t, device)
	}
	for agent := range strings.SplitSeq(place, ",") {
		r.Agents = append(r.Agents, ParseNumber(t, agent))
	}
	r.Spec = newJob(t, name, role, len(r.Agents), gpus, flags)
	r.Spec.Gang = len(r.Agents) > 1
	return r
}

// newJob returns a job with the flags !PRIORITY, + for preemptible, - for guaranteed, and g for a gang. Less than one GPU is
// a share.
func newJob(t testing.TB, name, role string, tasks int, gpus, flags string) *job.Spec {
	s := &job.Spec{Name: name, Role: role, Tasks: tasks, CPUs: 1, MemMiB: 100, Command: []string{"sleep", "infinity"}}
	gpus, cpus, gib, hosts := cutHost(t, gpus)
	if hosts {
		s.CPUs, s.MemMiB = cpus, gib*1024
	}
	count, gpuType := splitType(gpus)
	if _, part, ok := strings.Cut(count, "0."); ok {
		s.Request.GPUs, s.Request.Share.MemPercent = 1, ParseNumber(t, part)*10
	} else {
		s.Request.GPUs = ParseNumber(t, count)
	}
	if gpuType != "" {
		s.Request.Types.Include = []string{gpuType}
	}
	s.Gang = strings.HasPrefix(flags, "g")
	s.Preemptible, s.Guaranteed = strings.HasSuffix(flags, "+"), strings.HasSuffix(flags, "-")
	if _, priority, ok := strings.Cut(strings.TrimRight(flags, "+-"), "!"); ok {
		s.Priority = ParseNumber(t, priority)
	}
	s.SetDefaults()
	return s
}

// ParseRoles parses NAME=DESERVED≤LIMIT*WEIGHT. DESERVED is GPUs, GPUs of a type, or GPUs/CPUs/GIB.
func ParseRoles(t testing.TB, text string) (roles []queue.Role) {
	t.Helper()
	for r := range strings.FieldsSeq(text) {
		entries, weight, weighted := strings.Cut(r, "*")
		entries, limit, limited := strings.Cut(entries, "≤")
		name, deserved, deserves := strings.Cut(entries, "=")
		role := queue.Role{Name: name}
		if deserves {
			gpus, cpus, gib, hosts := cutHost(t, deserved)
			count, gpuType := splitType(gpus)
			role.Deserved = quota.Quota{cmp.Or(gpuType, quota.AllTypes): ParseNumber(t, count)}
			if hosts {
				role.DeservedHost = quota.HostQuota{quota.CPUs: cpus, quota.Memory: gib * 1024}
			}
		}
		if limited {
			role.Quota = quota.Quota{quota.AllTypes: ParseNumber(t, limit)}
		}
		if weighted {
			w, err := strconv.ParseFloat(weight, 64)
			if err != nil {
				t.Fatal(err)
			}
			role.Weight = w
		}
		roles = append(roles, role)
	}
	return roles
}

// ParseNumber parses a number of a case.
func ParseNumber(t testing.TB, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// FormatNumbers returns numbers with spaces between, "none" for none.
func FormatNumbers(numbers []int) string {
	if len(numbers) == 0 {
		return "none"
	}
	return strings.Trim(fmt.Sprint(numbers), "[]")
}

// cutHost splits GPUS/CPUS/GIB. It returns false for a text that is only GPUs.
func cutHost(t testing.TB, text string) (gpus string, cpus, gib float64, ok bool) {
	gpus, rest, ok := strings.Cut(text, "/")
	if ok {
		c, m, _ := strings.Cut(rest, "/")
		cpus, gib = float64(ParseNumber(t, c)), float64(ParseNumber(t, m))
	}
	return gpus, cpus, gib, ok
}

// splitType splits a number of GPUs from the name of their type, which may be empty.
func splitType(text string) (number, gpuType string) {
	if at := strings.IndexFunc(text, unicode.IsLetter); at >= 0 {
		return text[:at], text[at:]
	}
	return text, ""
}

// splitFlags splits a text before its first flag.
func splitFlags(text string) (string, string) {
	if at := strings.IndexAny(text, "g!+-~"); at >= 0 {
		return text[:at], text[at:]
	}
	return text, ""
}
