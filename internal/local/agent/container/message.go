package container

import (
	"syscall"
	"time"

	"mesos-gpu/isolator/rules"
)

// Additional file descriptors of the container's first process.
const (
	// controlFD receives the order and then a stop byte. End of file means that
	// the agent has died.
	controlFD = 3
	// reportFD is the write end for reports.
	reportFD = 4
	// mountFD is the mount namespace to join, if any, and pidFD the PID
	// namespace to enter.
	mountFD = 5
	pidFD   = 6
)

// stopByte on the control pipe, or killSignal, kills the container immediately.
const (
	stopByte   = 'k'
	killSignal = syscall.Signal(40) // a real-time signal
)

// launchOrder is the message from the agent to a container's first process.
type launchOrder struct {
	// Fenced reports that the process has its own namespaces.
	Fenced  bool               `json:"fenced"`
	Join    bool               `json:"join"`
	Nodes   []rules.DeviceNode `json:"nodes"`
	Command Command            `json:"command"`
	OCI     *RuncBundle        `json:"oci,omitempty"`
	Alias   *FolderAlias       `json:"alias,omitempty"`
	Enter   *enteredContainer  `json:"enter,omitempty"`
	// Terminal reports that the standard streams are a terminal.
	Terminal bool `json:"terminal,omitempty"`
	// Keep is set if the command survives the agent's death.
	Keep *keepOrder `json:"keep,omitempty"`
}

// keepOrder is how a command survives the agent's death.
type keepOrder struct {
	// Alive is a file that the agent locks while it lives. The command is ended
	// when no agent has lived for the time For.
	Alive string        `json:"alive"`
	For   time.Duration `json:"for"`
	// Journal is the file that records the command's start and end.
	Journal string `json:"journal"`
}

// enteredContainer is the container to enter. PidFile contains the pid of the
// process that runc started, whose namespaces differ from those of the first
// process.
type enteredContainer struct {
	PidFile string `json:"pid_file,omitempty"`
}

// initReport is one line of the first process's answer: the command has
// started, could not start, or has exited.
type initReport struct {
	Started bool   `json:"started,omitempty"`
	Error   string `json:"error,omitempty"`
	// NoOverlay reports that the error is an OverlayError.
	NoOverlay bool                `json:"no_overlay,omitempty"`
	Ended     *syscall.WaitStatus `json:"ended,omitempty"`
}
