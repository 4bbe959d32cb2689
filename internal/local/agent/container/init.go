package container

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// InitCommand is the argument that makes the program a container's first
// process: it must then call Init and exit with what it returns.
const InitCommand = "container-init"

// Init is a container's first process. Only Engine.Launch starts it; it takes
// no arguments. What it returns is for people who do: the agent gets reports.
func Init(args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s takes no arguments, got %d", InitCommand, len(args))
	}
	// Namespaces belong to threads: what follows stays on this one.
	runtime.LockOSThread()
	for _, fd := range []int{controlFD, reportFD, mountFD, pidFD} {
		unix.CloseOnExec(fd)
	}
	control := json.NewDecoder(os.NewFile(controlFD, "control"))
	out := reportWriter{os.NewFile(reportFD, "report")}
	var o launchOrder
	if err := control.Decode(&o); err != nil {
		return fmt.Errorf("read order: %w (this command is the agent's own)", err)
	}
	signals := catchSignals()
	pid, err := startCommand(o)
	if err != nil {
		m := initReport{Stage: StageStart, Error: err.Error()}
		if stage := (*StageError)(nil); errors.As(err, &stage) {
			m.Stage = stage.Stage
		}
		return out.sendReport(m)
	}
	_ = out.sendReport(initReport{Started: true}) // watch sees that the agent is gone
	stop := watchControl(io.MultiReader(control.Buffered(), os.NewFile(controlFD, "control")))
	ended := make(chan syscall.WaitStatus, 1)
	go func() { ended <- reapUntil(pid) }()
	superviseCommand(o, out, pid, signals, stop, ended)
	return nil
}

// superviseCommand forwards signals until the command has ended.
func superviseCommand(o launchOrder, out reportWriter, pid int, signals <-chan os.Signal, stop <-chan bool, ended <-chan syscall.WaitStatus) {
	var late <-chan time.Time
	for {
		select {
		case sig := <-signals:
			_ = unix.Kill(pid, sig.(syscall.Signal)) // ESRCH: its end is on its way
		case asked := <-stop:
			stop = nil
			if asked {
				_ = unix.Kill(pid, unix.SIGKILL) // ESRCH as above, and below
				continue
			}
			_ = unix.Kill(pid, unix.SIGTERM)
			late = time.After(orphanGrace)
		case <-late:
			_ = unix.Kill(pid, unix.SIGKILL)
		case status := <-ended:
			killRemaining(o, out, status)
			return
		}
	}
}

// killRemaining kills what is left, then reports. In its own PID namespace the kernel
// kills everything when this process ends; what is left in another's is in a
// cgroup that the agent clears.
func killRemaining(o launchOrder, out reportWriter, status syscall.WaitStatus) {
	if !o.Fenced && o.Enter == nil {
		killChildren()
	}
	_ = out.sendReport(initReport{Ended: &status}) // an agent that is gone needs no report
}

// watchControl waits for the agent's stop byte (true) or its death (false).
func watchControl(control io.Reader) <-chan bool {
	stop := make(chan bool, 1)
	go func() {
		for b := make([]byte, 1); ; {
			n, err := control.Read(b)
			if n == 1 && b[0] == stopByte {
				stop <- true
				return
			}
			if err != nil {
				stop <- false
				return
			}
		}
	}()
	return stop
}

// catchSignals asks for every signal that a container may be sent. Not for those a
// program raises itself (its own crash, Go's preemption by SIGURG) nor for
// SIGCHLD, which is about the children.
func catchSignals() <-chan os.Signal {
	signals := make(chan os.Signal, 64)
	for _, s := range []syscall.Signal{
		unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM, unix.SIGTERM, unix.SIGCONT,
		unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGWINCH, unix.SIGABRT, unix.SIGIO, unix.SIGPWR,
	} {
		signal.Notify(signals, s)
	}
	return signals
}

// reapUntil waits for children, its own and those it inherits, until pid ends.
func reapUntil(pid int) syscall.WaitStatus {
	for {
		var status syscall.WaitStatus
		got, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			// No child left, and pid's end was missed: it cannot be.
			return syscall.WaitStatus(unix.SIGKILL)
		case got == pid && (status.Exited() || status.Signaled()):
			return status
		}
	}
}
