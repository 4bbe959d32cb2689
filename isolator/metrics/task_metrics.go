package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/watch"
)

// maxProcesses bounds how many processes of a device are looked up.
const maxProcesses = 256

// taskHolder is the holder of one device, as label values.
type taskHolder struct{ framework, job, task, container string }

func (h taskHolder) labelValues(s deviceScrape) []string {
	return []string{s.gpu, s.model, h.framework, h.job, h.task, h.container}
}

// holderIndex has the holders of each device in one scrape.
type holderIndex struct {
	byDevice map[string][]taskHolder
	// omitted counts pairs of a device and a holder beyond maxHolderPairs, which
	// have no series.
	omitted int
}

// indexHolders returns the holders by device. It drops duplicates, which would be one series
// twice.
func indexHolders(list []gpu.ContainerDevices) holderIndex {
	all := holderIndex{byDevice: map[string][]taskHolder{}}
	type pair struct {
		device string
		taskHolder
	}
	seen := map[pair]bool{}
	for _, h := range list {
		one := taskHolder{framework: sanitizeLabel(h.Framework), job: sanitizeLabel(h.Job), task: sanitizeLabel(h.Task), container: sanitizeLabel(h.Container)}
		for _, id := range h.Devices {
			switch key := (pair{id, one}); {
			case seen[key]:
			case len(seen) >= maxHolderPairs:
				all.omitted++
			default:
				seen[key] = true
				all.byDevice[id] = append(all.byDevice[id], one)
			}
		}
	}
	return all
}

// collectProcesses adds up memory by container, if the sample lists processes.
func (c *deviceCollector) collectProcesses(s deviceScrape, d watch.DeviceState) {
	if d.Sample.Processes == nil {
		return
	}
	known := make(map[string]int, len(s.holders)) // container → the holder that gets its memory
	for i, h := range s.holders {
		if _, ok := known[h.container]; !ok {
			known[h.container] = i
		}
	}
	used := make([]float64, len(s.holders))
	unattributed := 0.0
	for n, p := range d.Sample.Processes {
		i, ok := -1, false
		if n < maxProcesses && len(known) > 0 {
			i, ok = known[containerOfProcess(c.procRoot, p.PID, func(id string) bool { _, ok := known[id]; return ok })]
		}
		if ok {
			used[i] += float64(p.MemBytes)
		} else {
			unattributed += float64(p.MemBytes)
		}
	}
	for _, i := range known {
		s.ch <- prometheus.MustNewConstMetric(c.processMemory, gauge, used[i], s.holders[i].labelValues(s)...)
	}
	s.emitValue(c.unattributed, unattributed)
}

// innermostContainer returns the innermost known container in the path of a cgroup. Mesos uses
// a container's id, and below it those of nested containers, as parts of the path. An unknown
// nested container counts as its parent.
func innermostContainer(path string, known func(string) bool) string {
	found, at := "", ""
	for part := range strings.SplitSeq(path, "/") {
		nested := at + "." + part
		switch {
		case at != "" && known(nested):
			found, at = nested, nested
		case known(part):
			found, at = part, part
		}
	}
	return found
}
