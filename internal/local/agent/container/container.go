// Package container runs the processes of executors and nested containers.
// As root each gets its own cgroup, PID and mount namespace and a private
// /dev; otherwise it is a plain process tree. It decides how a process is
// fenced in and how the whole of it is ended; what runs, and which devices it
// may open, is the caller's to say.
//
// Every container's first process is this program again (Init), which fences
// itself in, starts the command, forwards signals to it, reaps what its
// descendants leave and reports its end.
package container

import (
	"fmt"
	"os"
	"time"

	"mesos-gpu/isolator/rules"
)

// Command is what a container runs.
type Command struct {
	// Path is the program, looked up on the PATH of Env where it holds no
	// slash. Args begins with the program's own name.
	Path string
	Args []string
	Env  []string
	Dir  string
	// User is who runs it; nil for who runs the agent.
	User *User
	// Rlimits need an engine that fences.
	Rlimits []Rlimit
}

// Rlimit is one of setrlimit(2): Name is "RLIMIT_NOFILE" where Resource is
// that number. The kernel's infinity is the largest number.
type Rlimit struct {
	Name       string
	Resource   int
	Soft, Hard uint64
}

// User is a numeric identity.
type User struct {
	UID, GID uint32
	Groups   []uint32
}

// ContainerLimits bound a container's cgroup. Zero bounds nothing.
type ContainerLimits struct {
	CPUs     float64
	MemBytes int64
}

// LaunchSpec describes a container to Launch.
type LaunchSpec struct {
	// ID is the container's and its parents' ids, outermost first. It names
	// the cgroup.
	ID      []string
	Command Command
	// Stdin is what it reads, nil for nothing; Stdout and Stderr take the
	// output. They stay the caller's to close.
	Stdin, Stdout, Stderr *os.File
	// Terminal says that all three are a terminal, to control the command.
	Terminal bool
	// Nodes are created in the private /dev in addition to the standard ones.
	Nodes  []rules.DeviceNode
	Limits ContainerLimits
	// Isolate writes the device rules of the new cgroup, named by its path
	// below the devices hierarchy. It runs before any process is in there;
	// nil leaves the parent cgroup's rules.
	Isolate func(cgroup string) error
	// Join makes the container see the file system, /dev included, of
	// another that runs, instead of getting a /dev of its own.
	Join *RunningContainer
	// Enter runs the command inside another container: in its file system and
	// process namespace, with no more rights than it has.
	Enter *RunningContainer
	// RuncBundle makes runc run the container from a bundle; Command is then in the
	// bundle's config.json and nothing of it is read here but Dir.
	OCI *RuncBundle
}

// RuncBundle names a bundle for runc.
type RuncBundle struct {
	// Runc is the program and State the folder where it keeps its state.
	Runc, State string
	// Bundle holds config.json; its rootfs folder is where the overlay of
	// Lower and Upper (with the scratch folder Work) is mounted. With an
	// empty Lower rootfs is used as it is.
	Bundle             string
	Lower, Upper, Work string
	// ID is the container's name in State.
	ID string
}

// StageError says which part of the set-up inside the container failed.
type StageError struct {
	Stage   SetupStage
	Message string
}

// SetupStage names a part of a container's set-up.
type SetupStage string

// The stages a caller may want to tell apart.
const (
	StageMount   SetupStage = "mount"
	StageOverlay SetupStage = "overlay"
	StageStart   SetupStage = "start"
)

func (e *StageError) Error() string { return e.Message }

// orphanGrace is how long a container whose agent died may take to end after
// SIGTERM: an executor uses it to stop what runs outside its container.
const orphanGrace = 10 * time.Second

func stageErrorf(stage SetupStage, format string, args ...any) error {
	return &StageError{stage, fmt.Sprintf(format, args...)}
}
