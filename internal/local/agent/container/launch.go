package container

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"mesos-gpu/internal/memorycgroup"
)

// RunningContainer is a started container.
type RunningContainer struct {
	engine *ContainerEngine
	path   string
	// cmd is nil for a container that an earlier agent has launched. process is the
	// first process; it is nil if that had ended before the container was adopted.
	cmd     *exec.Cmd
	process *os.Process
	record  containerRecord
	// control is the write end of a pipe. The container detects the agent's
	// death by its end of file.
	control *os.File
	// spaces are the namespaces for containers that join or enter this one. oci
	// is the bundle that runc runs in it. entered reports that the container is
	// in another container's namespaces.
	spaces  namespaceFiles
	oci     *RuncBundle
	entered bool
	killed  sync.Once
	exited  chan struct{}
	status  syscall.WaitStatus
}

// Launch starts a container. It returns once the command runs. On error it
// leaves nothing behind.
func (e *ContainerEngine) Launch(ctx context.Context, s LaunchSpec) (*RunningContainer, error) {
	c := &RunningContainer{engine: e, path: e.CgroupPath(s.ID), oci: s.OCI, entered: s.Enter != nil, exited: make(chan struct{})}
	reports, err := e.spawnInit(c, s)
	if err != nil {
		return nil, errors.Join(err, c.RemoveCgroup())
	}
	decoder := json.NewDecoder(reports)
	if err = e.records.writeRecord(c, s); err == nil {
		err = c.sendOrder(ctx, e.fenced, s, decoder)
	}
	if err == nil && s.Join != nil {
		err = c.spaces.adoptThreadMounts(c.cmd.Process.Pid)
	}
	if err != nil {
		c.Kill()
		c.awaitEnd(decoder, reports)
		c.Forget()
		return nil, errors.Join(err, c.RemoveCgroup())
	}
	go c.awaitEnd(decoder, reports)
	return c, nil
}

// spawnInit starts the first process and moves it into its cgroup. The process
// then waits for its order. The caller closes reports.
func (e *ContainerEngine) spawnInit(c *RunningContainer, s LaunchSpec) (reports *os.File, err error) {
	if e.fenced {
		if err := e.confineCgroup(c.path, s); err != nil {
			return nil, err
		}
	}
	var theirs []*os.File // files that only the process needs
	defer func() {
		CloseFiles(theirs...)
		if err != nil {
			CloseFiles(c.control, reports)
		}
	}()
	stdin := s.Stdin
	if stdin == nil {
		if stdin, err = os.Open(os.DevNull); err != nil {
			return nil, fmt.Errorf("open stdin: %w", err)
		}
		theirs = append(theirs, stdin)
	}
	controlEnd, control, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("open control pipe: %w", err)
	}
	c.control, theirs = control, append(theirs, controlEnd)
	reports, reportEnd, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("open report pipe: %w", err)
	}
	theirs = append(theirs, reportEnd)
	var shared []*os.File
	switch {
	case s.Enter != nil && e.fenced:
		shared, err = s.Enter.spaces.copyFiles(2)
	case s.Join != nil && e.fenced:
		shared, err = s.Join.spaces.copyFiles(1)
	}
	theirs = append(theirs, shared...)
	if err != nil {
		return reports, err
	}
	c.cmd = &exec.Cmd{
		Path: e.program, Args: []string{e.program, InitCommand}, Env: initEnvironment(), Dir: "/",
		Stdin: stdin, Stdout: s.Stdout, Stderr: s.Stderr, ExtraFiles: append([]*os.File{controlEnd, reportEnd}, shared...),
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if e.fenced && !c.entered {
		c.cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWPID | syscall.CLONE_NEWNS
	}
	if err = c.cmd.Start(); err != nil {
		return reports, fmt.Errorf("start container process: %w", err)
	}
	c.process = c.cmd.Process
	CloseFiles(theirs...) // an open copy would hide the end of the process
	theirs = nil
	if !e.fenced {
		return reports, nil
	}
	if err = errors.Join(c.spaces.openNamespaces(c.cmd.Process.Pid), e.cgroups.moveProcess(c.path, c.cmd.Process.Pid)); err != nil {
		c.Kill()
		c.awaitEnd(json.NewDecoder(reports), reports)
	}
	return reports, err
}

// initEnvironment returns the environment of the first processes of containers. It is empty,
// except for options of Go's race detector, without which a program built with it waits for
// a second at its exit.
func initEnvironment() []string {
	if options, set := os.LookupEnv("GORACE"); set {
		return []string{"GORACE=" + options}
	}
	return []string{}
}

