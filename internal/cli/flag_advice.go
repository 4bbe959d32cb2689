package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"mesos-gpu/framework/api"
	"mesos-gpu/job"
	"mesos-gpu/job/editdistance"
)

// flagAliases returns the names that users of docker, kubectl, Slurm and Nomad know
// our flags by. A hint names a flag only if the command has it.
func flagAliases() map[string][]string {
	return map[string][]string{
		"gpus":       {"gres", "gpu", "gpus-per-task", "gpus-per-node", "G"},
		"gpu-type":   {"constraint-gpu", "gputype"},
		"tasks":      {"ntasks", "nodes", "replicas", "count", "N"},
		"cpus":       {"cpus-per-task", "cpu", "c"},
		"mem":        {"memory", "mem-per-cpu", "m"},
		"timeout":    {"time", "time-limit", "stop-timeout"},
		"idle":       {"idle-timeout"},
		"role":       {"partition", "account", "namespace", "qos"},
		"name":       {"job-name", "J"},
		"after":      {"dependency"},
		"image":      {"container-image"},
		"all":        {"A", "all-namespaces"},
		"output":     {"json", "yaml", "format"},
		"tail":       {"lines"},
		"user":       {"uid"},
		"owner":      {"u"},
		"label":      {"selector", "filter"},
		"kill-grace": {"grace-period"},
		"force":      {"signal", "now"},
		"reason":     {"message"},
		"follow":     {"tail"},
	}
}

// flagAlternatives returns hints for flags that have no counterpart here, by command
// and flag. The command "" applies to all.
func flagAlternatives() map[string]map[string]string {
	return map[string]map[string]string{
		"run": {
			"rm":          "leave it out: a task's container goes with it",
			"interactive": "-it runs the command on this terminal",
			"fetch":       "a job file has the key fetch, for mesos-gpu submit",
			"matrix":      "a job file has the key matrix, for mesos-gpu submit",
			"array":       "a job file has the key matrix, for mesos-gpu submit; --tasks starts equal ones",
			"f":           "mesos-gpu submit takes job files",
			"file":        "mesos-gpu submit takes job files",
		},
		"kill": {
			"all":    "mesos-gpu kill --me ends all of yours; a pattern such as 'run-*' those with such names",
			"a":      "mesos-gpu kill --me ends all of yours; a pattern such as 'run-*' those with such names",
			"signal": "SIGTERM and then SIGKILL are sent; --force sends SIGKILL at once",
		},
		"logs": {
			"all":       "leave it out: logs prints all tasks of a job",
			"all-tasks": "leave it out: logs prints all tasks of a job",
		},
		"shell": {
			"i": "leave it out: a shell always has a terminal",
			"t": "leave it out: a shell always has a terminal",
		},
	}
}

// SuggestFlag returns a hint for an unknown flag of a command, or "" if no flag is
// similar.
func SuggestFlag(c *cobra.Command, err error) string {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return ""
	}
	word := unknown.GetSpecifiedName()
	if says := flagAlternatives()[c.Name()][word]; says != "" {
		return says
	}
	has := func(name string) bool { f := c.Flag(name); return f != nil && !f.Hidden }
	for ours, theirs := range flagAliases() {
		if slices.Contains(theirs, word) && has(ours) {
			return flagSuggestion(ours, word)
		}
	}
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && len(word) > 1 {
			names = append(names, f.Name)
		}
	})
	if best := editdistance.Nearest(strings.ReplaceAll(strings.ToLower(word), "_", "-"), names); best != "" && editdistance.Distance(word, best) <= len(word)/2 {
		return flagSuggestion(best, word)
	}
	return ""
}

func flagSuggestion(name, word string) string {
	if name == "output" && slices.Contains(outputFormats(), word) {
		return "did you mean -o " + word + "?"
	}
	return "did you mean --" + name + "?"
}

// suggestionError is an error about an unknown name, with the name that was probably
// meant.
type suggestionError struct {
	error
	suggestion string
}

func (e *suggestionError) Error() string {
	return fmt.Sprintf("%v: did you mean %q?", e.error, e.suggestion)
}
func (e *suggestionError) Unwrap() error { return e.error }

// SuggestNames makes the commands below root suggest a similar name if a job or an
// agent does not exist.
func (a *App) SuggestNames(root *cobra.Command) {
	for _, c := range root.Commands() {
		if do := c.RunE; do != nil {
			c.RunE = func(c *cobra.Command, args []string) error {
				return a.suggestName(c.Context(), c.Name(), do(c, args))
			}
		}
		a.SuggestNames(c)
	}
}

func (a *App) suggestName(ctx context.Context, command string, err error) error {
	if several := joinedErrors(err); several != nil {
		all := make([]error, len(several))
		for i, one := range several {
			all[i] = a.suggestName(ctx, command, one)
		}
		return errors.Join(all...)
	}
	var p *api.Problem
	if !errors.As(err, &p) || !strings.HasSuffix(err.Error(), p.Detail) {
		return err
	}
	kind := map[api.ProblemCode]string{api.CodeJobNotFound: "JOB", api.CodeAgentNotFound: "AGENT"}[p.Code]
	if kind == "" {
		return err
	}
	names := a.ListNames(ctx, []string{kind})
	if id, ok := job.ParseRunID(p.Name); ok && id.Run > 0 && kind == "JOB" && slices.Contains(names, id.Name) {
		return fmt.Errorf("job %s has no run %d: see mesos-gpu ps --runs %s", id.Name, id.Run, id.Name)
	}
	if name, number, ok := strings.Cut(p.Name, "."); ok && command == "kill" && slices.Contains(names, name) {
		if _, err := strconv.Atoi(number); err == nil {
			return fmt.Errorf("there is no job %q: mesos-gpu stop %[1]s ends a task", p.Name)
		}
	}
	if near := editdistance.Nearest(p.Name, names); near != "" && near != p.Name && editdistance.Distance(p.Name, near) <= len(p.Name)/2 {
		return &suggestionError{err, near}
	}
	return err
}
