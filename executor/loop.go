package executor

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/executor"
	"github.com/sirupsen/logrus"

	"mesos-gpu/executor/image"
	"mesos-gpu/executor/task"
)

// loop is the life of one task. One goroutine, serve, owns all of it; the
// task's own goroutine reports through progress.
type loop struct {
	cfg Config
	log logrus.FieldLogger
	out *outbox

	// What SUBSCRIBED told.
	container   mesos.ContainerID
	own         []mesos.Resource // the executor's
	tellKilling bool             // the framework knows TASK_KILLING

	phase phase
	info  mesos.TaskInfo
	task  task.Task
	// running is set from RUNNING on; kill from the first reason to end.
	running task.Running
	kill    *kill
	// stopStart ends a launch that is under way, giveUp the task by force.
	stopStart, giveUp context.CancelFunc
	progress          chan progress
	// news is what the runtime says while the task starts or runs.
	news chan string
	// watch begins what goes on beside the running task; posts is what that
	// has this goroutine do.
	watch func(task.Running)
	posts chan func()
	work  sync.WaitGroup
	// health is what each of the task's health checks found last, nil before
	// it knows. healthy and checked are the last that is known of the task by
	// all of them, and by its check. unhealthy
	// and disk say why the task was ended; limit is its max_completion_time,
	// overdue that this has passed.
	health          []*bool
	healthy         *bool
	checked         *mesos.CheckStatusInfo
	unhealthy, disk string
	limit           <-chan time.Time
	overdue         bool
	// sick are the task's devices that have failed.
	sick sick

	// final is the terminal status's uuid, wait bounds the time until its
	// acknowledgement and, after SHUTDOWN, all that is left to do.
	final    []byte
	wait     *time.Timer
	shutdown bool
	lost     error // the agent is gone for good
	done     bool
}

type phase int

const (
	idle phase = iota
	launching
	running
	over
)

// progress is what the task's goroutine says: running is set once, ended
// once, or err instead of either.
type progress struct {
	running task.Running
	ended   bool
	exit    task.Exit
	err     error
	warning string // with running: what its owner should know
}

func newLoop(cfg Config) *loop {
	// The timer waits for its first Reset.
	wait := time.NewTimer(time.Hour)
	wait.Stop()
	return &loop{
		cfg: cfg, log: cfg.Log, out: newOutbox(), wait: wait,
		container: mesos.ContainerID{Value: cfg.ContainerID},
		progress:  make(chan progress, 2),
		news:      make(chan string, 8),
		posts:     make(chan func()),
	}
}

// serve handles events until the executor has nothing left to do.
func (l *loop) serve(ctx context.Context, events <-chan executor.Event, gone <-chan error) error {
	defer l.end()
	stop := ctx.Done()
	for !l.done {
		select {
		case ev := <-events:
			l.handle(ctx, ev)
		case err := <-gone:
			l.agentLost(err)
		case p := <-l.progress:
			l.advance(p)
		case message := <-l.news:
			l.tell(message)
		case f := <-l.posts:
			f()
		case <-l.limit:
			l.expire()
		case <-l.kill.due():
			l.escalate()
		case <-l.wait.C:
			l.log.Warn("stopped waiting: time is up")
			l.done = true
		case <-stop:
			stop = nil
			l.shutDown("executor was told to stop")
		}
	}
	return l.lost
}

// post has serve's goroutine run f, unless ctx ends first.
func (l *loop) post(ctx context.Context, f func()) {
	select {
	case l.posts <- f:
	case <-ctx.Done():
	}
}

// end waits until nothing of the task is left.
func (l *loop) end() {
	if l.giveUp != nil {
		l.giveUp()
	}
	l.work.Wait()
	l.wait.Stop()
}

