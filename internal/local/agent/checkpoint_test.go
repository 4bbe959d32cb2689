package agent

import (
	"io"
	"os"
	"path/filepath"
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
	next, err := newAgent(dir).restoreExecutor(saved[0])
	if err != nil || !next.tasks[0].isLive() {
		t.Errorf("the next agent has a task that is %v, %v; it would drop the status", next.tasks[0].state, err)
	}
}
