package metrics

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"mesos-gpu/isolator/share"
)

// shareDescs are the metrics of a container's share of a device.
type shareDescs struct{ used, limit, cores, throttled *prometheus.Desc }

func newShareDescs(agent string) shareDescs {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(namespace+"_share_"+name, help, taskLabels, prometheus.Labels{"agent": agent})
	}
	return shareDescs{
		used:      desc("memory_used_bytes", "Memory that the container uses of its part of a shared device."),
		limit:     desc("memory_limit_bytes", "Memory of the container's part of a shared device."),
		cores:     desc("cores", "Compute of the container's part of a shared device, in percent; 0 where it takes what others leave."),
		throttled: desc("throttled_seconds_total", "Time for which the container was kept waiting so that it stays within its part."),
	}
}

func (s shareDescs) describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{s.used, s.limit, s.cores, s.throttled} {
		ch <- d
	}
}

// collectShares exports the shares of a device, each for the first holder in its container.
// Shares that cannot be read are left out.
func (c *deviceCollector) collectShares(s deviceScrape) {
	var seen []string
	for _, h := range s.holders {
		if slices.Contains(seen, h.container) {
			continue
		}
		seen = append(seen, h.container)
		usages, err := c.ShareUsage(h.container)
		if err != nil {
			continue
		}
		i := slices.IndexFunc(usages, func(u share.ShareUsage) bool { return u.UUID == s.gpu })
		if i >= 0 {
			c.emitShare(s, h, usages[i])
		}
	}
}

func (c *deviceCollector) emitShare(s deviceScrape, h taskHolder, u share.ShareUsage) {
	put := func(d *prometheus.Desc, kind prometheus.ValueType, value float64) {
		s.ch <- prometheus.MustNewConstMetric(d, kind, value, h.labelValues(s)...)
	}
	put(c.shares.limit, gauge, float64(u.MemLimitBytes))
	put(c.shares.cores, gauge, float64(u.Cores))
	if u.Measured {
		put(c.shares.used, gauge, float64(u.MemUsedBytes))
		put(c.shares.throttled, counter, u.Throttled.Seconds())
	}
}
