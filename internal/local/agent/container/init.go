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
// process. The program must then call Init and exit with the returned error.
const InitCommand = "container-init"

// Init runs as a container's first process. Only ContainerEngine.Launch starts
// it, without arguments. The agent receives reports; the returned error is for
// users who run the command by hand.
func Init(args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s takes no arguments, got %d", InitCommand, len(args))
	}
	// Namespaces belong to threads, so the goroutine stays on this thread.
	runtime.LockOSThread()
	for _, fd := range []int{controlFD, reportFD, mountFD, pidFD} {
		unix.CloseOnExec(fd)
	}
	control := json.NewDecoder(os.NewFile(controlFD, "control"))
	out := json.NewEncoder(os.NewFile(reportFD, "report"))
	var o launchOrder
	if err := control.Decode(&o); err != nil {
		return fmt.Errorf("read order: %w (this command is the agent's own)", err)
	}
	signals := catchSignals()
	var survival *survivor
	if o.Keep != nil {
		var err error
		if survival, err = o.Keep.prepare(); err != nil {
			return out.Encode(initReport{Error: err.Error()})
		}
	}
	pid, err := startCommand(o)
	if err != nil {
		return out.Encode(initReport{Error: err.Error(), NoOverlay: errors.As(err, new(OverlayError))})
	}
	_ = out.Encode(initReport{Started: true}) // watchControl detects the agent's death
	stop := watchControl(io.MultiReader(control.Buffered(), os.NewFile(controlFD, "control")))
	ended := make(chan syscall.WaitStatus, 1)
	go func() { ended <- reapUntil(pid) }()
	superviseCommand(o, out, pid, survival, signals, stop, ended)
	return nil
}

// superviseCommand forwards signals until the command has ended.
func superviseCommand(
	o launchOrder, out *json.Encoder, pid int, survival *survivor, signals <-chan os.Signal, stop <-chan bool,
	ended <-chan syscall.WaitStatus,
) {
	var late, check <-chan time.Time
	endOrphan := func() {
		_ = unix.Kill(pid, unix.SIGTERM) // ESRCH: it has already exited
		late = time.After(orphanGrace)
	}
	for {
		select {
		case sig := <-signals:
			if sig == killSignal {
				sig = unix.SIGKILL
			}
			_ = unix.Kill(pid, sig.(syscall.Signal)) // ESRCH: it has already exited
		case asked := <-stop:
			stop = nil
			switch {
			case asked:
				_ = unix.Kill(pid, unix.SIGKILL) // ESRCH as above, and below
			case survival != nil:
				survival.lost = time.Now()
				check = time.After(survivalCheck)
			default:
				endOrphan()
			}
		case <-check:
			if survival.isOver(time.Now()) {
				check = nil
				endOrphan()
				continue
			}
			check = time.After(survivalCheck)
		case <-late:
			_ = unix.Kill(pid, unix.SIGKILL)
		case status := <-ended:
			killRemaining(o)
			survival.recordEnd(status)
			_ = out.Encode(initReport{Ended: &status}) // a dead agent needs no report
			return
		}
	}
}

// killRemaining kills the remaining processes. The kernel kills all processes of
// a private PID namespace when this process exits. Processes in another
// container's PID namespace are in a cgroup that the agent clears.
func killRemaining(o launchOrder) {
	if !o.Fenced && o.Enter == nil {
		killChildren()
	}
}

// watchControl returns a channel that receives true for the agent's stop byte
// and false for its death.
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

// catchSignals subscribes to every signal that a container may receive. It
// excludes signals that a program raises itself (crashes, Go's preemption by
// SIGURG) and SIGCHLD.
func catchSignals() <-chan os.Signal {
	signals := make(chan os.Signal, 64)
	for _, s := range []syscall.Signal{
		unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM, unix.SIGTERM, unix.SIGCONT,
		unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGWINCH, unix.SIGABRT, unix.SIGIO, unix.SIGPWR, killSignal,
	} {
		signal.Notify(signals, s)
	}
	return signals
}

// reapUntil reaps own and inherited children until pid exits. It returns the
// wait status of pid.
func reapUntil(pid int) syscall.WaitStatus {
	for {
		var status syscall.WaitStatus
		got, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			// No child is left although pid was not reaped. This cannot happen.
			return syscall.WaitStatus(unix.SIGKILL)
		case got == pid && (status.Exited() || status.Signaled()):
			return status
		}
	}
}
