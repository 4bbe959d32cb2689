package framework

import (
	"crypto/rand"
	"slices"
	"strconv"
	"sync"
	"time"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/job"
)

const (
	// maxLineups are kept, each for lineupKept after it was read last. One of
	// 100,000 jobs takes 1.6 MB.
	maxLineups = 16
	lineupKept = 5 * time.Minute
)

// lineups keep the orders of the queue that readers go through page by page. An
// order takes long to find, half a second for 100,000 jobs, and changes with
// each task that starts or ends: who goes on in the one that the first page had
// misses nothing and has nothing twice.
type lineups struct {
	mu   sync.Mutex
	kept []*lineup // the one read last is the last
}

// lineup has a queue's jobs, by name.
type lineup struct {
	id    string
	names []string
	read  time.Time
}

// take finds a lineup and makes it the one read last; nil if it is kept no more.
func (l *lineups) take(id string, now time.Time) *lineup {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = slices.DeleteFunc(l.kept, func(one *lineup) bool { return now.Sub(one.read) > lineupKept })
	at := slices.IndexFunc(l.kept, func(one *lineup) bool { return one.id == id })
	if at < 0 {
		return nil
	}
	found := l.kept[at]
	found.read = now
	l.kept = append(slices.Delete(l.kept, at, at+1), found)
	return found
}

// keep has room for it.
func (l *lineups) keep(one *lineup) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if slices.Contains(l.kept, one) {
		return
	}
	if len(l.kept) == maxLineups {
		l.kept = slices.Delete(l.kept, 0, 1)
	}
	l.kept = append(l.kept, one)
}

const queueList = "queue"

// begin finds the lineup of a page, and where in it the page begins. Where that
// is kept no more, or was another scheduler's, the order of now goes on after
// the same job; where that waits no more it begins again, so that none is left
// out.
func (l *lineups) begin(p api.Page, now time.Time, order func() ([]string, error)) (line *lineup, from int, err error) {
	last := ""
	if p.After != "" {
		key, err := p.Place(queueList, 3)
		if err != nil {
			return nil, 0, err
		}
		if line = l.take(key[0], now); line != nil {
			if from, err = strconv.Atoi(key[1]); err != nil || from < 0 || from > len(line.names) {
				return nil, 0, api.NoPlace(p.After)
			}
			return line, from, nil
		}
		last = key[2]
	}
	names, err := order()
	if err != nil {
		return nil, 0, err
	}
	return &lineup{id: rand.Text(), names: names, read: now}, slices.Index(names, last) + 1, nil
}

// page lists what still waits of a page, without the reasons, of roles that the
// grant lets its holder see. A place in the queue is that of the lineup.
func (l *lineups) page(p api.Page, g *access.Grant, order func() ([]string, error), find func(string) (*job.Job, bool)) (list api.QueueList, err error) {
	line, from, err := l.begin(p, time.Now(), order)
	if err != nil {
		return list, err
	}
	end := from // of what the list has
	for i := from; i < len(line.names); i++ {
		j, ok := find(line.names[i])
		if !ok || !g.May(access.View, j.Spec.Role) {
			continue
		}
		q := queuedOf(j, i+1)
		switch {
		case q.Waiting == 0:
			continue
		case p.Limit > 0 && len(list.Jobs) == p.Limit:
			list.Next = api.Cursor(queueList, api.Key{line.id, strconv.Itoa(end), line.names[end-1]})
			l.keep(line)
			return list, nil
		}
		list.Jobs, end = append(list.Jobs, q), i+1
	}
	return list, nil
}

func queuedOf(j *job.Job, position int) api.Queued {
	q := api.Queued{
		Position: position, Name: j.Spec.Name, Role: j.Spec.Role, Priority: j.Spec.Priority, Submitted: j.Submitted,
		Tasks: len(j.Tasks), GPUs: wishText(&j.Spec.Request),
	}
	for i := range j.Tasks {
		if j.Tasks[i].State == job.Waiting {
			q.Waiting++
		}
	}
	return q
}
