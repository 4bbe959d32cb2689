package usage

import (
	"context"
	"fmt"
	"slices"
	"time"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/readmodel"
	"mesos-gpu/framework/request"
)

// ListUsage returns a page of the usage of tasks that the client may see. It reads the
// files of that page's tasks only.
func (c *Collector) ListUsage(ctx context.Context, by *access.Grant, q request.UsageQuery) (page api.UsageList, err error) {
	users, err := c.model.RunningGPUTasks(q)
	if err != nil {
		return page, err
	}
	seen := slices.DeleteFunc(users, func(u readmodel.GPUTask) bool { return !by.HasPermission(access.View, u.Role) })
	if seen, page.Next, err = request.CutPage("usage", 4, seen, q.PageRequest, gpuTaskKey); err != nil {
		return page, err
	}
	all, err := c.collectUsage(ctx, seen, c.read)
	if err != nil {
		return page, err
	}
	list, now := make([]api.TaskUsage, len(seen)), time.Now()
	for i := range seen {
		list[i] = usageView(&seen[i], all[i], now)
		if q.Minutes > 0 {
			list[i].History = c.history.pastOf(seen[i].ID, now.Add(-time.Duration(q.Minutes)*time.Minute), now)
		}
	}
	page.Tasks = list
	return page, nil
}

// gpuTaskKey returns a task's sort key. Its numbers are formatted so that their texts sort numerically.
func gpuTaskKey(users []readmodel.GPUTask, at int) request.SortKey {
	u := &users[at]
	return request.SortKey{fmt.Sprintf("%016x", uint64(u.Submitted.UnixNano())^1<<63), u.Job, fmt.Sprintf("%09d", u.Index), ""}
}