// handle serves one event. An event without the part that its type names is
// dropped: there is nothing to do about it.
func (l *loop) handle(ctx context.Context, ev executor.Event) {
	switch t := ev.GetType(); {
	case t == executor.Event_SUBSCRIBED && ev.Subscribed != nil:
		l.subscribed(ev.Subscribed)
	case t == executor.Event_LAUNCH && ev.Launch != nil:
		l.launch(ctx, ev.Launch.Task)
	case t == executor.Event_LAUNCH_GROUP && ev.LaunchGroup != nil:
		l.launchGroup(ctx, ev.LaunchGroup.TaskGroup.Tasks)
	case t == executor.Event_KILL && ev.Kill != nil:
		l.killTask(ev.Kill.TaskID, ev.Kill.KillPolicy)
	case t == executor.Event_ACKNOWLEDGED && ev.Acknowledged != nil:
		l.acknowledged(ev.Acknowledged)
	case t == executor.Event_SHUTDOWN:
		l.shutDown("agent said SHUTDOWN")
	case t == executor.Event_ERROR:
		l.log.WithField("message", ev.Error.GetMessage()).Error("agent reports an error")
	}
}

func (l *loop) subscribed(s *executor.Event_Subscribed) {
	if s.ContainerID != nil {
		l.container = *s.ContainerID
	}
	l.own = s.ExecutorInfo.Resources
	for _, c := range s.FrameworkInfo.Capabilities {
		if c.Type == mesos.FrameworkInfo_Capability_TASK_KILLING_STATE {
			l.tellKilling = true
		}
	}
	l.log.WithFields(logrus.Fields{"agent": s.AgentInfo.Hostname, "container": l.container.Value}).Info("subscribed")
}

func (l *loop) acknowledged(a *executor.Event_Acknowledged) {
	l.out.acknowledge(a.TaskID, a.UUID)
	if l.final != nil && bytes.Equal(a.UUID, l.final) {
		l.done = true
	}
}

// launchGroup takes a group of one. Tasks of a larger group would share this
// executor's GPUs, and nobody could say which task owns which.
func (l *loop) launchGroup(ctx context.Context, tasks []mesos.TaskInfo) {
	if len(tasks) == 1 {
		l.launch(ctx, tasks[0])
		return
	}
	for _, t := range tasks {
		uuid := l.refuse(t, fmt.Errorf("task group has %d tasks, this executor takes 1: launch one task a group", len(tasks)))
		if l.phase == idle {
			l.final = uuid
		}
	}
	if l.phase == idle {
		l.phase = over
		l.wait.Reset(l.cfg.AckTimeout)
	}
}

func (l *loop) launch(ctx context.Context, info mesos.TaskInfo) {
	if l.phase != idle {
		l.refuse(info, fmt.Errorf("executor %s already has task %s: give each task an executor of its own", l.cfg.ExecutorID, l.info.TaskID.Value))
		return
	}
	l.phase, l.info = launching, info
	if info.Check != nil {
		l.checked = unanswered(mesos.HealthCheck_Type(info.Check.Type))
	}
	l.out.addTask(info)
	runtime, err := l.prepare(info)
	if err != nil {
		l.finish(failed(err, false))
		return
	}
	l.update(outcome{state: mesos.TASK_STARTING})
	taskCtx, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	startCtx, stopStart := context.WithCancel(taskCtx)
	l.giveUp, l.stopStart = giveUp, stopStart
	t := l.task
	t.Tell = l.hear
	l.work.Go(func() { l.execute(startCtx, taskCtx, runtime, t) })
	if d := info.MaxCompletionTime; d != nil {
		l.limit = time.After(time.Duration(d.Nanoseconds))
	}
	l.observe(taskCtx)
	l.watch = func(r task.Running) {
		l.checkHealth(taskCtx, r)
		l.check(taskCtx, r)
		l.limitDisk(taskCtx, r)
		l.reportUse(taskCtx)
	}
}

