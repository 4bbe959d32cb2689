//go:build mesos

package chaos

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"mesos-gpu/internal/filelock"
	"mesos-gpu/internal/testing/apachemesos"
	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/internal/testing/zktest"
)

var (
	duration = flag.Duration("chaos.duration", 15*time.Minute, "how long faults are injected and work is submitted")
	seed     = flag.Uint64("chaos.seed", 0, "seed of faults and work; 0 chooses one and prints it")
	leader   = flag.Int("chaos.leader", -1, "number of the master that leads first, from 0; -1: the seed chooses it")
	faults   = flag.String("chaos.faults", "all", "all, or basic: partitions of hosts from each other, loss, stopped and killed processes")
	module   = flag.Bool("chaos.module", false, "load the module of the agents: MESOS_GPU_MODULE, or bin/libmesosgpumodule.so")
	withTLS  = flag.Bool("chaos.tls", false, "TLS between masters, agents, daemons and schedulers")
	output   = flag.String("chaos.output", "../../../bin/test-output/chaos", "folder of the history, the timeline and the processes' logs")
)

// runLimits are the limits of a run. After a fault was healed, a leader whose session has ended
// needs a new one (10 s), and a scheduler subscribes with pauses of up to 15 s.
// The grace period has the scheduler's wait until a task is unreachable, its question to the
// agent, and the kill grace of a task.
var runLimits = Limits{Window: 10, Recovery: 30, Grace: 20}

// convergenceLimit is how long the work may take to end after the last fault.
const convergenceLimit = 4 * time.Minute

