package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/request"
	"mesos-gpu/internal/cli"
	"mesos-gpu/job"
)

// Errors suggest what to type next.
func TestErrorsSuggestCommands(t *testing.T) {
	for _, test := range []struct {
		line, want string
		status     int
	}{
		{"run --gpus x -- a", `invalid argument "x" for "--gpus" flag: it takes a whole number, such as 2: see mesos-gpu run --help`, 2},
		{"run --gpus 99999999999999999999 -- a", `for "--gpus" flag: the number is too large: see`, 2},
		{"logs -n foo train", `invalid argument "foo" for "-n, --tail" flag: it takes a whole number`, 2},
		{"run --timeout soon -- a", `invalid argument for "--timeout" flag: "soon" is not a duration such as 30s, 2h, 7d or 01:30:00: see`, 2},
		{"run --cpus many -- a", `it takes a number, such as 0.5: see`, 2},
		{"describe x", `there is no job "x": see mesos-gpu ps --all`, 1},
		{"wait x", `there is no job "x": see mesos-gpu ps --all`, 1},
		{"kill x train y", "there is no job \"x\": see mesos-gpu ps --all\nmesos-gpu: there is no job \"y\": see mesos-gpu ps --all\n", 1},
		{"run --gpu 2 -- a", `unknown flag: --gpu: did you mean --gpus?`, 2},
		{"run --gres gpu:2 -- a", `did you mean --gpus?`, 2},
		{"run -it bash", `leave -t out`, 2},
		{"run --rm -- a", `leave it out: a task's container goes with it`, 2},
		{"run --fetch x -- a", `a job file has the key fetch`, 2},
		{"run --time 5m -- a", `did you mean --timeout?`, 2},
		{"run --gpu_type V100 -- a", `did you mean --gpu-type?`, 2},
		{"run --frobnicate -- a", `unknown flag: --frobnicate: see mesos-gpu run --help`, 2},
		{"ps -A", `did you mean --all?`, 2},
		{"ps --json", `did you mean -o json?`, 2},
		{"ps --wacth", `did you mean --watch?`, 2},
		{"kill --all", `mesos-gpu kill --me ends all of yours; a pattern such as 'run-*'`, 2},
		{"ps train", `takes no "train": mesos-gpu describe train shows one job`, 2},
		{"describe trian", `there is no job "trian": did you mean "train"?`, 1},
		{"describe train@7", "mesos-gpu: job train has no run 7: see mesos-gpu ps --runs train\n", 1},
		{"rerun train@7", "mesos-gpu: job train has no run 7: see mesos-gpu ps --runs train\n", 1},
		{"kill train.0", "mesos-gpu: there is no job \"train.0\": mesos-gpu stop train.0 ends a task\n", 1},
		{"run -- --gpus 1 echo", "mesos-gpu: --gpus is no program: flags of run go before --\n", 2},
		{"quota set V100=1", "quota set needs ROLE and QUOTA: see mesos-gpu quota set --help", 2},
		{"quota set bin docs V100=1", `quota set takes no "V100=1": see mesos-gpu quota set --help; quote the role *: '*'`, 2},
		{"cluster config --role agent", "cluster config: give --ip: see mesos-gpu cluster config --help", 2},
		{"scheduler --listen 8098", `--listen "8098": write HOST:PORT, such as 127.0.0.1:8098`, 2},
		{"local --listen 8098", `--listen "8098": write HOST:PORT, such as 127.0.0.1:8098`, 2},
		{"scheduler --master zk:/h:2181/mesos", `--master "zk:/h:2181/mesos": write zk://HOST:PORT,.../PATH`, 2},
		{"service-config haproxy --file /nope/h.cfg", "--file /nope/h.cfg: /nope does not exist", 2},
		{"--api unix:///nope/sock ps", "unix:///nope/sock", 1},
		{"kill train tarin", `there is no job "tarin": did you mean "train"?`, 1},
		{"exec trai echo", `there is no job "trai": did you mean "train"?`, 1},
		{"completion tcsh", `knows no shell "tcsh": use bash, fish, powershell or zsh`, 2},
		{"help nosuch", `unknown command "nosuch": see mesos-gpu --help`, 2},
		{"help squeue", `unknown command "squeue": mesos-gpu ps lists the jobs that run or wait`, 2},
		{"sacct", `unknown command "sacct": did you mean "usage"?`, 2},
		{"salloc", `mesos-gpu run -it --gpus 1 -- bash`, 2},
		{"scontrol show job train", `mesos-gpu describe JOB shows a job`, 2},
		{"job status train", `describe JOB shows it`, 2},
		{"alloc logs x", `mesos-gpu describe JOB shows the tasks of a job`, 2},
		{"rollout status web", `mesos-gpu apply FILE`, 2},
		{"resume train", `unknown command "resume": did you mean "release"?`, 2},
		{"status train", `unknown command "status": did you mean "describe"?`, 2},
		{"rollback web", `mesos-gpu apply FILE with the earlier job file`, 2},
		{"up", `mesos-gpu submit FILE or run starts jobs`, 2},
		{"plugin", `unknown command "plugin": see mesos-gpu --help`, 2},
		{"pull busybox", `agents pull the image of a job`, 2},
		{"help quota sett", `unknown command "sett": did you mean "set"?`, 2},
		{"create -f x", `unknown command "create": did you mean "submit"?`, 2},
		{"-x", `unknown shorthand flag: 'x' in -x: see mesos-gpu --help`, 2},
		{"edit train", "edit changes nothing: give --priority, --role, --timeout or another flag, or --set KEY=VALUE", 2},
		{"modify train", `unknown command "modify": did you mean "edit"?`, 2},
		{"pause train", `unknown command "pause": did you mean "hold"?`, 2},
		{"rm train", `the scheduler removes ended jobs by their number and age`, 2},
		{"restart train", `mesos-gpu rerun JOB runs an ended job again`, 2},
		{"update x", `mesos-gpu apply FILE`, 2},
		{"login", `--token-file`, 2},
		{"open", `in a browser`, 2},
		{"init", `mesos-gpu explain`, 2},
		{"quota init", `unknown command "init": see mesos-gpu quota --help`, 2},
		{"agent devices --socket /nonexistent/agent.sock",
			`mesos-gpu: no agent daemon listens at /nonexistent/agent.sock: start mesos-gpu agent on this machine: `, 1},
		{"kill", `mesos-gpu: kill needs JOB, or a flag such as --me: see mesos-gpu kill --help`, 2},
		{"local --free-ports --run /", `mesos-gpu: read /: is a directory`, 1},
		{"quota nosuch", `unknown command "nosuch": see mesos-gpu quota --help`, 2},
	} {
		t.Run(test.line, func(t *testing.T) {
			c := newFakeCluster(fakeJob("train", time.Hour, job.Finished))
			r := c.command(t, test.line)
			if !strings.Contains(r.err, test.want) || r.status != test.status {
				t.Errorf("status %d, %q, want %d, %q", r.status, r.err, test.status, test.want)
			}
			for _, raw := range []string{"strconv", "ParseInt"} {
				if strings.Contains(r.err, raw) {
					t.Errorf("%q speaks of %s", r.err, raw)
				}
			}
		})
	}
	if r := newFakeCluster().command(t, "help quota set"); r.status != 0 || !strings.Contains(r.out, "Limit the GPUs") {
		t.Errorf("help of a command: %+v", r)
	}
}

