package metrics

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// formVersion is what Marathon calls this form of metrics.
const formVersion = "4.0.0"

// report is what Marathon answers at /metrics. There are no meters and timers
// here: what changes is counted, and Prometheus makes rates of it.
type report struct {
	Version    string               `json:"version"`
	Gauges     map[string]gaugeForm `json:"gauges"`
	Counters   map[string]countForm `json:"counters"`
	Histograms map[string]histoForm `json:"histograms"`
	Meters     map[string]struct{}  `json:"meters"`
	Timers     map[string]struct{}  `json:"timers"`
}

type gaugeForm struct {
	Value float64 `json:"value"`
}

type countForm struct {
	Count float64 `json:"count"`
}

// histoForm has the quantiles that are known, as p50 and p99.
type histoForm map[string]float64

// wantsJSON reports whether the reader accepts JSON and does not mention text,
// as Prometheus and browsers do.
func wantsJSON(r *http.Request) bool {
	accept := strings.Join(r.Header.Values("Accept"), ",")
	return strings.Contains(accept, "application/json") && !strings.Contains(accept, "text/")
}

func serveJSON(w http.ResponseWriter, from prometheus.Gatherer) error {
	families, err := from.Gather()
	if err != nil {
		return fmt.Errorf("gather metrics: %w", err)
	}
	body, err := json.Marshal(reportOf(families))
	if err != nil {
		return fmt.Errorf("write metrics as JSON: %w", err)
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body) // the client that went away learns nothing more
	return nil
}

func reportOf(families []*dto.MetricFamily) report {
	r := report{
		Version: formVersion, Gauges: map[string]gaugeForm{}, Counters: map[string]countForm{}, Histograms: map[string]histoForm{},
		Meters: map[string]struct{}{}, Timers: map[string]struct{}{},
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			r.add(dotted(f.GetName(), m.GetLabel()), f.GetType(), m)
		}
	}
	return r
}

// add leaves out numbers that JSON has no form for.
func (r *report) add(name string, kind dto.MetricType, m *dto.Metric) {
	switch kind {
	case dto.MetricType_GAUGE:
		if v := m.GetGauge().GetValue(); finite(v) {
			r.Gauges[name] = gaugeForm{v}
		}
	case dto.MetricType_COUNTER:
		if v := m.GetCounter().GetValue(); finite(v) {
			r.Counters[name] = countForm{v}
		}
	case dto.MetricType_SUMMARY:
		s := m.GetSummary()
		h := histogram(float64(s.GetSampleCount()), s.GetSampleSum())
		for _, q := range s.GetQuantile() {
			if v := q.GetValue(); finite(v) {
				h[quantile(q.GetQuantile())] = v
			}
		}
		r.Histograms[name] = h
	case dto.MetricType_HISTOGRAM:
		r.Histograms[name] = histogram(float64(m.GetHistogram().GetSampleCount()), m.GetHistogram().GetSampleSum())
	}
}

func histogram(count, sum float64) histoForm {
	h := histoForm{"count": count}
	if mean := sum / count; finite(mean) {
		h["mean"] = mean
	}
	return h
}

// quantile names one as Marathon does: min, p50, p999, max.
func quantile(q float64) string {
	switch q {
	case 0:
		return "min"
	case 1:
		return "max"
	}
	digits := strings.TrimPrefix(strconv.FormatFloat(q, 'f', -1, 64), "0.")
	if len(digits) == 1 {
		digits += "0"
	}
	return "p" + digits
}

// dotted is a name with its labels: name.key.value.
func dotted(name string, labels []*dto.LabelPair) string {
	for _, l := range labels {
		name += "." + l.GetName() + "." + l.GetValue()
	}
	return name
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
