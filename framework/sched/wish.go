package sched

import (
	"cmp"
	"slices"

	"mesos-gpu/gpu"
)

// wish is a job's GPU request with what it costs to answer remembered: a
// cluster has few models and many devices.
type wish struct {
	n     int
	types gpu.Types
	known map[string]bool
}

func newWish(r gpu.Request) *wish {
	return &wish{n: r.GPUs, types: r.Types, known: map[string]bool{}}
}

func (w *wish) match(model string) bool {
	ok, seen := w.known[model]
	if !seen {
		// A device of no known model will do for who takes any.
		ok = w.types.Any() || model != "" && w.types.Match(model)
		w.known[model] = ok
	}
	return ok
}

// free counts the agent's free GPUs that will do.
func (w *wish) free(a *agent) int {
	if a.named {
		n := 0
		for i := range a.devices {
			if w.match(a.devices[i].Model) {
				n++
			}
		}
		return min(n, a.gpus)
	}
	if a.gpus > 0 && w.all(a) {
		return a.gpus
	}
	return 0
}

// all reports whether every GPU of an agent that hands them out by count will
// do. Where one would not, nobody can say which the task would get.
func (w *wish) all(a *agent) bool {
	models := a.models()
	if len(models) == 0 {
		return w.types.Any()
	}
	return !slices.ContainsFunc(models, func(m string) bool { return !w.match(m) })
}

// kind reports whether the agent has GPUs that would do if they were free.
func (w *wish) kind(a *agent) bool {
	if !a.hasGPUs() {
		return false
	}
	if w.types.Any() {
		return true
	}
	return slices.ContainsFunc(a.models(), w.match) ||
		slices.ContainsFunc(a.devices, func(d gpu.Device) bool { return w.match(d.Model) })
}

// total counts the GPUs that would do if all were free; 0 where the agent
// does not tell.
func (w *wish) total(a *agent) int {
	if len(a.inventory) == 0 {
		if w.all(a) {
			return max(a.total, a.freeGPUs())
		}
		return 0
	}
	n := 0
	for _, d := range a.inventory {
		if w.match(d.Model) {
			n++
		}
	}
	return n
}

// pick chooses the devices of one task among those free: of one model if
// enough of it are free (the model with fewest), else in order of their
// minors. It returns nil where the agent has no names for its GPUs.
func (w *wish) pick(a *agent) []string {
	if !a.named || w.n == 0 {
		return nil
	}
	byModel := map[string][]string{}
	var mixed []string
	for _, d := range a.devices {
		if w.match(d.Model) {
			byModel[d.Model] = append(byModel[d.Model], d.UUID)
			mixed = append(mixed, d.UUID)
		}
	}
	var enough []string
	for model, ids := range byModel {
		if len(ids) >= w.n {
			enough = append(enough, model)
		}
	}
	if len(enough) == 0 {
		return mixed[:w.n:w.n]
	}
	best := slices.MinFunc(enough, func(x, y string) int {
		return cmp.Or(cmp.Compare(len(byModel[x]), len(byModel[y])), cmp.Compare(x, y))
	})
	return byModel[best][:w.n:w.n]
}
