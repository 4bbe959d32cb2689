package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"
)

// loadBalancer sends requests to the instances of an app that the API reports as running and
// healthy. It removes an instance as soon as the API reports TASK_KILLING, which is before the
// instance receives SIGTERM. Requests that are already on the way can still reach the
// instance, so webapp keeps serving for a while. An instance that closed its port immediately
// could lose requests, as on any cluster.
type loadBalancer struct {
	mu       sync.Mutex
	backends []string
	next     int
	// fewest is the smallest number of serving instances, most the largest number of running
	// ones.
	fewest, most int
	answers      map[string]int // by release
	lost         []error
}

// updateBackends replaces the backends by the instances that are healthy now.
func (b *loadBalancer) updateBackends(a *appView) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.backends = b.backends[:0]
	there := 0
	for _, t := range a.Tasks {
		if t.State != "TASK_KILLING" {
			there++
		}
		if t.State == "TASK_RUNNING" && len(t.HealthCheckResults) > 0 && t.HealthCheckResults[0].Alive {
			b.backends = append(b.backends, net.JoinHostPort(t.Host, strconv.Itoa(t.Ports[0])))
		}
	}
	b.fewest, b.most = min(b.fewest, len(b.backends)), max(b.most, there)
}

// nextBackend returns the address of the next instance in turn.
func (b *loadBalancer) nextBackend() (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.backends) == 0 {
		return "", errors.New("no instance serves")
	}
	b.next++
	return b.backends[b.next%len(b.backends)], nil
}

func (b *loadBalancer) recordAnswer(release string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		b.lost = append(b.lost, err)
		return
	}
	b.answers[release]++
}

// sendRequests sends one request after the other until ctx ends, each once and on its own
// connection, so that the HTTP client retries none.
func (b *loadBalancer) sendRequests(ctx context.Context) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: waitTimeout}
	for ctx.Err() == nil {
		backend, err := b.nextBackend()
		release := ""
		if err == nil {
			release, err = getRelease(&client, backend)
		}
		b.recordAnswer(release, err)
		if err != nil {
			return
		}
	}
}

func getRelease(client *http.Client, backend string) (string, error) {
	resp, err := client.Get("http://" + backend + "/")
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s", backend, resp.Status)
	}
	return string(text), err
}

// startClients sends requests with four clients until end is called. end returns when all
// responses have arrived.
func (b *loadBalancer) startClients(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() { b.sendRequests(ctx) })
	}
	return func() { cancel(); clients.Wait() }
}

// webServiceFormat is the definition of an app with ten instances. An executor with the race
// detector needs more memory than the program itself.
const webServiceFormat = `{"id": "/web", "cmd": "exec %s", "env": {"RELEASE": %q}, "instances": 10, "cpus": 0.02, "mem": 128,
	"taskKillGracePeriodSeconds": 30, "labels": {"GPU_SCHEDULING_BEHAVIOR": "unrestricted"},
	"healthChecks": [{"protocol": "HTTP", "path": "/health", "gracePeriodSeconds": 60, "intervalSeconds": 1, "timeoutSeconds": 10, "delaySeconds": 0}],
	"upgradeStrategy": {"minimumHealthCapacity": 0.8, "maximumOverCapacity": 0.2}}`

// TestMarathonRollingUpdateLosesNoRequest replaces all instances of an app while clients send
// requests through a load balancer. No request may be lost, and the numbers of serving and
// running instances must stay within the limits of the upgrade strategy.
func TestMarathonRollingUpdateLosesNoRequest(t *testing.T) {
	program := buildWebapp(t)
	c := startCluster(t)
	c.mustCallMarathon(http.MethodPost, "/apps", fmt.Sprintf(webServiceFormat, program, "old"))
	before := c.awaitApp("/web", "serve", (*appView).isUpToDate)
	b := &loadBalancer{fewest: math.MaxInt, answers: map[string]int{}}
	b.updateBackends(before)
	end := b.startClients(t.Context())
	defer end()

	c.mustCallMarathon(http.MethodPut, "/apps/web", fmt.Sprintf(webServiceFormat, program, "new"))
	began := time.Now()
	after := c.awaitApp("/web", "be replaced", func(a *appView) bool {
		b.updateBackends(a)
		return a.isUpToDate() && a.VersionInfo != before.VersionInfo
	})
	took := time.Since(began)
	end()
	if len(b.lost) > 0 {
		t.Errorf("lost %d requests, the first: %v", len(b.lost), b.lost[0])
	}
	if b.fewest < 8 || b.most > 12 {
		t.Errorf("at least %d instances served and at most %d ran, want at least 8 and at most 12", b.fewest, b.most)
	}
	if b.answers["old"] == 0 || b.answers["new"] == 0 || len(b.answers) != 2 {
		t.Errorf("responses by release: %v, want some of both", b.answers)
	}
	for _, was := range before.Tasks {
		for _, is := range after.Tasks {
			if is.ID == was.ID {
				t.Errorf("instance %s was not replaced", is.ID)
			}
		}
	}
	t.Logf("replaced 10 instances in %s; answers: %v; at least %d served, at most %d ran", took, b.answers, b.fewest, b.most)
}
