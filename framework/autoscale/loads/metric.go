// Package loads measures the load of services: the usage history of their GPUs, or metrics
// that their tasks serve. It connects only to host ports that the tasks hold, and limits the
// time and the size of each answer.
package loads

import (
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"mesos-gpu/job"
)

const (
	// scrapeTimeout and maxScrapeBytes limit the answer of one task.
	scrapeTimeout  = 5 * time.Second
	maxScrapeBytes = 1 << 20
)

// metricSample is the value of a metric of one task. Counter values only grow while the
// task's process runs.
type metricSample struct {
	at      time.Time
	value   float64
	counter bool
}

// newScrapeClient returns a client that connects to the addresses of its requests and no
// others: it uses no proxy and follows no redirect.
func newScrapeClient() *http.Client {
	return &http.Client{
		Timeout:       scrapeTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext:            (&net.Dialer{Timeout: scrapeTimeout}).DialContext,
			DisableKeepAlives:      true, // the port may belong to another task at the next time
			MaxResponseHeaderBytes: 64 << 10,
			ResponseHeaderTimeout:  scrapeTimeout,
		},
	}
}

// metricsURL returns the URL at which a task serves its metrics: its agent's address, and the
// host port that the task holds.
func metricsURL(t *job.Task, target *job.LoadTarget) (string, error) {
	host := t.Hostname
	if agent, err := url.Parse(t.AgentURL); err == nil && agent.Hostname() != "" {
		host = agent.Hostname() // the scheduler reads logs there, too
	}
	if target.PortIndex >= len(t.Ports) || host == "" {
		return "", fmt.Errorf("it has no port %d", target.PortIndex)
	}
	u := url.URL{Scheme: "http", Host: net.JoinHostPort(host, strconv.Itoa(t.Ports[target.PortIndex])), Path: target.Path}
	return u.String(), nil
}

// scrapeMetric reads the metric of one task.
func scrapeMetric(ctx context.Context, c *http.Client, address, metric string) (metricSample, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return metricSample{}, err
	}
	req.Header.Set("Accept", "text/plain;version=0.0.4")
	res, err := c.Do(req)
	if err != nil {
		return metricSample{}, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return metricSample{}, fmt.Errorf("%s answers %s", address, res.Status)
	}
	s, err := readMetric(res.Body, metric)
	if err != nil {
		return s, fmt.Errorf("%s: %w", address, err)
	}
	s.at = time.Now()
	return s, nil
}

// readMetric returns the sum of the series of a metric in Prometheus's text format. Of a
// histogram or summary it is the number of observations. An answer above maxScrapeBytes is an
// error.
func readMetric(r io.Reader, metric string) (s metricSample, err error) {
	limited := &io.LimitedReader{R: r, N: maxScrapeBytes + 1}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(limited)
	if limited.N <= 0 {
		return s, fmt.Errorf("its metrics have more than %d bytes", maxScrapeBytes)
	}
	if err != nil {
		return s, fmt.Errorf("no metrics in Prometheus's text format: %w", err)
	}
	family := families[metric]
	if family == nil || len(family.Metric) == 0 {
		return s, fmt.Errorf("it has no metric %s", metric)
	}
	for _, m := range family.Metric {
		switch family.GetType() {
		case dto.MetricType_COUNTER:
			s.counter = true
			s.value += m.GetCounter().GetValue()
		case dto.MetricType_GAUGE:
			s.value += m.GetGauge().GetValue()
		case dto.MetricType_HISTOGRAM:
			s.counter = true
			s.value += float64(m.GetHistogram().GetSampleCount())
		case dto.MetricType_SUMMARY:
			s.counter = true
			s.value += float64(m.GetSummary().GetSampleCount())
		default:
			s.value += m.GetUntyped().GetValue()
		}
	}
	if math.IsNaN(s.value) || math.IsInf(s.value, 0) || s.value < 0 {
		return s, fmt.Errorf("the value of %s is %g", metric, s.value)
	}
	return s, nil
}

// rateWindow is the time over which rates are averaged.
const rateWindow = time.Minute

// rateOf returns the growth per second of a counter from its samples, oldest first; false if
// there are fewer than two. A smaller value than before means that the process has restarted
// at 0.
func rateOf(samples []metricSample) (float64, bool) {
	if len(samples) < 2 {
		return 0, false
	}
	grown := 0.0
	for i, s := range samples[1:] {
		if s.value >= samples[i].value {
			grown += s.value - samples[i].value
		} else {
			grown += s.value
		}
	}
	elapsed := samples[len(samples)-1].at.Sub(samples[0].at).Seconds()
	return grown / elapsed, elapsed > 0
}

// addSample returns the samples of the last rateWindow with another one; at least two if
// there are two.
func addSample(samples []metricSample, s metricSample) []metricSample {
	for len(samples) > 1 && s.at.Sub(samples[1].at) >= rateWindow {
		samples = samples[1:]
	}
	return append(samples[:len(samples):len(samples)], s)
}
