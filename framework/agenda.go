package framework

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/cron"
	"mesos-gpu/framework/sched"
)

// agenda keeps the schedules decoded, each until its document is another: a
// large one takes milliseconds to decode. It belongs to the loop's goroutine.
type agenda struct{ plans map[string]*plan }

// plan is a schedule as its document has it. Nobody changes it.
type plan struct {
	text  []byte
	entry *cron.Entry
	next  time.Time
	err   error // why it cannot be read; nothing else is set then
}

// all are the schedules by name, as they are when it is their turn.
func (a *agenda) all(st *sched.State) iter.Seq2[string, *plan] {
	var names []string
	for key := range st.DocumentsIn(schedulePrefix) {
		names = append(names, strings.TrimPrefix(key, schedulePrefix))
	}
	slices.Sort(names)
	maps.DeleteFunc(a.plans, func(name string, _ *plan) bool {
		_, found := slices.BinarySearch(names, name)
		return !found
	})
	return func(yield func(string, *plan) bool) {
		for _, name := range names {
			if p := a.one(st, name); p != nil && !yield(name, p) {
				return
			}
		}
	}
}

// one is a schedule, nil if there is none of the name.
func (a *agenda) one(st *sched.State, name string) *plan {
	text := st.Document(schedulePrefix + name)
	if text == nil {
		delete(a.plans, name)
		return nil
	}
	if p := a.plans[name]; p != nil && bytes.Equal(p.text, text) {
		return p
	}
	if a.plans == nil {
		a.plans = map[string]*plan{}
	}
	a.plans[name] = readPlan(text)
	return a.plans[name]
}

func readPlan(text []byte) *plan {
	e := &cron.Entry{}
	err := json.Unmarshal(text, e)
	if err == nil && e.Spec.Schedule == nil {
		err = errors.New("it says no time")
	}
	var next time.Time
	if err == nil {
		next, err = e.Next()
	}
	if err != nil {
		return &plan{text: text, err: fmt.Errorf("%w: end it and submit it again (%w)", api.ErrDamaged, err)}
	}
	return &plan{text: text, entry: e, next: next}
}

// scheduleSizes counts schedules and the bytes of their documents.
func scheduleSizes(st *sched.State) (count, size int) {
	for _, text := range st.DocumentsIn(schedulePrefix) {
		count, size = count+1, size+len(text)
	}
	return count, size
}
