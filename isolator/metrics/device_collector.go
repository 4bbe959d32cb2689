package metrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/health"
	"mesos-gpu/isolator/watch"
)

// maxHolderPairs bounds the exported pairs of a device and a task. The number of others is
// exported. Eight tasks on each of 64 devices fit.
const maxHolderPairs = 512

var healthStates = []gpu.Health{gpu.Healthy, gpu.Suspect, gpu.Failed, gpu.Recovering}

// deviceCollector implements prometheus.Collector. It has no state: each scrape reads the
// devices and their holders.
type deviceCollector struct {
	ExporterConfig
	// sampleMetrics are the fields of a sample that are exported unchanged, and
	// sampleFamilies the metric of each, in the same order.
	sampleMetrics  []sampleMetric
	sampleFamilies []metricFamily

	ecc, throttled, health, xids                                   metricFamily
	info, cordoned, offered, sampleErrors, sampledAt, unattributed metricFamily
	processMemory, omitted, undescribed                            *prometheus.Desc
	shares                                                         shareDescs
}

func newCollector(c ExporterConfig) *deviceCollector {
	c.Agent = sanitizeLabel(c.Agent)
	a := c.Agent
	m := &deviceCollector{
		ExporterConfig: c, sampleMetrics: listSampleMetrics(),
		ecc:       newTaskFamily(a, "ecc_errors_total", "Memory errors since the driver was loaded, corrected or uncorrected.", counter, "type"),
		throttled: newTaskFamily(a, "throttled", "1 while the clocks are lower for the reason.", gauge, "reason"),
		health:    newTaskFamily(a, "health", "1 for the state that the device is in, 0 for the others.", gauge, "state"),
		xids:      newTaskFamily(a, "xid_errors_total", "XID errors since the daemon was started, ignored ones too.", counter, "xid"),

		info: newDeviceFamily(a, "info", "What the device is; always 1. The labels mig_parent and mig_profile are empty for whole GPUs.", gauge,
			"minor", "pci", "numa", "mig_parent", "mig_profile"),
		cordoned:     newDeviceFamily(a, "cordoned", "1 while an operator keeps the device out of the offers.", gauge),
		offered:      newDeviceFamily(a, "offered", "1 while tasks may get the device.", gauge),
		sampleErrors: newDeviceFamily(a, "sample_errors_total", "Samples that could not be taken since the daemon was started.", counter),
		sampledAt:    newDeviceFamily(a, "last_sample_timestamp_seconds", "When the device was last measured, in seconds since 1970.", gauge),
		unattributed: newDeviceFamily(a, "unattributed_memory_bytes", "Memory of processes on the device that are in no container known to hold it.", gauge),

		processMemory: prometheus.NewDesc(namespace+"_task_process_memory_bytes",
			"Memory on the device of the processes in the task's container.", taskLabels, prometheus.Labels{"agent": a}),
		shares: newShareDescs(a),
		undescribed: prometheus.NewDesc(namespace+"_undescribed_devices",
			"Devices that the driver counts and has never described, so that they have no UUID and no other metrics.", nil, prometheus.Labels{"agent": a}),
		omitted: prometheus.NewDesc(namespace+"_holders_omitted",
			"Pairs of a device and a task that are not shown since there are too many.", nil, prometheus.Labels{"agent": a}),
	}
	for _, f := range m.sampleMetrics {
		m.sampleFamilies = append(m.sampleFamilies, newTaskFamily(a, f.name, f.help, f.kind))
	}
	return m
}

func (c *deviceCollector) listFamilies() []metricFamily {
	return append([]metricFamily{
		c.ecc, c.throttled, c.health, c.xids, c.info, c.cordoned, c.offered, c.sampleErrors, c.sampledAt, c.unattributed,
	}, c.sampleFamilies...)
}

// Describe implements prometheus.Collector.
func (c *deviceCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range c.listFamilies() {
		ch <- f.device
		if f.task != nil {
			ch <- f.task
		}
	}
	ch <- c.processMemory
	ch <- c.omitted
	ch <- c.undescribed
	c.shares.describe(ch)
}

