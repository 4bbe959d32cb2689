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

// balancer sends requests to those instances of an app that the API says run
// and are healthy: the ones that could serve. One that is told to end is out of
// it as soon as the API says TASK_KILLING, which the API does before the
// instance hears of it. What the balancer learns a moment later still, and
// the requests that it has just sent, are why webapp stays a while; of one
// that closed its port at once some could be lost, here as on any cluster.
type balancer struct {
	mu       sync.Mutex
	backends []string
	next     int
	// fewest and most are how many served at least, and ran at most.
	fewest, most int
	answers      map[string]int // by release
	lost         []error
}

// look takes in which instances serve now.
func (b *balancer) look(a *appView) {
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

// pick is the next instance's turn.
func (b *balancer) pick() (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.backends) == 0 {
		return "", errors.New("no instance serves")
	}
	b.next++
	return b.backends[b.next%len(b.backends)], nil
}

func (b *balancer) count(release string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		b.lost = append(b.lost, err)
		return
	}
	b.answers[release]++
}

// client sends one request after the other until ctx ends, each once and on a
// connection of its own: nothing is tried again behind the test's back.
func (b *balancer) client(ctx context.Context) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	for ctx.Err() == nil {
		backend, err := b.pick()
		release := ""
		if err == nil {
			release, err = get(&client, backend)
		}
		b.count(release, err)
		if err != nil {
			return
		}
	}
}

func get(client *http.Client, backend string) (string, error) {
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

// traffic sends requests until end, which returns when all are answered.
func (b *balancer) traffic(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() { b.client(ctx) })
	}
	return func() { cancel(); clients.Wait() }
}

// webService is an app of ten instances. With a race-instrumented executor
// each needs more memory than what it runs.
const webService = `{"id": "/web", "cmd": "exec %s", "env": {"RELEASE": %q}, "instances": 10, "cpus": 0.02, "mem": 128,
	"taskKillGracePeriodSeconds": 30, "labels": {"GPU_SCHEDULING_BEHAVIOR": "unrestricted"},
	"healthChecks": [{"protocol": "HTTP", "path": "/health", "gracePeriodSeconds": 60, "intervalSeconds": 1, "timeoutSeconds": 10, "delaySeconds": 0}],
	"upgradeStrategy": {"minimumHealthCapacity": 0.8, "maximumOverCapacity": 0.2}}`

// While clients send requests through a load balancer all instances of an app
// are replaced. None of the requests is lost, never fewer instances serve than
// the app allows, nor do more run.
func TestMarathonRollingUpdateLosesNoRequest(t *testing.T) {
	program := webapp(t)
	c := start(t)
	c.deploys(http.MethodPost, "/apps", fmt.Sprintf(webService, program, "old"))
	before := c.awaitApp("/web", "serve", (*appView).settled)
	b := &balancer{fewest: math.MaxInt, answers: map[string]int{}}
	b.look(before)
	end := b.traffic(t.Context())
	defer end()

	c.deploys(http.MethodPut, "/apps/web", fmt.Sprintf(webService, program, "new"))
	began := time.Now()
	after := c.awaitApp("/web", "be replaced", func(a *appView) bool {
		b.look(a)
		return a.settled() && a.VersionInfo != before.VersionInfo
	})
	took := time.Since(began)
	end()
	if len(b.lost) > 0 {
		t.Errorf("lost %d requests, the first: %v", len(b.lost), b.lost[0])
	}
	if b.fewest < 8 || b.most > 12 {
		t.Errorf("at least %d instances served and at most %d ran, want 8 and 12", b.fewest, b.most)
	}
	if b.answers["old"] == 0 || b.answers["new"] == 0 || len(b.answers) != 2 {
		t.Errorf("the releases answered %v times, want some of both", b.answers)
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
