package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/watch"
)

// maxProcesses bounds how many processes of a device are looked up.
const maxProcesses = 256

// holder is who holds one device, as labels.
type holder struct{ framework, job, task, container string }

func (h holder) labels(s scrape) []string {
	return []string{s.gpu, s.model, h.framework, h.job, h.task, h.container}
}

type held struct {
	of      map[string][]holder // by device
	omitted int
}

// holdersByDevice drops what would be one series twice.
func holdersByDevice(list []gpu.Holder) held {
	all := held{of: map[string][]holder{}}
	type pair struct {
		device string
		holder
	}
	seen := map[pair]bool{}
	for _, h := range list {
		one := holder{framework: label(h.Framework), job: label(h.Job), task: label(h.Task), container: label(h.Container)}
		for _, id := range h.Devices {
			switch key := (pair{id, one}); {
			case seen[key]:
			case len(seen) >= maxHeld:
				all.omitted++
			default:
				seen[key] = true
				all.of[id] = append(all.of[id], one)
			}
		}
	}
	return all
}

// processes adds up memory by container, where the sample tells of processes.
func (m *collector) processes(s scrape, d watch.State) {
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
	strangers := 0.0
	for n, p := range d.Sample.Processes {
		i, ok := -1, false
		if n < maxProcesses && len(known) > 0 {
			i, ok = known[containerOf(m.Proc, p.PID, func(id string) bool { _, ok := known[id]; return ok })]
		}
		if ok {
			used[i] += float64(p.MemBytes)
		} else {
			strangers += float64(p.MemBytes)
		}
	}
	for _, i := range known {
		s.ch <- prometheus.MustNewConstMetric(m.processMemory, gauge, used[i], s.holders[i].labels(s)...)
	}
	s.put(m.strangers, strangers)
}

// deepest finds the container that a cgroup's path leads to, the innermost of
// those known: Mesos puts a container's id, and below it those of nested ones,
// into the path. A nested one that is not known counts as its parent.
func deepest(path string, known func(string) bool) string {
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
