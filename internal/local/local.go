// Package local runs a complete cluster on one machine in one process tree: an
// embedded Mesos master and agents, their GPU daemons and the framework. They are
// connected by the same HTTP APIs as with Apache Mesos. It is intended for
// evaluation and tests, and supports only one machine.
package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"

	"mesos-gpu/framework"
	"mesos-gpu/framework/sched"
	"mesos-gpu/gpu"
	"mesos-gpu/internal/filelock"
	"mesos-gpu/internal/local/master"
	"mesos-gpu/isolator/share"
)

// ClusterConfig configures a local cluster.
type ClusterConfig struct {
	// WorkDir contains the sandboxes, images, volumes and the journal.
	WorkDir string
	// Hosts have the GPUs of the agents, detected or simulated: there is one agent
	// for each host.
	Hosts []gpu.Host
	// Amounts are the CPUs and memory that the agents offer, in the order of Hosts,
	// whatever the machine has; nil means those of the machine.
	Amounts []sched.Amount
	// API, Master and Agent are the listen addresses. With several agents, Agent
	// is the address of the first one, on the loopback network: each other agent has the
	// next address of that network.
	API, Master, Agent string
	// Binary is the mesos-gpu program, which runs executors.
	Binary string
	// ExecutorEnv is added to every executor's environment.
	ExecutorEnv map[string]string
	// Scheduler configures the scheduler. The cluster sets its listen address,
	// master, executor and journal.
	Scheduler framework.SchedulerConfig
	// Images is a folder of docker archives NAME:TAG.tar for unified
	// containers.
	Images string
	// KeepSandboxes is agent.AgentConfig.KeepSandboxes; 0 selects its default.
	KeepSandboxes time.Duration
	// Isolate gives every task its own cgroup and device nodes. It requires
	// root rights.
	Isolate bool
	// Recover keeps tasks running when this process is killed; the next cluster of
	// the work directory adopts them.
	Recover bool
	// KeepTasks leaves tasks running when ctx ends, as if this process were killed.
	// It requires Recover. Run returns while its parts still run: the caller must end
	// the process.
	KeepTasks bool
	// Share, ShareLimit and Scaling have the meaning that they have in
	// daemon.DaemonConfig: which GPUs are shared, and how. NewLimiters returns
	// what limits the tasks of an agent to their shares; nil means nothing.
	Share, ShareLimit string
	Scaling           share.ShareScaling
	NewLimiters       func(dir string) ([]share.Limiter, error)
	Log               logrus.FieldLogger
}

// journalFile is the name of the scheduler's journal in the work directory.
const journalFile = "scheduler.journal"

// ClusterURLs are the URLs of a running cluster.
type ClusterURLs struct {
	API, Master string
	Agents      []string
}

// Run runs the cluster until ctx ends. It then ends all tasks and removes their
// processes, cgroups and mounts, unless KeepTasks is set. It calls up once the API
// responds.
func Run(ctx context.Context, cfg ClusterConfig, up func(ClusterURLs)) error {
	c := &localCluster{ClusterConfig: cfg}
	if err := c.openListeners(); err != nil {
		return err
	}
	return c.runParts(ctx, up)
}

type localCluster struct {
	ClusterConfig
	secret internalSecret
	master net.Listener
	agents []*localAgent
}

func (c *localCluster) openListeners() (err error) {
	if c.master, err = c.listenFor("master", c.Master); err != nil {
		return err
	}
	for i, host := range c.Hosts {
		a := &localAgent{cluster: c, host: host, dir: c.WorkDir}
		if c.Amounts != nil {
			a.amount = &c.Amounts[i]
		}
		if i > 0 {
			a.dir = filepath.Join(c.WorkDir, "agents", fmt.Sprint(i+1))
		}
		addr, err := nextAddress(c.Agent, i)
		if err == nil {
			err = a.listen(addr)
		}
		if err != nil {
			c.closeListeners()
			return err
		}
		c.agents = append(c.agents, a)
	}
	return nil
}

func (c *localCluster) closeListeners() {
	c.master.Close()
	for _, a := range c.agents {
		a.listener.Close()
	}
}

// nextAddress returns the address n after addr in the loopback network, with the
// same port. It is addr itself if n is 0.
func nextAddress(addr string, n int) (string, error) {
	if n == 0 {
		return addr, nil
	}
	at, err := netip.ParseAddrPort(addr)
	if err != nil || !at.Addr().Is4() || !at.Addr().IsLoopback() {
		return "", fmt.Errorf("listen on %s for several embedded agents: each has an address of its own, so the first one's must be like 127.0.0.1:5051", addr)
	}
	ip := at.Addr()
	for range n {
		ip = ip.Next()
	}
	return netip.AddrPortFrom(ip, at.Port()).String(), nil
}

// listenFor listens on an address of a part of the cluster. If executors survive the process it
// waits for the address for filelock.InheritedLockTimeout: as with the lock of the work directory, a process that
// a killed cluster was about to start holds it until it executes its program.
func (c *localCluster) listenFor(part, addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	for late := time.Now().Add(filelock.InheritedLockTimeout); c.Recover && errors.Is(err, syscall.EADDRINUSE) && time.Now().Before(late); {
		time.Sleep(50 * time.Millisecond)
		l, err = net.Listen("tcp", addr)
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("listen on %s for the embedded %s: another program, perhaps another mesos-gpu local, has the port: stop it, or give --free-ports",
			addr, part)
	}
	if err != nil {
		return nil, fmt.Errorf("listen for the embedded %s: %w", part, err)
	}
	return l, nil
}

