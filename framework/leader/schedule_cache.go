package leader

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

	"mesos-gpu/framework/cron"
	"mesos-gpu/framework/request"
	"mesos-gpu/framework/sched"
	"mesos-gpu/job"
)

// scheduleCache caches decoded schedules until their documents change: a large one
// takes milliseconds to decode. It is used by the loop's goroutine only. The documents of the State are the schedules;
// the cache compares each with the text it has decoded and so needs no notice of changes.
type scheduleCache struct{ byName map[string]*cachedSchedule }

// cachedSchedule is a decoded schedule document. It is never modified.
type cachedSchedule struct {
	// text is the document as stored. If it differs, the cached schedule is outdated.
	text []byte
	// entry is the decoded document, next its next due time; zero if it is never due again.
	entry *cron.ScheduleEntry
	next  time.Time
	// err is why the document cannot be decoded; the entry is then nil.
	err error
}

// allSchedules iterates over the schedules by name. Each is read when the iteration reaches it, so that the caller may
// change documents during the iteration. It also drops the cached schedules whose documents were deleted.
func (a *scheduleCache) allSchedules(st *sched.State) iter.Seq2[string, *cachedSchedule] {
	var names []string
	for key := range st.DocumentsIn(schedulePrefix) {
		names = append(names, strings.TrimPrefix(key, schedulePrefix))
	}
	slices.Sort(names)
	maps.DeleteFunc(a.byName, func(name string, _ *cachedSchedule) bool {
		_, found := slices.BinarySearch(names, name)
		return !found
	})
	return func(yield func(string, *cachedSchedule) bool) {
		for _, name := range names {
			if p := a.findSchedule(st, name); p != nil && !yield(name, p) {
				return
			}
		}
	}
}

// findSchedule returns the schedule of that name, nil if it does not exist.
func (a *scheduleCache) findSchedule(st *sched.State, name string) *cachedSchedule {
	text := st.Document(schedulePrefix + name)
	if text == nil {
		delete(a.byName, name)
		return nil
	}
	if p := a.byName[name]; p != nil && bytes.Equal(p.text, text) {
		return p
	}
	if a.byName == nil {
		a.byName = map[string]*cachedSchedule{}
	}
	a.byName[name] = decodeSchedule(text)
	return a.byName[name]
}

// decodeSchedule returns a schedule that has either an entry or an error.
func decodeSchedule(text []byte) *cachedSchedule {
	e := &cron.ScheduleEntry{}
	err := json.Unmarshal(text, e)
	if err == nil && e.Spec.Schedule == nil {
		err = errors.New("it has no schedule")
	}
	var next time.Time
	if err == nil {
		next, err = e.NextDue()
	}
	if err != nil {
		return &cachedSchedule{text: text, err: fmt.Errorf("%w: end it and submit it again (%w)", request.ErrScheduleDamaged, err)}
	}
	return &cachedSchedule{text: text, entry: e, next: next}
}

// countByOwner counts schedules and the bytes of their documents. Unreadable ones count for no role and owner.
func (a *scheduleCache) countByOwner(st *sched.State) (count, size sched.UsageByOwner) {
	for _, p := range a.allSchedules(st) {
		var spec job.Spec
		if p.entry != nil {
			spec = p.entry.Spec
		}
		count.Add(&spec, 1)
		size.Add(&spec, len(p.text))
	}
	return count, size
}
