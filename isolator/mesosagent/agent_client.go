// Package mesosagent queries a Mesos agent's operator API for the containers that hold GPUs. It
// serves agents without this project's module, whose containers nothing else reports. It
// queries rarely, decides nothing, and prefers the daemon's own allocations to the agent's
// report.
package mesosagent

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"mesos-gpu/gpu"
)

// ClientConfig configures an AgentClient.
type ClientConfig struct {
	// AgentURL is the agent's URL, "http://host:5051/slave(1)".
	AgentURL string
	// Authorization is the Authorization header for an agent that authenticates callers.
	Authorization string
	// TLS is used for an https URL; nil means the system's certificates.
	TLS *tls.Config
	Log logrus.FieldLogger

	// interval is the time between two queries of Run, by default 10 s. MinInterval is the
	// shortest time between the end of a query and the next one, by default 500 ms. Timeout
	// bounds a query, by default 5 s. A response expires after maxAge, by default 1 min.
	interval, MinInterval, timeout, maxAge time.Duration
}

// AgentClient queries a Mesos agent. It is safe for concurrent use.
type AgentClient struct {
	cfg    ClientConfig
	client *http.Client

	// querying contains an element while a caller of RefreshState queries the agent, or waits
	// for MinInterval before it does. That caller may use lastQuery.
	querying  chan struct{}
	lastQuery queryResult
	// answered has a token after each successful query.
	answered chan struct{}

	// mu guards the last successful answer. A failed query leaves it as it is.
	mu sync.Mutex
	// holders are the containers with devices, whole or shares.
	holders []gpu.ContainerDevices
	// shares are the shares of devices by container, of the containers that
	// have some.
	shares map[string][]gpu.DeviceShare
	// containers are all executors' containers, with or without devices.
	containers []ReportedContainer
	// queriedAt is when the query started; zero before the first answer.
	queriedAt time.Time
}

// queryResult is the result of a query.
type queryResult struct {
	startedAt, endedAt time.Time
	err                error
}

// New checks the configuration. Run sends the queries.
func New(c ClientConfig) (*AgentClient, error) {
	u, err := url.Parse(c.AgentURL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("agent URL %q is invalid; want for example http://127.0.0.1:5051/slave(1)", c.AgentURL)
	case c.Log == nil:
		return nil, errors.New("no log configured")
	}
	for value, fallback := range map[*time.Duration]time.Duration{
		&c.interval: 10 * time.Second, &c.MinInterval: 500 * time.Millisecond, &c.timeout: 5 * time.Second, &c.maxAge: time.Minute,
	} {
		if *value == 0 {
			*value = fallback
		}
	}
	c.AgentURL = strings.TrimRight(c.AgentURL, "/")
	transport := &http.Transport{DialContext: (&net.Dialer{Timeout: c.timeout}).DialContext, TLSClientConfig: c.TLS, MaxIdleConnsPerHost: 1}
	return &AgentClient{cfg: c, client: &http.Client{Transport: transport}, querying: make(chan struct{}, 1), answered: make(chan struct{}, 1)}, nil
}

