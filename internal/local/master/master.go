// Package master is an embedded Mesos master for one machine. It serves the v1
// scheduler and operator HTTP APIs, and talks to agents of the same process
// through package link. It decides which framework gets which offer and which
// launches are valid, and it stores every task's newest state. It performs no
// election, no authentication and no disk writes, and supports neither
// reservations, volumes, task groups, the reactivation of drained agents nor the
// operator's event stream. It injects
// no faults: package faultproxy, placed in front of it, does that in tests.
package master

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/maintenance"
	"github.com/mesos/mesos-go/api/v1/lib/quota"
	"github.com/sirupsen/logrus"

	"mesos-gpu/internal/local/link"
	"mesos-gpu/internal/local/master/alloc"
	"mesos-gpu/internal/minimesos/events"
)

// MasterConfig configures a master. The zero value is valid.
type MasterConfig struct {
	Log logrus.FieldLogger
	// Addr is the host:port at which frameworks reach Handler. The master
	// publishes it and does not listen on it. Default 127.0.0.1:5050.
	Addr string
	// AllocationInterval is the time between allocations, default 1 s.
	AllocationInterval time.Duration
	// heartbeatInterval is the time between HEARTBEAT events, default 15 s.
	heartbeatInterval time.Duration
}

func (c MasterConfig) withDefaults() MasterConfig {
	if c.Log == nil {
		quiet := logrus.New()
		quiet.SetLevel(logrus.PanicLevel)
		c.Log = quiet
	}
	if c.Addr == "" {
		c.Addr = "127.0.0.1:5050"
	}
	if c.AllocationInterval <= 0 {
		c.AllocationInterval = time.Second
	}
	if c.heartbeatInterval <= 0 {
		c.heartbeatInterval = 15 * time.Second
	}
	return c
}

// EmbeddedMaster is a Mesos master in this process.
type EmbeddedMaster struct {
	cfg     MasterConfig
	info    mesos.MasterInfo
	mux     *http.ServeMux
	workers sync.WaitGroup // deliveries to agents

	// mu guards the fields below. Agents are never called while it is held.
	// Values that were passed to a stream or an agent are not modified.
	mu         sync.Mutex
	closed     bool
	frameworks map[string]*frameworkState
	completed  []*frameworkState // oldest first
	agents     map[string]*registeredAgent
	lost       map[string]*lostAgent       // unreachable agents
	standings  map[string]*agentAdminState // by agent, set by operators
	offers     map[string]*outstandingOffer
	inverse    map[string]*inverseOffer
	answered   map[inverseKey]time.Time // until when an answer to an inverse offer holds
	schedule   maintenance.Schedule
	quotas     map[string]quota.QuotaConfig // by role
	weights    map[string]float64           // by role, 1 if missing
	filters    *alloc.OfferFilters
	turns      map[alloc.RoleClaim]uint64
	turn       uint64
	nextID     struct{ framework, agent, offer int }
}

var _ link.MasterLink = (*EmbeddedMaster)(nil)

// New returns a master that can serve requests immediately. Periodic
// allocations and heartbeats require Run.
func New(cfg MasterConfig) *EmbeddedMaster {
	m := &EmbeddedMaster{
		cfg:        cfg.withDefaults(),
		frameworks: map[string]*frameworkState{},
		agents:     map[string]*registeredAgent{},
		lost:       map[string]*lostAgent{},
		standings:  map[string]*agentAdminState{},
		offers:     map[string]*outstandingOffer{},
		inverse:    map[string]*inverseOffer{},
		answered:   map[inverseKey]time.Time{},
		quotas:     map[string]quota.QuotaConfig{},
		weights:    map[string]float64{},
		filters:    alloc.NewFilters(),
		turns:      map[alloc.RoleClaim]uint64{},
	}
	m.info = masterInfo(uuid.NewString(), m.cfg.Addr)
	m.mux = m.newRoutes()
	return m
}

// Handler serves /api/v1/scheduler and /api/v1, also below /master, and
// /redirect, which names this master as the leader.
func (m *EmbeddedMaster) Handler() http.Handler { return m.mux }

// Run allocates periodically and sends heartbeats until ctx ends. It returns
// after all streams have ended and no call to an agent is in progress. From
// then on the master rejects all requests.
func (m *EmbeddedMaster) Run(ctx context.Context) error {
	allocation := time.NewTicker(m.cfg.AllocationInterval)
	defer allocation.Stop()
	heartbeat := time.NewTicker(m.cfg.heartbeatInterval)
	defer heartbeat.Stop()
	for {
		select {
		case <-allocation.C:
			m.withLock(m.allocateAll)
		case <-heartbeat.C:
			m.withLock(m.sendHeartbeats)
		case <-ctx.Done():
			m.withLock(m.close)
			m.workers.Wait()
			return nil
		}
	}
}

// withLock runs f with mu held, unless the master is closed.
func (m *EmbeddedMaster) withLock(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed {
		f()
	}
}

func (m *EmbeddedMaster) sendHeartbeats() {
	for _, f := range m.frameworks {
		f.sendEvent(events.NewHeartbeat())
	}
}

func (m *EmbeddedMaster) close() {
	m.closed = true
	for _, f := range m.frameworks {
		f.stopTimer()
		if f.stream != nil {
			f.stream.Close()
		}
	}
	for _, a := range m.agents {
		a.calls.Close()
	}
	for _, l := range m.lost {
		l.calls.Close()
	}
}

func (m *EmbeddedMaster) newID(kind string, next *int) string {
	n := *next
	*next++
	if kind == "" {
		return fmt.Sprintf("%s-%04d", m.info.ID, n)
	}
	return fmt.Sprintf("%s-%s%d", m.info.ID, kind, n)
}
