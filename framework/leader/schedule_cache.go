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

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/cron"
	"mesos-gpu/framework/request"
	"mesos-gpu/framework/sched"
	"mesos-gpu/job"
)

// scheduleCache caches decoded schedules until their documents change: a large one
// takes milliseconds to decode. It is used by the loop's goroutine only. The documents of the State are the schedules;
// the cache compares each with the text it has decoded and so needs no notice of changes.
type scheduleCache struct{ byID map[string]*cachedSchedule }

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

// allSchedules iterates over the schedules by id. Each is read when the iteration reaches it, so that the caller may
// change documents during the iteration. It also drops the cached schedules whose documents were deleted.
func (a *scheduleCache) allSchedules(st *sched.State) iter.Seq2[string, *cachedSchedule] {
	var ids []string
	for key := range st.DocumentsIn(schedulePrefix) {
		ids = append(ids, strings.TrimPrefix(key, schedulePrefix))
	}
	slices.Sort(ids)
	maps.DeleteFunc(a.byID, func(id string, _ *cachedSchedule) bool {
		_, found := slices.BinarySearch(ids, id)
		return !found
	})
	return func(yield func(string, *cachedSchedule) bool) {
		for _, id := range ids {
			if p := a.findSchedule(st, id); p != nil && !yield(id, p) {
				return
			}
		}
	}
}

// hasSchedule reports whether an owner has a schedule of a name.
func (a *scheduleCache) hasSchedule(st *sched.State, owner, name string) bool {
	spec := job.Spec{Name: name, Owner: owner}
	if a.findSchedule(st, scheduleID(&spec)) != nil {
		return true
	}
	p := a.findSchedule(st, name) // of an earlier release
	return p != nil && p.entry != nil && p.entry.Spec.Owner == owner
}

// resolveSchedule returns the schedule that a requester means by [OWNER/]NAME, and its id: the requester's own, or else the
// only one that the requester sees. A damaged one has no entry, and is found by its name or id.
func (a *scheduleCache) resolveSchedule(st *sched.State, by *access.Grant, reference string) (id string, p *cachedSchedule, err error) {
	ref, ok := job.ParseReference(reference)
	if !ok || ref.Run != 0 {
		return "", nil, api.UnknownSchedule(reference)
	}
	var candidates []string
	for at, one := range a.allSchedules(st) {
		var spec job.Spec
		if one.entry != nil {
			spec = one.entry.Spec
		} else {
			spec.Name, spec.Owner, _ = strings.Cut(at, "/")
		}
		if spec.Name != ref.Name || !ref.HasOwner(&spec) || one.entry != nil && !by.HasPermission(access.View, spec.Role) {
			continue
		}
		if id, p = at, one; ref.Owner == "" && spec.Owner == by.UserName() {
			return id, p, nil
		}
		candidates = append(candidates, spec.QualifiedName())
	}
	switch len(candidates) {
	case 0:
		return "", nil, api.UnknownSchedule(reference)
	case 1:
		return id, p, nil
	}
	return "", nil, api.AmbiguousSchedule(reference, candidates)
}

// findSchedule returns the schedule of an id, nil if it does not exist.
func (a *scheduleCache) findSchedule(st *sched.State, id string) *cachedSchedule {
	text := st.Document(schedulePrefix + id)
	if text == nil {
		delete(a.byID, id)
		return nil
	}
	if p := a.byID[id]; p != nil && bytes.Equal(p.text, text) {
		return p
	}
	if a.byID == nil {
		a.byID = map[string]*cachedSchedule{}
	}
	a.byID[id] = decodeSchedule(text)
	return a.byID[id]
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