// CloseFiles closes the files that are not nil. Nothing was written to them that
// could be lost.
func CloseFiles(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}

func (e *ContainerEngine) confineCgroup(path string, s LaunchSpec) error {
	if err := e.cgroups.createCgroup(path); err != nil {
		return err
	}
	if err := e.cgroups.writeLimits(path, s.Limits); err != nil {
		return err
	}
	if s.Isolate == nil {
		return nil
	}
	return s.Isolate(path)
}

// sendOrder sends the order to the waiting process and waits until the process
// has executed it. ctx bounds the wait.
func (c *RunningContainer) sendOrder(ctx context.Context, fenced bool, s LaunchSpec, reports *json.Decoder) error {
	stop := context.AfterFunc(ctx, c.Kill)
	defer stop()
	o := launchOrder{
		Fenced:   fenced,
		Join:     s.Join != nil,
		Nodes:    s.Nodes,
		Command:  s.Command,
		OCI:      s.OCI,
		Alias:    s.Alias,
		Terminal: s.Terminal,
		Keep:     c.engine.records.orderFor(s),
	}
	if s.Enter != nil && fenced {
		o.Enter = &enteredContainer{}
		if s.Enter.oci != nil {
			o.Enter.PidFile = s.Enter.oci.pidFile()
		}
	}
	if err := json.NewEncoder(c.control).Encode(o); err != nil {
		return fmt.Errorf("order container process: %w", err)
	}
	var m initReport
	err := reports.Decode(&m)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("start container: %w", context.Cause(ctx))
	case errors.Is(err, io.EOF):
		return errors.New("start container: its first process ended at once; see its stderr file")
	case err != nil:
		return fmt.Errorf("start container: read report: %w", err)
	case m.NoOverlay:
		return OverlayError(m.Error)
	case !m.Started:
		return errors.New(m.Error)
	}
	return nil
}

// awaitEnd reads the command's exit status and kills the container's other
// processes.
func (c *RunningContainer) awaitEnd(reports *json.Decoder, file *os.File) {
	var m initReport
	err := reports.Decode(&m)
	_ = c.cmd.Wait() // the process state below has the result
	CloseFiles(c.control, file)
	c.spaces.close()
	c.status = c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if err == nil && m.Ended != nil {
		c.status = *m.Ended
	}
	close(c.exited)
}

// Exited returns a channel that is closed when the command and its descendants
// have exited. If the container entered another one, descendants may still run.
// The cgroup and the processes in it remain until RemoveCgroup.
func (c *RunningContainer) Exited() <-chan struct{} { return c.exited }

// WaitStatus returns the command's wait status. It is valid once Exited is
// closed.
func (c *RunningContainer) WaitStatus() syscall.WaitStatus { return c.status }

// Pid returns the pid of the container's first process on the host.
func (c *RunningContainer) Pid() int {
	if c.process == nil {
		return c.record.PID
	}
	return c.process.Pid
}

// CgroupName returns the container's cgroup, or "" if it has none.
func (c *RunningContainer) CgroupName() string {
	if !c.engine.fenced {
		return ""
	}
	return c.path
}

// MemoryUsage returns the memory that the container, with those nested in it, may use and has used, and how many of its own
// processes the kernel killed for lack of it. Call it before RemoveCgroup.
func (c *RunningContainer) MemoryUsage() memorycgroup.Usage {
	if !c.engine.fenced {
		return memorycgroup.Usage{}
	}
	return c.engine.cgroups.memoryUsage(c.path)
}

// Kill kills every process of the container. It does not wait.
func (c *RunningContainer) Kill() {
	c.killed.Do(func() {
		// A process that has already exited needs neither.
		switch {
		case c.process == nil:
		case c.engine.fenced:
			_ = c.process.Kill()
		case c.control == nil:
			_ = c.process.Signal(killSignal)
		default:
			_, _ = c.control.Write([]byte{stopByte})
		}
	})
}

// Signal sends a signal to the command. SIGKILL kills the container.
func (c *RunningContainer) Signal(sig syscall.Signal) error {
	if sig == syscall.SIGKILL {
		c.Kill()
		return nil
	}
	if c.process == nil {
		return nil
	}
	if err := c.process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal container: %w", err)
	}
	return nil
}

// RemoveCgroup kills the processes that remain in the container's cgroup and
// below, and removes these cgroups.
func (c *RunningContainer) RemoveCgroup() error {
	if !c.engine.fenced {
		return nil
	}
	return c.engine.cgroups.clearCgroup(c.path)
}

// Forget removes the record of a container that has ended.
func (c *RunningContainer) Forget() { c.engine.records.removeRecord(c.record.ID) }
