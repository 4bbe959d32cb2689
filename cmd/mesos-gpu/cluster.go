package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/gpu"
)

func (a *cliApp) agentsCommand() *cobra.Command {
	return a.newShowCommand("agents", "List the cluster's agents", nil, func(ctx context.Context, api *client.Client, _ []string) (commandResult, error) {
		agents, err := api.ListAgents(ctx)
		return commandResult{agents, func(p *tablePrinter) error { return printAgents(p, agents) }}, err
	})
}

func printAgents(p *tablePrinter, agents []api.AgentSummary) error {
	p = p.dropFirst("AGENT", "CUDA", "DRIVER", "CPUS", "MEMORY", "SHARED", "TYPES").withEmptyText("No agent has offered anything yet.")
	return printTable(p, agents, []tableColumn[api.AgentSummary]{
		{"AGENT", func(g api.AgentSummary) string { return g.ID }},
		{"HOST", func(g api.AgentSummary) string { return g.Hostname }},
		{"GPUS", func(g api.AgentSummary) string { return formatWholeGPUs(&g, g.GPUs) }},
		{"FREE", func(g api.AgentSummary) string { return formatWholeGPUs(&g, g.GPUsFree) }},
		{"SHARED", func(g api.AgentSummary) string { return formatSharedGPUs(g.Shared) }},
		{"TYPES", func(g api.AgentSummary) string { return dashIfEmpty(strings.Join(g.Types, ",")) }},
		{"DRIVER", func(g api.AgentSummary) string { return dashIfEmpty(g.Driver) }},
		{"CUDA", func(g api.AgentSummary) string { return dashIfEmpty(g.CUDA) }},
		{"CPUS", func(g api.AgentSummary) string { return fmt.Sprintf("%g", g.CPUs) }},
		{"MEMORY", func(g api.AgentSummary) string { return fmt.Sprintf("%.0f MiB", g.MemMiB) }},
		{"NOTE", formatAgentNote},
	}, tableColumn[api.AgentSummary]{"URL", func(g api.AgentSummary) string { return dashIfEmpty(g.URL) }})
}

// formatWholeGPUs counts GPUs that tasks have whole, of which an agent that shares all
// has none to count.
func formatWholeGPUs(g *api.AgentSummary, n int) string {
	if g.GPUs == 0 && g.Shared != nil {
		return "-"
	}
	return fmt.Sprint(n)
}

// formatSharedGPUs reads "2, 9216/30720 MiB", how many there are and what is taken of
// their memory.
func formatSharedGPUs(s *api.SharedGPUs) string {
	if s == nil {
		return "-"
	}
	return fmt.Sprintf("%d, %d/%d MiB", s.GPUs, s.MemMiB-s.MemFreeMiB, s.MemMiB)
}

// formatAgentNote says what keeps tasks off an agent.
func formatAgentNote(g api.AgentSummary) string {
	switch {
	case g.Draining && g.Cordoned != "":
		return "draining: " + g.Cordoned
	case g.Draining:
		return "draining"
	case g.Cordoned != "":
		return "cordoned: " + g.Cordoned
	}
	return ""
}

func (a *cliApp) gpusCommand() *cobra.Command {
	return a.newShowCommand("gpus", "List every GPU and who holds it", nil, func(ctx context.Context, api *client.Client, _ []string) (commandResult, error) {
		gpus, err := api.ListGPUs(ctx)
		return commandResult{gpus, func(p *tablePrinter) error { return printGPUs(p, gpus) }}, err
	})
}

