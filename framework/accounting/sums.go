package accounting

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/job"
)

// Query selects ended attempts.
type Query struct {
	api.AccountingQuery
	// MayView reports whether the requester may see a role; nil permits all.
	MayView func(role string) bool
}

// ErrTooManyGroups means that a report would have more groups than api.MaxAccountingGroups.
var ErrTooManyGroups = fmt.Errorf("there are more than %d groups: choose a shorter time, or fewer keys", api.MaxAccountingGroups)

// recordFilter selects records.
type recordFilter struct {
	query *Query
	// run is the job of the query, with the number of the run if the query has one.
	run job.RunID
	// permitted caches MayView by role.
	permitted map[string]bool
}

func newFilter(q *Query) recordFilter {
	run, _ := job.ParseRunID(q.Job)
	return recordFilter{query: q, run: run, permitted: map[string]bool{}}
}

// selects reports whether a record matches the query and the requester may see its role. The times of the query are not
// checked: eachRecord reads only records within them.
func (f *recordFilter) selects(r *attemptRecord) bool {
	q := f.query
	switch {
	case q.User != "" && r.owner != q.User, q.Role != "" && r.role != q.Role, q.State != "" && r.state != string(q.State):
		return false
	case f.run.Name != "" && (r.job != f.run.Name || f.run.Run != 0 && r.run != f.run.Run):
		return false
	case q.MayView == nil:
		return true
	}
	ok, known := f.permitted[r.role]
	if !known {
		ok = q.MayView(r.role)
		f.permitted[r.role] = ok
	}
	return ok
}

// appendGroupKey appends the values of a record's keys, each followed by a 0. kind and device describe one of its parts.
func appendGroupKey(b []byte, by []string, r *attemptRecord, kind, device string) []byte {
	for _, key := range by {
		switch key {
		case "user":
			b = append(b, r.owner...)
		case "role":
			b = append(b, r.role...)
		case "type":
			b = append(b, kind...)
		case "job":
			b = append(b, r.job...)
		case "state":
			b = append(b, r.state...)
		case "reason":
			b = append(b, r.reason...)
		case "host":
			b = append(b, r.host...)
		case "device":
			b = append(b, device...)
		case "day":
			b = timeOf(r.ended).AppendFormat(b, time.DateOnly)
		case "month":
			b = timeOf(r.ended).AppendFormat(b, "2006-01")
		}
		b = append(b, 0)
	}
	return b
}

// groupSums adds records to groups.
type groupSums struct {
	// by are the keys of the groups, as of api.AccountingQuery.
	by []string
	// byType and byDevice are whether the groups divide an attempt by the types or devices of its GPUs. Such an attempt
	// counts in each of its groups, but once in total.
	byType, byDevice bool
	// groups are the sums by the group's key; see appendGroupKey.
	groups map[string]*api.AccountingSums
	total  api.AccountingSums
	// key is the buffer of groupOf.
	key []byte
}

func newGroupSums(by []string) groupSums {
	return groupSums{by: by, byType: slices.Contains(by, "type"), byDevice: slices.Contains(by, "device"), groups: map[string]*api.AccountingSums{}}
}

// addRecord adds a record to the total and to its groups. It returns false if there are too many groups.
func (g *groupSums) addRecord(r *attemptRecord) bool {
	all := r.milliGPUs()
	addSums(&g.total, r, all, all)
	if len(g.by) == 0 {
		return true
	}
	kind, types := "", []heldGPUs(nil)
	if g.byType {
		types = r.shortTypes()
	}
	if len(types) == 1 {
		kind = types[0].name
	}
	switch {
	case g.byDevice && len(r.devices) > 0:
		for _, d := range r.devices {
			addSums(g.groupOf(r, kind, d.name), r, d.milli, all)
		}
	case g.byType && len(types) > 0:
		for _, t := range types {
			addSums(g.groupOf(r, t.name, ""), r, t.milli, all)
		}
	default:
		addSums(g.groupOf(r, kind, ""), r, all, all)
	}
	return len(g.groups) <= api.MaxAccountingGroups
}

