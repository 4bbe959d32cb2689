// Package metrics shows one machine's GPUs to Prometheus: what was measured of
// each device, how it is, and the same for each task that holds it. It reads
// what others know at the moment of the scrape and keeps nothing; it never
// waits for a driver.
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

// maxScrapes is how many scrapes are gathered at a time.
const maxScrapes = 4

// ExporterConfig says whom to ask.
type ExporterConfig struct {
	// Agent is the value of the label agent, the host's name.
	Agent string
	// Version is this program's.
	Version string
	Host    gpu.Host
	// Devices and Holders answer at once; isolator/watch and isolator/mesosagent
	// do.
	Devices func() []watch.DeviceState
	Holders func() []gpu.ContainerDevices
	// ShareUsage, where set, tells of a container's parts of shared devices.
	ShareUsage func(container string) ([]share.ShareUsage, error)
	// ProcRoot is where /proc is, for the cgroups of the processes on a device.
	ProcRoot string
	// MaxSampleAge is how old a sample may be to be shown, 30 s.
	MaxSampleAge time.Duration
}

// NewHandler makes the handler of /metrics, with a registry of its own.
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

// newRegistry has our own metrics alone.
func newRegistry(c ExporterConfig) (*prometheus.Registry, error) {
	switch {
	case c.Devices == nil || c.Holders == nil:
		return nil, errors.New("metrics: nobody given to ask for devices and holders")
	case c.Agent == "":
		return nil, errors.New("metrics: no name given for the label agent")
	}
	if c.ProcRoot == "" {
		c.ProcRoot = "/proc"
	}
	if c.ShareUsage == nil {
		c.ShareUsage = share.NoLimiter{}.ReadUsage
	}
	if c.MaxSampleAge == 0 {
		c.MaxSampleAge = 30 * time.Second
	}
	registry := prometheus.NewRegistry()
	return registry, errors.Join(
		registry.Register(newCollector(c)),
		registry.Register(newInfoMetric("build_info", "The version of mesos-gpu, and of Go that built it; always 1.", prometheus.Labels{
			"agent": c.Agent, "version": c.Version, "goversion": runtime.Version(),
		})),
		registry.Register(newInfoMetric("driver_info", "The driver's version, the highest CUDA version it serves, and whether the GPUs are simulated; always 1.", prometheus.Labels{
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