// Collect implements prometheus.Collector.
func (c *deviceCollector) Collect(ch chan<- prometheus.Metric) {
	held := indexHolders(c.Holders())
	now := time.Now()
	for _, d := range c.Devices() {
		s := deviceScrape{ch: ch, gpu: sanitizeLabel(d.Device.UUID), model: sanitizeLabel(d.Device.Model), holders: held.byDevice[d.Device.UUID]}
		c.collectState(s, d)
		c.collectShares(s)
		if !d.Sample.At.IsZero() && now.Sub(d.Sample.At) <= c.maxSampleAge {
			c.collectSample(s, d.Sample)
			c.collectProcesses(s, d)
		}
	}
	ch <- prometheus.MustNewConstMetric(c.omitted, gauge, float64(held.omitted))
	undescribed := 0
	for _, l := range c.Host.Lost {
		if !l.IsKnown() {
			undescribed++
		}
	}
	ch <- prometheus.MustNewConstMetric(c.undescribed, gauge, float64(undescribed))
}

func (c *deviceCollector) collectState(s deviceScrape, d watch.DeviceState) {
	dev, numa := d.Device, ""
	if dev.NUMA >= 0 {
		numa = strconv.Itoa(dev.NUMA)
	}
	mig := gpu.MIG{}
	if dev.MIG != nil {
		mig = *dev.MIG
	}
	s.emitValue(c.info, 1, strconv.Itoa(dev.Minor), sanitizeLabel(dev.PCI), numa, sanitizeLabel(mig.Parent), sanitizeLabel(mig.Profile))
	s.emitValue(c.cordoned, boolValue(d.Condition.Cordoned))
	s.emitValue(c.offered, boolValue(d.Condition.IsOffered()))
	s.emitValue(c.sampleErrors, float64(d.SampleErrors))
	if !d.Sample.At.IsZero() {
		s.emitValue(c.sampledAt, float64(d.Sample.At.UnixMilli())/1e3)
	}
	for _, h := range healthStates {
		s.emitValue(c.health, boolValue(d.Condition.OfferedHealth() == h), string(h))
	}
	for number, n := range d.XIDs {
		name := "other"
		if number != 0 {
			name = strconv.FormatUint(number, 10)
		}
		s.emitValue(c.xids, float64(n), name)
	}
}

func (c *deviceCollector) collectSample(s deviceScrape, sample gpu.Sample) {
	for i, f := range c.sampleMetrics {
		if v, ok := sample.Values[f.field]; ok {
			s.emitValue(c.sampleFamilies[i], v)
		}
	}
	for _, e := range []struct {
		field gpu.SampleField
		name  string
	}{{gpu.ECCCorrected, "corrected"}, {gpu.ECCUncorrected, "uncorrected"}} {
		if v, ok := sample.Values[e.field]; ok {
			s.emitValue(c.ecc, v, e.name)
		}
	}
	if bits, ok := sample.Values[gpu.ThrottleReasons]; ok {
		for _, t := range health.ThrottleReasons() {
			s.emitValue(c.throttled, boolValue(uint64(max(bits, 0))&t.Bit != 0), t.Name)
		}
	}
}

func boolValue(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// deviceScrape is one device's part of a scrape.
type deviceScrape struct {
	ch chan<- prometheus.Metric
	// gpu and model are label values of all metrics of the device.
	gpu, model string
	// holders are the tasks that hold the device. Each gets its own series.
	holders []taskHolder
}

// emitValue exports a value for the device and for each task that holds it.
func (s deviceScrape) emitValue(f metricFamily, value float64, more ...string) {
	s.ch <- prometheus.MustNewConstMetric(f.device, f.kind, value, append([]string{s.gpu, s.model}, more...)...)
	if f.task == nil {
		return
	}
	for _, h := range s.holders {
		s.ch <- prometheus.MustNewConstMetric(f.task, f.kind, value, append(h.labelValues(s), more...)...)
	}
}
