package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"mesos-gpu/job/editdistance"
)

// CommandAliases returns the names that users of Slurm, PBS, LSF, kubectl, docker, Nomad and Mesos know our commands by.
func CommandAliases() map[string][]string {
	return map[string][]string{
		"run":          {"srun", "start", "launch"},
		"submit":       {"sbatch", "qsub", "bsub", "create", "add", "enqueue", "dispatch"},
		"apply":        {"replace"},
		"diff":         {"plan"},
		"ps":           {"list", "jobs", "qstat", "bjobs", "pods", "pod", "container", "containers", "deployments", "services"},
		"queue":        {"pending", "sprio", "bqueues", "evaluations"},
		"describe":     {"inspect", "show", "info", "port", "eval", "status"},
		"attach":       {"sattach"},
		"logs":         {"tail", "output", "cat", "monitor", "bpeek"},
		"cp":           {"copy", "scp", "sbcast", "upload", "download", "sync"},
		"edit":         {"alter", "qalter", "bmod", "modify", "patch", "set", "label", "annotate"},
		"hold":         {"pause", "suspend", "qhold", "bstop"},
		"release":      {"unhold", "unpause", "unsuspend", "resume", "qrls", "bresume"},
		"requeue":      {"preempt", "qrerun", "brequeue"},
		"kill":         {"cancel", "scancel", "qdel", "bkill", "terminate", "abort"},
		"scale":        {"scaling"},
		"schedules":    {"scrontab", "crontab", "cron", "cronjob", "cronjobs", "periodic"},
		"agents":       {"nodes", "node", "sinfo", "pbsnodes", "bhosts", "lsload", "hosts", "machines", "workers", "clients", "cluster-info"},
		"gpus":         {"devices", "nvidia-smi", "inventory"},
		"top":          {"stats", "sstat", "nvtop"},
		"usage":        {"sacct", "sreport", "seff", "qacct", "bacct", "accounting", "cost", "efficiency"},
		"quota":        {"quotas", "roles", "limits", "sacctmgr", "sshare", "namespace", "namespaces"},
		"cordon":       {"disable", "taint"},
		"uncordon":     {"enable", "undrain"},
		"validate":     {"lint", "check", "fmt"},
		"explain":      {"api-resources", "keys"},
		"shell":        {"debug", "ssh"},
		"wait":         {"join"},
		"events":       {"watch", "history"},
		"scheduler":    {"server", "servers"},
		"simulate":     {"simulator"},
		"token":        {"acl"},
		"port-forward": {"proxy", "forward", "tunnel"},
	}
}

