package metrics

import (
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"mesos-gpu/framework/sched"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// GPUTimeTracker accumulates how long tasks hold GPUs, by role and type, from launch to
// end. The totals are recorded in the journal periodically, and schedulers export the
// recorded totals. They never decrease and count nothing twice across failovers, because
// the next leader continues from the last record. It is not safe for concurrent use.
type GPUTimeTracker struct {
	// types bounds the number of different GPU types.
	types *labelValues
	// countedUntil is the end of the time that gpuSeconds covers. It never goes back.
	countedUntil time.Time
	// current counts the GPUs that tasks hold now, in thousandths. tasks has the parts of each task, by id. Both change with
	// launches and ends, after the time until then was added.
	current map[roleAndType]int
	tasks   map[string][]taskHolding
	// gpuSeconds are the totals in GPU seconds.
	gpuSeconds map[roleAndType]float64
	// changed is set if gpuSeconds has changed since the last record.
	changed bool
}

// roleAndType is the key of the totals.
type roleAndType struct{ role, kind string }

// taskHolding is the GPUs of one type that a task holds, in thousandths.
type taskHolding struct {
	roleAndType
	milli int
}

// gpuTimeRecord is the document in the journal: the totals until a time.
type gpuTimeRecord struct {
	At         time.Time    `json:"at"`
	GPUSeconds []GPUSeconds `json:"gpu_seconds"`
}

// GPUSeconds is how long a role's tasks have held GPUs of a type, in GPU seconds.
type GPUSeconds struct {
	// Type is "" where the agent does not report it.
	Role    string  `json:"role"`
	Type    string  `json:"type"`
	Seconds float64 `json:"seconds"`
}

// ReadGPUSeconds returns the totals in the last record, or none if document is empty.
func ReadGPUSeconds(document []byte) ([]GPUSeconds, error) {
	r, err := readRecord(document)
	return r.GPUSeconds, err
}

// readRecord decodes the document; an empty one is a zero record.
func readRecord(document []byte) (r gpuTimeRecord, err error) {
	if len(document) == 0 {
		return r, nil
	}
	if err := json.Unmarshal(document, &r); err != nil {
		return gpuTimeRecord{}, fmt.Errorf("decode the GPU time in document %s: %w", sched.CountersKey, err)
	}
	return r, nil
}

// RestoreGPUTime returns a tracker that continues at now from a journal. attempts are the
// earlier attempts of its tasks. Those that ended since the last record count until their
// end. If the record cannot be decoded, it starts at zero and also returns the error.
func (c *SchedulerCounters) RestoreGPUTime(past sched.RecoveredState, attempts iter.Seq[job.Task], now time.Time) (*GPUTimeTracker, error) {
	g := &GPUTimeTracker{
		types:        c.types,
		countedUntil: now,
		current:      map[roleAndType]int{},
		tasks:        map[string][]taskHolding{},
		gpuSeconds:   map[roleAndType]float64{},
	}
	r, err := readRecord(past.Documents[sched.CountersKey])
	for _, s := range r.GPUSeconds {
		g.gpuSeconds[roleAndType{s.Role, s.Type}] += s.Seconds
	}
	since := r.At
	if since.IsZero() {
		since = now
	}
	if since.After(now) {
		g.countedUntil = since // the clock of the last leader was ahead
	}
	specs := make(map[job.RunID]*job.Spec, len(past.Jobs))
	for _, j := range past.Jobs {
		specs[j.RunID()] = j.Spec
		for i := range j.Tasks {
			g.restoreTask(j.Spec, &j.Tasks[i], since)
		}
	}
	for t := range attempts {
		if spec := specs[t.RunID()]; spec != nil {
			g.restoreTask(spec, &t, since)
		}
	}
	return g, err
}

// restoreTask adds the time of a task or attempt from the journal that the last record, made at since, does not contain.
func (g *GPUTimeTracker) restoreTask(spec *job.Spec, t *job.Task, since time.Time) {
	from, to := t.Started, t.Ended
	switch {
	case t.State.IsPlaced():
		to = g.countedUntil
		if from.IsZero() {
			from = t.Changed
		}
		g.taskLaunched(t.ID, spec.Role, t.GPUTypes, t.Shares)
	case from.IsZero() || t.State == job.Waiting:
		return
	}
	if from.Before(since) {
		from = since
	}
	if span := to.Sub(from); span > 0 {
		for _, h := range g.holdingsOf(spec.Role, t.GPUTypes, t.Shares) {
			g.addSpan(h.roleAndType, h.milli, span)
		}
	}
}

// holdingsOf returns what a task holds of each type: whole GPUs and shares.
func (g *GPUTimeTracker) holdingsOf(role string, types map[string]int, parts []gpu.DeviceShare) (list []taskHolding) {
	for kind, n := range types {
		list = append(list, taskHolding{roleAndType{sanitizeLabel(role), g.types.deviceLabel(kind)}, n * milliPerGPU})
	}
	for i := range parts {
		list = append(list, taskHolding{roleAndType{sanitizeLabel(role), g.types.deviceLabel(parts[i].Type)}, parts[i].MilliDevices})
	}
	return list
}

// addSpan adds the time for which something was held.
func (g *GPUTimeTracker) addSpan(h roleAndType, milli int, span time.Duration) {
	g.gpuSeconds[h] += float64(milli) / milliPerGPU * span.Seconds()
	g.changed = true
}

// ApplyActions updates the held GPUs by the launches and the ended tasks.
func (g *GPUTimeTracker) ApplyActions(now time.Time, ops []sched.Operation, moves []sched.StateTransition) {
	for _, op := range ops {
		if a, ok := op.(sched.AcceptOffers); ok {
			g.advanceTo(now)
			for i := range a.Launches {
				l := &a.Launches[i]
				g.taskLaunched(l.TaskID, l.Spec.Role, l.GPUTypes, l.Shares)
			}
		}
	}
	for i := range moves {
		if m := &moves[i]; !m.State.IsLive() {
			g.advanceTo(now)
			g.taskEnded(m.TaskID)
		}
	}
}

// taskLaunched and taskEnded change what is held now. A task without GPUs has no entry.
func (g *GPUTimeTracker) taskLaunched(id, role string, types map[string]int, parts []gpu.DeviceShare) {
	list := g.holdingsOf(role, types, parts)
	if len(list) == 0 {
		return
	}
	g.tasks[id] = list
	for _, h := range list {
		g.current[h.roleAndType] += h.milli
	}
}

func (g *GPUTimeTracker) taskEnded(id string) {
	for _, h := range g.tasks[id] {
		if g.current[h.roleAndType] -= h.milli; g.current[h.roleAndType] == 0 {
			delete(g.current, h.roleAndType)
		}
	}
	delete(g.tasks, id)
}

// advanceTo adds the time until now. If the clock goes back, it adds nothing until the
// clock reaches its previous value.
func (g *GPUTimeTracker) advanceTo(now time.Time) {
	span := now.Sub(g.countedUntil)
	if span <= 0 {
		return
	}
	for h, milli := range g.current {
		g.addSpan(h, milli, span)
	}
	g.countedUntil = now
}

// EncodeRecord returns the document to write at now, or nil if nothing has changed.
func (g *GPUTimeTracker) EncodeRecord(now time.Time) []byte {
	g.advanceTo(now)
	if !g.changed {
		return nil
	}
	g.changed = false
	r := gpuTimeRecord{At: g.countedUntil}
	for _, h := range slices.SortedFunc(maps.Keys(g.gpuSeconds), func(a, b roleAndType) int {
		return cmp.Or(cmp.Compare(a.role, b.role), cmp.Compare(a.kind, b.kind))
	}) {
		r.GPUSeconds = append(r.GPUSeconds, GPUSeconds{h.role, h.kind, g.gpuSeconds[h]})
	}
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // strings, numbers and a time can always be encoded
	}
	return text
}