// Errors about unknown objects name the command that lists the existing ones.
func TestNotFoundErrorsNameListCommand(t *testing.T) {
	address := serveBackend(t, &rejectingCluster{newFakeCluster()})
	commandAt(t, address, "cordon", "gpu9").expect(t, "", `there is no agent with the id or hostname "gpu9": see mesos-gpu agents`, 1)
	commandAt(t, address, "stop", "x").expect(t, "", `there is no task "x": see mesos-gpu describe JOB`, 1)
}

// If no scheduler responds, the error has its address and not the URL of the request.
func TestUnreachableAddresses(t *testing.T) {
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	go func() {
		for {
			c, err := mute.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	address := "http://" + mute.Addr().String()
	r := commandAt(t, address, "ps")
	if !strings.Contains(r.err, "ask the scheduler at "+address+": ") ||
		!strings.Contains(r.err, "name the right one by --api or MESOS_GPU_API") || strings.Contains(r.err, "/v1/") || r.status != 1 {
		t.Errorf("status %d, %q", r.status, r.err)
	}
}

// Misspelled commands and names from other tools suggest the right command.
func TestNearestCommand(t *testing.T) {
	c := newFakeCluster()
	for word, want := range map[string]string{
		"gpu": "gpus", "sumbit": "submit", "desc": "describe", "PS": "ps", "log": "logs", "waits": "wait", "cordn": "cordon", "toop": "top",
		"cancel": "kill", "inspect": "describe", "nodes": "agents", "sprio": "queue", "sinfo": "agents",
		"sacct": "usage", "seff": "usage", "sshare": "quota", "sbcast": "cp", "scrontab": "schedules", "qsub": "submit", "qstat": "ps",
		"qdel": "kill", "bjobs": "ps", "pods": "ps", "taint": "cordon", "debug": "shell", "proxy": "port-forward", "plan": "diff",
		"eval": "describe", "server": "scheduler",
		"scancel": "kill", "sbatch": "submit", "srun": "run", "sattach": "attach", "stats": "top", "frobnicate": "", "x": "", "foo": "",
	} {
		advice := "see mesos-gpu --help"
		if want != "" {
			advice = fmt.Sprintf("did you mean %q?", want)
		}
		if r := c.command(t, "help "+word); !strings.Contains(r.err, advice) {
			t.Errorf("%s: got %q, want %s", word, r.err, advice)
		}
	}
}

// Each alias belongs to exactly one existing command, or has a hint, and is not itself a command.
func TestCommandAliases(t *testing.T) {
	root := newRoot(cli.ProcessIO{Getenv: func(string) string { return "" }})
	var names []string
	for _, c := range root.Commands() {
		names = append(names, c.Name())
	}
	leads := map[string]string{}
	for word := range cli.CommandAlternatives() {
		if slices.Contains(names, word) {
			t.Errorf("%s is a command, and has a hint", word)
		}
		leads[word] = "a hint"
	}
	for command, words := range cli.CommandAliases() {
		if !slices.Contains(names, command) {
			t.Errorf("there is no command %s", command)
		}
		for _, word := range words {
			if slices.Contains(names, word) || leads[word] != "" {
				t.Errorf("%s leads to %s, and to %s", word, command, leads[word])
			}
			leads[word] = command
		}
	}
}

// rejectingCluster is a cluster without agents and tasks.
type rejectingCluster struct{ *fakeCluster }

func (*rejectingCluster) CordonAgent(_ context.Context, _ request.Change, agent, _ string, _ bool) error {
	return api.UnknownAgent(agent)
}

func (*rejectingCluster) StopTask(_ context.Context, _ *access.Grant, task string, _ bool) error {
	return api.UnknownTask(task)
}

// foreignCommands are the commands of other tools.
var foreignCommands = map[string]string{
	"Slurm": "sacct sacctmgr salloc sattach sbatch sbcast scancel scontrol scrontab sdiag sh5util sinfo sprio squeue sreport srun sshare sstat " +
		"strigger sview seff resume suspend",
	"docker": "attach build builder buildx checkpoint commit compose config container context cp create diff events exec export history image images " +
		"import info init inspect kill load login logout logs manifest network node pause plugin port ps pull push rename restart rm rmi run save " +
		"search secret service stack start stats stop swarm system tag top trust unpause update version volume wait up down",
	"kubectl": "annotate api-resources api-versions apply attach auth autoscale certificate cluster-info completion config cordon cp create debug " +
		"delete describe diff drain edit events exec explain expose get kustomize label logs options patch plugin port-forward proxy replace rollout " +
		"run scale set taint top uncordon version wait",
	"Nomad": "acl agent agent-info alloc config deployment eval fmt init inspect job license login logs monitor namespace node operator plan plugin " +
		"quota recommendation run scaling secret sentinel server setup service status stop system tls ui var version volume revert dispatch",
}

// Each command of the other tools is one of ours or has a deliberate hint: none gets a command with a similar name.
func TestForeignCommandsHaveHints(t *testing.T) {
	root := newRoot(cli.ProcessIO{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: func(string) string { return "" }})
	known := map[string]bool{"completion": true}
	for _, c := range root.Commands() {
		known[c.Name()] = true
	}
	for _, words := range cli.CommandAliases() {
		for _, word := range words {
			known[word] = true
		}
	}
	for word := range cli.CommandAlternatives() {
		known[word] = true
	}
	for tool, words := range foreignCommands {
		for word := range strings.FieldsSeq(words) {
			if !known[word] {
				t.Errorf("%s of %s has no hint", word, tool)
			}
		}
	}
}