func printGPUs(p *tablePrinter, gpus []api.GPUView) error {
	err := printTable(p.dropFirst("MODEL", "MEMORY", "SHARED", "UUID").withEmptyText("No agent has offered a GPU yet."), gpus, []tableColumn[api.GPUView]{
		{"HOST", func(g api.GPUView) string { return g.Hostname }},
		{"TYPE", func(g api.GPUView) string { return g.Type }},
		{"MODEL", func(g api.GPUView) string { return g.Model }},
		{"MEMORY", func(g api.GPUView) string { return fmt.Sprintf("%d MiB", g.MemMiB) }},
		{"UUID", func(g api.GPUView) string { return dashIfEmpty(g.UUID) }},
		{"STATE", formatGPUState},
		{"SHARED", func(g api.GPUView) string { return formatSharedCapacity(g.Shared) }},
		{"TASK", func(g api.GPUView) string { return dashIfEmpty(g.Task) }},
		{"NOTE", func(g api.GPUView) string { return g.Note }},
	}, tableColumn[api.GPUView]{"AGENT", func(g api.GPUView) string { return g.Agent }})
	if err != nil || p.noHeaders {
		return err
	}
	if sum := summarizeGPUs(gpus); p.columns > 0 && !p.wide {
		_, err = fmt.Fprintln(p, strings.Join(wrapAt(sum, p.columns), "\n"))
	} else {
		_, err = fmt.Fprintln(p, sum)
	}
	return err
}

// formatSharedCapacity reads "9216/15360 MiB, 60/100 % (mps)", what is taken of what there
// is, and what holds tasks to their parts.
func formatSharedCapacity(s *api.SharedCapacity) string {
	if s == nil {
		return "-"
	}
	text := fmt.Sprintf("%d/%d MiB, %d/%d %%", s.MemMiB-s.MemFreeMiB, s.MemMiB, s.Cores-s.CoresFree, s.Cores)
	switch s.LimitedBy {
	case "":
		return text
	case gpu.NotEnforced:
		return text + " (no limit)"
	default:
		return text + fmt.Sprintf(" (%s)", s.LimitedBy)
	}
}

// formatGPUState is free only of what a job may get: not of a GPU whose agent takes
// no tasks. One that is withheld is sick or cordoned, where that is known.
// Where the master names no GPUs, those that our tasks hold are held.
func formatGPUState(g api.GPUView) string {
	telling := g.Reason == api.ReasonCordoned || g.Reason == api.ReasonDraining || g.Reason == api.ReasonUnhealthy
	switch {
	case telling && g.State != api.HeldGPU:
		return string(g.Reason)
	case g.State == "" && g.Task != "":
		return string(api.HeldGPU)
	case g.Shared != nil && g.State == api.FreeGPU && (g.Task != "" || g.Shared.MemFreeMiB < g.Shared.MemMiB):
		return "part held"
	}
	return dashIfEmpty(string(g.State))
}

// summarizeGPUs sums up who holds what: whole GPUs, and memory of shared ones, and
// those that no job gets.
func summarizeGPUs(gpus []api.GPUView) string {
	whole, shared, in := 0, 0, map[string]int{}
	var all, free int64
	for _, g := range gpus {
		state := formatGPUState(g)
		if s := g.Shared; s != nil {
			shared++
			all, free = all+s.MemMiB, free+s.MemFreeMiB
		} else {
			whole++
		}
		if g.Shared == nil || state != string(api.HeldGPU) {
			in[state]++
		}
	}
	var parts []string
	if whole > 0 || shared == 0 {
		parts = append(parts, fmt.Sprintf("%d of %d %s held", in[string(api.HeldGPU)], whole, gpu.Plural(whole, "GPU")))
	}
	if shared > 0 {
		parts = append(parts, fmt.Sprintf("%d/%d MiB (%d %%) of %d shared %s held", all-free, all, percentOf(all-free, all), shared, gpu.Plural(shared, "GPU")))
	}
	for _, state := range []string{string(api.WithheldGPU), string(api.ReasonUnhealthy), string(api.ReasonCordoned), string(api.ReasonDraining)} {
		if in[state] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", in[state], state))
		}
	}
	return strings.Join(parts, "; ")
}

func percentOf(part, all int64) int64 {
	if all == 0 {
		return 0
	}
	return 100 * part / all
}
