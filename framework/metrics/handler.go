// Package metrics shows a scheduler to Prometheus. A Snapshot has what there
// is: jobs, tasks, the GPUs they hold, whether it leads, and what its extension
// counts; it is taken again for each scrape. Counters have what has happened
// since the process began, GPUTimeTracker for how long GPUs were held since the
// journal did. It decides nothing, and never waits for a master.
package metrics

import (
	"context"
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// SnapshotSource is what a scheduler knows.
type SnapshotSource interface {
	// MetricsSnapshot counts what there is now.
	MetricsSnapshot(ctx context.Context) (Snapshot, error)
}

// MetricsHandler answers scrapes. It has Go's and the process's metrics as well as a
// View's.
type MetricsHandler struct{ processMetrics prometheus.Gatherer }

// NewMetricsHandler makes Pages.
func NewMetricsHandler() MetricsHandler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return MetricsHandler{registry}
}

// ServeScrape answers a scrape from the view of the moment: as Prometheus' text, or
// to those who accept JSON and no text in Marathon's form of it. It returns an
// error of the view before anything is written.
func (p MetricsHandler) ServeScrape(w http.ResponseWriter, r *http.Request, v SnapshotSource) error {
	c, err := newCollector(r.Context(), v)
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	if err := registry.Register(c); err != nil {
		return fmt.Errorf("show what was counted: %w", err)
	}
	all := prometheus.Gatherers{p.processMetrics, registry}
	if c.counters != nil {
		all = append(all, c.counters.registry)
	}
	if wantsJSON(r) {
		return serveJSON(w, all)
	}
	promhttp.HandlerFor(all, promhttp.HandlerOpts{}).ServeHTTP(w, r)
	return nil
}
