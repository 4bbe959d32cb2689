package agent

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/sirupsen/logrus"

	"mesos-gpu/internal/minimesos/updates"
)

// TestCheckpointHasEndOnlyWithItsStatus writes a checkpoint while the devices of a task that has ended are released. The
// status is not stored yet, so the next agent must take it when the executor sends it again.
func TestCheckpointHasEndOnlyWithItsStatus(t *testing.T) {
	log := logrus.New()
	log.SetOutput(io.Discard)
	newAgent := func(dir string) *EmbeddedAgent {
		return &EmbeddedAgent{
			cfg: AgentConfig{WorkDir: dir, Recover: true, Log: log}, streams: updates.New(time.Second, time.Second),
			frameworks: map[string]*frameworkState{}, info: mesos.AgentInfo{ID: &mesos.AgentID{Value: "agent-1"}},
		}
	}
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, recoverFolder, executorsFolder), 0o700); err != nil {
		t.Fatal(err)
	}
	a := newAgent(dir)
	if err := a.saveAgentID("agent-1"); err != nil {
		t.Fatal(err)
	}
	f := &frameworkState{info: mesos.FrameworkInfo{ID: &mesos.FrameworkID{Value: "f"}}, executors: map[string]*executorState{}}
	a.frameworks["f"] = f
	e := a.newRun(f, mesos.ExecutorInfo{ExecutorID: mesos.ExecutorID{Value: "e"}, Command: &mesos.CommandInfo{}})
	e.container = "c"
	task := &taskState{info: mesos.TaskInfo{TaskID: mesos.TaskID{Value: "t"}}, state: mesos.TASK_RUNNING, stored: mesos.TASK_RUNNING}
	e.tasks = []*taskState{task}
	e.resizing = true // the devices are changed in the background

	a.executorStatus(e, mesos.TaskStatus{TaskID: task.info.TaskID, State: mesos.TASK_FAILED.Enum(), UUID: []byte("0123456789abcdef")})
	a.saveExecutor(e) // as the acknowledgement of an earlier status does
	if task.isLive() || len(e.later) != 1 {
		t.Fatalf("the task is %s, %d changes wait", task.state, len(e.later))
	}
	_, saved, err := a.readCheckpoints()
	if err != nil || len(saved) != 1 {
		t.Fatalf("%d checkpoints, %v", len(saved), err)
	}
	checkDamagedRecords(t, newAgent(dir))
	next, err := newAgent(dir).restoreExecutor(saved[0])
	if err != nil || !next.tasks[0].isLive() {
		t.Errorf("the next agent has a task that is %v, %v; it would drop the status", next.tasks[0].state, err)
	}
}

// checkDamagedRecords adds two damaged records to those of an agent: the error names both, and what to do.
func checkDamagedRecords(t *testing.T, a *EmbeddedAgent) {
	t.Helper()
	folder := filepath.Join(a.cfg.WorkDir, recoverFolder, executorsFolder)
	for name, text := range map[string]string{"one.json": "garbage", "two.json": ""} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		defer os.Remove(filepath.Join(folder, name))
	}
	_, _, err := a.readCheckpoints()
	for _, want := range []string{filepath.Join(folder, "one.json") + ": invalid", filepath.Join(folder, "two.json") + ": unexpected", "restore them from a backup, or move them away"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("damaged records: %v lacks %q", err, want)
		}
	}
	if err != nil && strings.Contains(err.Error(), "\n") {
		t.Errorf("the error has several lines: %q", err)
	}
}
