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

// GPUTime adds up for how long tasks hold GPUs, by role and type, from their
// launch to their end. What it has is recorded in the journal now and then, and
// that is what all schedulers show: it neither falls nor is counted twice when
// another one leads, which goes on from the last record. GPUTime belongs to one
// goroutine.
type GPUTime struct {
	types *names
	at    time.Time // up to when it has counted
	held  map[holder]int
	tasks map[string][]holding
	total map[holder]float64 // GPU seconds
	news  bool               // since the last record
}

// holder is who holds GPUs of which type.
type holder struct{ role, kind string }

// holding is what a task holds, in thousandths of GPUs.
type holding struct {
	holder
	milli int
}

// record is the document that GPUTime writes.
type record struct {
	At         time.Time    `json:"at"`
	GPUSeconds []GPUSeconds `json:"gpu_seconds"`
}

// GPUSeconds is for how long a role's tasks have held GPUs of a type.
type GPUSeconds struct {
	Role    string  `json:"role"`
	Type    string  `json:"type"`
	Seconds float64 `json:"seconds"`
}

// ReadGPUSeconds are those of the document that GPUTime wrote last, none where
// there is none.
func ReadGPUSeconds(document []byte) ([]GPUSeconds, error) {
	r, err := readRecord(document)
	return r.GPUSeconds, err
}

func readRecord(document []byte) (r record, err error) {
	if len(document) == 0 {
		return r, nil
	}
	if err := json.Unmarshal(document, &r); err != nil {
		return record{}, fmt.Errorf("read what was counted, document %s: %w", sched.CountedKey, err)
	}
	return r, nil
}

// GPUTime goes on at now from what a journal remembers. Attempts that ended
// since the last record count up to their end. It begins anew, and says why,
// where the record cannot be read.
func (c *Counters) GPUTime(past sched.Past, now time.Time) (*GPUTime, error) {
	g := &GPUTime{types: c.types, at: now, held: map[holder]int{}, tasks: map[string][]holding{}, total: map[holder]float64{}}
	r, err := readRecord(past.Documents[sched.CountedKey])
	for _, s := range r.GPUSeconds {
		g.total[holder{s.Role, s.Type}] += s.Seconds
	}
	since := r.At
	if since.IsZero() {
		since = now
	}
	if since.After(now) {
		g.at = since // another one's clock was ahead
	}
	specs := make(map[string]*job.Spec, len(past.Jobs))
	for _, j := range past.Jobs {
		specs[j.Spec.Name] = &j.Spec
		for i := range j.Tasks {
			g.recover(&j.Spec, &j.Tasks[i], since)
		}
	}
	for key, text := range past.Documents {
		if _, t, attempt := sched.AttemptIn(key, text); attempt && specs[t.Job] != nil {
			g.recover(specs[t.Job], &t, since)
		}
	}
	return g, err
}

// recover takes in a task of the past.
func (g *GPUTime) recover(spec *job.Spec, t *job.Task, since time.Time) {
	from, to := t.Started, t.Ended
	switch {
	case t.State.Placed():
		to = g.at
		if from.IsZero() {
			from = t.Changed
		}
		g.launched(t.ID, spec.Role, t.GPUTypes, t.Parts)
	case from.IsZero() || t.State == job.Waiting:
		return
	}
	if from.Before(since) {
		from = since
	}
	if span := to.Sub(from); span > 0 {
		for _, h := range g.holdings(spec.Role, t.GPUTypes, t.Parts) {
			g.add(h.holder, h.milli, span)
		}
	}
}

func (g *GPUTime) holdings(role string, types map[string]int, parts []gpu.Part) (list []holding) {
	for kind, n := range types {
		list = append(list, holding{holder{label(role), g.types.device(kind)}, n * wholeGPU})
	}
	for i := range parts {
		list = append(list, holding{holder{label(role), g.types.device(parts[i].Type)}, parts[i].Milli})
	}
	return list
}

func (g *GPUTime) add(h holder, milli int, span time.Duration) {
	g.total[h] += float64(milli) / wholeGPU * span.Seconds()
	g.news = true
}

// Acted takes in who gets GPUs, and whose tasks have ended.
func (g *GPUTime) Acted(now time.Time, ops []sched.Op, moves []sched.Move) {
	for _, op := range ops {
		if a, ok := op.(sched.Accept); ok {
			g.advance(now)
			for i := range a.Launches {
				l := &a.Launches[i]
				g.launched(l.TaskID, l.Spec.Role, l.GPUTypes, l.Parts)
			}
		}
	}
	for i := range moves {
		if m := &moves[i]; !m.State.Live() {
			g.advance(now)
			g.ended(m.TaskID)
		}
	}
}

func (g *GPUTime) launched(id, role string, types map[string]int, parts []gpu.Part) {
	list := g.holdings(role, types, parts)
	if len(list) == 0 {
		return
	}
	g.tasks[id] = list
	for _, h := range list {
		g.held[h.holder] += h.milli
	}
}

func (g *GPUTime) ended(id string) {
	for _, h := range g.tasks[id] {
		if g.held[h.holder] -= h.milli; g.held[h.holder] == 0 {
			delete(g.held, h.holder)
		}
	}
	delete(g.tasks, id)
}

// advance counts up to now. A clock that goes back stops it until it is where
// it was.
func (g *GPUTime) advance(now time.Time) {
	span := now.Sub(g.at)
	if span <= 0 {
		return
	}
	for h, milli := range g.held {
		g.add(h, milli, span)
	}
	g.at = now
}

// Record is the document to write at now, nil where there is nothing new.
func (g *GPUTime) Record(now time.Time) []byte {
	g.advance(now)
	if !g.news {
		return nil
	}
	g.news = false
	r := record{At: g.at}
	for _, h := range slices.SortedFunc(maps.Keys(g.total), func(a, b holder) int {
		return cmp.Or(cmp.Compare(a.role, b.role), cmp.Compare(a.kind, b.kind))
	}) {
		r.GPUSeconds = append(r.GPUSeconds, GPUSeconds{h.role, h.kind, g.total[h]})
	}
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // texts, numbers and a time have a form
	}
	return text
}
