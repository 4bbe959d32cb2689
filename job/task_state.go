package job

import "slices"

// State is where a task stands. The names are what people read.
type State string

const (
	// Waiting: in the queue; no agent holds anything for it.
	Waiting State = "WAITING"
	// Launching: the intent is journalled; the master may or may not have it.
	Launching State = "LAUNCHING"
	// Staging: the master has it; its agent is fetching or starting.
	Staging  State = "STAGING"
	Starting State = "STARTING"
	Running  State = "RUNNING"
	// Unreachable: its agent is partitioned from the master; it may come back.
	Unreachable State = "UNREACHABLE"
	// Killing: its end was asked for and has not come yet.
	Killing State = "KILLING"

	Finished State = "FINISHED"
	Failed   State = "FAILED"
	Killed   State = "KILLED"
	// Lost: it ended without a word from it (agent gone, launch dropped).
	Lost State = "LOST"
	// Refused: Mesos would not launch it; another try would fare no better.
	Refused State = "REFUSED"
)

// transitions is the table of what may follow what. A state may always follow
// itself; ended states are followed by nothing.
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
	all := stateOrder()
	return all[:]
}

// stateOrder is an array, so that ranking a state allocates nothing.
func stateOrder() [12]State {
	return [...]State{Waiting, Launching, Staging, Starting, Running, Unreachable, Killing, Finished, Failed, Killed, Lost, Refused}
}

// CanBecome reports whether next may follow s.
func (s State) CanBecome(next State) bool { return s == next || slices.Contains(transitions[s], next) }

// NextStates lists what may follow s.
func (s State) NextStates() []State { return slices.Clone(transitions[s]) }

// IsLive reports whether the task has not ended.
func (s State) IsLive() bool { return len(transitions[s]) > 0 }

// IsPlaced reports whether the task holds resources on an agent, as far as
// anybody can know.
func (s State) IsPlaced() bool { return s.IsLive() && s != Waiting }
