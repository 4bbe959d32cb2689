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
)

// Container is one that has started.
type Container struct {
	engine *Engine
	path   string
	cmd    *exec.Cmd
	// control is the write end of the pipe whose end tells the container that
	// its agent has died.
	control *os.File
	// spaces are for those that join it or enter it, oci is what runc runs in
	// it. entered says that it is in another's namespaces.
	spaces  namespaces
	oci     *OCI
	entered bool
	killed  sync.Once
	exited  chan struct{}
	status  syscall.WaitStatus
}

// Launch starts a container. It returns once the command runs, or with what
// kept it from running and nothing left behind.
func (e *Engine) Launch(ctx context.Context, s Spec) (*Container, error) {
	if err := checkIDs(s.ID); err != nil {
		return nil, err
	}
	c := &Container{engine: e, path: e.Path(s.ID), oci: s.OCI, entered: s.Enter != nil, exited: make(chan struct{})}
	reports, err := e.spawn(c, s)
	if err != nil {
		return nil, errors.Join(err, c.Remove())
	}
	decoder := json.NewDecoder(reports)
	err = c.order(ctx, e.fenced, s, decoder)
	if err == nil && s.Join != nil {
		err = c.spaces.settle(c.cmd.Process.Pid)
	}
	if err != nil {
		c.Kill()
		c.wait(decoder, reports)
		return nil, errors.Join(err, c.Remove())
	}
	go c.wait(decoder, reports)
	return c, nil
}

// spawn starts the first process and puts it into its confined cgroup, where
// it waits for its order.
func (e *Engine) spawn(c *Container, s Spec) (reports *os.File, err error) {
	if e.fenced {
		if err := e.confine(c.path, s); err != nil {
			return nil, err
		}
	}
	files, err := open(s.Stdin)
	if err != nil {
		return nil, err
	}
	c.control, reports = files.control, files.reports
	if s.Join != nil && e.fenced {
		err = files.share(&s.Join.spaces, 1)
	}
	if s.Enter != nil && e.fenced {
		err = files.share(&s.Enter.spaces, 2)
	}
	if err != nil {
		files.close()
		return nil, errors.Join(err, files.control.Close(), files.reports.Close())
	}
	c.cmd = &exec.Cmd{
		Path: e.program, Args: []string{e.program, InitCommand}, Env: []string{}, Dir: "/",
		Stdin: files.stdin, Stdout: s.Stdout, Stderr: s.Stderr, ExtraFiles: files.extra,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if e.fenced && !c.entered {
		c.cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWPID | syscall.CLONE_NEWNS
	}
	err = c.cmd.Start()
	files.close() // or the end of the process would not be heard below
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start container process: %w", err), c.control.Close(), reports.Close())
	}
	if !e.fenced {
		return reports, nil
	}
	if err = errors.Join(c.spaces.open(c.cmd.Process.Pid), e.cgroups.enter(c.path, c.cmd.Process.Pid)); err != nil {
		c.Kill()
		c.wait(json.NewDecoder(reports), reports)
		return nil, err
	}
	return reports, nil
}

func (e *Engine) confine(path string, s Spec) error {
	if err := e.cgroups.create(path); err != nil {
		return err
	}
	if err := e.cgroups.limit(path, s.Limits); err != nil {
		return err
	}
	if s.Isolate == nil {
		return nil
	}
	return s.Isolate(path)
}

// order tells the waiting process what to do and waits until it has. ctx
// bounds the wait.
func (c *Container) order(ctx context.Context, fenced bool, s Spec, reports *json.Decoder) error {
	stop := context.AfterFunc(ctx, c.Kill)
	defer stop()
	o := order{Fenced: fenced, Join: s.Join != nil, Nodes: s.Nodes, Command: s.Command, OCI: s.OCI, Terminal: s.Terminal}
	if s.Enter != nil && fenced {
		o.Enter = &entry{}
		if s.Enter.oci != nil {
			o.Enter.PidFile = s.Enter.oci.pidFile()
		}
	}
	if err := json.NewEncoder(c.control).Encode(o); err != nil {
		return fmt.Errorf("order container process: %w", err)
	}
	var m report
	err := reports.Decode(&m)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("start container: %w", context.Cause(ctx))
	case errors.Is(err, io.EOF):
		return errors.New("start container: its first process ended at once; see its stderr file")
	case err != nil:
		return fmt.Errorf("start container: read report: %w", err)
	case !m.Started:
		return &StageError{m.Stage, m.Error}
	}
	return nil
}

// wait learns how the command ended and makes sure that the rest has too.
func (c *Container) wait(reports *json.Decoder, file *os.File) {
	var m report
	err := reports.Decode(&m)
	_ = c.cmd.Wait() // the state below has what there is to know
	_, _ = closed(c.control), file.Close()
	c.spaces.close()
	c.status = c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if err == nil && m.Ended != nil {
		c.status = *m.Ended
	}
	close(c.exited)
}

// Exited is closed when the command has ended; of what it started nothing
// runs then, but in a container that entered another. Its own cgroup remains
// until Remove, and what runs there.
func (c *Container) Exited() <-chan struct{} { return c.exited }

// Status is the command's wait status, known once Exited is closed.
func (c *Container) Status() syscall.WaitStatus { return c.status }

// Pid is the container's first process, as the host sees it.
func (c *Container) Pid() int { return c.cmd.Process.Pid }

// Cgroup is the container's cgroup, empty where it has none.
func (c *Container) Cgroup() string {
	if !c.engine.fenced {
		return ""
	}
	return c.path
}

// OutOfMemory reports whether the kernel killed a process of the container
// because of its memory limit. It is to be asked before Remove.
func (c *Container) OutOfMemory() bool { return c.engine.fenced && c.engine.cgroups.oomKilled(c.path) }

// Kill ends every process of the container. It does not wait.
func (c *Container) Kill() {
	c.killed.Do(func() {
		// The process that has ended already needs neither.
		if c.engine.fenced {
			_ = c.cmd.Process.Kill()
			return
		}
		_, _ = c.control.Write([]byte{stopByte})
	})
}

// Signal sends the command a signal; SIGKILL ends the container.
func (c *Container) Signal(sig syscall.Signal) error {
	if sig == syscall.SIGKILL {
		c.Kill()
		return nil
	}
	if err := c.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal container: %w", err)
	}
	return nil
}

// Remove removes the container's cgroup and those below it, with whatever
// still runs there.
func (c *Container) Remove() error {
	if !c.engine.fenced {
		return nil
	}
	return c.engine.cgroups.clear(c.path)
}
