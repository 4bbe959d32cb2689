// Package holders finds out from a Mesos agent which container holds which
// GPU, through the agent's operator API: for agents without our module, whose
// containers nobody else tells us of. It asks seldom, decides nothing, and
// believes the daemon's own books before the agent.
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

// ClientConfig says which agent to ask, and how often.
type ClientConfig struct {
	// AgentURL is the agent's, "http://host:5051/slave(1)".
	AgentURL string
	// Authorization is the header sent to an agent that asks who calls.
	Authorization string
	// TLS is used for an https URL; nil means the system's certificates.
	TLS *tls.Config
	Log logrus.FieldLogger

	// Interval is the time between two questions, 10 s; each may take Timeout,
	// 5 s. An answer is believed for Stale, 1 min.
	Interval, Timeout, MaxAge time.Duration
}

// AgentClient is a Mesos agent that is asked. It is safe for use by many goroutines.
type AgentClient struct {
	cfg    ClientConfig
	client *http.Client

	mu        sync.Mutex
	holders   []gpu.ContainerDevices
	shares    map[string][]gpu.DeviceShare
	queriedAt time.Time
}

// New checks the configuration; Run does the asking.
func New(c ClientConfig) (*AgentClient, error) {
	u, err := url.Parse(c.AgentURL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("agent URL %q is none; want for example http://127.0.0.1:5051/slave(1)", c.AgentURL)
	case c.Log == nil:
		return nil, errors.New("no log given")
	}
	for value, fallback := range map[*time.Duration]time.Duration{
		&c.Interval: 10 * time.Second, &c.Timeout: 5 * time.Second, &c.MaxAge: time.Minute,
	} {
		if *value == 0 {
			*value = fallback
		}
	}
	c.AgentURL = strings.TrimRight(c.AgentURL, "/")
	transport := &http.Transport{DialContext: (&net.Dialer{Timeout: c.Timeout}).DialContext, TLSClientConfig: c.TLS, MaxIdleConnsPerHost: 1}
	return &AgentClient{cfg: c, client: &http.Client{Transport: transport}}, nil
}

// Run asks until ctx ends. It logs the first of several errors.
func (a *AgentClient) Run(ctx context.Context) {
	defer a.client.CloseIdleConnections()
	tick := time.NewTicker(a.cfg.Interval)
	defer tick.Stop()
	well := true
	for {
		err := a.RefreshState(ctx)
		if err != nil && well && ctx.Err() == nil {
			a.cfg.Log.WithError(err).WithField("agent", a.cfg.AgentURL).Warn("not known which tasks hold GPUs")
		}
		well = err == nil
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Holders is what the agent said last, nil where that was too long ago. It is
// shared: nobody may change it.
func (a *AgentClient) Holders() []gpu.ContainerDevices {
	a.mu.Lock()
	defer a.mu.Unlock()
	if time.Since(a.queriedAt) > a.cfg.MaxAge {
		return nil
	}
	return a.holders
}

// DeviceShares are what containers have of shared devices by what the agent said
// last, by container, and when that was asked. They are shared: nobody may
// change them.
func (a *AgentClient) DeviceShares() (parts map[string][]gpu.DeviceShare, asked time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.shares, a.queriedAt
}

// RefreshState asks once, before the time.
func (a *AgentClient) RefreshState(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.Timeout)
	defer cancel()
	now := time.Now()
	answers, err := a.queryState(ctx)
	if err != nil {
		return err
	}
	list, parts := listHolders(answers), sharesByContainer(answers)
	a.mu.Lock()
	defer a.mu.Unlock()
	if now.After(a.queriedAt) { // of two at once the later
		a.holders, a.shares, a.queriedAt = list, parts, now
	}
	return nil
}

// MergeHolders joins the daemon's books with what the agent says. The books are right
// about devices; the agent adds whose the container is, and containers that
// the books lack. The result is sorted.
func MergeHolders(books, agent []gpu.ContainerDevices) []gpu.ContainerDevices {
	said := map[string][]gpu.ContainerDevices{}
	for _, h := range agent {
		said[h.Container] = append(said[h.Container], h)
	}
	var all []gpu.ContainerDevices
	for _, h := range books {
		all = append(all, splitByTask(h, said[h.Container])...)
		delete(said, h.Container)
	}
	for _, list := range said {
		all = append(all, list...)
	}
	slices.SortFunc(all, func(x, y gpu.ContainerDevices) int {
		return cmp.Or(strings.Compare(x.Container, y.Container), strings.Compare(x.Task, y.Task))
	})
	return all
}

// splitByTask gives each of a container's tasks its share of the devices, and the
// container what is left.
func splitByTask(h gpu.ContainerDevices, said []gpu.ContainerDevices) []gpu.ContainerDevices {
	if len(said) == 1 {
		h.Framework, h.Executor = cmp.Or(h.Framework, said[0].Framework), cmp.Or(h.Executor, said[0].Executor)
		h.Task, h.Job = cmp.Or(h.Task, said[0].Task), cmp.Or(h.Job, said[0].Job)
		return []gpu.ContainerDevices{h}
	}
	var list []gpu.ContainerDevices
	left := slices.Clone(h.Devices)
	for _, s := range said {
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