// Run queries the agent until ctx ends. It logs the first of consecutive errors.
func (a *AgentClient) Run(ctx context.Context) {
	defer a.client.CloseIdleConnections()
	tick := time.NewTicker(a.cfg.interval)
	defer tick.Stop()
	well := true
	for {
		err := a.RefreshState(ctx)
		if err != nil && well && ctx.Err() == nil {
			a.cfg.Log.WithError(err).WithField("agent", a.cfg.AgentURL).Warn("cannot query the agent for the tasks that hold GPUs")
		}
		well = err == nil
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Holders returns what the agent reported last, nil if that has expired. The caller must not
// change the result.
func (a *AgentClient) Holders() []gpu.ContainerDevices {
	a.mu.Lock()
	defer a.mu.Unlock()
	if time.Since(a.queriedAt) > a.cfg.maxAge {
		return nil
	}
	return a.holders
}

// DeviceShares returns the shares of devices that the agent reported last, by container, and
// when it was queried. The caller must not change the result.
func (a *AgentClient) DeviceShares() (shares map[string][]gpu.DeviceShare, queriedAt time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.shares, a.queriedAt
}

// Answered has a token after each successful query. It has one reader.
func (a *AgentClient) Answered() <-chan struct{} { return a.answered }

// Containers returns the executors' containers that the agent reported last, and when it was
// queried: zero before the first answer. The caller must not change the result.
func (a *AgentClient) Containers() (list []ReportedContainer, queriedAt time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.containers, a.queriedAt
}

// RefreshState returns once a query that started after the call has ended. Concurrent callers
// share a query, so that many of them cannot overload the agent or this process.
func (a *AgentClient) RefreshState(ctx context.Context) error {
	calledAt := time.Now()
	select {
	case a.querying <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-a.querying }()
	if a.lastQuery.startedAt.After(calledAt) {
		return a.lastQuery.err
	}
	select {
	case <-time.After(time.Until(a.lastQuery.endedAt.Add(a.cfg.MinInterval))):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	query := queryResult{startedAt: time.Now()}
	query.err = a.queryHolders(ctx)
	query.endedAt = time.Now()
	if ctx.Err() != nil {
		query.startedAt = time.Time{} // its error is this caller's only
	}
	a.lastQuery = query
	return query.err
}

// queryHolders queries the agent and stores the answer.
func (a *AgentClient) queryHolders(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.timeout)
	defer cancel()
	now := time.Now()
	answers, err := a.queryState(ctx)
	if err != nil {
		return err
	}
	list, shares, containers := listHolders(answers), sharesByContainer(answers), listContainers(answers)
	a.mu.Lock()
	a.holders, a.shares, a.containers, a.queriedAt = list, shares, containers, now
	a.mu.Unlock()
	select {
	case a.answered <- struct{}{}:
	default:
	}
	return nil
}

// MergeHolders joins the daemon's allocations with the agent's report. The allocations are
// right about devices. The agent adds the owners of containers, and containers without an
// allocation. The result is sorted.
func MergeHolders(allocations, agent []gpu.ContainerDevices) []gpu.ContainerDevices {
	reported := map[string][]gpu.ContainerDevices{}
	for _, h := range agent {
		reported[h.Container] = append(reported[h.Container], h)
	}
	var all []gpu.ContainerDevices
	for _, h := range allocations {
		all = append(all, splitByTask(h, reported[h.Container])...)
		delete(reported, h.Container)
	}
	for _, list := range reported {
		all = append(all, list...)
	}
	slices.SortFunc(all, func(x, y gpu.ContainerDevices) int {
		return cmp.Or(strings.Compare(x.Container, y.Container), strings.Compare(x.Task, y.Task))
	})
	return all
}

// splitByTask divides a container's devices among its tasks, and leaves the rest to the
// container.
func splitByTask(h gpu.ContainerDevices, reported []gpu.ContainerDevices) []gpu.ContainerDevices {
	if len(reported) == 1 {
		h.Framework, h.Executor = cmp.Or(h.Framework, reported[0].Framework), cmp.Or(h.Executor, reported[0].Executor)
		h.Task, h.Job = cmp.Or(h.Task, reported[0].Task), cmp.Or(h.Job, reported[0].Job)
		return []gpu.ContainerDevices{h}
	}
	var list []gpu.ContainerDevices
	left := slices.Clone(h.Devices)
	for _, s := range reported {
		var share []string
		for _, id := range s.Devices {
			if i := slices.Index(left, id); i >= 0 {
				share, left = append(share, id), slices.Delete(left, i, i+1)
			}
		}
		if len(share) > 0 {
			s.Devices = share
			list = append(list, s)
		}
	}
	if len(left) > 0 || len(list) == 0 {
		h.Devices = left
		list = append(list, h)
	}
	return list
}
