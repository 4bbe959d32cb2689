package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"mesos-gpu/framework/api"
	"mesos-gpu/gpu"
	"mesos-gpu/internal/cli/agent"
	"mesos-gpu/internal/cli/cluster"
	"mesos-gpu/internal/cli/jobs"
	"mesos-gpu/internal/term"
	"mesos-gpu/job"
	"mesos-gpu/job/jobfile"
)

// everyTable returns the tables of all commands, with rows of the greatest length.
func everyTable() map[string]struct {
	rows  int
	print func(*term.TablePrinter) error
} {
	uuid := "GPU-8f1c3a5e-0000-1111-2222-333344445555"
	name := func(i int) string { return fmt.Sprintf("experiment-with-a-rather-long-name-%d", i) }
	long := "CPUs for the gang: it needs 1.2 together, and agents had 1.1 free when they offered last; " + strings.Repeat("and so on ", 20)
	wattage, one := 300.0, 1
	view := api.JobView{Job: job.Job{Spec: job.Spec{
		Name: name(0), Role: "research-and-development", Tasks: 2, Command: []string{"python", strings.Repeat("--flag=value ", 30)},
		Image: "registry.example.org/a/rather/long/name/of/an/image:2026.1", Env: map[string]string{"A": "b"}, Priority: 1000,
	}, Submitted: time.Now()}, State: job.Waiting, WaitReason: long}
	for i := range 2 {
		view.Tasks = append(view.Tasks, job.Task{ID: name(i) + ".0.1.x", State: job.Running, Hostname: "gpu-node-07.example.org", DeviceIDs: []string{uuid, uuid}, Ports: []int{31000, 31001}, Message: long, ExitCode: &one})
	}
	past := view
	past.Attempts = view.Tasks
	var agents []api.AgentSummary
	var gpus []api.GPUView
	var queue []api.QueuedJob
	var roles []api.RoleStatus
	var schedules []api.ScheduleView
	var uses []cluster.UsageRow
	var events []api.TaskEvent
	for i := range 3 {
		agents = append(agents, api.AgentSummary{ID: "16ff8fc9-9f6f-4e2c-8e3c-7f1c5a2e0000-S" + fmt.Sprint(i), Hostname: "gpu-node-07.example.org", GPUs: 8, Types: []string{"A100-SXM4-80GB", "V100"}, Driver: "550.54.15", CUDA: "12.4", CPUs: 128, MemMiB: 1 << 20, Cordoned: long, Shared: &api.SharedGPUs{GPUs: 2, MemMiB: 30720}})
		gpus = append(gpus, api.GPUView{Hostname: "gpu-node-07.example.org", Type: "A100-SXM4-80GB", Model: "NVIDIA A100-SXM4-80GB", MemMiB: 81920, UUID: uuid, State: api.HeldGPU, Task: name(i), Note: long, Shared: &api.SharedCapacity{MemMiB: 81920, Cores: 100, LimitedBy: "mps"}})
		queue = append(queue, api.QueuedJob{Position: i, Name: name(i), Role: "research", Priority: 1000, Waiting: 10, Tasks: 20, GPUs: "8 of A100-SXM4-80GB", Submitted: time.Now(), Reason: long})
		roles = append(roles, api.RoleStatus{Name: name(i), Quota: map[string]int{"A100-SXM4-80GB": 8, "V100": 8, "*": 16}, Allocated: map[string]float64{"A100-SXM4-80GB": 8, "V100": 8}})
		schedules = append(schedules, api.ScheduleView{Spec: job.Spec{Name: name(i), Schedule: &job.Schedule{Cron: "0 3 * * mon-fri", TimeZone: "Europe/Berlin"}}, NextRun: time.Now(), Note: long, Runs: []api.ScheduledRun{{Job: name(i) + "-20260101"}}})
		uses = append(uses, cluster.UsageRow{Task: name(i), GPU: uuid, Hostname: "gpu-node-07.example.org", Watts: &wattage, MemUsedMiB: &wattage, MemMiB: &wattage, Duty: &wattage, Note: long})
		events = append(events, api.TaskEvent{Task: name(i) + ".0.1.x", State: job.Running, Message: long})
	}
	host := gpu.Host{Devices: []gpu.Device{{UUID: uuid, Model: "NVIDIA A100-SXM4-80GB", PCI: "00000000:07:00.0"}, {UUID: uuid, MIG: &gpu.MIG{Profile: "3g.40gb"}}}}
	type table = struct {
		rows  int
		print func(*term.TablePrinter) error
	}
	return map[string]table{
		"ps":                 {2, func(p *term.TablePrinter) error { return jobs.PrintJobs(p, []api.JobView{view, view}) }},
		"describe":           {2, func(p *term.TablePrinter) error { return jobs.PrintJob(p, &view) }},
		"describe, attempts": {4, func(p *term.TablePrinter) error { return jobs.PrintJob(p, &past) }},
		"agents":             {3, func(p *term.TablePrinter) error { return cluster.PrintAgents(p, agents) }},
		"gpus":               {3, func(p *term.TablePrinter) error { return cluster.PrintGPUs(p, gpus) }},
		"queue":              {3, func(p *term.TablePrinter) error { return cluster.PrintQueue(p, queue) }},
		"quota":              {3, func(p *term.TablePrinter) error { return cluster.PrintRoles(p, roles) }},
		"schedules":          {3, func(p *term.TablePrinter) error { return jobs.PrintSchedules(p, schedules) }},
		"top":                {3, func(p *term.TablePrinter) error { return cluster.PrintTaskUsage(p, uses) }},
		"top, agents":        {3, func(p *term.TablePrinter) error { return cluster.PrintAgentUsage(p, uses) }},
		"events":             {3, func(p *term.TablePrinter) error { return jobs.PrintEventRows(p, events, 40) }},
		"explain":            {len(jobfile.Keys()), func(p *term.TablePrinter) error { return jobs.PrintKeys(p, jobfile.Keys()) }},
		"discover": {2, func(p *term.TablePrinter) error {
			return term.PrintTable(p.DropFirst("PERSISTENCE", "CAPS", "NUMA", "MODEL", "MEMORY", "PCI"), host.Devices, agent.HostColumns(host))
		}},
	}
}

