package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"mesos-gpu/job/editdistance"
)

// CommandAliases returns the names that users of docker, kubectl, Slurm and Mesos
// know our commands by.
func CommandAliases() map[string][]string {
	return map[string][]string{
		"run":      {"srun", "salloc", "start", "launch"},
		"submit":   {"sbatch", "create", "add", "enqueue"},
		"ps":       {"list", "jobs", "status", "pods", "sacct", "containers"},
		"queue":    {"squeue", "pending", "sprio"},
		"describe": {"inspect", "show", "scontrol", "info"},
		"attach":   {"sattach"},
		"logs":     {"tail", "output", "cat"},
		"cp":       {"copy", "scp", "upload", "download", "sync"},
		"edit":     {"alter", "modify", "patch"},
		"hold":     {"pause", "suspend"},
		"release":  {"unhold", "unpause", "unsuspend"},
		"requeue":  {"preempt"},
		"kill":     {"cancel", "scancel", "terminate", "abort"},
		"agents":   {"nodes", "node", "sinfo", "hosts", "machines", "workers"},
		"gpus":     {"devices", "nvidia-smi", "inventory"},
		"top":      {"stats", "sstat", "nvtop"},
		"usage":    {"sreport", "accounting", "cost", "efficiency", "seff"},
		"quota":    {"quotas", "roles", "limits", "sacctmgr"},
		"cordon":   {"disable", "taint"},
		"uncordon": {"enable", "undrain", "resume"},
		"validate": {"lint", "check"},
		"wait":     {"join"},
		"events":   {"watch", "history"},
	}
}

// commandAlternatives returns hints for commands of other tools that have no counterpart here.
func commandAlternatives() map[string]string {
	const removal = "mesos-gpu kill JOB ends a job; the scheduler removes ended jobs by their number and age, see --keep-runs and --keep-ended"
	return map[string]string{
		"rm":      removal,
		"delete":  removal,
		"remove":  removal,
		"update":  "mesos-gpu apply FILE submits what has changed, and updates services; edit JOB changes single keys of a job",
		"restart": "mesos-gpu rerun JOB runs an ended job again, requeue JOB stops a running one and queues it again, and stop TASK starts another task of a service",
		"login":   "name a token by --token-file, MESOS_GPU_TOKEN_FILE or MESOS_GPU_TOKEN",
		"open":    "open the address of --api in a browser",
		"init":    "mesos-gpu explain has the keys of job files, and schema their JSON Schema",
	}
}

// nearestCommand returns the subcommand of c that was probably meant, or "".
func nearestCommand(c *cobra.Command, word string) string {
	word = strings.ToLower(word)
	best, distance := "", 3
	for _, sub := range c.Commands() {
		if !sub.IsAvailableCommand() {
			continue
		}
		d := editdistance.Distance(word, sub.Name())
		switch {
		case slices.Contains(sub.SuggestFor, word):
			d = 0
		case strings.HasPrefix(sub.Name(), word):
			d = min(d, 2)
		case d > len(word)/2:
			continue
		}
		if d < distance {
			best, distance = sub.Name(), d
		}
	}
	return best
}

// RejectUnknownCommand returns a UsageError for an unknown subcommand. The error
// suggests the nearest command, if there is one.
func RejectUnknownCommand(c *cobra.Command, got []string) error {
	if len(got) == 0 {
		return nil
	}
	hint := fmt.Sprintf("see %s --help", c.CommandPath())
	if says := commandAlternatives()[strings.ToLower(got[0])]; says != "" && !c.HasParent() {
		hint = says
	} else if near := nearestCommand(c, got[0]); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	return &UsageError{fmt.Errorf("unknown command %q: %s", got[0], hint)}
}

// RejectUnknownHelp makes the help command reject unknown commands, as the program does.
func RejectUnknownHelp(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	for _, help := range root.Commands() {
		if help.Name() != "help" {
			continue
		}
		help.Args = func(_ *cobra.Command, got []string) error {
			about, rest, err := root.Find(got)
			if err != nil || !about.HasSubCommands() {
				return err
			}
			return RejectUnknownCommand(about, rest)
		}
	}
}

// RejectUnknownShell makes the completion command reject unsupported shells.
func RejectUnknownShell(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() != "completion" {
			continue
		}
		var shells []string
		for _, shell := range c.Commands() {
			shells = append(shells, shell.Name())
		}
		c.RunE = func(c *cobra.Command, got []string) error {
			if len(got) == 0 {
				return c.Help()
			}
			return &UsageError{fmt.Errorf("%s knows no shell %q: use %s", CommandName(c), got[0], JoinWithOr(shells))}
		}
		c.Args = cobra.ArbitraryArgs
	}
}
