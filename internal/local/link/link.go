// Package link defines the interfaces between the embedded master and its
// agents, in place of Apache Mesos's internal libprocess messages. Calls are
// asynchronous: an implementation must not call the other side while it holds a
// lock.
package link

import mesos "github.com/mesos/mesos-go/api/v1/lib"

// MasterLink is the master's interface for an agent.
type MasterLink interface {
	// Register adds an agent, or re-registers it if info has an id, with its
	// executors and tasks. It returns the agent's id. The master asks about tasks
	// that a registered agent does not list, by AgentLink.ReconcileTasks.
	Register(info mesos.AgentInfo, total []mesos.Resource, running []RunningExecutor, a AgentLink) (mesos.AgentID, error)
	// UpdateTotal replaces the agent's resources after a provider was added,
	// changed or removed. It rescinds the agent's outstanding offers.
	UpdateTotal(id mesos.AgentID, total []mesos.Resource)
	// Status forwards a task's status. The agent repeats it until it receives
	// AgentLink.Acknowledge for its uuid.
	Status(id mesos.AgentID, framework mesos.FrameworkID, status mesos.TaskStatus)
	// ExecutorExited reports that an executor has exited and its resources are
	// free. The agent has already sent terminal statuses for its tasks.
	ExecutorExited(id mesos.AgentID, framework mesos.FrameworkID, executor mesos.ExecutorID, status int32)
	// Lost removes the agent, which may still run. Its tasks become
	// TASK_UNREACHABLE for partition-aware frameworks and TASK_LOST for others.
	Lost(id mesos.AgentID)
}

// RunningExecutor is an executor that an agent lists when it registers.
type RunningExecutor struct {
	Framework mesos.FrameworkInfo
	Executor  mesos.ExecutorInfo
	// Ended is set for an executor that has ended. It is listed for its tasks
	// whose terminal status is not acknowledged.
	Ended bool
	Tasks []mesos.TaskInfo
	// States are the tasks' states by task id. The default is TASK_RUNNING.
	States map[string]mesos.TaskState
}

// State returns the state of one of the tasks.
func (r RunningExecutor) State(task mesos.TaskID) mesos.TaskState {
	if state, ok := r.States[task.Value]; ok {
		return state
	}
	return mesos.TASK_RUNNING
}

// AgentLink is an agent's interface for the master. Values are comparable:
// equal ones are the same process, and calls to it arrive in order, if
// necessary after it has registered again.
type AgentLink interface {
	// Run launches a task and starts its executor if necessary. A command
	// task's executor has Type UNKNOWN and no Command; the agent supplies one.
	Run(framework mesos.FrameworkInfo, executor mesos.ExecutorInfo, task mesos.TaskInfo)
	// Kill kills a task through its executor. For an unknown task the agent sends
	// TASK_DROPPED, if it knows the framework.
	Kill(framework mesos.FrameworkID, task mesos.TaskID, policy *mesos.KillPolicy)
	// Acknowledge reports that the framework has received the status with that
	// uuid.
	Acknowledge(framework mesos.FrameworkID, task mesos.TaskID, uuid []byte)
	// ReconcileTasks sends TASK_DROPPED for those of the tasks that the agent does
	// not know.
	ReconcileTasks(framework mesos.FrameworkInfo, tasks []mesos.TaskID)
	// Message sends data to an executor that runs. Nothing reports that it was lost.
	Message(framework mesos.FrameworkID, executor mesos.ExecutorID, data []byte)
	// ShutdownExecutor ends one executor, ShutdownFramework all executors of a
	// framework.
	ShutdownExecutor(framework mesos.FrameworkID, executor mesos.ExecutorID)
	ShutdownFramework(framework mesos.FrameworkID)
}
