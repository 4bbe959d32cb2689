package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"mesos-gpu/framework/api"
	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/job"
)

// TestCommandLine runs the client commands against one cluster.
func TestCommandLine(t *testing.T) {
	t.Parallel()
	c := startCluster(t, "--gpus", "2xV100,1xK80")

	t.Run("run prints the output and exits with the task's status", func(t *testing.T) {
		r := c.run("run", "--gpus", "1", "--gpu-type", "K80", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
		if r.code != 7 || r.out != "out\n" || !strings.Contains(r.err, "err\n") {
			t.Errorf("status %d, out %q, err %q", r.code, r.out, r.err)
		}
	})

	t.Run("a task without GPUs runs", func(t *testing.T) {
		if out := c.mustRun("run", "--", "echo", "plain"); out != "plain\n" {
			t.Errorf("got %q", out)
		}
	})

	t.Run("each task of a job has a different GPU", func(t *testing.T) {
		out := c.mustRun("run", "--name", "pair", "--tasks", "2", "--cpus", "0.2", "--gpus", "1", "--gpu-type", "V100", "--",
			"sh", "-c", "echo $NVIDIA_VISIBLE_DEVICES")
		ids := strings.Fields(out)
		if len(ids) != 2 || ids[0] == ids[1] {
			t.Errorf("the tasks held %q", ids)
		}
	})

	t.Run("each task of a gang has the addresses of all tasks", func(t *testing.T) {
		c.mustRun("submit", examplePath("gang.yaml"))
		c.awaitJobEnd("gang")
		var view api.JobView
		decodeJSON(t, c.mustRun("describe", "-o", "json", "gang"), &view)
		var peers []string
		for rank, task := range view.Tasks {
			out := c.mustRun("logs", task.ID)
			head, list, _ := strings.Cut(strings.SplitN(out, "\n", 2)[0], ", peers ")
			if want := fmt.Sprintf("rank %d of 2", rank); head != want {
				t.Errorf("task %s prints %q, want %q", task.ID, head, want)
			}
			peers = append(peers, list)
		}
		if view.State != job.Finished || len(peers) != 2 || peers[0] != peers[1] || strings.Count(peers[0], ":") != 2 {
			t.Errorf("job %s, peers %q", view.State, peers)
		}
	})

	t.Run("the example with two tasks finishes", func(t *testing.T) {
		c.mustRun("submit", examplePath("two-tasks.yaml"))
		c.awaitJobEnd("two-tasks")
		var view api.JobView
		if decodeJSON(t, c.mustRun("describe", "-o", "json", "two-tasks"), &view); view.State != job.Finished {
			t.Errorf("ended %s", view.State)
		}
	})

	t.Run("run prints the output of every task", func(t *testing.T) {
		for range 3 {
			out := c.mustRun("run", "--tasks", "5", "--cpus", "0.05", "-e", "WORDS=a,b", "--", "sh", "-c", `echo $MESOS_GPU_TASK_INDEX $WORDS`)
			lines := strings.Split(strings.TrimSpace(out), "\n")
			slices.Sort(lines)
			if want := []string{"0 a,b", "1 a,b", "2 a,b", "3 a,b", "4 a,b"}; !slices.Equal(lines, want) {
				t.Errorf("got %q, want %q", lines, want)
			}
		}
	})

	t.Run("run ends its job when its reader closes the pipe", func(t *testing.T) {
		run := exec.CommandContext(t.Context(), binary, "--api", c.api, "run", "--name", "piped", "--", "sh", "-c", "while :; do echo line; done")
		out, err := run.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := run.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		out.Close()
		_ = run.Wait() // checked by its exit code
		if code := run.ProcessState.ExitCode(); code != 141 {
			t.Errorf("run ended with %d, want 141", code)
		}
		c.awaitJobEnd("piped")
	})

	t.Run("run fails if it cannot write the output", func(t *testing.T) {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer full.Close()
		run := exec.CommandContext(t.Context(), binary, "--api", c.api, "run", "--", "echo", "lost")
		run.Stdout = full
		if err := run.Run(); err == nil {
			t.Error("run ended well on a full disk")
		}
	})

	t.Run("run prints why the job waits, and an interrupt kills the job", func(t *testing.T) {
		run := exec.CommandContext(t.Context(), binary, "--api", c.api, "run", "--name", "toobig", "--gpus", "5", "--", "true")
		errs, ended := newOutputBuffer(), make(chan struct{})
		run.Stderr = errs
		if err := run.Start(); err != nil {
			t.Fatal(err)
		}
		go func() { defer close(ended); _ = run.Wait() }()
		errs.awaitLine(t, ended, regexp.MustCompile("waiting for 5 GPUs on one agent"))
		if err := run.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		<-ended
		if out := c.mustRun("describe", "toobig"); !strings.Contains(out, "KILLED") || !strings.Contains(errs.String(), "interrupted: job toobig is being killed") {
			t.Errorf("got:\n%s", out)
		}
	})

	t.Run("control characters in messages are escaped", func(t *testing.T) {
		r := c.run("run", "--name", "escape", "--", "no\x1b[31mprogram")
		if out := r.err + c.mustRun("describe", "escape"); r.code == 0 || strings.Contains(out, "\x1b") || !strings.Contains(out, `no\x1b[31mprogram`) {
			t.Errorf("status %d, %q", r.code, out)
		}
	})

	t.Run("kill reports a job that has already ended", func(t *testing.T) {
		if out := c.mustRun("kill", "pair"); out != "job pair is FINISHED already\n" {
			t.Errorf("got %q", out)
		}
	})

	t.Run("describe explains why a job waits", func(t *testing.T) {
		c.mustRun("submit", writeJobFile(t, "big", "name: big\ngpus: 3\ngpu_type: V100\ncommand: sleep 1000\n"))
		var view struct{ State, Waits string }
		decodeJSON(t, c.mustRun("describe", "-o", "json", "big"), &view)
		if view.State != "WAITING" || !regexp.MustCompile(`3 .*V100`).MatchString(view.Waits) {
			t.Errorf("got %+v", view)
		}
		if r := c.run("submit", writeJobFile(t, "big", "name: big\ncommand: ls\n")); r.code == 0 || !strings.Contains(r.err, "big") {
			t.Errorf("a second live job of that name: status %d, %q", r.code, r.err)
		}
		c.mustRun("kill", "big")
		if out := c.mustRun("describe", "big"); !strings.Contains(out, "KILLED") {
			t.Errorf("got %s", out)
		}
	})

	t.Run("kill ends a running task and frees its GPU", func(t *testing.T) {
		c.mustRun("submit", writeJobFile(t, "long", "name: long\ngpus: 2\ngpu_type: V100\ncommand: echo up; exec sleep 1000\n"))
		ended := awaitRunningTask(t, c, "long")
		if held := countHeldGPUs(t, c); held != 2 {
			t.Errorf("%d GPUs held, want 2", held)
		}
		c.mustRun("kill", "long")
		<-ended
		if out := c.mustRun("run", "--gpus", "2", "--gpu-type", "V100", "--", "echo", "free again"); out != "free again\n" {
			t.Errorf("got %q", out)
		}
	})

	t.Run("lists show jobs, agents, GPUs and events", func(t *testing.T) {
		for args, want := range map[string]string{
			"ps -a":        "pair",
			"agents":       "V100",
			"gpus":         "Tesla K80",
			"gpus -o yaml": "model: Tesla K80",
			"events pair":  "FINISHED",
		} {
			if out := c.mustRun(strings.Fields(args)...); !strings.Contains(out, want) {
				t.Errorf("%s lacks %q:\n%s", args, want, out)
			}
		}
		var jobs []struct{ State string }
		decodeJSON(t, c.mustRun("ps", "-a", "-o", "json"), &jobs)
		if len(jobs) < 4 {
			t.Errorf("ps -o json lists %d jobs", len(jobs))
		}
	})
}

// awaitRunningTask follows the log of a job's only task until the task prints "up". The
// channel ended is closed when the log ends.
func awaitRunningTask(t *testing.T, c *cluster, job string) (ended chan struct{}) {
	t.Helper()
	follow := exec.CommandContext(t.Context(), binary, "--api", c.api, "logs", "-f", taskID(t, c, job))
	output, ended := newOutputBuffer(), make(chan struct{})
	follow.Stdout, follow.Stderr = output, output
	if err := follow.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { defer close(ended); _ = follow.Wait() }()
	output.awaitLine(t, ended, regexp.MustCompile(`^up$`))
	return ended
}

func countHeldGPUs(t *testing.T, c *cluster) int {
	t.Helper()
	var gpus []struct{ Task string }
	decodeJSON(t, c.mustRun("gpus", "-o", "json"), &gpus)
	if len(gpus) != 3 {
		t.Errorf("gpus -o json lists %d GPUs, want 3", len(gpus))
	}
	n := 0
	for _, g := range gpus {
		if g.Task != "" {
			n++
		}
	}
	return n
}

// taskID returns the ID of a job's only task.
func taskID(t *testing.T, c *cluster, job string) string {
	t.Helper()
	var view struct{ Tasks []struct{ ID string } }
	decodeJSON(t, c.mustRun("describe", "-o", "json", job), &view)
	if len(view.Tasks) != 1 {
		t.Fatalf("job %s has %d tasks", job, len(view.Tasks))
	}
	return view.Tasks[0].ID
}

func writeJobFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name+".yaml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func decodeJSON(t *testing.T, text string, to any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), to); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
}

