package job

import "slices"

// State is the state of a task. The API and the CLI show these names.
type State string

const (
	// Waiting tasks are queued. No agent holds resources for them.
	Waiting State = "WAITING"
	// Launching tasks have a journaled intent. The master may not have received the launch.
	Launching State = "LAUNCHING"
	// Staging tasks are known to the master. Their agent fetches or starts them.
	Staging  State = "STAGING"
	Starting State = "STARTING"
	Running  State = "RUNNING"
	// Unreachable tasks are on an agent that is partitioned from the master. They
	// may come back.
	Unreachable State = "UNREACHABLE"
	// Killing tasks were asked to end and have not ended yet.
	Killing State = "KILLING"

	Finished State = "FINISHED"
	Failed   State = "FAILED"
	Killed   State = "KILLED"
	// Lost tasks ended without a report (agent gone, launch dropped).
	Lost State = "LOST"
	// Refused tasks were rejected by Mesos. A retry would be rejected too.
	Refused State = "REFUSED"
)

// transitions lists the states that may follow each state. A state may always follow
// itself. Nothing follows the states of ended tasks.
var transitions = map[State][]State{
	Waiting:     {Launching, Killed, Failed, Refused},
	Launching:   {Staging, Starting, Running, Unreachable, Killing, Finished, Failed, Killed, Lost, Refused},
	Staging:     {Starting, Running, Unreachable, Killing, Finished, Failed, Killed, Lost, Refused},
	Starting:    {Running, Unreachable, Killing, Finished, Failed, Killed, Lost},
	Running:     {Unreachable, Killing, Finished, Failed, Killed, Lost},
	Unreachable: {Staging, Starting, Running, Killing, Finished, Failed, Killed, Lost},
	Killing:     {Unreachable, Finished, Failed, Killed, Lost},
	Finished:    nil,
	Failed:      nil,
	Killed:      nil,
	Lost:        nil,
	Refused:     nil,
}

// States lists every state in the order of a task's life.
func States() []State {
	return []State{Waiting, Launching, Staging, Starting, Running, Unreachable, Killing, Finished, Failed, Killed, Lost, Refused}
}

// CanBecome reports whether the task may change to next.
func (s State) CanBecome(next State) bool { return s == next || slices.Contains(transitions[s], next) }

// IsStarting reports whether the task's agent may be fetching its files.
func (s State) IsStarting() bool {
	return s == Launching || s == Staging || s == Starting || s == Unreachable
}

// IsLive reports whether the task has not ended.
func (s State) IsLive() bool { return len(transitions[s]) > 0 }

// IsPlaced reports whether the task may hold resources on an agent.
func (s State) IsPlaced() bool { return s.IsLive() && s != Waiting }
