package control

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"mesos-gpu/job"
	"mesos-gpu/marathon"
	"mesos-gpu/marathon/api"
	"mesos-gpu/marathon/deploy"
)

// maxResponseBytes bounds how much of a response is kept.
const maxResponseBytes = 4 << 10

// newProbeClient returns a client that behaves as Marathon's: it uses no proxy and follows
// no redirects.
func newProbeClient() *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.Proxy, t.DisableKeepAlives = nil, true
	return &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// readinessProber probes new instances until their readiness checks have succeeded once.
type readinessProber struct {
	cfg   *ControllerConfig
	ready chan string // gets the app of each instance that becomes ready

	probing sync.WaitGroup
	mu      sync.Mutex
	probes  map[string]map[string]*instanceProbe // by app and instance
}

// instanceProbe probes one instance.
type instanceProbe struct {
	cancel context.CancelFunc
	// results are the last results by check.
	results map[string]api.ReadinessResult
	done    bool
}

func newReadiness(cfg *ControllerConfig) *readinessProber {
	return &readinessProber{cfg: cfg, ready: make(chan string), probes: map[string]map[string]*instanceProbe{}}
}

// stopAll stops all probes and returns when they have ended.
func (r *readinessProber) stopAll() {
	r.mu.Lock()
	for _, trials := range r.probes {
		for _, t := range trials {
			t.cancel()
		}
	}
	r.mu.Unlock()
	r.probing.Wait()
}

// isReady reports whether all readiness checks of an instance have succeeded once.
func (r *readinessProber) isReady(app, id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.probes[app][id]
	return t != nil && t.done
}

// hasProbes reports whether instances of the app are, or were, probed.
func (r *readinessProber) hasProbes(app string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.probes[app]) > 0
}

// watchApp starts probes for the app's running instances and stops those of ended ones.
func (r *readinessProber) watchApp(state *deploy.DesiredState, app string, list []deploy.AppInstance) {
	r.mu.Lock()
	defer r.mu.Unlock()
	there := map[string]bool{}
	for i := range list {
		in := &list[i]
		config, ok := state.AppAtConfig(app, in.Version)
		if !ok || len(config.ReadinessChecks) == 0 || !in.State.IsPlaced() {
			continue
		}
		there[in.ID] = true
		if r.probes[app][in.ID] == nil && in.State == job.Running {
			r.startProbe(app, config, *in)
		}
	}
	for id, t := range r.probes[app] {
		if !there[id] {
			t.cancel()
			delete(r.probes[app], id)
		}
	}
	if len(r.probes[app]) == 0 {
		delete(r.probes, app)
	}
}

func (r *readinessProber) startProbe(app string, config *marathon.App, in deploy.AppInstance) {
	ctx, cancel := context.WithCancel(context.Background())
	t := &instanceProbe{cancel: cancel, results: map[string]api.ReadinessResult{}}
	if r.probes[app] == nil {
		r.probes[app] = map[string]*instanceProbe{}
	}
	r.probes[app][in.ID] = t
	r.probing.Go(func() {
		var asking sync.WaitGroup
		for _, check := range config.ReadinessChecks {
			asking.Go(func() { r.probeUntilReady(ctx, t, check, config, in) })
		}
		asking.Wait()
		if ctx.Err() != nil {
			return
		}
		r.mu.Lock()
		t.done = true
		r.mu.Unlock()
		select {
		case r.ready <- app:
		case <-ctx.Done():
		}
	})
}

// probeUntilReady repeats one check until it succeeds.
func (r *readinessProber) probeUntilReady(ctx context.Context, t *instanceProbe, check marathon.ReadinessCheck, config *marathon.App, in deploy.AppInstance) {
	pause := time.NewTicker(max(time.Second, time.Duration(check.IntervalSeconds)*time.Second))
	defer pause.Stop()
	for {
		result := r.probeOnce(ctx, check, config, in)
		r.mu.Lock()
		t.results[check.Name] = result
		r.mu.Unlock()
		if result.Ready {
			return
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return
		}
	}
}

func (r *readinessProber) probeOnce(ctx context.Context, check marathon.ReadinessCheck, config *marathon.App, in deploy.AppInstance) api.ReadinessResult {
	result := api.ReadinessResult{Name: check.Name, TaskID: in.ID}
	address, err := probeAddress(check, config, in)
	if err != nil {
		result.LastResponse = &api.ReadinessResponse{Body: err.Error()}
		return result
	}
	ctx, cancel := context.WithTimeout(ctx, max(time.Second, time.Duration(check.TimeoutSeconds)*time.Second))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		result.LastResponse = &api.ReadinessResponse{Body: err.Error()}
		return result
	}
	answer, err := r.cfg.client.Do(req)
	if err != nil {
		return result
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(answer.Body, maxResponseBytes)) // only the status decides
	codes := check.HTTPStatusCodesForReady
	if len(codes) == 0 {
		codes = []int{http.StatusOK}
	}
	result.Ready = slices.Contains(codes, answer.StatusCode)
	if check.PreserveLastResponse {
		result.LastResponse = &api.ReadinessResponse{Status: answer.StatusCode, ContentType: answer.Header.Get("Content-Type"), Body: string(body)}
	}
	return result
}

// probeAddress returns the URL of a check: the instance's host and its host port with the
// name of the check's port.
func probeAddress(check marathon.ReadinessCheck, config *marathon.App, in deploy.AppInstance) (string, error) {
	i := slices.Index(config.HostPortNames(), check.PortName)
	if i < 0 || i >= len(in.Ports) {
		return "", fmt.Errorf("readiness check %s: the instance has no host port named %q", check.Name, check.PortName)
	}
	return strings.ToLower(check.Protocol) + "://" + net.JoinHostPort(in.Hostname, strconv.Itoa(in.Ports[i])) + "/" + strings.TrimPrefix(check.Path, "/"), nil
}

// listResults returns the last results of an app's instances. While the app is deployed, it
// returns results of all probed instances: some load balancers route to an instance only
// if its result is ready. Otherwise it returns results of instances that are not ready.
func (r *readinessProber) listResults(app string, deploying bool) []api.ReadinessResult {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []api.ReadinessResult
	for _, id := range slices.Sorted(maps.Keys(r.probes[app])) {
		t := r.probes[app][id]
		if t.done && !deploying {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(t.results)) {
			list = append(list, t.results[name])
		}
	}
	return list
}
