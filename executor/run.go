// Package executor runs one task from launch to its terminal status. It
// subscribes with the Mesos agent that started it, runs the task in the Docker
// engine or as a nested container of the agent, and reports its status. It
// decides when a task is killed, how long the agent may be unreachable, and
// which status an end has. It never chooses GPUs: it uses those that its own
// device cgroup grants, and rejects a task whose resources do not match them.
package executor

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/mesos/mesos-go/api/v1/lib/executor"
	"github.com/mesos/mesos-go/api/v1/lib/httpcli/httpagent"
	"github.com/sirupsen/logrus"

	"mesos-gpu/executor/docker"
	"mesos-gpu/executor/rotate"
	"mesos-gpu/executor/task"
	"mesos-gpu/executor/unified"
	"mesos-gpu/internal/memorycgroup"
	"mesos-gpu/job"
)

// logFileName is the executor's own log, in the sandbox with the task's stdout
// and stderr.
const logFileName = "executor.log"

// Run runs one task. It returns after the agent has acknowledged the terminal
// status, or after a shutdown. When ctx ends, Run kills the task first, as on
// SHUTDOWN. It returns an error if the agent was lost.
func Run(ctx context.Context, cfg ExecutorConfig) error {
	cfg.setDefaults()
	if err := cfg.validate(); err != nil {
		return err
	}
	if cfg.Log == nil {
		log, file, err := openLog(cfg.Sandbox)
		if err != nil {
			return err
		}
		defer file.Close()
		cfg.Log = log
	}
	transport := cfg.newTransport()
	if t, ok := transport.(*http.Transport); ok {
		defer t.CloseIdleConnections()
	}
	if cfg.Runtimes == nil {
		cfg.Runtimes = cfg.newRuntimes(transport)
	}
	return runTask(ctx, cfg, transport)
}

// runTask connects the loop with the session that feeds it. It returns after
// all of its goroutines have ended.
func runTask(ctx context.Context, cfg ExecutorConfig, transport http.RoundTripper) error {
	events := make(chan executor.Event)
	l := newTaskLoop(cfg)
	s := &agentSession{
		sender: cfg.newExecutorSender(transport), outbox: l.state.outbox, events: events, log: cfg.Log,
		reconnection: cfg.newReconnection(rand.N[time.Duration]), endpoint: cfg.Endpoint,
	}
	// The session outlives ctx, so that it can deliver the terminal status.
	session, stop := context.WithCancel(context.WithoutCancel(ctx))
	gone := make(chan error, 1)
	var wg sync.WaitGroup
	wg.Go(func() { gone <- s.keepSubscribed(session) })
	wg.Go(func() { s.deliverUpdates(session) })
	err := l.serveEvents(ctx, events, gone)
	stop()
	wg.Wait()
	return err
}

func (c *ExecutorConfig) newReconnection(random func(below time.Duration) time.Duration) reconnection {
	return reconnection{checkpoint: c.Checkpoint, recoveryTimeout: c.RecoveryTimeout, backoffMax: c.BackoffMax, random: random}
}

func (c *ExecutorConfig) newRuntimes(transport http.RoundTripper) map[job.Containerizer]task.Runtime {
	agent := c.newClient(transport, "/api/v1")
	memory, _ := memorycgroup.FindOwn("/proc") // zero without memory cgroups
	logs := rotate.RotationLimits{Bytes: c.LogBytes, Files: c.LogFiles}
	return map[job.Containerizer]task.Runtime{
		job.Docker: c.withOrphanCleanup(&docker.EngineRuntime{
			NewClient:      c.NewDockerClient,
			PrepareVolume:  c.PrepareVolume,
			ReadHost:       c.ReadHost,
			DevDir:         c.DevDir,
			LocksDir:       c.containerLocksDir,
			Sandbox:        c.Sandbox,
			HostSandbox:    c.Directory,
			AllowHostIPC:   c.AllowHostIPC,
			AllowedDevices: c.AllowedDevices,
			DockerConfig:   c.DockerConfig,
			Logs:           logs,
			Log:            c.Log,
		}),
		job.Mesos: c.withOrphanCleanup(&unified.NestedRuntime{Agent: httpagent.NewSender(agent.Send), Memory: memory, Sandbox: c.Sandbox, Logs: logs, Log: c.Log}),
	}
}

func openLog(sandbox string) (logrus.FieldLogger, io.Closer, error) {
	file, err := rotate.Open(filepath.Join(sandbox, logFileName), rotate.RotationLimits{}) // it rejects links and pipes
	if err != nil {
		return nil, nil, fmt.Errorf("open executor log: %w", err)
	}
	log := logrus.New()
	log.SetOutput(file)
	log.SetFormatter(&logrus.TextFormatter{DisableColors: true, FullTimestamp: true})
	return log, file, nil
}
