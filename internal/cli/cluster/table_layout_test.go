package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/internal/term"
	"mesos-gpu/internal/testing/termtest"
)

// tablesOfLongCells returns tables whose cells are long.
func tablesOfLongCells() map[string]func(*term.TablePrinter) error {
	uuid := "GPU-8f1c3a5e-0000-1111-2222-333344445555"
	name := func(i int) string { return fmt.Sprintf("experiment-with-a-rather-long-name-%d", i) }
	long := "CPUs for the gang: it needs 1.2 together, and agents had 1.1 free when they offered last; " + strings.Repeat("and so on ", 20)
	watts := 300.0
	var agents []api.AgentSummary
	var gpus []api.GPUView
	var queue []api.QueuedJob
	var roles []api.RoleStatus
	var uses []usageRow
	for i := range 3 {
		agents = append(agents, api.AgentSummary{
			ID:       "16ff8fc9-9f6f-4e2c-8e3c-7f1c5a2e0000-S" + fmt.Sprint(i),
			Hostname: "gpu-node-07.example.org",
			GPUs:     8,
			Types:    []string{"A100-SXM4-80GB", "V100"},
			Driver:   "550.54.15",
			CUDA:     "12.4",
			CPUs:     128,
			MemMiB:   1 << 20,
			Cordoned: long,
			Shared:   &api.SharedGPUs{GPUs: 2, MemMiB: 30720},
		})
		gpus = append(gpus, api.GPUView{
			Hostname: "gpu-node-07.example.org",
			Type:     "A100-SXM4-80GB",
			Model:    "NVIDIA A100-SXM4-80GB",
			MemMiB:   81920,
			UUID:     uuid,
			State:    api.HeldGPU,
			Task:     name(i),
			Note:     long,
			Shared:   &api.SharedCapacity{MemMiB: 81920, Cores: 100, LimitedBy: "mps"},
		})
		queue = append(queue, api.QueuedJob{
			Position:  i,
			Name:      name(i),
			Role:      "research",
			Priority:  1000,
			Waiting:   10,
			Tasks:     20,
			GPUs:      "8 of A100-SXM4-80GB",
			Submitted: time.Now(),
			Reason:    long,
		})
		roles = append(roles, api.RoleStatus{
			Name:      name(i),
			Quota:     map[string]int{"A100-SXM4-80GB": 8, "V100": 8, "*": 16},
			Allocated: map[string]float64{"A100-SXM4-80GB": 8, "V100": 8},
		})
		uses = append(uses, usageRow{
			Task:       name(i),
			GPU:        uuid,
			Hostname:   "gpu-node-07.example.org",
			Watts:      &watts,
			MemUsedMiB: &watts,
			MemMiB:     &watts,
			Duty:       &watts,
			Note:       long,
		})
	}
	return map[string]func(*term.TablePrinter) error{
		"agents":      func(p *term.TablePrinter) error { return printAgents(p, agents) },
		"gpus":        func(p *term.TablePrinter) error { return printGPUs(p, gpus) },
		"queue":       func(p *term.TablePrinter) error { return printQueue(p, queue) },
		"quota":       func(p *term.TablePrinter) error { return printRoles(p, roles) },
		"top":         func(p *term.TablePrinter) error { return printTaskUsage(p, uses) },
		"top, agents": func(p *term.TablePrinter) error { return printAgentUsage(p, uses) },
	}
}

// At any terminal width no line of a table is longer, and no row is lost.
func TestTablesFitTerminal(t *testing.T) {
	for name, print := range tablesOfLongCells() {
		t.Run(name, func(t *testing.T) { termtest.CheckTableFits(t, 3, print) })
	}
}

// The wait reason of a job is readable at 80 columns.
func TestWaitReasonIsReadable(t *testing.T) {
	termtest.CheckShownAt(t, 80, tablesOfLongCells()["queue"], "WAITS", "CPUs for the gang: it needs 1")
}
