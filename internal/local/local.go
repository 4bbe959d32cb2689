// Package local runs a complete cluster on one machine in one process tree: an
// embedded Mesos master and agent, the GPU daemon and the framework. They are
// connected by the same HTTP APIs as with Apache Mesos. It is intended for
// evaluation and tests, and supports only one machine.
package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"

	"mesos-gpu/framework"
	"mesos-gpu/gpu"
	"mesos-gpu/internal/local/master"
	"mesos-gpu/isolator/share"
)

// ClusterConfig configures a local cluster.
type ClusterConfig struct {
	// WorkDir contains the sandboxes, images, volumes and the journal.
	WorkDir string
	// Host has the machine's GPUs, detected or simulated.
	Host gpu.Host
	// API, Master and Agent are the listen addresses.
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
	// Isolate gives every task its own cgroup and device nodes. It requires
	// root rights.
	Isolate bool
	// Share, ShareLimit, Scaling and Limiters have the meaning that they have
	// in daemon.DaemonConfig: which GPUs are shared, and what limits tasks to
	// their shares.
	Share, ShareLimit string
	Scaling           share.ShareScaling
	Limiters          []share.Limiter
	Log               logrus.FieldLogger
}

// journalFile is the name of the scheduler's journal in the work directory.
const journalFile = "scheduler.journal"

// ClusterURLs are the URLs of a running cluster.
type ClusterURLs struct{ API, Master, Agent string }

// Run runs the cluster until ctx ends. It then ends all tasks and removes their
// processes, cgroups and mounts. It calls up once the API responds.
func Run(ctx context.Context, cfg ClusterConfig, up func(ClusterURLs)) error {
	c := &localCluster{ClusterConfig: cfg}
	if err := c.openListeners(); err != nil {
		return err
	}
	return c.runParts(ctx, up)
}

type localCluster struct {
	ClusterConfig
	master, agent net.Listener
}

func (c *localCluster) openListeners() error {
	var err error
	if c.master, err = listenFor("master", c.Master); err != nil {
		return err
	}
	if c.agent, err = listenFor("agent", c.ClusterConfig.Agent); err != nil {
		c.master.Close()
	}
	return err
}

func listenFor(part, addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("listen on %s for the embedded %s: another program, perhaps another mesos-gpu local, has the port: stop it, or give --free-ports", addr, part)
	}
	if err != nil {
		return nil, fmt.Errorf("listen for the embedded %s: %w", part, err)
	}
	return l, nil
}

// runParts starts the components in dependency order and stops them in reverse
// order.
func (c *localCluster) runParts(ctx context.Context, up func(ClusterURLs)) (err error) {
	defer c.master.Close()
	defer c.agent.Close()
	if c.Isolate {
		release, rerr := devicesHierarchy(c.WorkDir)
		if rerr != nil {
			return rerr
		}
		defer func() { err = errors.Join(err, release()) }()
	}
	m := master.New(master.MasterConfig{Log: c.Log.WithField("part", "master"), Addr: c.master.Addr().String()})
	a, err := c.newAgent(m)
	if err != nil {
		return err
	}
	advertised := make(chan struct{})
	d, err := c.newDaemon(sync.OnceFunc(func() { close(advertised) }))
	if err != nil {
		return err
	}
	cfg := c.Scheduler
	cfg.Master, cfg.APIAddr = "http://"+c.master.Addr().String(), c.API
	cfg.JournalPath, cfg.ExecutorPath = filepath.Join(c.WorkDir, journalFile), c.Binary
	cfg.Artifacts = filepath.Join(c.WorkDir, "artifacts")
	cfg.Log = c.Log.WithField("part", "scheduler")
	cfg.Ready = func(addr string) {
		up(ClusterURLs{API: cfg.API.URLFor(addr), Master: "http://" + c.master.Addr().String(), Agent: "http://" + c.agent.Addr().String()})
	}
	scheduler, err := framework.New(cfg)
	if err != nil {
		return err
	}
	return inOrder(ctx,
		serveListener(c.master, m.Handler()), m.Run,
		serveListener(c.agent, a.Handler()), a.Run,
		startAfter(a.Ready(), d.Run),
		startAfter(advertised, scheduler.Run),
	)
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
// one by one, last first, so that each stops before its dependencies.
func inOrder(ctx context.Context, parts ...func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type part struct {
		stop context.CancelFunc
		done chan error
	}
	started := make([]part, 0, len(parts))
	for _, run := range parts {
		own, stop := context.WithCancel(context.WithoutCancel(ctx))
		p := part{stop, make(chan error, 1)}
		go func() {
			err := run(own)
			p.done <- err
			if err != nil && own.Err() == nil {
				cancel()
			}
		}()
		started = append(started, p)
	}
	<-ctx.Done()
	var errs []error
	for i := len(started) - 1; i >= 0; i-- {
		started[i].stop()
		if err := <-started[i].done; err != nil && !errors.Is(err, context.Canceled) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
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
