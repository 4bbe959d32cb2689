package metrics

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"mesos-gpu/isolator/share"
)

// partDescs are the metrics of a container's part of a shared device.
type partDescs struct{ used, limit, cores, throttled *prometheus.Desc }

func newPartDescs(agent string) partDescs {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(namespace+"_share_"+name, help, taskLabels, prometheus.Labels{"agent": agent})
	}
	return partDescs{
		used:      desc("memory_used_bytes", "Memory that the container uses of its part of a shared device."),
		limit:     desc("memory_limit_bytes", "Memory of the container's part of a shared device."),
		cores:     desc("cores", "Compute of the container's part of a shared device, in percent; 0 where it takes what others leave."),
		throttled: desc("throttled_seconds_total", "Time for which the container was kept waiting so that it stays within its part."),
	}
}

func (p partDescs) describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{p.used, p.limit, p.cores, p.throttled} {
		ch <- d
	}
}

// partsOf shows the parts of a device, each of the first holder in its
// container. What cannot be read is missing.
func (m *collector) partsOf(s scrape) {
	var seen []string
	for _, h := range s.holders {
		if slices.Contains(seen, h.container) {
			continue
		}
		seen = append(seen, h.container)
		parts, err := m.Parts(h.container)
		if err != nil {
			continue
		}
		i := slices.IndexFunc(parts, func(u share.Usage) bool { return u.UUID == s.gpu })
		if i >= 0 {
			m.part(s, h, parts[i])
		}
	}
}

func (m *collector) part(s scrape, h holder, u share.Usage) {
	put := func(d *prometheus.Desc, kind prometheus.ValueType, value float64) {
		s.ch <- prometheus.MustNewConstMetric(d, kind, value, h.labels(s)...)
	}
	put(m.parts.limit, gauge, float64(u.MemLimitBytes))
	put(m.parts.cores, gauge, float64(u.Cores))
	if u.Measured {
		put(m.parts.used, gauge, float64(u.MemUsedBytes))
		put(m.parts.throttled, counter, u.Throttled.Seconds())
	}
}
