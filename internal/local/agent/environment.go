package agent

import (
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/internal/local/agent/oci"
)

// Folders of the work directory.
const (
	storeFolder = "store"
	runFolder   = "run"
)

// frameworksDir returns the folder with the sandboxes of an agent's frameworks.
func frameworksDir(work, agent string) string {
	return filepath.Join(work, "slaves", agent, "frameworks")
}

// runsDir returns the folder with the sandboxes of an executor's runs.
func runsDir(work, agent, framework, executor string) string {
	return filepath.Join(frameworksDir(work, agent), framework, "executors", executor, "runs")
}

// formatDuration formats a duration as Mesos does.
func formatDuration(d time.Duration) string {
	for _, unit := range []struct {
		size time.Duration
		name string
	}{{time.Hour, "hrs"}, {time.Minute, "mins"}, {time.Second, "secs"}, {time.Millisecond, "ms"}} {
		if d >= unit.size && d%unit.size == 0 {
			return strconv.FormatInt(int64(d/unit.size), 10) + unit.name
		}
	}
	return strconv.FormatInt(int64(d), 10) + "ns"
}

// executorEnvironment returns the environment of an executor's process. The
// framework's variables come last and override the others, as in Mesos.
func executorEnvironment(c *AgentConfig, agentID, sandbox string, e *executorState) ([]string, error) {
	checkpoint := "0"
	if e.framework.info.GetCheckpoint() {
		checkpoint = "1"
	}
	env := []string{
		"MESOS_FRAMEWORK_ID=" + e.framework.id(),
		"MESOS_EXECUTOR_ID=" + e.id(),
		"MESOS_DIRECTORY=" + sandbox,
		"MESOS_SANDBOX=" + sandbox,
		"MESOS_SLAVE_ID=" + agentID,
		"MESOS_SLAVE_PID=slave(1)@" + c.Addr,
		"MESOS_AGENT_ENDPOINT=" + c.Addr,
		"MESOS_CHECKPOINT=" + checkpoint,
		"MESOS_HTTP_COMMAND_EXECUTOR=0",
		"MESOS_EXECUTOR_SHUTDOWN_GRACE_PERIOD=" + formatDuration(e.killGrace(c.shutdownGrace)),
	}
	if checkpoint == "1" {
		env = append(env,
			"MESOS_RECOVERY_TIMEOUT="+formatDuration(c.RecoveryTimeout),
			"MESOS_SUBSCRIPTION_BACKOFF_MAX="+formatDuration(c.SubscriptionBackoff))
	}
	var operators []string
	for _, name := range slices.Sorted(maps.Keys(c.ExecutorEnv)) {
		operators = append(operators, name+"="+c.ExecutorEnv[name])
	}
	own, err := oci.CommandEnv(e.info.Command)
	if err != nil {
		return nil, err
	}
	return oci.MergeEnv(operators, env, own), nil
}

// suppliedExecutor returns the executor of tasks without one: this program's
// own.
func suppliedExecutor(info mesos.ExecutorInfo, path string) mesos.ExecutorInfo {
	info.Command = &mesos.CommandInfo{Shell: new(false), Value: &path, Arguments: []string{"mesos-gpu", "executor"}}
	return info
}
