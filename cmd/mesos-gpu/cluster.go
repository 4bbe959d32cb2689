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

func (a *app) agentsCommand() *cobra.Command {
	return a.show("agents", "List the cluster's agents", nil, func(ctx context.Context, api *client.Client, _ []string) (shown, error) {
		agents, err := api.Agents(ctx)
		return shown{agents, func(p *printer) error { return listAgents(p, agents) }}, err
	})
}

func listAgents(p *printer, agents []api.Agent) error {
	p = p.spare("AGENT", "CUDA", "DRIVER", "CPUS", "MEMORY", "SHARED", "TYPES").orSay("No agent has offered anything yet.")
	return tableOf(p, agents, []column[api.Agent]{
		{"AGENT", func(g api.Agent) string { return g.ID }},
		{"HOST", func(g api.Agent) string { return g.Hostname }},
		{"GPUS", func(g api.Agent) string { return wholeOf(&g, g.GPUs) }},
		{"FREE", func(g api.Agent) string { return wholeOf(&g, g.GPUsFree) }},
		{"SHARED", func(g api.Agent) string { return sharedGPUs(g.Shared) }},
		{"TYPES", func(g api.Agent) string { return orDash(strings.Join(g.Types, ",")) }},
		{"DRIVER", func(g api.Agent) string { return orDash(g.Driver) }},
		{"CUDA", func(g api.Agent) string { return orDash(g.CUDA) }},
		{"CPUS", func(g api.Agent) string { return fmt.Sprintf("%g", g.CPUs) }},
		{"MEMORY", func(g api.Agent) string { return fmt.Sprintf("%.0f MiB", g.MemMiB) }},
		{"NOTE", noteOf},
	}, column[api.Agent]{"URL", func(g api.Agent) string { return orDash(g.URL) }})
}

// wholeOf counts GPUs that tasks have whole, of which an agent that shares all
// has none to count.
func wholeOf(g *api.Agent, n int) string {
	if g.GPUs == 0 && g.Shared != nil {
		return "-"
	}
	return fmt.Sprint(n)
}

// sharedGPUs reads "2, 9216/30720 MiB", how many there are and what is taken of
// their memory.
func sharedGPUs(s *api.SharedGPUs) string {
	if s == nil {
		return "-"
	}
	return fmt.Sprintf("%d, %d/%d MiB", s.GPUs, s.MemMiB-s.MemFreeMiB, s.MemMiB)
}

// noteOf says what keeps tasks off an agent.
func noteOf(g api.Agent) string {
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

func (a *app) gpusCommand() *cobra.Command {
	return a.show("gpus", "List every GPU and who holds it", nil, func(ctx context.Context, api *client.Client, _ []string) (shown, error) {
		gpus, err := api.GPUs(ctx)
		return shown{gpus, func(p *printer) error { return listGPUs(p, gpus) }}, err
	})
}

func listGPUs(p *printer, gpus []api.GPU) error {
	err := tableOf(p.spare("MODEL", "MEMORY", "SHARED", "UUID").orSay("No agent has offered a GPU yet."), gpus, []column[api.GPU]{
		{"HOST", func(g api.GPU) string { return g.Hostname }},
		{"TYPE", func(g api.GPU) string { return g.Type }},
		{"MODEL", func(g api.GPU) string { return g.Model }},
		{"MEMORY", func(g api.GPU) string { return fmt.Sprintf("%d MiB", g.MemMiB) }},
		{"UUID", func(g api.GPU) string { return orDash(g.UUID) }},
		{"STATE", gpuState},
		{"SHARED", func(g api.GPU) string { return sharedOf(g.Shared) }},
		{"TASK", func(g api.GPU) string { return orDash(g.Task) }},
		{"NOTE", func(g api.GPU) string { return g.Note }},
	}, column[api.GPU]{"AGENT", func(g api.GPU) string { return g.Agent }})
	if err != nil || p.bare {
		return err
	}
	if sum := heldOf(gpus); p.columns > 0 && !p.wide {
		_, err = fmt.Fprintln(p, strings.Join(wrapAt(sum, p.columns), "\n"))
	} else {
		_, err = fmt.Fprintln(p, sum)
	}
	return err
}

// sharedOf reads "9216/15360 MiB, 60/100 % (mps)", what is taken of what there
// is, and what holds tasks to their parts.
func sharedOf(s *api.Shared) string {
	if s == nil {
		return "-"
	}
	text := fmt.Sprintf("%d/%d MiB, %d/%d %%", s.MemMiB-s.MemFreeMiB, s.MemMiB, s.Cores-s.CoresFree, s.Cores)
	switch s.Limit {
	case "":
		return text
	case gpu.NotHeld:
		return text + " (no limit)"
	default:
		return text + fmt.Sprintf(" (%s)", s.Limit)
	}
}

// gpuState is free only of what a job may get: not of a GPU whose agent takes
// no tasks. One that is withheld is sick or cordoned, where that is known.
// Where the master names no GPUs, those that our tasks hold are held.
func gpuState(g api.GPU) string {
	telling := g.Reason == api.Cordoned || g.Reason == api.AgentDraining || g.Reason == api.Sick
	switch {
	case telling && g.State != api.HeldGPU:
		return string(g.Reason)
	case g.State == "" && g.Task != "":
		return string(api.HeldGPU)
	case g.Shared != nil && g.State == api.FreeGPU && (g.Task != "" || g.Shared.MemFreeMiB < g.Shared.MemMiB):
		return "part held"
	}
	return orDash(string(g.State))
}

// heldOf sums up who holds what: whole GPUs, and memory of shared ones, and
// those that no job gets.
func heldOf(gpus []api.GPU) string {
	whole, shared, in := 0, 0, map[string]int{}
	var all, free int64
	for _, g := range gpus {
		state := gpuState(g)
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
		parts = append(parts, fmt.Sprintf("%d/%d MiB (%d %%) of %d shared %s held", all-free, all, percent(all-free, all), shared, gpu.Plural(shared, "GPU")))
	}
	for _, state := range []string{string(api.WithheldGPU), string(api.Sick), string(api.Cordoned), string(api.AgentDraining)} {
		if in[state] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", in[state], state))
		}
	}
	return strings.Join(parts, "; ")
}

func percent(part, all int64) int64 {
	if all == 0 {
		return 0
	}
	return 100 * part / all
}