// runParts starts the components in dependency order and stops them in reverse
// order.
func (c *localCluster) runParts(ctx context.Context, up func(ClusterURLs)) (err error) {
	if !c.KeepTasks { // an agent whose listener is closed stops, and ends its tasks
		defer c.closeListeners()
	}
	if c.Isolate {
		release, rerr := devicesHierarchy(c.WorkDir)
		if rerr != nil {
			return rerr
		}
		if !c.KeepTasks { // the containers need it
			defer func() { err = errors.Join(err, release()) }()
		}
	}
	if c.secret, err = loadSecret(c.WorkDir); err != nil {
		return err
	}
	m := master.New(master.MasterConfig{Log: c.Log.WithField("part", "master"), Addr: c.master.Addr().String()})
	urls := ClusterURLs{Master: "http://" + c.master.Addr().String()}
	cfg := c.Scheduler
	cfg.Master, cfg.APIAddr = urls.Master, c.API
	cfg.JournalPath, cfg.ExecutorPath = filepath.Join(c.WorkDir, journalFile), c.Binary
	cfg.ExpectNewJournal = true // the first cluster of each work directory creates one
	cfg.CredentialFile = c.secret.path
	cfg.Artifacts = filepath.Join(c.WorkDir, "artifacts")
	cfg.Log = c.Log.WithField("part", "scheduler")
	cfg.Ready = func(addr string) {
		urls.API = cfg.API.URLFor(addr)
		up(urls)
	}
	agents, advertised := make([]func(context.Context) error, len(c.agents)), make([]<-chan struct{}, len(c.agents))
	for i, a := range c.agents {
		urls.Agents = append(urls.Agents, "http://"+a.listener.Addr().String())
		if agents[i], advertised[i], err = a.prepare(m); err != nil {
			return err
		}
	}
	scheduler, err := framework.New(cfg)
	if err != nil {
		return err
	}
	runScheduler := scheduler.Run
	for _, ready := range advertised {
		runScheduler = startAfter(ready, runScheduler)
	}
	parts := []clusterPart{
		{name: "the master's server", run: serveListener(c.master, c.requireSecret(m.Handler()))}, {name: "the master", run: m.Run},
		{name: "the agents", run: together(agents...), endsItself: true}, {name: "the scheduler", run: runScheduler},
	}
	if c.KeepTasks {
		return leaveRunning(ctx, parts...)
	}
	return inOrder(ctx, c.Log, parts...)
}

// clusterPart is a component of a cluster, or of one of its agents.
type clusterPart struct {
	name string
	run  func(context.Context) error
	// endsItself is set if run bounds the time that it takes to end, which
	// depends on the grace periods of tasks.
	endsItself bool
}

// leaveRunning runs the components until ctx ends or one fails, and returns without
// stopping them. They record everything before they act, so the end of the process
// may interrupt them anywhere.
func leaveRunning(ctx context.Context, parts ...clusterPart) error {
	failed := make(chan error, len(parts))
	for _, p := range parts {
		go func() { failed <- p.run(context.WithoutCancel(ctx)) }()
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}

// together runs the components at the same time until ctx ends or one of them
// does.
func together(parts ...func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		errs := make([]error, len(parts))
		var running sync.WaitGroup
		for i, run := range parts {
			running.Go(func() {
				defer cancel()
				errs[i] = run(ctx)
			})
		}
		running.Wait()
		return errors.Join(errs...)
	}
}

// startAfter delays a component until ready is closed.
func startAfter(ready <-chan struct{}, run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-ready:
			return run(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

// inOrder runs the components until ctx ends or one fails. It then stops them
// one by one, last first, so that each stops before its dependencies. It does not
// wait longer than stopTimeout for a component, unless that ends itself.
func inOrder(ctx context.Context, log logrus.FieldLogger, parts ...clusterPart) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	started := make([]*runningPart, 0, len(parts))
	for _, p := range parts {
		own, stop := context.WithCancel(context.WithoutCancel(ctx))
		r := &runningPart{clusterPart: p, stop: stop, done: make(chan error, 1)}
		go func() {
			err := r.run(own)
			r.done <- err
			if err != nil && own.Err() == nil {
				cancel()
			}
		}()
		started = append(started, r)
	}
	<-ctx.Done()
	var errs []error
	for _, r := range slices.Backward(started) {
		if err := r.stopAndWait(log); err != nil && !errors.Is(err, context.Canceled) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

const (
	// stopTimeout bounds the end of a component, and stopWarning is when the log
	// says which one is waited for.
	stopTimeout = 25 * time.Second
	stopWarning = 10 * time.Second
)

// runningPart is a component that inOrder has started.
type runningPart struct {
	clusterPart
	stop context.CancelFunc
	done chan error
}

// stopAndWait stops the component and returns its error, or an error if it does
// not end.
func (r *runningPart) stopAndWait(log logrus.FieldLogger) error {
	r.stop()
	slow := time.NewTimer(stopWarning)
	defer slow.Stop()
	var late <-chan time.Time
	if !r.endsItself {
		timeout := time.NewTimer(stopTimeout)
		defer timeout.Stop()
		late = timeout.C
	}
	for {
		select {
		case err := <-r.done:
			return err
		case <-slow.C:
			log.Warnf("stopping: waiting for %s to end", r.name)
		case <-late:
			return fmt.Errorf("%s did not end within %s", r.name, stopTimeout)
		}
	}
}

func serveListener(l net.Listener, h http.Handler) func(context.Context) error {
	return func(ctx context.Context) error {
		s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx }}
		stop := context.AfterFunc(ctx, func() { s.Close() })
		defer stop()
		if err := s.Serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve %s: %w", l.Addr(), err)
		}
		return nil
	}
}
