// Package metrics exports one host's GPUs to Prometheus: the measurements and the condition of
// each device, and the same for each task that holds it. It reads the current state of other
// packages at each scrape, stores nothing, and never waits for a driver.
package metrics

import (
	"errors"
	"net/http"
	"runtime"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/share"
	"mesos-gpu/isolator/watch"
)

// maxScrapes is how many scrapes are collected concurrently.
const maxScrapes = 4

// ExporterConfig configures the exporter.
type ExporterConfig struct {
	// Agent is the value of the label agent: the host's name.
	Agent string
	// Version is the version of this program.
	Version string
	Host    gpu.Host
	// Devices and Holders must return at once. Those of isolator/watch and isolator/mesosagent
	// do.
	Devices func() []watch.DeviceState
	Holders func() []gpu.ContainerDevices
	// ShareUsage, if set, returns the use of a container's shares of devices.
	ShareUsage func(container string) ([]share.ShareUsage, error)
	// procRoot is the path of procfs, for the cgroups of the processes on a device; empty means
	// /proc.
	procRoot string
	// maxSampleAge is how old an exported sample may be, by default 30 s.
	maxSampleAge time.Duration
}

// NewHandler returns the handler of /metrics. It has its own registry.
func NewHandler(c ExporterConfig) (http.Handler, error) {
	registry, err := newRegistry(c)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(
		registry.Register(collectors.NewGoCollector()),
		registry.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})),
	); err != nil {
		return nil, err
	}
	return bufferResponses(promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes, ErrorHandling: promhttp.ContinueOnError})), nil
}

// newRegistry returns a registry with this project's metrics only.
func newRegistry(c ExporterConfig) (*prometheus.Registry, error) {
	switch {
	case c.Devices == nil || c.Holders == nil:
		return nil, errors.New("metrics: Devices or Holders is missing")
	case c.Agent == "":
		return nil, errors.New("metrics: no name for the label agent")
	}
	if c.procRoot == "" {
		c.procRoot = "/proc"
	}
	if c.ShareUsage == nil {
		c.ShareUsage = share.NoLimiter{}.ReadUsage
	}
	if c.maxSampleAge == 0 {
		c.maxSampleAge = 30 * time.Second
	}
	registry := prometheus.NewRegistry()
	return registry, errors.Join(
		registry.Register(newCollector(c)),
		registry.Register(newInfoMetric("build_info", "The version of mesos-gpu, and of Go that built it; always 1.", prometheus.Labels{
			"agent": c.Agent, "version": c.Version, "goversion": runtime.Version(),
		})),
		registry.Register(newInfoMetric("driver_info",
			"The driver's version, the highest CUDA version it serves, and whether the GPUs are simulated; always 1.", prometheus.Labels{
				"agent": c.Agent, "driver": c.Host.Driver, "cuda": c.Host.CUDA, "simulated": strconv.FormatBool(c.Host.Simulated),
			})),
	)
}

func newInfoMetric(name, help string, labels prometheus.Labels) prometheus.Collector {
	for key, value := range labels {
		labels[key] = sanitizeLabel(value)
	}
	g := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help, ConstLabels: labels})
	g.Set(1)
	return g
}
