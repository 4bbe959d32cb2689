package executor

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"syscall"
	"time"

	"mesos-gpu/executor/task"
	"mesos-gpu/internal/atomicfile"
)

// warnTask sends the signal and creates the file of the task's warning.
func (l *taskLoop) warnTask(r task.RunningTask, t *task.TaskSpec, sigterm time.Time) {
	w := t.Warn
	if sig, ok := warningSignals[w.Signal]; ok {
		l.signalTask(r, sig)
	}
	if target, ok := r.(task.ProbeTarget); ok && w.HTTP != "" && target.ProbeAddress() != "" {
		url := "http://" + net.JoinHostPort(target.ProbeAddress(), strconv.Itoa(t.WarnPort)) + w.HTTP
		l.goroutines.Go(func() {
			if err := postWarning(url); err != nil {
				l.log.WithError(err).Warn("cannot post the warning")
			}
		})
	}
	if w.File == "" {
		return
	}
	sandbox := l.cfg.Sandbox
	if owner, ok := r.(task.SandboxOwner); ok {
		sandbox = owner.SandboxPath()
	}
	if err := writeWarningFile(sandbox, w.File, sigterm); err != nil {
		l.log.WithError(err).Warn("cannot write the warning")
	}
}

// warningSignals are the signals of job.WarningSignals.
var warningSignals = map[string]syscall.Signal{
	"USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "WINCH": syscall.SIGWINCH,
}

// postWarning sends a POST without a body. It follows no redirect.
func postWarning(url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), signalTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, http.NoBody)
	if err != nil {
		return err
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	res, err := client.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("%s answered %s", url, res.Status)
	}
	return nil
}

// writeWarningFile writes the time of SIGTERM to a file in the sandbox. It replaces what
// the task made at that name, because opening a pipe would block.
func writeWarningFile(sandbox, name string, at time.Time) error {
	root, err := os.OpenRoot(sandbox)
	if err != nil {
		return err
	}
	defer root.Close()
	return atomicfile.ReplaceIn(root, name, []byte(at.UTC().Format(time.RFC3339)+"\n"), 0o644)
}