// CommandAlternatives returns hints for commands of other tools that have several counterparts here, or none. The hint "" is
// for those about which there is nothing to say: a command with a similar name would be a wrong guess.
func CommandAlternatives() map[string]string {
	const (
		removal = "mesos-gpu kill JOB ends a job; the scheduler removes ended jobs by their number and age, see --keep-runs and --keep-ended"
		starts  = "mesos-gpu submit FILE or run starts jobs, and local a cluster on this machine"
		revert  = "mesos-gpu apply FILE with the earlier job file; get JOB@RUN prints that of an earlier run, and rerun JOB@RUN submits it again"
		context = "name the scheduler by --api or MESOS_GPU_API, and a token by --token-file"
		volumes = "mesos-gpu explain volumes and network have the keys of a job; agents and their Docker engines have the volumes and networks"
		metrics = "mesos-gpu top shows the present, GET /metrics the scheduler's metrics, and its log the rest"
		page    = "open the address of --api in a browser"
		images  = "agents pull the image of a job, its key image; mesos-gpu builds and stores no images"
		secrets = "mesos-gpu explain secrets has the key for secrets of the agents"
		jobs    = "mesos-gpu submit FILE starts a job, describe JOB shows it, kill JOB ends it, and ps lists all"
		tasks   = "mesos-gpu describe JOB shows the tasks of a job; logs, exec and stop work on one"
		rollout = "mesos-gpu apply FILE updates a service step by step, and describe JOB shows how far it is"
	)
	return map[string]string{
		"rm":     removal,
		"delete": removal,
		"remove": removal,
		"prune":  removal,
		"update": "mesos-gpu apply FILE submits what has changed, and updates services; edit JOB changes single keys of a job",
		"restart": "mesos-gpu rerun JOB runs an ended job again, " +
			"requeue JOB stops a running one and queues it again, and stop TASK starts another task of a service",
		"salloc":     "mesos-gpu run -it --gpus 1 -- bash opens a shell on an agent, with GPUs",
		"squeue":     "mesos-gpu ps lists the jobs that run or wait, and queue those that wait with the reason",
		"scontrol":   "mesos-gpu describe JOB shows a job; edit, hold, release and requeue change it; agents, cordon and drain are for agents",
		"strigger":   "the key notify of a job sends mails and webhooks: mesos-gpu explain notify",
		"sview":      page,
		"dashboard":  page,
		"ui":         page,
		"open":       page,
		"job":        jobs,
		"alloc":      tasks,
		"allocs":     tasks,
		"allocation": tasks,
		"task":       tasks,
		"rollout":    rollout,
		"deployment": rollout,
		"service":    "a job with service: true is a service: mesos-gpu explain service",
		"expose":     "mesos-gpu service-config haproxy|traefik writes the configuration of a load balancer for the services",
		"autoscale":  "min, max and target of the key service scale a service by load: mesos-gpu explain service",
		"compose":    "mesos-gpu submit FILE takes several jobs in a file, separated by lines with ---",
		"stack":      "mesos-gpu submit FILE takes several jobs in a file, separated by lines with ---",
		"pull":       images,
		"push":       images,
		"build":      images,
		"image":      images,
		"images":     images,
		"secret":     secrets,
		"secrets":    secrets,
		"login":      TokenAdvice,
		"logout":     TokenAdvice,
		"auth":       TokenAdvice,
		"config":     context,
		"context":    context,
		"up":         starts,
		"deploy":     starts,
		"down":       "mesos-gpu kill JOB ends a job, and kill --me all of yours",
		"rollback":   revert,
		"revert":     revert,
		"undo":       revert,
		"volumes":    volumes,
		"network":    volumes,
		"networks":   volumes,
		"sdiag":      metrics,
		"metrics":    metrics,
		"operator":   "mesos-gpu drain, cordon, quota and cluster are for operators; see mesos-gpu --help",
		"system":     removal,
		"rename":     "a job keeps its name: mesos-gpu submit --name NAME FILE submits it under another one",
		"var":        "{{NAME}} in a job file is a variable: mesos-gpu submit --var NAME=value",
		"rmi":        images,
		"tag":        images,
		"commit":     images,
		"save":       images,
		"load":       images,
		"import":     images,
		"export":     "mesos-gpu get JOB prints a job as a file, cp JOB:PATH . copies a file of its sandbox, and usage --csv exports the accounting",
		"builder":    images,
		"buildx":     images,
		"search":     "mesos-gpu ps --name 'train-*' lists the jobs with such names, and --label those with a label",
		"manifest":   "mesos-gpu get JOB prints a job as a file",
		"kustomize":  "{{NAME}} in a job file is a variable: mesos-gpu submit --var NAME=value, and --set KEY=VALUE replaces a value",
		"checkpoint": "mesos-gpu explain checkpoint_dir and warn have the keys for checkpoints",

		"api-versions": "", "options": "", "plugin": "", "certificate": "", "swarm": "", "trust": "", "license": "", "tls": "", "sentinel": "",
		"recommendation": "", "setup": "", "agent-info": "", "sh5util": "",
		"init": "mesos-gpu explain has the keys of job files, and schema their JSON Schema",
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
	if says, known := CommandAlternatives()[strings.ToLower(got[0])]; known && !c.HasParent() {
		hint = cmp.Or(says, hint)
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
