package jobs

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"mesos-gpu/framework/client"
)

const (
	// killRequestTimeout limits the kill request after an interrupt.
	killRequestTimeout = 10 * time.Second
	// finalKillTimeout limits the rest of that request after a second interrupt. It
	// is not 0, because users often interrupt twice and the job must still be killed.
	finalKillTimeout = time.Second
)

// leftRunning ends following and leaves the job running, as the user requested.
type leftRunning struct{ job string }

func (l leftRunning) Error() string {
	return fmt.Sprintf("interrupted; job %s continues: see mesos-gpu logs -f %s", l.job, l.job)
}

// notifyInterrupt returns a context that ends at the next SIGINT or SIGTERM, and at
// SIGHUP unless that is ignored, as under nohup.
func notifyInterrupt(ctx context.Context) (context.Context, context.CancelFunc) {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signal.NotifyContext(ctx, signals...)
}

// notifyQuit reports SIGQUIT, which detaches from the job and leaves it running. If
// SIGQUIT is ignored, as in background jobs of a script, it stays ignored.
func notifyQuit() (quit <-chan os.Signal, stop func()) {
	signals := make(chan os.Signal, 1)
	if !signal.Ignored(syscall.SIGQUIT) {
		signal.Notify(signals, syscall.SIGQUIT)
	}
	return signals, func() { signal.Stop(signals) }
}

// handleInterrupt kills the job, or leaves it running if keep is set. It then calls
// leave: immediately if keep is set or the kill fails, otherwise at the next interrupt.
func (a *jobCommands) handleInterrupt(following context.Context, leave context.CancelCauseFunc, api *client.Client, name string, keep bool) {
	if keep {
		leave(leftRunning{name})
		return
	}
	again, stop := notifyInterrupt(following)
	defer stop()
	fmt.Fprintf(a.Stderr, "mesos-gpu: interrupted: job %s is being killed; interrupt again to wait no longer\n", name)
	asking, cancel := context.WithCancel(context.WithoutCancel(following))
	defer cancel()
	defer context.AfterFunc(again, func() { time.AfterFunc(finalKillTimeout, cancel) })()
	if err := killWithin(asking, api, name); err != nil {
		leave(err)
		return
	}
	<-again.Done()
	leave(fmt.Errorf("interrupted again; job %s is being killed", name))
}

// killWithin kills the job, with killRequestTimeout as the limit.
func killWithin(ctx context.Context, api *client.Client, name string) error {
	ctx, cancel := context.WithTimeout(ctx, killRequestTimeout)
	defer cancel()
	if err := api.KillJob(ctx, name); err != nil {
		return fmt.Errorf("kill job %s: %w", name, err)
	}
	return nil
}