// prepare completes l.task and picks what runs it.
func (l *loop) prepare(info mesos.TaskInfo) (task.Runtime, error) {
	t, err := describe(info)
	if err != nil {
		return nil, err
	}
	if t.Env, err = withSecrets(t, l.cfg.SecretsDir); err != nil {
		return nil, err
	}
	reach, err := l.granted(t)
	if err != nil {
		return nil, err
	}
	t.Minors, t.Caps = reach.Minors, reach.Caps
	t.Framework, t.Container = l.cfg.FrameworkID, l.container
	l.task = t
	l.log.WithFields(logrus.Fields{"task": t.ID, "gpus": t.GPUs, "minors": t.Minors, "containerizer": t.Containerizer}).Info("launching")
	return l.cfg.Runtimes[t.Containerizer], nil
}

// execute runs the task; progress has room for all it says.
func (l *loop) execute(startCtx, taskCtx context.Context, runtime task.Runtime, t task.Task) {
	var r task.Running
	warning, err := l.cfg.limited(startCtx, &t)
	if err == nil {
		r, err = runtime.Start(startCtx, t)
	}
	l.progress <- progress{running: r, err: err, warning: warning}
	if err != nil {
		return
	}
	exit, err := r.Wait(taskCtx)
	l.progress <- progress{ended: true, exit: exit, err: err}
}

// hear takes a message of the runtime, or drops it where many wait already.
func (l *loop) hear(message string) {
	select {
	case l.news <- message:
	default:
	}
}

// tell passes a message on in the task's present state. A task that is being
// killed has better news to wait for.
func (l *loop) tell(message string) {
	switch {
	case l.kill != nil:
	case l.phase == launching:
		l.update(outcome{state: mesos.TASK_STARTING, message: message})
	case l.phase == running:
		l.update(outcome{state: mesos.TASK_RUNNING, message: message})
	}
}

func (l *loop) advance(p progress) {
	switch {
	case p.ended:
		l.logEnd(p.err)
		l.finish(ended(p.exit, p.err, l.kill != nil))
	case p.err != nil:
		l.logEnd(p.err)
		o := failed(p.err, l.kill != nil)
		if l.kill == nil {
			o.reason = mesos.REASON_CONTAINER_LAUNCH_FAILED.Enum()
			o.unfit = image.FaultIn(o.message)
		}
		l.finish(o)
	default:
		l.phase, l.running = running, p.running
		if l.kill != nil {
			l.endRunning()
			return
		}
		o := outcome{state: mesos.TASK_RUNNING, message: p.warning}
		if l.task.GPUs > 0 && l.task.Minors == nil {
			o.message = "no devices cgroup confines this task: it can open every GPU of its agent"
		}
		if d, ok := p.running.(task.Described); ok {
			o.data, o.addresses = d.Described()
		}
		l.update(o)
		l.watch(p.running)
	}
}

func (l *loop) logEnd(err error) {
	if err != nil {
		l.log.WithError(err).WithField("task", l.task.ID).Error("task ended with an error")
	}
}

// finish sends the terminal status; what is left is its acknowledgement.
func (l *loop) finish(o outcome) {
	l.phase = over
	l.kill.stop()
	if l.giveUp != nil {
		l.giveUp() // the task has ended, and what watched it does
	}
	l.final = l.update(l.sick.explain(l.forced(o)))
	if l.lost != nil {
		l.done = true
		return
	}
	if !l.shutdown {
		l.wait.Reset(l.cfg.AckTimeout)
	}
}

func (l *loop) update(o outcome) (uuid []byte) {
	s := status(l.info.TaskID, l.cfg.ExecutorID, o, time.Now())
	s.Healthy, s.CheckStatus = l.wellBeing(), l.checked
	l.out.addStatus(s)
	l.log.WithFields(logrus.Fields{"task": l.info.TaskID.Value, "state": o.state.String(), "message": o.message}).Info("task changed state")
	return s.UUID
}

// refuse fails a task that this executor never takes on.
func (l *loop) refuse(info mesos.TaskInfo, err error) (uuid []byte) {
	l.out.addTask(info)
	s := status(info.TaskID, l.cfg.ExecutorID, failed(err, false), time.Now())
	l.out.addStatus(s)
	l.log.WithError(err).WithField("task", info.TaskID.Value).Warn("refused a task")
	return s.UUID
}
