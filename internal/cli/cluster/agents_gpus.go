package cluster

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/gpu"
	"mesos-gpu/internal/cli"
	"mesos-gpu/internal/term"
)

func (a *clusterCommands) agentsCommand() *cobra.Command {
	return a.NewShowCommand("agents", "List the cluster's agents", nil, func(ctx context.Context, api *client.Client, _ []string) (cli.CommandResult, error) {
		agents, err := api.ListAgents(ctx)
		return cli.CommandResult{Data: agents, Print: func(p *term.TablePrinter) error { return printAgents(p, agents) }}, err
	})
}

func printAgents(p *term.TablePrinter, agents []api.AgentSummary) error {
	p = p.DropFirst("AGENT", "CUDA", "DRIVER", "CPUS", "MEMORY", "SHARED", "TYPES").WithEmptyText("No agent has offered anything yet.")
	return term.PrintTable(p, agents, []term.TableColumn[api.AgentSummary]{
		{Name: "AGENT", Value: func(g api.AgentSummary) string { return g.ID }},
		{Name: "HOST", Value: func(g api.AgentSummary) string { return g.Hostname }},
		{Name: "GPUS", Value: func(g api.AgentSummary) string { return formatWholeGPUs(&g, g.GPUs) }},
		{Name: "FREE", Value: func(g api.AgentSummary) string { return formatWholeGPUs(&g, g.GPUsFree) }},
		{Name: "SHARED", Value: func(g api.AgentSummary) string { return formatSharedGPUs(g.Shared) }},
		{Name: "TYPES", Value: func(g api.AgentSummary) string { return term.DashIfEmpty(strings.Join(g.Types, ",")) }},
		{Name: "DRIVER", Value: func(g api.AgentSummary) string { return term.DashIfEmpty(g.Driver) }},
		{Name: "CUDA", Value: func(g api.AgentSummary) string { return term.DashIfEmpty(g.CUDA) }},
		{Name: "CPUS", Value: func(g api.AgentSummary) string { return fmt.Sprintf("%g", g.CPUs) }},
		{Name: "MEMORY", Value: func(g api.AgentSummary) string { return fmt.Sprintf("%.0f MiB", g.MemMiB) }},
		{Name: "NOTE", Value: formatAgentNote},
	}, term.TableColumn[api.AgentSummary]{Name: "URL", Value: func(g api.AgentSummary) string { return term.DashIfEmpty(g.URL) }})
}

// formatWholeGPUs formats the number n of GPUs that are not shared. It returns "-" for
// an agent that shares all of its GPUs.
func formatWholeGPUs(g *api.AgentSummary, n int) string {
	if g.GPUs == 0 && g.Shared != nil {
		return "-"
	}
	return fmt.Sprint(n)
}

// formatSharedGPUs formats the number of shared GPUs and their allocated memory, such
// as "2, 9216/30720 MiB".
func formatSharedGPUs(s *api.SharedGPUs) string {
	if s == nil {
		return "-"
	}
	return fmt.Sprintf("%d, %d/%d MiB", s.GPUs, s.MemMiB-s.MemFreeMiB, s.MemMiB)
}

// formatAgentNote returns why an agent gets no tasks, and which tasks it may run that no job owns, or "".
func formatAgentNote(g api.AgentSummary) string {
	var notes []string
	switch {
	case g.Draining && g.Cordoned != "":
		notes = append(notes, "draining: "+g.Cordoned)
	case g.Draining:
		notes = append(notes, "draining")
	case g.Cordoned != "":
		notes = append(notes, "cordoned: "+g.Cordoned)
	}
	if n := len(g.Strays); n > 0 {
		state := "may run"
		if g.Strays[0].Runs {
			state = "is being ended"
		}
		note := fmt.Sprintf("no job owns task %s, which %s", g.Strays[0].Task, state)
		if n > 1 {
			note += fmt.Sprintf(", and %d more", n-1)
		}
		notes = append(notes, note)
	}
	return strings.Join(notes, "; ")
}

func (a *clusterCommands) gpusCommand() *cobra.Command {
	return a.NewShowCommand("gpus", "List every GPU and the task that holds it", nil,
		func(ctx context.Context, api *client.Client, _ []string) (cli.CommandResult, error) {
			gpus, err := api.ListGPUs(ctx)
			return cli.CommandResult{Data: gpus, Print: func(p *term.TablePrinter) error { return printGPUs(p, gpus) }}, err
		})
}

func printGPUs(p *term.TablePrinter, gpus []api.GPUView) error {
	err := term.PrintTable(p.DropFirst("MODEL", "MEMORY", "SHARED", "UUID").WithEmptyText("No agent has offered a GPU yet."),
		gpus, []term.TableColumn[api.GPUView]{
			{Name: "HOST", Value: func(g api.GPUView) string { return g.Hostname }},
			{Name: "TYPE", Value: func(g api.GPUView) string { return g.Type }},
			{Name: "MODEL", Value: func(g api.GPUView) string { return g.Model }},
			{Name: "MEMORY", Value: func(g api.GPUView) string { return fmt.Sprintf("%d MiB", g.MemMiB) }},
			{Name: "UUID", Value: func(g api.GPUView) string { return term.DashIfEmpty(g.UUID) }},
			{Name: "STATE", Value: formatGPUState},
			{Name: "SHARED", Value: func(g api.GPUView) string { return formatSharedCapacity(g.Shared) }},
			{Name: "TASK", Value: func(g api.GPUView) string { return term.DashIfEmpty(g.Task) }},
			{Name: "NOTE", Value: func(g api.GPUView) string { return g.Note }},
		}, term.TableColumn[api.GPUView]{Name: "PCI", Value: func(g api.GPUView) string { return term.DashIfEmpty(g.PCI) }},
		term.TableColumn[api.GPUView]{Name: "AGENT", Value: func(g api.GPUView) string { return g.Agent }})
	if err != nil || p.NoHeaders {
		return err
	}
	if sum := summarizeGPUs(gpus); p.Columns > 0 && !p.Wide {
		_, err = fmt.Fprintln(p, strings.Join(term.WrapAt(sum, p.Columns), "\n"))
	} else {
		_, err = fmt.Fprintln(p, sum)
	}
	return err
}

// formatSharedCapacity formats the allocated and total capacity and the enforcement
// method, such as "9216/15360 MiB, 60/100 % (mps)".
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

// formatGPUState returns the state of a GPU. A GPU is free only if a job can get it,
// not if its agent takes no tasks. A withheld GPU is shown as unhealthy or cordoned if
// the reason is known. If the master does not list GPUs, those of our tasks are held.
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
	return term.DashIfEmpty(string(g.State))
}

// summarizeGPUs summarizes the held GPUs, the allocated memory of shared GPUs, and the
// GPUs that jobs cannot get.
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