// groupOf returns the sums of a record's group, which it adds if there are none.
func (g *groupSums) groupOf(r *attemptRecord, kind, device string) *api.AccountingSums {
	g.key = appendGroupKey(g.key[:0], g.by, r, kind, device)
	s, ok := g.groups[string(g.key)]
	if !ok {
		s = &api.AccountingSums{}
		g.groups[string(g.key)] = s
	}
	return s
}

// addSums adds an attempt, with milli of its all thousandths of GPUs. GPU seconds, CPU seconds and usage are divided in that
// proportion, so that the groups have the same sums by whichever keys; the count and the wait are not.
func addSums(s *api.AccountingSums, r *attemptRecord, milli, all int) {
	held, unfinished, part := r.heldSeconds(), r.state != string(job.Finished), 1.0
	if all > 0 {
		part = float64(milli) / float64(all)
	}
	seconds := float64(milli) / milliPerGPU * held
	s.Attempts++
	s.GPUSeconds += seconds
	s.CPUSeconds += float64(r.milliCPUs) / 1000 * held * part
	s.WaitSeconds += r.waitSeconds()
	if unfinished {
		s.Unfinished++
		s.UnfinishedGPUSeconds += seconds
	}
	if r.usageState == usageMeasured && all > 0 {
		s.Usage.AddUsage(&r.usage, part)
	}
}

// report returns the groups, those with the most GPU seconds first.
func (g *groupSums) report() api.AccountingReport {
	type group struct {
		key  string
		sums *api.AccountingSums
	}
	groups := make([]group, 0, len(g.groups))
	for key, sums := range g.groups {
		groups = append(groups, group{key, sums})
	}
	slices.SortFunc(groups, func(a, b group) int {
		if c := cmp.Or(cmp.Compare(b.sums.GPUSeconds, a.sums.GPUSeconds), cmp.Compare(b.sums.Attempts, a.sums.Attempts)); c != 0 {
			return c
		}
		return strings.Compare(a.key, b.key)
	})
	report := api.AccountingReport{By: g.by, Groups: make([]api.AccountingGroup, len(groups)), Total: g.total}
	for i, one := range groups {
		keys := make(map[string]string, len(g.by))
		for n, value := range strings.Split(strings.TrimSuffix(one.key, "\x00"), "\x00") {
			keys[g.by[n]] = value
		}
		report.Groups[i] = api.AccountingGroup{Keys: keys, AccountingSums: *one.sums}
	}
	return report
}

// sumRecords sums up the selected records.
func (f *attemptFile) sumRecords(q *Query) (api.AccountingReport, error) {
	sums, filter, tooMany := newGroupSums(q.By), newFilter(q), false
	err := f.eachRecord(unixNano(q.Since), unixNano(q.Until), nil, func(r *attemptRecord) bool {
		tooMany = filter.selects(r) && !sums.addRecord(r)
		return !tooMany
	})
	if tooMany {
		err = ErrTooManyGroups
	}
	if err != nil {
		return api.AccountingReport{}, err
	}
	report := sums.report()
	oldest, err := f.oldest()
	report.Oldest = timeOf(oldest)
	return report, err
}

// listRecords returns at most limit selected attempts, 0 for all, after the one with the key after, and the key of the
// last one if more follow.
func (f *attemptFile) listRecords(q *Query, limit int, after []byte) (list []api.AccountedAttempt, next []byte, err error) {
	filter := newFilter(q)
	err = f.eachRecord(unixNano(q.Since), unixNano(q.Until), after, func(r *attemptRecord) bool {
		switch {
		case !filter.selects(r):
		case limit > 0 && len(list) == limit:
			last := &list[limit-1]
			next = formatKey(unixNano(last.Ended), last.Task)
			return false
		default:
			list = append(list, r.view())
		}
		return true
	})
	return list, next, err
}
