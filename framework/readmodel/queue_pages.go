package readmodel

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/request"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

const (
	// maxQueueOrders is how many queue orders are cached, each for queueOrderLifetime
	// after its last use. One with 100,000 jobs takes 1.6 MB.
	maxQueueOrders     = 16
	queueOrderLifetime = 5 * time.Minute
	// sharedQueueOrder is the number of jobs from which first pages share an order, for
	// shareTimePerJob for each of its jobs: 5 s for 100,000 jobs, which is ten times as long as
	// computing that order takes. Clients that list the queue all the time then occupy the
	// scheduler's loop for a tenth of the time at most.
	sharedQueueOrder = 1000
	shareTimePerJob  = 50 * time.Microsecond
)

// QueuePages caches queue orders so that clients can page through them. Computing an
// order takes half a second for 100,000 jobs, and the order changes with each task that
// starts or ends. All pages of a list come from the order of its first page, so that
// no job is missing or repeated.
type QueuePages struct {
	// mu protects orders and shared.
	mu sync.Mutex
	// orders are those with further pages, the least recently used first.
	orders []*cachedQueueOrder
	// shared is the order for first pages until sharedUntil. A job that was submitted after it
	// was computed is missing from it.
	shared      *cachedQueueOrder
	sharedUntil time.Time

	// computing is held while an order is computed, so that concurrent first pages share it.
	computing sync.Mutex
}

// cachedQueueOrder is a queue order: the pending jobs.
type cachedQueueOrder struct {
	// id is part of the cursors that clients get.
	id string
	// runs are in placement order and never change: pages share them.
	runs []job.RunID
	// lastRead is when a page of it was last requested.
	lastRead time.Time
}

// findOrder returns a cached order and marks it as used; nil if it is no longer cached.
func (pages *QueuePages) findOrder(id string) *cachedQueueOrder {
	pages.mu.Lock()
	defer pages.mu.Unlock()
	pages.orders = slices.DeleteFunc(pages.orders, func(one *cachedQueueOrder) bool { return time.Since(one.lastRead) > queueOrderLifetime })
	at := slices.IndexFunc(pages.orders, func(one *cachedQueueOrder) bool { return one.id == id })
	if at < 0 {
		return nil
	}
	found := pages.orders[at]
	found.lastRead = time.Now()
	pages.orders = append(slices.Delete(pages.orders, at, at+1), found)
	return found
}

// computeOrder returns the shared order or, if none exists for now, a new one. A long new one becomes the shared order.
func (pages *QueuePages) computeOrder(order func() ([]job.RunID, error)) (*cachedQueueOrder, error) {
	pages.computing.Lock()
	defer pages.computing.Unlock()
	pages.mu.Lock()
	shared := pages.shared
	if shared != nil && time.Now().After(pages.sharedUntil) {
		shared, pages.shared = nil, nil
	}
	pages.mu.Unlock()
	if shared != nil {
		return shared, nil
	}
	runs, err := order()
	if err != nil {
		return nil, err
	}
	computed := &cachedQueueOrder{id: rand.Text(), runs: runs}
	if len(runs) >= sharedQueueOrder {
		pages.mu.Lock()
		pages.shared, pages.sharedUntil = computed, time.Now().Add(time.Duration(len(runs))*shareTimePerJob)
		pages.mu.Unlock()
	}
	return computed, nil
}

// storeOrder caches an order and evicts the least recently used one if necessary.
func (pages *QueuePages) storeOrder(one *cachedQueueOrder) {
	pages.mu.Lock()
	defer pages.mu.Unlock()
	one.lastRead = time.Now()
	if slices.Contains(pages.orders, one) {
		return
	}
	if len(pages.orders) == maxQueueOrders {
		pages.orders = slices.Delete(pages.orders, 0, 1)
	}
	pages.orders = append(pages.orders, one)
}

// queueList is the name of the list in its cursors.
const queueList = "queue"

// startPage returns the order that contains a page and the index of the page's first
// job. If that order is no longer cached, or was cached by another scheduler, it
// computes a new one and continues after the last page's last job. If that job is no
// longer pending it starts again from the beginning, so that no job is missing.
func (pages *QueuePages) startPage(p api.PageRequest, order func() ([]job.RunID, error)) (cached *cachedQueueOrder, from int, err error) {
	var last job.RunID
	if p.After != "" {
		key, err := request.DecodeCursor(p, queueList, 3)
		if err != nil {
			return nil, 0, err
		}
		if cached = pages.findOrder(key[0]); cached != nil {
			if from, err = strconv.Atoi(key[1]); err != nil || from < 0 || from > len(cached.runs) {
				return nil, 0, request.InvalidCursor(p.After)
			}
			return cached, from, nil
		}
		last, _ = job.ParseRunID(key[2])
	}
	if cached, err = pages.computeOrder(order); err != nil {
		return nil, 0, err
	}
	return cached, slices.Index(cached.runs, last) + 1, nil // from 0 if last is not in it
}

// ListPage returns the jobs of a page that are still pending and whose roles the grant
// may see, without the reasons. A job's position is its index in the whole order.
func (pages *QueuePages) ListPage(
	p api.PageRequest, g *access.Grant, order func() ([]job.RunID, error), find func(string) (*job.Job, bool),
) (list api.QueueList, err error) {
	cached, from, err := pages.startPage(p, order)
	if err != nil {
		return list, err
	}
	end := from // index after the last job in the list
	for i := from; i < len(cached.runs); i++ {
		j, ok := find(cached.runs[i].String())
		if !ok || !g.HasPermission(access.View, j.Spec.Role) {
			continue
		}
		q := queuedJobView(j, i+1)
		switch {
		case q.Waiting == 0:
			continue
		case p.Limit > 0 && len(list.Jobs) == p.Limit:
			list.Next = request.EncodeCursor(queueList, request.SortKey{cached.id, strconv.Itoa(end), cached.runs[end-1].String()})
			pages.storeOrder(cached)
			return list, nil
		}
		list.Jobs, end = append(list.Jobs, q), i+1
	}
	return list, nil
}

// queuedJobView returns the API's view of a queued job at a position, which counts from 1.
func queuedJobView(j *job.Job, position int) api.QueuedJob {
	q := api.QueuedJob{
		Position: position, Name: j.Spec.Name, Run: j.RunID().Run, Number: j.Number, Owner: j.Spec.Owner, Role: j.Spec.Role,
		Priority: j.Spec.Priority, Submitted: j.Submitted,
		State: j.State(), TaskStates: j.CountTasks(), Tasks: j.WantedTasks(), GPUs: gpuRequestText(&j.Spec.Request),
	}
	q.Waiting = q.TaskStates[job.Waiting]
	return q
}

// gpuRequestText returns a text such as "2 x A100 or V100", "1 x any type" or "1 x (4096 MiB, 30 %) of T4".
func gpuRequestText(r *gpu.Request) string {
	switch {
	case r.GPUs == 0:
		return ""
	case r.Share.IsWhole():
		return fmt.Sprintf("%d x %s", r.GPUs, r.Types)
	default:
		return r.String()
	}
}