// TestInvalidInputIsRejectedInOneLine checks that each rejection is one line that names the
// cause, the place and the remedy, and that no job is created.
func TestInvalidInputIsRejectedInOneLine(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	for _, r := range []struct {
		name string
		args []string
		want string
	}{
		{"unknown GPU type", []string{"submit", writeJobFile(t, "a", "name: a\ngpus: 1\ngpu_type: V1000\ncommand: ls\n")},
			`gpu_type "V1000": no agent has it and no NVIDIA GPU has that name; this cluster has V100 (4); did you mean V100?`},
		{"half a GPU", []string{"submit", writeJobFile(t, "a", "name: a\ngpus: 0.5\ncommand: ls\n")}, "a.yaml:2:7: gpus: 0.5 is not a whole number: use 1"},
		{"half a GPU by flag", []string{"run", "--gpus", "0.5", "--", "ls"}, "--gpus"},
		{"misspelt key", []string{"submit", writeJobFile(t, "a", "name: a\ngpu_typ: V100\ncommand: ls\n")},
			`a.yaml:2:1: unknown key "gpu_typ"; did you mean "gpu_type"?`},
		{"no file", []string{"submit", "/nonexistent.yaml"}, "/nonexistent.yaml: no such file"},
		{"no image", []string{"run", "--container", "docker", "--", "ls"}, "image: a docker task needs one"},
		{"no job", []string{"describe", "unknown"}, `no job "unknown"`},
		{"no task", []string{"logs", "unknown.0"}, `no task "unknown.0"`},
		{"no command", []string{"describ"}, `unknown command "describ": did you mean "describe"?`},
		{"no scheduler", []string{"--api", "http://127.0.0.1:1", "ps"}, "no scheduler listens at http://127.0.0.1:1 (connection refused): start"},
		{"no name", []string{"describe", ""}, "mesos-gpu: describe needs JOB"},
		{"no CPU", []string{"run", "--cpus", "0", "--", "ls"}, `--cpus: "0" is nothing`},
		{"no type left", []string{"run", "--gpus", "1", "--gpu-type", "V100", "--not-gpu-type", "V100", "--", "ls"}, "leaves no type"},
		{"no such GPUs", []string{"local", "--gpus", "2xFOO"}, `"2xFOO"`},
		{"no images", []string{"local", "--images", "/nonexistent"}, "--images /nonexistent: no such folder"},
	} {
		t.Run(r.name, func(t *testing.T) {
			got := c.run(r.args...)
			if got.code == 0 || !strings.Contains(got.err, r.want) || strings.Count(got.err, "\n") != 1 {
				t.Errorf("status %d, out %q, err %q; want one line with %q", got.code, got.out, got.err, r.want)
			}
		})
	}
	if out := strings.TrimSpace(c.mustRun("ps", "-a", "-o", "json")); out != "[]" {
		t.Errorf("a rejected job was created: %s", out)
	}
}

