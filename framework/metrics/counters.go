package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mesos-gpu/framework/sched"
	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/job"
)

// SchedulerCounters counts what a scheduler does while it leads, since its process
// started: each term as leader adds to the earlier ones. It is safe for concurrent use,
// and its methods do not block.
type SchedulerCounters struct {
	// registry has all metrics below.
	registry *prometheus.Registry
	// types and causes bound the values of the labels for GPU types and for reasons of ended tasks.
	types  *labelValues
	causes *labelValues

	// Offers: how many arrived, were rescinded, and were accepted, and how many ACCEPT calls failed.
	received, rescinded, accepted, acceptFailures prometheus.Counter
	// conflicts counts the offers of what tasks hold that are not known to have ended.
	conflicts prometheus.Counter
	// The present number of held offers, the size of the journal, and when the master last sent an event.
	offersHeld, journalSize, lastEvent prometheus.Gauge
	// Counts by label: declined offers by reason, launches by type, ended tasks by state, journal errors by operation.
	declined, launches, taskEnds, journalErrors *prometheus.CounterVec
	calls                                       *prometheus.CounterVec
	subscriptions                               prometheus.Counter
	// Limits of the API, what is used of them, and how often a client was rejected.
	apiLimit, apiUse *prometheus.GaugeVec
	apiRejections    *prometheus.CounterVec
	// How long tasks waited for a place, by role and type.
	waitTimes *prometheus.HistogramVec
	// Durations in seconds: of a planning cycle, from an offer to its ACCEPT, of a commit, of a call to the master.
	planTime, offerToAccept, commitTime, callTime prometheus.Histogram
}

// Histogram buckets, in seconds. Planning ranges from a quiet cluster to a delay of the
// next cycle, a commit from a fast disk to the timeout of ZooKeeper, and a call up to its
// timeout.
var (
	waitBuckets   = []float64{1, 5, 15, 60, 300, 900, 1800, 3600, 4 * 3600, 12 * 3600, 24 * 3600, 72 * 3600}
	placeBuckets  = prometheus.ExponentialBuckets(0.0001, 4, 9)
	acceptBuckets = []float64{0.005, 0.02, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60}
	commitBuckets = []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}
	callBuckets   = []float64{0.001, 0.0025, 0.01, 0.025, 0.1, 0.25, 1, 2.5, 10, 30, 75}
)

// NewSchedulerCounters returns counters at 0.
func NewSchedulerCounters() *SchedulerCounters {
	m := metricFactory{prometheus.NewRegistry()}
	c := &SchedulerCounters{
		registry: m.registry, types: newLabelValues(), causes: newLabelValues(),
		received:       m.newCounter("offers_received_total", "Offers received from the master."),
		rescinded:      m.newCounter("offers_rescinded_total", "Offers that the master rescinded."),
		accepted:       m.newCounter("offers_accepted_total", "Offers on which tasks were launched."),
		conflicts:      m.newCounter("offer_conflicts_total", "Offers of resources that a task holds which is not known to have ended."),
		declined:       m.newCounterVec("offers_declined_total", "Offers declined, by reason.", "reason"),
		offersHeld:     m.newGauge("offers_held", "Offers held for tasks that need more resources on the same agent."),
		acceptFailures: m.newCounter("accept_failures_total", "ACCEPT calls that did not reach the master, or that it rejected."),
		launches:       m.newCounterVec("launches_total", "Tasks launched, by role and by the type of the GPUs that they got.", "role", "type"),
		waitTimes: m.newHistogramVec("wait_seconds",
			"How long tasks had waited for a place when they were launched, by role and by the type of GPU that they requested.",
			waitBuckets, "role", "type"),
		planTime:      m.newHistogram("place_seconds", "Duration of a planning cycle over the held offers and the waiting tasks.", placeBuckets),
		offerToAccept: m.newHistogram("offer_to_accept_seconds", "Time from an offer to its ACCEPT, including the write to the journal.", acceptBuckets),
		taskEnds:      m.newCounterVec("task_ends_total", "Attempts at tasks that have ended, by role, state and reason.", "role", "state", "reason"),
		commitTime:    m.newHistogram("journal_commit_seconds", "How long changes took to be recorded in the journal.", commitBuckets),
		journalErrors: m.newCounterVec("journal_errors_total", "Changes that could not be recorded in the journal, by reason.", "reason"),
		journalSize:   m.newGauge("journal_size_bytes", "Size of the journal."),
		calls:         m.newCounterVec("mesos_calls_total", "Calls to Mesos, by type and result.", "call", "result"),
		callTime:      m.newHistogram("mesos_call_seconds", "How long Mesos took to answer calls.", callBuckets),
		subscriptions: m.newCounter("mesos_subscriptions_total", "Subscriptions that a Mesos master accepted."),
		apiLimit:      m.newGaugeVec("api_limit", "Largest number of connections, streams, lists and other requests that the API serves at a time.", "resource"),
		apiUse:        m.newGaugeVec("api_in_use", "Connections, streams, lists and other requests that the API serves now.", "resource"),
		apiRejections: m.newCounterVec("api_rejected_total",
			"Connections and requests that exceeded a limit, by the limit: of one client, of a role, or of all together.",
			"resource", "limit"),
		lastEvent: m.newGauge("mesos_last_event_timestamp_seconds", "Time of the last event or heartbeat from a Mesos master, in seconds since 1970."),
	}
	c.initializeLabels()
	return c
}

