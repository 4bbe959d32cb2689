package container

import (
	"encoding/json"
	"fmt"
	"io"
	"syscall"

	"mesos-gpu/isolator/rules"
)

// File descriptors of the container's first process after the standard ones.
const (
	// controlFD brings the order, then a stop byte; its end says that the
	// agent has died.
	controlFD = 3
	// reportFD takes reports.
	reportFD = 4
	// mountFD is the mount namespace to join, where there is one, and pidFD
	// the PID namespace to enter.
	mountFD = 5
	pidFD   = 6
)

// stopByte on the control pipe asks for the end of everything at once.
const stopByte = 'k'

// launchOrder is the message from the agent to a container's first process.
type launchOrder struct {
	// Fenced says that the process has namespaces of its own.
	Fenced  bool               `json:"fenced"`
	Join    bool               `json:"join"`
	Nodes   []rules.DeviceNode `json:"nodes"`
	Command Command            `json:"command"`
	OCI     *RuncBundle        `json:"oci,omitempty"`
	Enter   *enteredContainer  `json:"enter,omitempty"`
	// Terminal says that the standard streams are one.
	Terminal bool `json:"terminal,omitempty"`
}

// enteredContainer is the container to enter. PidFile names the process of one that runc
// runs, whose namespaces are not those of its first process.
type enteredContainer struct {
	PidFile string `json:"pid_file,omitempty"`
}

// initReport is one line of what it answers: that the command has started, that
// it could not, or that it has ended.
type initReport struct {
	Started bool                `json:"started,omitempty"`
	Stage   SetupStage          `json:"stage,omitempty"`
	Error   string              `json:"error,omitempty"`
	Ended   *syscall.WaitStatus `json:"ended,omitempty"`
}

// reportWriter writes reports.
type reportWriter struct{ w io.Writer }

func (r reportWriter) sendReport(m initReport) error {
	line, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode report: %w", err)
	}
	if _, err := r.w.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}
