package metrics

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"mesos-gpu/framework/sched"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// GPUTimeTracker adds up for how long tasks hold GPUs, by role and type, from their
// launch to their end. What it has is recorded in the journal now and then, and
// that is what all schedulers show: it neither falls nor is counted twice when
// another one leads, which goes on from the last record. GPUTimeTracker belongs to one
// goroutine.
type GPUTimeTracker struct {
	types        *labelValues
	countedUntil time.Time // up to when it has counted
	current      map[roleAndType]int
	tasks        map[string][]taskHolding
	gpuSeconds   map[roleAndType]float64 // GPU seconds
	changed      bool                    // since the last record
}

// roleAndType is who holds GPUs of which type.
type roleAndType struct{ role, kind string }

// taskHolding is what a task holds, in thousandths of GPUs.
type taskHolding struct {
	roleAndType
	milli int
}

// gpuTimeRecord is the document that GPUTimeTracker writes.
type gpuTimeRecord struct {
	At         time.Time    `json:"at"`
	GPUSeconds []GPUSeconds `json:"gpu_seconds"`
}

// GPUSeconds is for how long a role's tasks have held GPUs of a type.
type GPUSeconds struct {
	Role    string  `json:"role"`
	Type    string  `json:"type"`
	Seconds float64 `json:"seconds"`
}

// ReadGPUSeconds are those of the document that GPUTimeTracker wrote last, none where
// there is none.
func ReadGPUSeconds(document []byte) ([]GPUSeconds, error) {
	r, err := readRecord(document)
	return r.GPUSeconds, err
}

func readRecord(document []byte) (r gpuTimeRecord, err error) {
	if len(document) == 0 {
		return r, nil
	}
	if err := json.Unmarshal(document, &r); err != nil {
		return gpuTimeRecord{}, fmt.Errorf("read what was counted, document %s: %w", sched.CountersKey, err)
	}
	return r, nil
}

// RestoreGPUTime goes on at now from what a journal remembers. Attempts that ended
// since the last record count up to their end. It starts from zero, and returns why,
// where the record cannot be read.
func (c *SchedulerCounters) RestoreGPUTime(past sched.RecoveredState, now time.Time) (*GPUTimeTracker, error) {
	g := &GPUTimeTracker{types: c.types, countedUntil: now, current: map[roleAndType]int{}, tasks: map[string][]taskHolding{}, gpuSeconds: map[roleAndType]float64{}}
	r, err := readRecord(past.Documents[sched.CountersKey])
	for _, s := range r.GPUSeconds {
		g.gpuSeconds[roleAndType{s.Role, s.Type}] += s.Seconds
	}
	since := r.At
	if since.IsZero() {
		since = now
	}
	if since.After(now) {
		g.countedUntil = since // another one's clock was ahead
	}
	specs := make(map[string]*job.Spec, len(past.Jobs))
	for _, j := range past.Jobs {
		specs[j.Spec.Name] = &j.Spec
		for i := range j.Tasks {
			g.restoreTask(&j.Spec, &j.Tasks[i], since)
		}
	}
	for key, text := range past.Documents {
		if _, t, attempt := sched.ParseAttempt(key, text); attempt && specs[t.Job] != nil {
			g.restoreTask(specs[t.Job], &t, since)
		}
	}
	return g, err
}

// restoreTask takes in a task of the past.
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

func (g *GPUTimeTracker) holdingsOf(role string, types map[string]int, parts []gpu.DeviceShare) (list []taskHolding) {
	for kind, n := range types {
		list = append(list, taskHolding{roleAndType{sanitizeLabel(role), g.types.deviceLabel(kind)}, n * milliPerGPU})
	}
	for i := range parts {
		list = append(list, taskHolding{roleAndType{sanitizeLabel(role), g.types.deviceLabel(parts[i].Type)}, parts[i].MilliDevices})
	}
	return list
}

func (g *GPUTimeTracker) addSpan(h roleAndType, milli int, span time.Duration) {
	g.gpuSeconds[h] += float64(milli) / milliPerGPU * span.Seconds()
	g.changed = true
}

// ApplyActions takes in who gets GPUs, and whose tasks have ended.
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

// advanceTo counts up to now. A clock that goes back stops it until it is where
// it was.
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

// EncodeRecord is the document to write at now, nil where there is nothing new.
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
		panic(err) // texts, numbers and a time have a form
	}
	return text
}
