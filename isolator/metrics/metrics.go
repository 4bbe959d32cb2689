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

// Config says whom to ask.
type Config struct {
	// Agent is the value of the label agent, the host's name.
	Agent string
	// Version is this program's.
	Version string
	Host    gpu.Host
	// Devices and Holders answer at once; isolator/watch and isolator/holders
	// do.
	Devices func() []watch.State
	Holders func() []gpu.Holder
	// Parts, where set, tells of a container's parts of shared devices.
	Parts func(container string) ([]share.Usage, error)
	// Proc is where /proc is, for the cgroups of the processes on a device.
	Proc string
	// Stale is how old a sample may be to be shown, 30 s.
	Stale time.Duration
}

// New makes the handler of /metrics, with a registry of its own.
func New(c Config) (http.Handler, error) {
	registry, err := register(c)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(
		registry.Register(collectors.NewGoCollector()),
		registry.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})),
	); err != nil {
		return nil, err
	}
	return buffered(promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes, ErrorHandling: promhttp.ContinueOnError})), nil
}

// register has our own metrics alone.
func register(c Config) (*prometheus.Registry, error) {
	switch {
	case c.Devices == nil || c.Holders == nil:
		return nil, errors.New("metrics: nobody given to ask for devices and holders")
	case c.Agent == "":
		return nil, errors.New("metrics: no name given for the label agent")
	}
	if c.Proc == "" {
		c.Proc = "/proc"
	}
	if c.Parts == nil {
		c.Parts = share.None{}.Usage
	}
	if c.Stale == 0 {
		c.Stale = 30 * time.Second
	}
	registry := prometheus.NewRegistry()
	return registry, errors.Join(
		registry.Register(newCollector(c)),
		registry.Register(constant("build_info", "The version of mesos-gpu, and of Go that built it; always 1.", prometheus.Labels{
			"agent": c.Agent, "version": c.Version, "goversion": runtime.Version(),
		})),
		registry.Register(constant("driver_info", "The driver's version, the highest CUDA version it serves, and whether the GPUs are simulated; always 1.", prometheus.Labels{
			"agent": c.Agent, "driver": c.Host.Driver, "cuda": c.Host.CUDA, "simulated": strconv.FormatBool(c.Host.Simulated),
		})),
	)
}

func constant(name, help string, labels prometheus.Labels) prometheus.Collector {
	for key, value := range labels {
		labels[key] = label(value)
	}
	g := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help, ConstLabels: labels})
	g.Set(1)
	return g
}
