// Package agent is the embedded Mesos agent. It runs executors in containers
// and serves Mesos's v1 executor, operator and resource provider APIs. It
// handles a task from the master's launch to its last acknowledged status. With
// AgentConfig.Recover, executors survive its death and the next agent adopts
// them; otherwise containers end with their agent. Of the
// operator API it serves the calls that the scheduler, the executor and the
// daemon make.
package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/netip"
	"path/filepath"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/internal/local/agent/container"
	"mesos-gpu/internal/local/agent/image"
	"mesos-gpu/internal/local/agent/provider"
	"mesos-gpu/internal/minimesos/updates"
	"mesos-gpu/isolator"
)

// EmbeddedAgent runs executors. Run it once.
type EmbeddedAgent struct {
	cfg       AgentConfig
	engine    *container.ContainerEngine
	images    *image.ImageStore
	providers *provider.ProviderManager
	loop      *eventLoop
	// ready is closed once info is complete.
	ready chan struct{}

	// The event loop owns the fields below.
	info       mesos.AgentInfo
	frameworks map[string]*frameworkState
	completed  []*executorState // ended executors, oldest first
	streams    *updates.UpdateStreams
	exits      []*pendingExit
	// working counts the background goroutines that will still post to the
	// loop.
	working  int
	stopping bool
	// background returns the context that bounds those goroutines.
	background func() context.Context
}

// New returns an agent. It reads the machine's mount table and changes nothing.
func New(cfg AgentConfig) (*EmbeddedAgent, error) {
	cfg = cfg.withDefaults()
	cfg.WorkDir = filepath.Clean(cfg.WorkDir)
	if cfg.Root && cfg.Isolator == nil {
		i, err := isolator.New(isolator.HostConfig{CgroupVersion: "v1"})
		if err != nil {
			return nil, fmt.Errorf("configure agent: %w", err)
		}
		cfg.Isolator = i
	}
	engine, err := container.New(container.EngineConfig{
		Program: cfg.ExecutorPath,
		Fenced:  cfg.Root,
		Cgroup:  Cgroup(cfg.WorkDir),
		Records: cfg.recordsDir(),
		KeepFor: cfg.RecoveryTimeout,
	})
	if err != nil {
		return nil, fmt.Errorf("configure agent: %w", err)
	}
	a := &EmbeddedAgent{
		cfg: cfg, engine: engine, loop: newLoop(), ready: make(chan struct{}),
		images:     image.NewStore(cfg.ImagesDir, filepath.Join(cfg.WorkDir, storeFolder)),
		frameworks: map[string]*frameworkState{},
		streams:    updates.New(cfg.RetryMin, cfg.RetryMax),
		info:       describeAgent(cfg),
	}
	a.providers = provider.New(provider.ManagerConfig{
		Log: cfg.Log, PublishTimeout: cfg.publishTimeout,
		Changed: func() { a.loop.post(a.updateTotal) },
	})
	return a, nil
}

// Cgroup returns the cgroup name of the agent with the given work directory.
// The name is stable, so an agent can remove the cgroups of a killed
// predecessor.
func Cgroup(work string) string {
	sum := sha256.Sum256([]byte(work))
	return "/mesos-gpu-" + hex.EncodeToString(sum[:8])
}

func describeAgent(cfg AgentConfig) mesos.AgentInfo {
	info := mesos.AgentInfo{Hostname: cfg.Hostname, Resources: cfg.Resources, Attributes: cfg.Attributes}
	if at, err := netip.ParseAddrPort(cfg.Addr); err == nil {
		info.Port = new(int32(at.Port()))
	}
	return info
}

// Handler serves the agent's APIs. Each path works with and without the
// slave(1) prefix that Mesos agents use. It answers 503 before Run has
// registered and after Run has returned.
func (a *EmbeddedAgent) Handler() http.Handler {
	mux := http.NewServeMux()
	for _, prefix := range []string{"", "/slave(1)"} {
		mux.HandleFunc(prefix+"/api/v1", a.serveOperator)
		mux.HandleFunc(prefix+"/api/v1/executor", a.serveExecutor)
		mux.Handle(prefix+"/api/v1/resource_provider", a.providers)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-a.loop.done:
			http.Error(w, errStopped.Error(), http.StatusServiceUnavailable)
			return
		default:
		}
		select {
		case <-a.ready:
			mux.ServeHTTP(w, r)
		default:
			http.Error(w, "the agent has not registered yet", http.StatusServiceUnavailable)
		}
	})
}

// Ready is closed once the agent has registered.
func (a *EmbeddedAgent) Ready() <-chan struct{} { return a.ready }

// postAfter posts f to the loop after d.
func (a *EmbeddedAgent) postAfter(d time.Duration, f func()) {
	time.AfterFunc(d, func() { a.loop.post(f) })
}

// runInBackground runs f outside the loop and then runs the function that f
// returns on the loop. The agent waits for both before it ends.
func (a *EmbeddedAgent) runInBackground(f func(ctx context.Context) (then func())) {
	a.working++
	ctx := a.background()
	go func() {
		then := f(ctx)
		a.loop.post(func() {
			a.working--
			then()
		})
	}()
}
