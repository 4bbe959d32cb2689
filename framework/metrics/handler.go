// Package metrics exports a scheduler's metrics to Prometheus. A Snapshot has the present
// state: jobs, tasks, their GPUs, leadership, and the gauges of an extension; it is taken
// for each scrape. SchedulerCounters count events since the process started.
// GPUTimeTracker accumulates GPU time since the journal was created. The package never
// waits for a Mesos master.
package metrics

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// SnapshotSource provides the state of a scheduler.
type SnapshotSource interface {
	// MetricsSnapshot returns the present state.
	MetricsSnapshot(ctx context.Context) (Snapshot, error)
}

// MetricsHandler answers scrapes. It exports the metrics of Go and of the process in
// addition to a snapshot.
type MetricsHandler struct{ processMetrics prometheus.Gatherer }

// NewMetricsHandler returns a handler with the metrics of this process.
func NewMetricsHandler() MetricsHandler { return MetricsHandler{processMetrics()} }

// processMetrics returns the metrics of Go and of the process, which all handlers share. Their collectors take
// milliseconds to create.
var processMetrics = sync.OnceValue(func() prometheus.Gatherer {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return registry
})

// ServeScrape answers a scrape with a new snapshot of v, in the text format of Prometheus.
// A client that accepts JSON and no text gets Marathon's JSON format. If the snapshot
// fails, it returns the error and writes nothing.
func (h MetricsHandler) ServeScrape(w http.ResponseWriter, r *http.Request, v SnapshotSource) error {
	c, err := newCollector(r.Context(), v)
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	if err := registry.Register(c); err != nil {
		return fmt.Errorf("export the snapshot: %w", err)
	}
	all := prometheus.Gatherers{h.processMetrics, registry}
	if c.counters != nil {
		all = append(all, c.counters.registry)
	}
	if wantsJSON(r) {
		return serveJSON(w, all)
	}
	promhttp.HandlerFor(all, promhttp.HandlerOpts{}).ServeHTTP(w, r)
	return nil
}
