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
	// killRequestTimeout bounds the wait for the scheduler after an interrupt.
	killRequestTimeout = 10 * time.Second
	// finalKillTimeout is what is left of it after a second one: people press twice,
	// and the job shall still end.
	finalKillTimeout = time.Second
)

// leftRunning ends following while the job goes on, as the user asked.
type leftRunning struct{ job string }

func (l leftRunning) Error() string {
	return fmt.Sprintf("interrupted; job %s goes on: see mesos-gpu logs -f %s", l.job, l.job)
}

// notifyInterrupt ends with the next interrupt: also with the end of the
// terminal, unless nohup says that this shall be none.
func notifyInterrupt(ctx context.Context) (context.Context, context.CancelFunc) {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signal.NotifyContext(ctx, signals...)
}

// notifyQuit reports SIGQUIT, by which people leave a job running that they would
// have ended by an interrupt. Where it is ignored, as in a script's background,
// it stays so.
func notifyQuit() (quit <-chan os.Signal, stop func()) {
	signals := make(chan os.Signal, 1)
	if !signal.Ignored(syscall.SIGQUIT) {
		signal.Notify(signals, syscall.SIGQUIT)
	}
	return signals, func() { signal.Stop(signals) }
}

// handleInterrupt ends the job, or lets it go on where it is to be kept. What it
// does is followed by leave: at once, or with the next interrupt.
func (a *commands) handleInterrupt(following context.Context, leave context.CancelCauseFunc, api *client.Client, name string, keep bool) {
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

// killWithin asks for a job's end for as long as an impatient person waits.
func killWithin(ctx context.Context, api *client.Client, name string) error {
	ctx, cancel := context.WithTimeout(ctx, killRequestTimeout)
	defer cancel()
	if err := api.KillJob(ctx, name); err != nil {
		return fmt.Errorf("kill job %s: %w", name, err)
	}
	return nil
}
