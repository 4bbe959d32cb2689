package metrics

import (
	"encoding/json"
	"math"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

// TestScrapeAsJSON checks that a client that accepts JSON gets Marathon's format, others text.
func TestScrapeAsJSON(t *testing.T) {
	p := NewMetricsHandler()
	for accept, want := range map[string]bool{
		"application/json":                      true,
		"application/json, text/plain;q=0.5":    false,
		"text/html,application/json;q=0.9,*/*":  false,
		"text/plain":                            false,
		"application/openmetrics-text, */*;q=1": false,
		"":                                      false,
	} {
		r, w := httptest.NewRequest("GET", "/metrics", nil), httptest.NewRecorder()
		if accept != "" {
			r.Header.Set("Accept", accept)
		}
		if err := p.ServeScrape(w, r, someSnapshot()); err != nil {
			t.Fatal(err)
		}
		var got map[string]any
		err := json.Unmarshal(w.Body.Bytes(), &got)
		if (err == nil) != want || (w.Header().Get("Content-Type") == "application/json") != want {
			t.Errorf("Accept %q: %s, %v", accept, w.Header().Get("Content-Type"), err)
		}
		if !want {
			continue
		}
		var keys []string
		for _, key := range []string{"version", "gauges", "counters", "histograms", "meters", "timers"} {
			if got[key] != nil {
				keys = append(keys, key)
			}
		}
		gauges := got["gauges"].(map[string]any)
		if len(keys) != 6 || len(got) != 6 || got["version"] != "4.0.0" {
			t.Errorf("keys %v, version %v", keys, got["version"])
		}
		for name, value := range map[string]float64{
			"mesos_gpu_scheduler_leads":                  1,
			"mesos_gpu_marathon_instances.state.RUNNING": 3,
			"mesos_gpu_scheduler_jobs.state.RUNNING":     3,
		} {
			if diff := cmp.Diff(map[string]any{"value": value}, gauges[name]); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
		if c, ok := got["counters"].(map[string]any)["process_cpu_seconds_total"].(map[string]any); !ok || c["count"] == nil {
			t.Errorf("counters %v", got["counters"])
		}
		if h, ok := got["histograms"].(map[string]any)["go_gc_duration_seconds"].(map[string]any); !ok || h["count"] == nil || h["p50"] == nil || h["max"] == nil {
			t.Errorf("histograms %v", got["histograms"])
		}
	}
}

// TestReport checks that values without a JSON form are omitted, and the names of quantiles.
func TestReport(t *testing.T) {
	registry := prometheus.NewRegistry()
	gauge := prometheus.NewGauge(prometheus.GaugeOpts{Name: "endless"})
	gauge.Set(math.Inf(1))
	times := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "times", Buckets: []float64{1, 2}})
	times.Observe(1)
	times.Observe(2)
	sizes := prometheus.NewSummary(prometheus.SummaryOpts{Name: "sizes", Objectives: map[float64]float64{0.5: 0.1, 0.999: 0.001}})
	sizes.Observe(4)
	empty := prometheus.NewSummary(prometheus.SummaryOpts{Name: "empty", Objectives: map[float64]float64{0.75: 0.1}})
	registry.MustRegister(gauge, times, sizes, empty)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := buildReport(families)
	want := map[string]histogramValue{
		"times": {"count": 2, "mean": 1.5}, "sizes": {"count": 1, "mean": 4, "p50": 4, "p999": 4}, "empty": {"count": 0},
	}
	if diff := cmp.Diff(want, got.Histograms); diff != "" || len(got.Gauges) > 0 {
		t.Errorf("gauges %v (-want +got):\n%s", got.Gauges, diff)
	}
	if _, err := json.Marshal(got); err != nil {
		t.Error(err)
	}
}
