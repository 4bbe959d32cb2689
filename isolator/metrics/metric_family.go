package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"mesos-gpu/gpu"
)

const namespace = "mesos_gpu"

// maxLabelBytes bounds a label's value. Frameworks choose the names of tasks.
const maxLabelBytes = 256

var (
	deviceLabels = []string{"gpu", "model"}
	taskLabels   = []string{"gpu", "model", "framework", "job", "task", "container"}
)

// metricFamily is one metric of devices, and the same of the tasks that hold them.
type metricFamily struct {
	kind         prometheus.ValueType
	device, task *prometheus.Desc // task is nil for a metric of devices only
}

func newTaskFamily(agent, name, help string, kind prometheus.ValueType, more ...string) metricFamily {
	f := newDeviceFamily(agent, name, help, kind, more...)
	f.task = prometheus.NewDesc(namespace+"_task_"+name, help+" Of the device that the task holds.",
		append(append([]string{}, taskLabels...), more...), prometheus.Labels{"agent": agent})
	return f
}

func newDeviceFamily(agent, name, help string, kind prometheus.ValueType, more ...string) metricFamily {
	return metricFamily{kind: kind, device: prometheus.NewDesc(namespace+"_"+name, help,
		append(append([]string{}, deviceLabels...), more...), prometheus.Labels{"agent": agent})}
}

// sampleMetric is a field of a sample that is exported unchanged.
type sampleMetric struct {
	field      gpu.SampleField
	name, help string
	kind       prometheus.ValueType
}

const (
	gauge   = prometheus.GaugeValue
	counter = prometheus.CounterValue
)

// listSampleMetrics returns the metrics in the order of docs/reference/metrics.md.
func listSampleMetrics() []sampleMetric {
	return []sampleMetric{
		{gpu.MemUsedBytes, "memory_used_bytes", "Memory in use.", gauge},
		{gpu.MemTotalBytes, "memory_size_bytes", "Memory there is.", gauge},
		{gpu.DutyRatio, "duty_ratio", "Share of the time in which a kernel ran, 0 to 1.", gauge},
		{gpu.MemDutyRatio, "memory_duty_ratio", "Share of the time in which memory was read or written, 0 to 1.", gauge},
		{gpu.SMClockHertz, "sm_clock_hertz", "Clock of the streaming multiprocessors.", gauge},
		{gpu.MemClockHertz, "memory_clock_hertz", "Clock of the memory.", gauge},
		{gpu.Celsius, "temperature_celsius", "Temperature of the chip.", gauge},
		{gpu.PowerWatts, "power_watts", "Power drawn.", gauge},
		{gpu.PowerLimitWatts, "power_limit_watts", "Power that may be drawn.", gauge},
		{gpu.EnergyJoules, "energy_joules_total", "Energy used since the driver was loaded.", counter},
		{gpu.RowsPending, "memory_rows_pending", "1 while memory rows wait for a reset to be remapped.", gauge},
		{gpu.RowsFailed, "memory_rows_failed", "1 if a memory row could not be remapped.", gauge},
		{gpu.RecoveryAction, "recovery_action", "The driver's recovery action: 0 none, 1 GPU reset, 2 node reboot, 3 drain P2P, 4 drain and reset.", gauge},
		{gpu.FabricState, "fabric_state", "Registration with the NVLink fabric: 1 not started, 2 in progress, 3 completed.", gauge},
		{gpu.PCIeTxBytes, "pcie_transmit_bytes_per_second", "Throughput over PCIe from the device, measured by the device over a short while.", gauge},
		{gpu.PCIeRxBytes, "pcie_receive_bytes_per_second", "Throughput over PCIe to the device, measured by the device over a short while.", gauge},
		{gpu.NVLinkTxBytes, "nvlink_transmit_bytes_total", "Bytes sent over NVLink since the driver was loaded.", counter},
		{gpu.NVLinkRxBytes, "nvlink_receive_bytes_total", "Bytes received over NVLink since the driver was loaded.", counter},
	}
}

// sanitizeLabel returns s as a valid label value. A value that is not UTF-8 would fail the
// whole scrape.
func sanitizeLabel(s string) string {
	if len(s) > maxLabelBytes {
		s = s[:maxLabelBytes]
	}
	return strings.ToValidUTF8(s, "?")
}
