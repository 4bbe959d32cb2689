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

// maxKept bounds what is kept of an answer.
const maxKept = 4 << 10

// probing asks instances as Marathon does: without proxies, and without
// following them elsewhere.
func probing() *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.Proxy, t.DisableKeepAlives = nil, true
	return &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// readiness asks new instances whether they can serve, until they have said
// so once.
type readiness struct {
	cfg   *Config
	ready chan string // the app of an instance that has become ready

	working sync.WaitGroup
	mu      sync.Mutex
	trials  map[string]map[string]*trial // by app and instance
}

// trial is the readiness of one instance.
type trial struct {
	cancel context.CancelFunc
	// results are by the checks' names.
	results map[string]api.Readiness
	done    bool
}

func newReadiness(cfg *Config) *readiness {
	return &readiness{cfg: cfg, ready: make(chan string), trials: map[string]map[string]*trial{}}
}

// end stops asking, and returns when nobody asks any more.
func (r *readiness) end() {
	r.mu.Lock()
	for _, trials := range r.trials {
		for _, t := range trials {
			t.cancel()
		}
	}
	r.mu.Unlock()
	r.working.Wait()
}

// watch begins to ask the instances of an app that run, forgets those that are
// gone, and says in list which are ready.
func (r *readiness) watch(state *deploy.State, app string, list []deploy.Instance) {
	r.mu.Lock()
	defer r.mu.Unlock()
	there := map[string]bool{}
	for i := range list {
		in := &list[i]
		config, ok := state.Config(app, in.Version)
		if !ok || len(config.ReadinessChecks) == 0 || !in.State.Placed() {
			continue
		}
		there[in.TaskID] = true
		t := r.trials[app][in.TaskID]
		if t == nil && in.State == job.Running {
			r.begin(app, config, *in)
		}
		in.Ready = t != nil && t.done
	}
	for id, t := range r.trials[app] {
		if !there[id] {
			t.cancel()
			delete(r.trials[app], id)
		}
	}
	if len(r.trials[app]) == 0 {
		delete(r.trials, app)
	}
}

func (r *readiness) begin(app string, config *marathon.App, in deploy.Instance) {
	ctx, cancel := context.WithCancel(context.Background())
	t := &trial{cancel: cancel, results: map[string]api.Readiness{}}
	if r.trials[app] == nil {
		r.trials[app] = map[string]*trial{}
	}
	r.trials[app][in.TaskID] = t
	r.working.Go(func() {
		var asking sync.WaitGroup
		for _, check := range config.ReadinessChecks {
			asking.Go(func() { r.until(ctx, t, check, config, in) })
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

// until asks one check until it says ready.
func (r *readiness) until(ctx context.Context, t *trial, check marathon.ReadinessCheck, config *marathon.App, in deploy.Instance) {
	pause := time.NewTicker(max(time.Second, time.Duration(check.IntervalSeconds)*time.Second))
	defer pause.Stop()
	for {
		result := r.once(ctx, check, config, in)
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

func (r *readiness) once(ctx context.Context, check marathon.ReadinessCheck, config *marathon.App, in deploy.Instance) api.Readiness {
	result := api.Readiness{Name: check.Name, TaskID: in.TaskID}
	address, err := address(check, config, in)
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
	answer, err := r.cfg.Client.Do(req)
	if err != nil {
		return result
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(answer.Body, maxKept)) // its status counts
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

// address is where an instance answers a check: its host, at the host's port
// of that name.
func address(check marathon.ReadinessCheck, config *marathon.App, in deploy.Instance) (string, error) {
	i := slices.Index(config.HostPortNames(), check.PortName)
	if i < 0 || i >= len(in.Ports) {
		return "", fmt.Errorf("readiness check %s: the instance has no host port named %q", check.Name, check.PortName)
	}
	return strings.ToLower(check.Protocol) + "://" + net.JoinHostPort(in.Hostname, strconv.Itoa(in.Ports[i])) + "/" + strings.TrimPrefix(check.Path, "/"), nil
}

// results are those of an app's instances that have not become ready.
func (r *readiness) results(app string) []api.Readiness {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []api.Readiness
	for _, id := range slices.Sorted(maps.Keys(r.trials[app])) {
		t := r.trials[app][id]
		if t.done {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(t.results)) {
			list = append(list, t.results[name])
		}
	}
	return list
}
