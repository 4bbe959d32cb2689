// Package local runs a whole cluster on one machine in one process tree: an
// embedded Mesos master and agent, the GPU daemon and the framework, joined
// by the same HTTP APIs as on Apache Mesos. It is for a first run and for
// tests; it never serves more than this machine.
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

// Config says what cluster to run.
type Config struct {
	// WorkDir holds sandboxes, images, volumes and the journal.
	WorkDir string
	// Host is the machine's GPUs, found or simulated.
	Host gpu.Host
	// API, Master and Agent are the addresses to listen on.
	API, Master, Agent string
	// Binary is the mesos-gpu program, which runs executors.
	Binary string
	// ExecutorEnv is added to every executor's environment.
	ExecutorEnv map[string]string
	// Scheduler says what is not the cluster's to say: where the scheduler
	// listens and finds master, executor and journal.
	Scheduler framework.Config
	// Images holds docker archives NAME:TAG.tar for unified containers.
	Images string
	// Isolate gives every task its own cgroup and device nodes; it needs root.
	Isolate bool
	// Share, ShareLimit, Scaling and Limiters are as in daemon.Config: which
	// GPUs are shared, and what holds tasks to their parts.
	Share, ShareLimit string
	Scaling           share.Scaling
	Limiters          []share.Limiter
	Log               logrus.FieldLogger
}

// journalFile is the scheduler's, in the work directory.
const journalFile = "scheduler.journal"

// Addresses say where a running cluster listens, as URLs.
type Addresses struct{ API, Master, Agent string }

// Run runs the cluster until ctx ends, then ends all tasks and removes what
// they had: processes, cgroups, mounts. up is called once the API answers.
func Run(ctx context.Context, cfg Config, up func(Addresses)) error {
	c := &cluster{Config: cfg}
	if err := c.listen(); err != nil {
		return err
	}
	return c.run(ctx, up)
}

type cluster struct {
	Config
	master, agent net.Listener
}

func (c *cluster) listen() error {
	var err error
	if c.master, err = listen("master", c.Master); err != nil {
		return err
	}
	if c.agent, err = listen("agent", c.Config.Agent); err != nil {
		c.master.Close()
	}
	return err
}

func listen(part, addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("listen on %s for the embedded %s: another program, perhaps another mesos-gpu local, has the port: stop it, or give --free-ports", addr, part)
	}
	if err != nil {
		return nil, fmt.Errorf("listen for the embedded %s: %w", part, err)
	}
	return l, nil
}

// run starts the parts in the order in which they need one another and ends
// them in the opposite one.
func (c *cluster) run(ctx context.Context, up func(Addresses)) (err error) {
	defer c.master.Close()
	defer c.agent.Close()
	if c.Isolate {
		release, rerr := devicesHierarchy(c.WorkDir)
		if rerr != nil {
			return rerr
		}
		defer func() { err = errors.Join(err, release()) }()
	}
	m := master.New(master.Config{Log: c.Log.WithField("part", "master"), Addr: c.master.Addr().String()})
	a, err := c.newAgent(m)
	if err != nil {
		return err
	}
	advertised := make(chan struct{})
	d, err := c.daemon(sync.OnceFunc(func() { close(advertised) }))
	if err != nil {
		return err
	}
	cfg := c.Scheduler
	cfg.Master, cfg.APIAddr = "http://"+c.master.Addr().String(), c.API
	cfg.JournalPath, cfg.ExecutorPath = filepath.Join(c.WorkDir, journalFile), c.Binary
	cfg.Log = c.Log.WithField("part", "scheduler")
	cfg.Ready = func(addr string) {
		up(Addresses{API: cfg.API.URL(addr), Master: "http://" + c.master.Addr().String(), Agent: "http://" + c.agent.Addr().String()})
	}
	scheduler, err := framework.New(cfg)
	if err != nil {
		return err
	}
	return inOrder(ctx,
		serve(c.master, m.Handler()), m.Run,
		serve(c.agent, a.Handler()), a.Run,
		after(a.Ready(), d.Run),
		after(advertised, scheduler.Run),
	)
}

// after puts a part off until it finds what it needs.
func after(ready <-chan struct{}, run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-ready:
			return run(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

// inOrder runs the parts at once until ctx ends or one of them fails, then
// ends the last first, each before the one it relies on.
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

func serve(l net.Listener, h http.Handler) func(context.Context) error {
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
