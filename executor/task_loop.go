package executor

import (
	"context"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/mesos/mesos-go/api/v1/lib/executor"
	"github.com/sirupsen/logrus"

	"mesos-gpu/executor/task"
)

// taskLoop runs one task: it passes everything that happens to its state, and
// carries out what the state decides. The goroutine of serveEvents owns the
// state. The task's goroutine reports to it through progress, all others
// through actions.
type taskLoop struct {
	cfg   ExecutorConfig
	log   logrus.FieldLogger
	state *taskState

	// taskCtx is the context of the task and of its watchers, from startTask on.
	taskCtx context.Context
	// cancelLaunch ends a launch in progress; forceEnd ends the task by force
	// and everything that watches it. Both are nil before startTask.
	cancelLaunch, forceEnd context.CancelFunc
	// progress has the reports of the task's goroutine.
	progress chan taskProgress
	// messages are the runtime's messages while the task starts or runs.
	messages chan string
	// actions are functions that goroutines pass to the goroutine of
	// serveEvents.
	actions chan func()
	// goroutines counts the goroutines of the task and of its watchers. Run waits for them.
	goroutines sync.WaitGroup
	// usage is the report of what the devices do.
	usage usageReport
}

func newTaskLoop(cfg ExecutorConfig) *taskLoop {
	l := &taskLoop{
		cfg: cfg, log: cfg.Log,
		progress: make(chan taskProgress, 2),
		messages: make(chan string, 8),
		actions:  make(chan func()),
	}
	l.state = newTaskState(&l.cfg, l)
	return l
}

// serveEvents handles events until the executor has nothing left to do.
func (l *taskLoop) serveEvents(ctx context.Context, events <-chan executor.Event, gone <-chan error) error {
	defer l.waitForGoroutines()
	stop := ctx.Done()
	deadline := time.NewTimer(0)
	defer deadline.Stop()
	for s := l.state; !s.done; {
		deadline.Stop()
		if next := s.nextDeadline(); !next.IsZero() {
			deadline.Reset(time.Until(next))
		}
		select {
		case ev := <-events:
			s.handleEvent(ev)
		case err := <-gone:
			s.handleAgentLoss(err)
		case p := <-l.progress:
			s.handleProgress(p)
		case message := <-l.messages:
			s.reportMessage(message)
		case f := <-l.actions:
			f()
		case <-deadline.C:
			s.handleDeadlines()
		case <-stop:
			stop = nil
			s.beginShutdown("executor received a stop signal")
		}
	}
	return l.state.agentLost
}

// postAction runs f in the goroutine of serveEvents, unless ctx ends first.
func (l *taskLoop) postAction(ctx context.Context, f func()) {
	select {
	case l.actions <- f:
	case <-ctx.Done():
	}
}

// waitForGoroutines ends the task by force if it still runs, and waits for all
// goroutines.
func (l *taskLoop) waitForGoroutines() {
	l.endTask()
	l.goroutines.Wait()
}

func (l *taskLoop) now() time.Time { return time.Now() }

func (l *taskLoop) newUUID() []byte {
	id := uuid.New()
	return id[:]
}

func (l *taskLoop) prepareTask(t *task.TaskSpec) (err error) {
	if t.Env, t.SecretMounts, err = resolveSecrets(*t, l.cfg.SecretsDir); err != nil {
		return err
	}
	if t.PullConfig, err = resolvePullSecret(*t, l.cfg.SecretsDir); err != nil {
		return err
	}
	reach, err := l.findGrantedGPUs(*t)
	if err != nil {
		return err
	}
	t.Minors, t.Caps = reach.Minors, reach.Caps
	return nil
}

func (l *taskLoop) startTask(t task.TaskSpec) {
	taskCtx, forceEnd := context.WithCancel(context.Background())
	startCtx, cancelLaunch := context.WithCancel(taskCtx)
	l.taskCtx, l.forceEnd, l.cancelLaunch = taskCtx, forceEnd, cancelLaunch
	t.OnMessage = l.queueMessage
	l.goroutines.Go(func() { l.executeTask(startCtx, taskCtx, l.cfg.Runtimes[t.Containerizer], t) })
	l.watchDevices(taskCtx, &t)
}

func (l *taskLoop) cancelStart() { l.cancelLaunch() }

func (l *taskLoop) endTask() {
	if l.forceEnd != nil {
		l.forceEnd()
	}
}

func (l *taskLoop) startWatchers(r task.RunningTask) {
	l.startHealthChecks(l.taskCtx, r)
	l.startCheck(l.taskCtx, r)
	l.enforceDiskLimit(l.taskCtx, r)
	l.reportUsage(l.taskCtx)
}

// executeTask runs the task. The buffer of progress has room for all of its
// reports.
func (l *taskLoop) executeTask(startCtx, taskCtx context.Context, runtime task.Runtime, t task.TaskSpec) {
	var r task.RunningTask
	share, home := "", l.cfg.applyOwnerAccount(startCtx, &t)
	err := l.cfg.checkChdir(startCtx, &t)
	if err == nil {
		err = l.cfg.claimDevices(startCtx, &t)
	}
	if err == nil {
		share, err = l.cfg.applyShareLimit(startCtx, &t)
	}
	if err == nil {
		r, err = runtime.Start(startCtx, t)
	}
	l.progress <- taskProgress{running: r, err: err, warning: joinWarnings(share, home)}
	if err != nil {
		return
	}
	exit, err := r.Wait(taskCtx)
	l.reportLastUsage(taskCtx, &t)
	l.progress <- taskProgress{ended: true, exit: exit, err: err}
}

// joinWarnings joins the warnings that are not empty.
func joinWarnings(all ...string) string {
	return strings.Join(slices.DeleteFunc(all, func(warning string) bool { return warning == "" }), "; ")
}

// queueMessage stores a message of the runtime. It drops the message if too
// many are waiting.
func (l *taskLoop) queueMessage(message string) {
	select {
	case l.messages <- message:
	default:
	}
}

func (l *taskLoop) signalTask(r task.RunningTask, sig syscall.Signal) {
	log := l.log.WithField("signal", sig.String())
	log.Info("signalling the task")
	l.goroutines.Go(func() {
		if err := sendSignal(r, sig); err != nil {
			log.WithError(err).Warn("cannot send signal")
		}
	})
}

// signalTimeout bounds one attempt to send a signal.
const signalTimeout = 10 * time.Second

func sendSignal(r task.RunningTask, sig syscall.Signal) error {
	ctx, cancel := context.WithTimeout(context.Background(), signalTimeout)
	defer cancel()
	return r.Signal(ctx, sig)
}