// At any terminal width no line of any table is longer, and no row is lost.
func TestEveryTableFitsTerminal(t *testing.T) {
	for name, table := range everyTable() {
		for columns := 40; columns <= 200; columns++ {
			var out, whole bytes.Buffer
			if err := table.print(&term.TablePrinter{Writer: &out, TerminalScreen: term.TerminalScreen{Columns: columns}}); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if err := table.print(&term.TablePrinter{Writer: &whole}); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			for line := range strings.Lines(out.String()) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > columns {
					t.Fatalf("%s at %d: %d characters: %s", name, columns, n, line)
				}
			}
			if got := strings.Count(out.String(), "\n"); got < strings.Count(whole.String(), "\n") || got < table.rows+1 {
				t.Fatalf("%s at %d: %d lines:\n%s", name, columns, got, &out)
			}
		}
	}
}

// The wait reason of a job is readable at 80 columns.
func TestReasonsAreReadable(t *testing.T) {
	tables := everyTable()
	for _, name := range []string{"ps", "queue"} {
		var out bytes.Buffer
		if err := tables[name].print(&term.TablePrinter{Writer: &out, TerminalScreen: term.TerminalScreen{Columns: 80}}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), "WAITS") || !strings.Contains(out.String(), "CPUs for the gang: it needs 1") {
			t.Errorf("%s:\n%s", name, &out)
		}
	}
}

// For any header, cells and width each row fits on a line, in the order of its columns, and is
// complete if there is enough space.
func TestGeneratedTablesFitTerminal(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var head []string
		for i := range 1 + random.IntN(12) {
			head = append(head, []string{fmt.Sprintf("C%d", i), "NOTE", "STATE", "WAITS"}[random.IntN(4)])
		}
		rows := make([][]string, random.IntN(5))
		for r := range rows {
			for range head {
				rows[r] = append(rows[r], strings.Repeat("ä", random.IntN(60)))
			}
		}
		spared := slices.Clone(head[:random.IntN(len(head)+1)])
		columns := 40 + random.IntN(160)
		var out bytes.Buffer
		if err := (&term.TablePrinter{Writer: &out, TerminalScreen: term.TerminalScreen{Columns: columns}}).DropFirst(spared...).WriteTable(head, rows); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		if len(lines) != len(rows)+1 {
			t.Fatalf("%d rows are %d lines:\n%s", len(rows), len(lines), &out)
		}
		for _, line := range lines {
			if utf8.RuneCountInString(line) > columns || strings.HasSuffix(line, " ") {
				t.Fatalf("%d columns, %v, spared %v:\n%s", columns, head, spared, &out)
			}
		}
	}
}

// describe wraps texts only on a terminal, and aligns wrapped lines.
func TestFactsAreWrapped(t *testing.T) {
	var out bytes.Buffer
	all := []term.LabeledFact{{Name: "job", Text: "train"}, {Name: "waits", Text: strings.Repeat("word ", 12)}, {Name: "command", Text: strings.Repeat("x", 70)}}
	(&term.TablePrinter{Writer: &out, TerminalScreen: term.TerminalScreen{Columns: 50}}).PrintFacts(all)
	indent := "\n            "
	want := "job         train\nwaits       word word word word word word word" + indent + "word word word word word\ncommand     " + strings.Repeat("x", 38) + indent + strings.Repeat("x", 32) + "\n"
	if out.String() != want {
		t.Errorf("got %q, want %q", &out, want)
	}
	out.Reset()
	(&term.TablePrinter{Writer: &out}).PrintFacts(all)
	if strings.Count(out.String(), "\n") != 3 {
		t.Errorf("no terminal: %q", &out)
	}
}