// initializeLabels sets counters with known labels to 0. Prometheus does not see an
// increase if a series starts at 1.
func (c *SchedulerCounters) initializeLabels() {
	for _, why := range []placement.DeclineReason{
		placement.DeclineIdle, placement.DeclineUnwanted, placement.DeclineHeld, placement.DeclineReturnedToRole,
		placement.DeclineCordoned, placement.DeclineLostLaunches,
	} {
		c.declined.WithLabelValues(string(why))
	}
	for _, resource := range []string{"connections", "streams", "lists", "requests", "sessions", "anonymous", "probes"} {
		c.apiLimit.WithLabelValues(resource)
		c.apiUse.WithLabelValues(resource)
		for _, limit := range []string{"client", "total"} {
			c.apiRejections.WithLabelValues(resource, limit)
		}
	}
	c.apiRejections.WithLabelValues("submissions", "client")
	for _, limit := range []string{"client", "role"} {
		c.apiRejections.WithLabelValues("waiting_jobs", limit)
	}
	for _, reason := range []string{reasonFenced, reasonUnknown, reasonCanceled, reasonFailed} {
		c.journalErrors.WithLabelValues(reason)
	}
}

// metricFactory creates metrics and registers them.
type metricFactory struct{ registry *prometheus.Registry }

func (m metricFactory) newCounter(name, help string) prometheus.Counter {
	return mustRegister(m, prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help}))
}

func (m metricFactory) newCounterVec(name, help string, labels ...string) *prometheus.CounterVec {
	return mustRegister(m, prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help}, labels))
}

func (m metricFactory) newGauge(name, help string) prometheus.Gauge {
	return mustRegister(m, prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help}))
}

func (m metricFactory) newGaugeVec(name, help string, labels ...string) *prometheus.GaugeVec {
	return mustRegister(m, prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help}, labels))
}

func (m metricFactory) newHistogram(name, help string, buckets []float64) prometheus.Histogram {
	return mustRegister(m, prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help, Buckets: buckets}))
}

func (m metricFactory) newHistogramVec(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return mustRegister(m, prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace,
		Subsystem: subsystem,
		Name:      name,
		Help:      help,
		Buckets:   buckets,
	}, labels))
}

// mustRegister registers a metric. It panics for a name that is registered already.
func mustRegister[C prometheus.Collector](m metricFactory, c C) C {
	m.registry.MustRegister(c)
	return c
}

// CountEvent counts an event that the scheduler has received.
func (c *SchedulerCounters) CountEvent(ev sched.Event) {
	switch e := ev.(type) {
	case sched.OffersReceived:
		c.received.Add(float64(len(e.Offers)))
	case sched.OfferRescinded:
		c.rescinded.Inc()
	case sched.AcceptFailed:
		c.acceptFailures.Inc()
	}
}

// CountConflicts counts offers of what tasks hold that are not known to have ended.
func (c *SchedulerCounters) CountConflicts(n int) { c.conflicts.Add(float64(n)) }

// SetAPILimit records a limit of the API.
func (c *SchedulerCounters) SetAPILimit(resource string, n int) {
	c.apiLimit.WithLabelValues(resource).Set(float64(n))
}

// SetAPIUse records how much of a limit of the API is used.
func (c *SchedulerCounters) SetAPIUse(resource string, n int) {
	c.apiUse.WithLabelValues(resource).Set(float64(n))
}

// CountAPIRejection counts a connection or request that exceeded a limit of the API.
func (c *SchedulerCounters) CountAPIRejection(resource, limit string) {
	c.apiRejections.WithLabelValues(resource, limit).Inc()
}

// CountPlan records the duration of one planning cycle.
func (c *SchedulerCounters) CountPlan(took time.Duration) { c.planTime.Observe(took.Seconds()) }

// CountActions counts operations and state changes after they are recorded and before
// they are executed. held is the number of offers that the scheduler then holds.
func (c *SchedulerCounters) CountActions(now time.Time, ops []sched.Operation, moves []sched.StateTransition, held int) {
	c.offersHeld.Set(float64(held))
	for _, op := range ops {
		switch o := op.(type) {
		case sched.AcceptOffers:
			c.countAccept(now, &o)
		case sched.DeclineOffers:
			for i := range o.Offers {
				c.declined.WithLabelValues(string(o.Offers[i].Category)).Inc()
			}
		}
	}
	for i := range moves {
		if m := &moves[i]; !m.State.IsLive() && !m.Repeated {
			c.taskEnds.WithLabelValues(sanitizeLabel(m.Role), string(m.State), c.causeLabel(m)).Inc()
		}
	}
}

// ResetOffers records that this scheduler no longer leads and holds no offers.
func (c *SchedulerCounters) ResetOffers() { c.offersHeld.Set(0) }

// countAccept counts the offers and launches of an ACCEPT, and how long offers and tasks have waited for it.
func (c *SchedulerCounters) countAccept(now time.Time, o *sched.AcceptOffers) {
	c.accepted.Add(float64(len(o.OfferIDs)))
	c.offerToAccept.Observe(now.Sub(o.LastOfferAt).Seconds())
	for i := range o.Launches {
		l := &o.Launches[i]
		c.launches.WithLabelValues(sanitizeLabel(l.Spec.Role), c.types.launchedLabel(&l.Spec.Request, l.GPUTypes, l.Shares)).Inc()
		if l.Spec.MaxParallel == 0 { // otherwise tasks wait for their own job, not for the cluster
			c.waitTimes.WithLabelValues(sanitizeLabel(l.Spec.Role), c.types.requestLabel(&l.Spec.Request)).Observe(l.Waited.Seconds())
		}
	}
}

// causeUnlaunched is the reason label of attempts that ended before they were launched.
const causeUnlaunched = "unlaunched"

// causeLabel returns the reason label of an ended attempt.
func (c *SchedulerCounters) causeLabel(m *sched.StateTransition) string {
	if m.Cause == "" && m.State != job.Finished {
		return causeUnlaunched
	}
	return c.causes.bounded(string(m.Cause))
}
