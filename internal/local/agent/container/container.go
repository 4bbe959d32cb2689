// Package container runs the processes of executors and nested containers. With
// root rights each container gets its own cgroup, its PID and mount namespaces
// and a private /dev; otherwise it is a plain process tree. The package
// implements isolation and termination. The caller decides what runs and which
// devices a container may open.
//
// The first process of every container is this program (Init). It isolates
// itself, starts the command, forwards signals to it, reaps orphaned
// descendants and reports the exit status.
package container

import (
	"os"
	"syscall"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"mesos-gpu/isolator/rules"
)

// Command is the process that a container runs.
type Command struct {
	// Path is the program. A name without a slash is looked up on the PATH in
	// Env. Args includes the program's own name as its first element.
	Path string
	Args []string
	Env  []string
	Dir  string
	// User runs the command. Nil means the agent's user.
	User *syscall.Credential
	// Rlimits require EngineConfig.Fenced. The largest number means unlimited.
	Rlimits []specs.POSIXRlimit
}

// ContainerLimits are the limits of a container's cgroup. Zero means no limit.
type ContainerLimits struct {
	CPUs     float64
	MemBytes int64
}

// LaunchSpec describes a container for Launch.
type LaunchSpec struct {
	// ID is the ids of the container's ancestors, outermost first, and its own.
	// It determines the cgroup: each is the name of a folder.
	ID      []string
	Command Command
	// Stdin is the command's input; nil means empty input. Stdout and Stderr
	// receive the output. The caller closes all three.
	Stdin, Stdout, Stderr *os.File
	// Terminal reports that all three are one terminal, which becomes the
	// command's controlling terminal.
	Terminal bool
	// Nodes are created in the private /dev in addition to the standard ones.
	Nodes  []rules.DeviceNode
	Limits ContainerLimits
	// Isolate writes the device rules of the new cgroup, whose argument is its
	// path below the devices hierarchy. It runs before any process enters the
	// cgroup. Nil inherits the rules of the parent cgroup.
	Isolate func(cgroup string) error
	// Join runs the container in the file system of another running container,
	// including its /dev, instead of a private /dev.
	Join *RunningContainer
	// Enter runs the command inside another container: in its file system and
	// process namespace, with at most its rights.
	Enter *RunningContainer
	// Alias is a second path of the command's folder, nil for none.
	Alias *FolderAlias
	// OCI makes runc run the container from a bundle. The bundle's config.json
	// then has the command, and Command is not used.
	OCI *RuncBundle
}

// RuncBundle is an OCI bundle that runc runs.
type RuncBundle struct {
	// Runc is the program and State its state folder.
	Runc, State string
	// Bundle contains config.json and the folder rootfs. The overlay of Lower
	// and Upper, with the scratch folder Work, is mounted on rootfs. If Lower
	// is empty, rootfs is used without a mount.
	Bundle             string
	Lower, Upper, Work string
	// ID is the container's name in runc's state folder.
	ID string
}

// OverlayError means that the overlay of a RuncBundle cannot be mounted.
type OverlayError string

func (e OverlayError) Error() string { return string(e) }

// orphanGrace limits the time between SIGTERM and the exit of a container whose
// agent has died. An executor uses the time to stop what runs outside its
// container.
const orphanGrace = 10 * time.Second
