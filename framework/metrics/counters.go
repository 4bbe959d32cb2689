package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mesos-gpu/framework/sched"
	"mesos-gpu/job"
)

// Counters count what a scheduler does from its process' begin on, while it
// leads: each term adds to the ones before. They may be used by several
// goroutines; none of their methods waits for anything.
type Counters struct {
	registry *prometheus.Registry
	types    *names
	causes   *names

	received, rescinded, accepted, acceptFailures prometheus.Counter
	held, journalSize, lastEvent                  prometheus.Gauge
	declined, launches, ends, journalErrors       *prometheus.CounterVec
	calls                                         *prometheus.CounterVec
	subscriptions                                 prometheus.Counter
	waits                                         *prometheus.HistogramVec
	place, toAccept, commit, call                 prometheus.Histogram
}

// Buckets, in seconds. A plan takes from what a quiet cluster's does to what
// makes the scheduler late for the next; a commit from a fast disk's to one at
// which ZooKeeper gives up; a call up to its timeout.
var (
	waitBuckets   = []float64{1, 5, 15, 60, 300, 900, 1800, 3600, 4 * 3600, 12 * 3600, 24 * 3600, 72 * 3600}
	placeBuckets  = prometheus.ExponentialBuckets(0.0001, 4, 9)
	acceptBuckets = []float64{0.005, 0.02, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60}
	commitBuckets = []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}
	callBuckets   = []float64{0.001, 0.0025, 0.01, 0.025, 0.1, 0.25, 1, 2.5, 10, 30, 75}
)

// NewCounters makes Counters at 0.
func NewCounters() *Counters {
	m := maker{prometheus.NewRegistry()}
	c := &Counters{
		registry: m.registry, types: newNames(), causes: newNames(),
		received:       m.counter("offers_received_total", "Offers that have come."),
		rescinded:      m.counter("offers_rescinded_total", "Offers that the master has taken back."),
		accepted:       m.counter("offers_accepted_total", "Offers that tasks were launched on."),
		declined:       m.counters("offers_declined_total", "Offers declined, by reason.", "reason"),
		held:           m.gauge("offers_held", "Offers in hand, for tasks that could use them once more is free."),
		acceptFailures: m.counter("accept_failures_total", "ACCEPTs that did not reach the master, or that it refused."),
		launches:       m.counters("launches_total", "Tasks launched, by role and by the type of the GPUs that they got.", "role", "type"),
		waits:          m.histograms("wait_seconds", "How long tasks had waited for a place when they were launched, by role and by the type of GPU that they wanted.", waitBuckets, "role", "type"),
		place:          m.histogram("place_seconds", "How long it took to go through the offers in hand and all that waits.", placeBuckets),
		toAccept:       m.histogram("offer_to_accept_seconds", "Time from an offer to the ACCEPT of it, the write to the journal included.", acceptBuckets),
		ends:           m.counters("task_ends_total", "Attempts at tasks that have ended, by role, state and reason.", "role", "state", "reason"),
		commit:         m.histogram("journal_commit_seconds", "How long changes took to be recorded in the journal.", commitBuckets),
		journalErrors:  m.counters("journal_errors_total", "Changes that could not be recorded in the journal, by reason.", "reason"),
		journalSize:    m.gauge("journal_size_bytes", "How large the journal is."),
		calls:          m.counters("mesos_calls_total", "Calls to Mesos, by type and result.", "call", "result"),
		call:           m.histogram("mesos_call_seconds", "How long Mesos took to answer calls.", callBuckets),
		subscriptions:  m.counter("mesos_subscriptions_total", "Subscriptions that a Mesos master has taken."),
		lastEvent:      m.gauge("mesos_last_event_timestamp_seconds", "When a Mesos master last sent anything, a heartbeat at least, in seconds since 1970."),
	}
	c.begin()
	return c
}

// begin has what is known to be counted there at 0: Prometheus sees no increase
// in what begins at 1.
func (c *Counters) begin() {
	for _, why := range []sched.Refusal{sched.Idle, sched.Unwanted, sched.Held, sched.Yielded, sched.OnCordoned} {
		c.declined.WithLabelValues(string(why))
	}
	for _, reason := range []string{fenced, unknown, canceled, failed} {
		c.journalErrors.WithLabelValues(reason)
	}
}

// maker makes metrics and registers them.
type maker struct{ registry *prometheus.Registry }

func (m maker) counter(name, help string) prometheus.Counter {
	return register(m, prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help}))
}

func (m maker) counters(name, help string, labels ...string) *prometheus.CounterVec {
	return register(m, prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help}, labels))
}

func (m maker) gauge(name, help string) prometheus.Gauge {
	return register(m, prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help}))
}

func (m maker) histogram(name, help string, buckets []float64) prometheus.Histogram {
	return register(m, prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help, Buckets: buckets}))
}

func (m maker) histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return register(m, prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help, Buckets: buckets}, labels))
}

func register[C prometheus.Collector](m maker, c C) C {
	m.registry.MustRegister(c)
	return c
}

// Event counts what has come.
func (c *Counters) Event(ev sched.Event) {
	switch e := ev.(type) {
	case sched.Offers:
		c.received.Add(float64(len(e.Offers)))
	case sched.Rescind:
		c.rescinded.Inc()
	case sched.AcceptFailed:
		c.acceptFailures.Inc()
	}
}

// Planned counts one pass over the offers in hand.
func (c *Counters) Planned(took time.Duration) { c.place.Observe(took.Seconds()) }

// Acted counts what is recorded and about to be done, and the offers that are
// then in hand.
func (c *Counters) Acted(now time.Time, ops []sched.Op, moves []sched.Move, held int) {
	c.held.Set(float64(held))
	for _, op := range ops {
		switch o := op.(type) {
		case sched.Accept:
			c.accepts(now, &o)
		case sched.Decline:
			for i := range o.Offers {
				c.declined.WithLabelValues(string(o.Offers[i].Why)).Inc()
			}
		}
	}
	for i := range moves {
		if m := &moves[i]; !m.State.Live() && !m.Again {
			c.ends.WithLabelValues(label(m.Role), string(m.State), c.causeOf(m)).Inc()
		}
	}
}

// Rest says that this scheduler does not lead any more: its offers are gone.
func (c *Counters) Rest() { c.held.Set(0) }

func (c *Counters) accepts(now time.Time, o *sched.Accept) {
	c.accepted.Add(float64(len(o.OfferIDs)))
	c.toAccept.Observe(now.Sub(o.Offered).Seconds())
	for i := range o.Launches {
		l := &o.Launches[i]
		c.launches.WithLabelValues(label(l.Spec.Role), c.types.launched(&l.Spec.Request, l.GPUTypes, l.Parts)).Inc()
		if l.Spec.MaxParallel == 0 { // those wait for their own tasks, which says nothing of the cluster
			c.waits.WithLabelValues(label(l.Spec.Role), c.types.wish(&l.Spec.Request)).Observe(l.Waited.Seconds())
		}
	}
}

// unlaunched is the reason of attempts that were ended while they waited.
const unlaunched = "unlaunched"

func (c *Counters) causeOf(m *sched.Move) string {
	if m.Cause == "" && m.State != job.Finished {
		return unlaunched
	}
	return c.causes.of(string(m.Cause))
}