func TestPortInUseIsReported(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	r := runCommand(t, nil, "local", "--free-ports", "--listen", taken.Addr().String())
	if r.code == 0 || !strings.Contains(r.err, taken.Addr().String()) || !strings.Contains(r.err, "has the port") {
		t.Errorf("status %d, %q", r.code, r.err)
	}
}

func TestUnwritableWorkDirIsReported(t *testing.T) {
	testneeds.RequireRoot(t) // to run as another user
	dir := t.TempDir()
	makeReadable(t, filepath.Dir(dir))
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	unprivileged := &syscall.Credential{Uid: 65534, Gid: 65534}
	r := runProgram(t, binary, unprivileged, nil, "local", "--free-ports", "--work-dir", filepath.Join(dir, "work"))
	if r.code == 0 || !strings.Contains(r.err, dir) || !strings.Contains(r.err, "permission denied") {
		t.Errorf("status %d, %q", r.code, r.err)
	}
}

// TestTasksSurviveKills ends a cluster with SIGKILL and, with --keep-tasks, SIGTERM again and
// again, while tasks start, run and end: 100 times with make test-long. Each task must begin once and end once with its
// exit code, no GPU may be held twice, and
// nothing may be left in the end.
func TestTasksSurviveKills(t *testing.T) {
	testneeds.RequireRoot(t)
	dir := t.TempDir()
	work, ledger, goOn := filepath.Join(dir, "work"), filepath.Join(dir, "ledger"), filepath.Join(dir, "go")
	program := buildReleased(t)
	// Executors look for the next agent at this address, which no other program takes meanwhile.
	agent := fmt.Sprintf("127.1.%d.%d:5051", os.Getpid()>>8&0xff, os.Getpid()&0xff)
	start := func(more ...string) *cluster {
		return startDaemon(t, program, append([]string{"local", "--free-ports", "--agent", agent, "--process-user=", "--work-dir", work, "--gpus", "4xV100"},
			more...)...)
	}
	c := start("--keep-tasks")
	jobs := 0
	submit := func(condition string) {
		c.mustRun("run", "--detach", "--name", fmt.Sprint("job-", jobs), "--gpus", "1", "--cpus", "0.1", "--mem", "64MiB", "--", "sh", "-c", fmt.Sprintf(
			`echo begin $MESOS_TASK_ID $NVIDIA_VISIBLE_DEVICES >> %s
%s
echo end $MESOS_TASK_ID $NVIDIA_VISIBLE_DEVICES >> %s
exit %d`, ledger, condition, ledger, jobs%3))
		jobs++
	}
	for range 3 {
		submit("until test -e " + goOn + "; do sleep 0.1; done")
	}
	kills := 6
	if testneeds.IsLongRun() {
		kills = 100
	}
	otherAddress := fmt.Sprintf("127.1.%d.%d:5052", os.Getpid()>>8&0xff, os.Getpid()&0xff)
	for n := range kills {
		submit(":") // starts, runs or ends while the cluster is killed
		signal := syscall.SIGKILL
		if n%2 == 1 {
			signal = syscall.SIGTERM
		}
		if err := c.cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		<-c.ended
		if n == 0 {
			r := runProgram(t, program, nil, nil, "local", "--free-ports", "--agent", otherAddress, "--process-user=", "--work-dir", work, "--gpus", "4xV100")
			if want := fmt.Sprintf("tasks in %s know the agent at %s: give --agent %[2]s\n", work, agent); r.code != 1 || !strings.HasSuffix(r.err, want) {
				t.Errorf("an address that the tasks do not know: status %d, %q, want %q", r.code, r.err, want)
			}
		}
		if n < kills-1 {
			c = start("--keep-tasks")
		} else {
			c = start() // ends all tasks when it is stopped
		}
	}
	if err := os.WriteFile(goOn, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for n := range jobs {
		v := c.awaitJob(fmt.Sprint("job-", n), func(v *api.JobView) bool { return v.Terminal })
		if *v.ExitCode != n%3 {
			t.Errorf("job-%d is %s with %d: %s", n, v.State, *v.ExitCode, v.Tasks[0].Message)
		}
	}
	if checkLedger(t, ledger, jobs); t.Failed() {
		t.Log(c.mustRun("events"))
	}
	c.mustRun("run", "--gpus", "4", "--", "echo", "all four")
	c.stop()
	requireNothingLeft(t, work)
}

// checkLedger checks that each job's task has begun once and then ended once, and that no GPU was
// held by two tasks.
func checkLedger(t *testing.T, file string, jobs int) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	begun, held := map[string]int{}, map[string]string{}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			t.Fatalf("line %q", line)
		}
		what, task, device := fields[0], fields[1], fields[2]
		switch job, _, _ := strings.Cut(task, "."); {
		case what == "begin" && held[device] != "":
			t.Errorf("%s begins with the GPU of %s", task, held[device])
		case what == "begin":
			begun[job]++
			held[device] = task
		case held[device] != task:
			t.Errorf("%s ends without having begun", task)
		default:
			delete(held, device)
		}
	}
	for n := range jobs {
		if got := begun[fmt.Sprint("job-", n)]; got != 1 {
			t.Errorf("job-%d has begun %d times:\n%s", n, got, text)
		}
	}
	if len(held) > 0 {
		t.Errorf("did not end: %v\n%s", held, text)
	}
}

// TestKilledClusterWithoutWorkDirIsCleanedUp kills a cluster with SIGKILL. Its tasks end with it,
// and the next one removes mounts and cgroups.
func TestKilledClusterWithoutWorkDirIsCleanedUp(t *testing.T) {
	testneeds.RequireRoot(t)
	t.Setenv("TMPDIR", makeWorkDir(t))
	c := startDaemon(t, binary, "local", "--free-ports")
	c.mustRun("submit", writeJobFile(t, "sleeper", "name: sleeper\ngpus: 1\ncommand: echo up; exec sleep 1000\n"))
	awaitRunningTask(t, c, "sleeper")
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-c.ended
	again := startDaemon(t, binary, "local", "--free-ports")
	again.mustRun("run", "--gpus", "4", "--", "echo", "all four")
	again.stop()
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	if err != nil {
		t.Fatal(err)
	}
	if len(left) > 0 {
		t.Errorf("left %v", left)
	}
}
