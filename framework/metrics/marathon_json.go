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

// reportVersion is the version of Marathon's format.
const reportVersion = "4.0.0"

// marathonReport is Marathon's response at /metrics. Meters and timers are empty: rates
// can be derived from the counters.
type marathonReport struct {
	Version    string                    `json:"version"`
	Gauges     map[string]gaugeValue     `json:"gauges"`
	Counters   map[string]counterValue   `json:"counters"`
	Histograms map[string]histogramValue `json:"histograms"`
	Meters     map[string]struct{}       `json:"meters"`
	Timers     map[string]struct{}       `json:"timers"`
}

type gaugeValue struct {
	Value float64 `json:"value"`
}

type counterValue struct {
	Count float64 `json:"count"`
}

// histogramValue has count, mean and the known quantiles, such as p50 and p99.
type histogramValue map[string]float64

// wantsJSON reports whether the client accepts JSON and no text. Prometheus and browsers
// accept text.
func wantsJSON(r *http.Request) bool {
	accept := strings.Join(r.Header.Values("Accept"), ",")
	return strings.Contains(accept, "application/json") && !strings.Contains(accept, "text/")
}

// serveJSON writes all metrics in Marathon's format.
func serveJSON(w http.ResponseWriter, from prometheus.Gatherer) error {
	families, err := from.Gather()
	if err != nil {
		return fmt.Errorf("gather metrics: %w", err)
	}
	body, err := json.Marshal(buildReport(families))
	if err != nil {
		return fmt.Errorf("write metrics as JSON: %w", err)
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body) // an error means that the client has disconnected
	return nil
}

func buildReport(families []*dto.MetricFamily) marathonReport {
	r := marathonReport{
		Version: reportVersion, Gauges: map[string]gaugeValue{}, Counters: map[string]counterValue{}, Histograms: map[string]histogramValue{},
		Meters: map[string]struct{}{}, Timers: map[string]struct{}{},
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			r.addMetric(dottedName(f.GetName(), m.GetLabel()), f.GetType(), m)
		}
	}
	return r
}

// addMetric adds a metric. It omits NaN and infinity, which JSON cannot represent.
func (r *marathonReport) addMetric(name string, kind dto.MetricType, m *dto.Metric) {
	switch kind {
	case dto.MetricType_GAUGE:
		if v := m.GetGauge().GetValue(); isFinite(v) {
			r.Gauges[name] = gaugeValue{v}
		}
	case dto.MetricType_COUNTER:
		if v := m.GetCounter().GetValue(); isFinite(v) {
			r.Counters[name] = counterValue{v}
		}
	case dto.MetricType_SUMMARY:
		s := m.GetSummary()
		h := newHistogramValue(float64(s.GetSampleCount()), s.GetSampleSum())
		for _, q := range s.GetQuantile() {
			if v := q.GetValue(); isFinite(v) {
				h[quantileName(q.GetQuantile())] = v
			}
		}
		r.Histograms[name] = h
	case dto.MetricType_HISTOGRAM:
		r.Histograms[name] = newHistogramValue(float64(m.GetHistogram().GetSampleCount()), m.GetHistogram().GetSampleSum())
	}
}

func newHistogramValue(count, sum float64) histogramValue {
	h := histogramValue{"count": count}
	if mean := sum / count; isFinite(mean) {
		h["mean"] = mean
	}
	return h
}

// quantileName returns Marathon's name of a quantile: min, p50, p999, max.
func quantileName(q float64) string {
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

// dottedName appends the labels to a name: name.key.value.
func dottedName(name string, labels []*dto.LabelPair) string {
	for _, l := range labels {
		name += "." + l.GetName() + "." + l.GetValue()
	}
	return name
}

func isFinite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
