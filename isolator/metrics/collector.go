package metrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/health"
	"mesos-gpu/isolator/watch"
)

// maxHeld bounds the pairs of a device and a task that are shown; those beyond
// are counted. Eight tasks on each of 64 devices fit.
const maxHeld = 512

var states = []gpu.Health{gpu.Healthy, gpu.Suspect, gpu.Failed, gpu.Recovering}

type collector struct {
	Config
	measures []measure
	measured []family // of each measure

	ecc, throttled, health, xids                                family
	info, cordoned, offered, sampleErrors, sampledAt, strangers family
	processMemory, omitted                                      *prometheus.Desc
	parts                                                       partDescs
}

func newCollector(c Config) *collector {
	c.Agent = label(c.Agent)
	a := c.Agent
	m := &collector{
		Config: c, measures: measures(),
		ecc:       newFamily(a, "ecc_errors_total", "Memory errors since the driver was loaded, corrected or uncorrected.", counter, "type"),
		throttled: newFamily(a, "throttled", "1 while the clocks are lower for the reason.", gauge, "reason"),
		health:    newFamily(a, "health", "1 for the state that the device is in, 0 for the others.", gauge, "state"),
		xids:      newFamily(a, "xid_errors_total", "XID errors since the daemon was started, ignored ones too.", counter, "xid"),

		info: deviceFamily(a, "info", "What the device is; always 1. The labels mig_parent and mig_profile are empty for whole GPUs.", gauge,
			"minor", "pci", "numa", "mig_parent", "mig_profile"),
		cordoned:     deviceFamily(a, "cordoned", "1 while an operator keeps the device out of the offers.", gauge),
		offered:      deviceFamily(a, "offered", "1 while tasks may get the device.", gauge),
		sampleErrors: deviceFamily(a, "sample_errors_total", "Samples that could not be taken since the daemon was started.", counter),
		sampledAt:    deviceFamily(a, "last_sample_timestamp_seconds", "When the device was last measured, in seconds since 1970.", gauge),
		strangers:    deviceFamily(a, "unattributed_memory_bytes", "Memory of processes on the device that are in no container known to hold it.", gauge),

		processMemory: prometheus.NewDesc(namespace+"_task_process_memory_bytes",
			"Memory on the device of the processes in the task's container.", taskLabels, prometheus.Labels{"agent": a}),
		parts: newPartDescs(a),
		omitted: prometheus.NewDesc(namespace+"_holders_omitted",
			"Pairs of a device and a task that are not shown since there are too many.", nil, prometheus.Labels{"agent": a}),
	}
	for _, f := range m.measures {
		m.measured = append(m.measured, newFamily(a, f.name, f.help, f.kind))
	}
	return m
}

func (m *collector) families() []family {
	return append([]family{
		m.ecc, m.throttled, m.health, m.xids, m.info, m.cordoned, m.offered, m.sampleErrors, m.sampledAt, m.strangers,
	}, m.measured...)
}

// Describe implements prometheus.Collector.
func (m *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range m.families() {
		ch <- f.device
		if f.task != nil {
			ch <- f.task
		}
	}
	ch <- m.processMemory
	ch <- m.omitted
	m.parts.describe(ch)
}

// Collect implements prometheus.Collector.
func (m *collector) Collect(ch chan<- prometheus.Metric) {
	held := holdersByDevice(m.Holders())
	now := time.Now()
	for _, d := range m.Devices() {
		s := scrape{ch: ch, gpu: label(d.Device.UUID), model: label(d.Device.Model), holders: held.of[d.Device.UUID]}
		m.state(s, d)
		m.partsOf(s)
		if !d.Sample.At.IsZero() && now.Sub(d.Sample.At) <= m.Stale {
			m.sample(s, d.Sample)
			m.processes(s, d)
		}
	}
	ch <- prometheus.MustNewConstMetric(m.omitted, gauge, float64(held.omitted))
}

func (m *collector) state(s scrape, d watch.State) {
	dev, numa := d.Device, ""
	if dev.NUMA >= 0 {
		numa = strconv.Itoa(dev.NUMA)
	}
	mig := gpu.MIG{}
	if dev.MIG != nil {
		mig = *dev.MIG
	}
	s.put(m.info, 1, strconv.Itoa(dev.Minor), label(dev.PCI), numa, label(mig.Parent), label(mig.Profile))
	s.put(m.cordoned, one(d.Condition.Cordoned))
	s.put(m.offered, one(d.Condition.Offered()))
	s.put(m.sampleErrors, float64(d.SampleErrors))
	if !d.Sample.At.IsZero() {
		s.put(m.sampledAt, float64(d.Sample.At.UnixMilli())/1e3)
	}
	for _, h := range states {
		s.put(m.health, one(d.Condition.Health == h), string(h))
	}
	for number, n := range d.XIDs {
		name := "other"
		if number != 0 {
			name = strconv.FormatUint(number, 10)
		}
		s.put(m.xids, float64(n), name)
	}
}

func (m *collector) sample(s scrape, sample gpu.Sample) {
	for i, f := range m.measures {
		if v, ok := sample.Values[f.field]; ok {
			s.put(m.measured[i], v)
		}
	}
	for _, e := range []struct {
		field gpu.Field
		name  string
	}{{gpu.ECCCorrected, "corrected"}, {gpu.ECCUncorrected, "uncorrected"}} {
		if v, ok := sample.Values[e.field]; ok {
			s.put(m.ecc, v, e.name)
		}
	}
	if bits, ok := sample.Values[gpu.ThrottleReasons]; ok {
		for _, t := range health.Throttles() {
			s.put(m.throttled, one(uint64(max(bits, 0))&t.Bit != 0), t.Name)
		}
	}
}

func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// scrape is one device's share of an answer.
type scrape struct {
	ch         chan<- prometheus.Metric
	gpu, model string
	holders    []holder
}

// put gives a value to the device and to each task that holds it.
func (s scrape) put(f family, value float64, more ...string) {
	s.ch <- prometheus.MustNewConstMetric(f.device, f.kind, value, append([]string{s.gpu, s.model}, more...)...)
	if f.task == nil {
		return
	}
	for _, h := range s.holders {
		s.ch <- prometheus.MustNewConstMetric(f.task, f.kind, value, append(h.labels(s), more...)...)
	}
}
