package cli

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// completionTimeout limits how long a shell waits for completions.
const completionTimeout = 500 * time.Millisecond

// CompleteFixed completes a flag from a fixed list of values.
func CompleteFixed(c *cobra.Command, flag string, values []string) {
	_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// nameSources returns the functions that list completions from the scheduler, by
// the placeholder that stands for the argument in a command's usage line.
func nameSources() map[string]func(context.Context, *client.Client) ([]string, error) {
	return map[string]func(context.Context, *client.Client) ([]string, error){
		"JOB": func(ctx context.Context, c *client.Client) ([]string, error) {
			return uniqueNames(sortLiveFirst(c.ListJobs(ctx)), jobName)
		},
		// LIVE is every job that has not ended; SERVICE is the services among them.
		"LIVE": func(ctx context.Context, c *client.Client) ([]string, error) {
			return uniqueNames(c.EachJob(ctx, api.LiveJobs), jobName)
		},
		"SERVICE": func(ctx context.Context, c *client.Client) ([]string, error) {
			return uniqueNames(c.EachJob(ctx, api.LiveJobs), serviceName)
		},
		"TASK": func(ctx context.Context, c *client.Client) ([]string, error) {
			return uniqueNames(sortLiveFirst(c.ListJobs(ctx)), taskIDs)
		},
		"RUNNING": func(ctx context.Context, c *client.Client) ([]string, error) {
			return uniqueNames(c.EachJob(ctx, api.LiveJobs), runningNames)
		},
		"AGENT": func(ctx context.Context, c *client.Client) ([]string, error) {
			return uniqueNames(c.EachAgent(ctx), func(a *api.AgentSummary) []string { return []string{a.Hostname} })
		},
		"ROLE": func(ctx context.Context, c *client.Client) ([]string, error) {
			return uniqueNames(c.EachRole(ctx), func(r *api.RoleStatus) []string { return []string{r.Name} })
		},
		"TYPE": func(ctx context.Context, c *client.Client) ([]string, error) {
			return uniqueNames(c.EachGPU(ctx), func(g *api.GPUView) []string { return []string{g.Type} })
		},
	}
}

// sortLiveFirst sorts live jobs before ended ones, and the latest first within each
// group: users most often name those.
func sortLiveFirst(jobs []api.JobView, err error) iter.Seq2[api.JobView, error] {
	slices.Reverse(jobs)
	slices.SortStableFunc(jobs, func(x, y api.JobView) int {
		switch {
		case x.Terminal == y.Terminal:
			return 0
		case y.Terminal:
			return -1
		}
		return 1
	})
	return func(yield func(api.JobView, error) bool) {
		for i := range jobs {
			if !yield(jobs[i], nil) {
				return
			}
		}
		if err != nil {
			yield(api.JobView{}, err)
		}
	}
}

func jobName(j *api.JobView) []string { return []string{j.Spec.Name} }

func serviceName(j *api.JobView) []string {
	if j.Spec.Service == nil {
		return nil
	}
	return jobName(j)
}

func taskIDs(j *api.JobView) []string {
	var ids []string
	for i := range j.Tasks {
		ids = append(ids, j.Tasks[i].ID)
	}
	return ids
}

// AddCompletions adds completions for the arguments and flags of all commands below
// root. It derives them from the placeholders in the usage lines.
func (a *App) AddCompletions(root *cobra.Command) {
	for _, c := range root.Commands() {
		if usage := strings.Fields(c.Use)[1:]; c.ValidArgsFunction == nil && len(usage) > 0 {
			c.ValidArgsFunction = a.CompleteArgument(usage)
		}
		for flag, values := range map[string][]string{
			"policy": fit.PolicyNames(), "container": {string(job.Docker), string(job.Mesos)}, "restart": {"no", "always"}, "pull": {"missing", "always"},
			"gpu-topology": ToStrings(gpu.AllTopologies()), "log-level": {"debug", "info", "warn", "error"},
		} {
			if c.Flags().Lookup(flag) != nil {
				CompleteFixed(c, flag, values)
			}
		}
		for flag, word := range map[string]string{"gpu-type": "TYPE", "not-gpu-type": "TYPE", "role": "ROLE"} {
			if c.Flags().Lookup(flag) != nil {
				_ = c.RegisterFlagCompletionFunc(flag, a.CompleteArgument([]string{word + "..."}))
			}
		}
		a.AddCompletions(c)
	}
}

// CompleteArgument completes the arguments of a usage such as "JOB TASKS" or "JOB...".
func (a *App) CompleteArgument(usage []string) cobra.CompletionFunc {
	return func(c *cobra.Command, before []string, _ string) ([]string, cobra.ShellCompDirective) {
		at := len(before)
		if last := usage[len(usage)-1]; at >= len(usage) && strings.Contains(last, "...") {
			at = len(usage) - 1
		}
		if at >= len(usage) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		word := strings.Trim(usage[at], "[].")
		if word == "FILE" || word == "DIR" {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return a.ListNames(c.Context(), strings.Split(word, "|")), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// ListNames returns the names of all kinds from the scheduler. It ignores errors,
// because a shell cannot display them during completion.
func (a *App) ListNames(ctx context.Context, kinds []string) []string {
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	var all []string
	for _, kind := range kinds {
		ask := nameSources()[kind]
		api, err := a.NewClient()
		if ask == nil || err != nil {
			continue
		}
		if names, err := ask(ctx, api); err == nil {
			all = append(all, names...)
		}
	}
	return all
}

// uniqueNames returns the names that of extracts, without duplicates.
func uniqueNames[T any](things iter.Seq2[T, error], of func(*T) []string) ([]string, error) {
	var names []string
	seen := map[string]bool{}
	for thing, err := range things {
		if err != nil {
			return nil, err
		}
		for _, name := range of(&thing) {
			if name != "" && !seen[name] {
				seen[name] = true
				names = append(names, name)
			}
		}
	}
	return names, nil
}

func ToStrings[T ~string](list []T) []string {
	plain := make([]string, len(list))
	for i, word := range list {
		plain[i] = string(word)
	}
	return plain
}

func runningNames(j *api.JobView) (names []string) {
	for _, t := range j.Tasks {
		switch {
		case t.State != job.Running:
		case len(j.Tasks) == 1:
			names = append(names, j.Spec.Name)
		default:
			names = append(names, fmt.Sprintf("%s.%d", j.Spec.Name, t.Index))
		}
	}
	return names
}