// TestChaos injects faults from a seed into a cluster of Apache Mesos that runs work, and checks
// the records of the tasks.
func TestChaos(t *testing.T) {
	testneeds.RequireRoot(t)
	if master := apachemesos.LookupProgram(t, "mesos-master"); *withTLS && !answersTLS(t, master) {
		t.Fatalf("%s is not built with libevent and TLS: omit -chaos.tls", master)
	}
	apachemesos.LookupProgram(t, "mesos-agent")
	zktest.RequireZooKeeper(t)
	binary, err := filepath.Abs("../../../bin/mesos-gpu")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(binary); err != nil {
		t.Skip("no bin/mesos-gpu: run make build")
	}
	lockRun(t)
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	leaderRandom := rand.New(rand.NewPCG(*seed, 3))
	leaders := map[string]int{"master": leaderRandom.IntN(masters), "scheduler": leaderRandom.IntN(schedulers)}
	if *leader >= 0 {
		leaders["master"] = *leader % masters
	}
	t.Logf("-chaos.seed=%d -chaos.duration=%s -chaos.leader=%d -chaos.faults=%s -chaos.module=%t -chaos.tls=%t", *seed, *duration, leaders["master"], *faults, *module, *withTLS)
	logs, err := filepath.Abs(*output)
	if err == nil {
		err = os.RemoveAll(logs)
	}
	if err == nil {
		err = os.MkdirAll(logs, 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
	history := createHistory(t, filepath.Join(logs, "history.jsonl"))
	history.record(Event{Kind: RunStarted, Wall: float64(time.Now().UnixNano()) / 1e9})
	cluster := startCluster(t, binary, findModule(t), *withTLS, logs, history, leaders)
	work := newWorkload(t, history, rand.New(rand.NewPCG(*seed, 1)))
	apachemesos.PollUntil(t, "all GPUs to be offered", func() bool {
		gpus, err := work.client.ListGPUs(t.Context())
		return err == nil && len(gpus) == 2*agents
	})
	work.start(t.Context())
	probing, stopProbing := context.WithCancel(t.Context())
	var probe sync.WaitGroup
	probe.Go(func() { recordSlowness(t, probing, binary, history) })
	defer func() { stopProbing(); probe.Wait() }()
	recording, stopRecording := context.WithCancel(t.Context())
	recordingDone := make(chan struct{})
	go func() { defer close(recordingDone); work.recordEnds(recording) }()
	defer func() { stopRecording(); <-recordingDone }()

	ctx, stop := context.WithTimeout(t.Context(), *duration)
	defer stop()
	requests, stopRequests := context.WithTimeout(t.Context(), *duration+convergenceLimit)
	defer stopRequests()
	workDone := make(chan struct{})
	go func() { defer close(workDone); work.run(ctx, requests) }()
	nemesis := &nemesis{cluster: cluster, work: work, random: rand.New(rand.NewPCG(*seed, 2))}
	if *faults == "all" {
		nemesis.agentRandom = rand.New(rand.NewPCG(*seed, 4))
	}
	nemesis.run(ctx)
	<-workDone
	checkEnd(t, work, history)
	stopRecording()
	<-recordingDone
	stopProbing()
	probe.Wait()

	events := history.read(t)
	violations := Check(events, runLimits)
	for _, v := range violations {
		t.Errorf("%s at %.2f: %s", v.Rule, v.At, v.Detail)
	}
	if len(violations) == 0 {
		shortest := runLimits
		for shortest.Recovery = 0; len(Check(events, shortest)) > 0; shortest.Recovery++ {
		}
		t.Logf("no violation with %.0f s of recovery after a fault either", shortest.Recovery)
	}
	writeReport(t, filepath.Join(logs, "timeline.html"), events, violations)
	t.Logf("%d faults, %s", nemesis.faults, summarizeHistory(events))
}

// slowStart is how long the start of a program may take, which takes about 0.1 s on a machine that has time.
// Executors start several programs before a task begins.
const slowStart = 0.5

// recordSlowness records until ctx ends when the machine had no time to start a program.
func recordSlowness(t *testing.T, ctx context.Context, binary string, history *historyFile) {
	for slow := 0.0; ; {
		began := uptime()
		if out, err := exec.Command(binary, "version").CombinedOutput(); err != nil {
			t.Errorf("start a program: %v: %s", err, out)
		}
		if took := uptime() - began; took > slowStart {
			history.record(Event{Kind: MachineSlow, Seconds: max(took, 1)})
			slow += max(took, 1)
		}
		select {
		case <-time.After(time.Second - time.Duration(min(1, uptime()-began)*float64(time.Second))):
		case <-ctx.Done():
			t.Logf("the machine was slow for %.0f s", slow)
			return
		}
	}
}

// findModule returns the path of the module that the agents load, or "".
func findModule(t *testing.T) string {
	t.Helper()
	if !*module {
		return ""
	}
	path, err := filepath.Abs(cmp.Or(os.Getenv("MESOS_GPU_MODULE"), "../../../bin/libmesosgpumodule.so"))
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Fatalf("%v: run make module", err)
	}
	return path
}

// lockRun fails the test if another run uses the machine.
func lockRun(t *testing.T) {
	t.Helper()
	f, err := os.OpenFile("/run/lock/"+prefix+"run", os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		t.Cleanup(func() { f.Close() })
		err = filelock.TryLock(f)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// checkEnd waits until the work has ended and the schedules have had a due time after the last
// fault, and records the final states.
func checkEnd(t *testing.T, work *workload, history *historyFile) {
	t.Helper()
	healed := time.Now()
	dueAfter := healed.Add(time.Duration(runLimits.Recovery) * time.Second).Truncate(time.Minute).Add(time.Minute)
	schedulesDone := dueAfter.Add(time.Duration(runLimits.Window+1) * time.Second)
	var last convergence
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	complete := false
	for time.Since(healed) < convergenceLimit && !(complete && time.Now().After(schedulesDone)) {
		<-tick.C
		if now, err := work.readConvergence(t.Context(), false); err == nil {
			if last = now; work.isComplete(now) != complete {
				complete = !complete
				t.Logf("%.1f s after the last fault: complete %t, %+v", time.Since(healed).Seconds(), complete, now)
			}
		}
	}
	if !complete {
		t.Logf("not complete: %+v", last)
	}
	for _, name := range scheduleNames {
		if err := work.client.EndSchedule(t.Context(), name); err != nil {
			t.Errorf("end schedule %s: %v", name, err)
		}
		history.record(Event{Kind: ScheduleEnded, Job: name})
	}
	final, err := work.readConvergence(t.Context(), true)
	if err != nil {
		t.Error(err)
	}
	for _, id := range final.deployments {
		history.record(Event{Kind: DeploymentActive, Job: id})
	}
	history.record(Event{Kind: CountExpected, Job: serviceName, Tasks: work.replicas})
	history.record(Event{Kind: CountExpected, Job: appJobs, Tasks: work.appTasks})
	counted := uptime()
	// Live tasks write a line after the count.
	apachemesos.PollUntil(t, "lines of live tasks", func() bool { return uptime() > counted+4 })
}

func writeReport(t *testing.T, path string, events []Event, violations []Violation) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := WriteTimeline(f, fmt.Sprintf("Chaos, seed %d", *seed), events, violations); err != nil {
		t.Fatal(err)
	}
	t.Logf("timeline: %s", path)
}

// summarizeHistory returns the numbers of jobs, attempts and so on.
func summarizeHistory(events []Event) string {
	counts, states, failed := map[EventKind]int{}, map[string]int{}, 0
	for _, e := range events {
		counts[e.Kind]++
		if e.isFailure() {
			failed++
		}
		if e.Kind == JobState {
			states[e.State]++
		}
	}
	return fmt.Sprintf("%d jobs accepted (all jobs by state: %v), %d deployments, %d attempts: %d ended, %d stopped, %d failed; %d unexpected exits",
		counts[JobAccepted], states, counts[DeploymentStarted], counts[TaskBegan], counts[TaskEnded], counts[TaskKilled], failed, counts[ProcessExited])
}
