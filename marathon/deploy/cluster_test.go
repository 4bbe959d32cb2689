package deploy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"mesos-gpu/job"
	"mesos-gpu/marathon"
)

// schedulerModel is a small model of the scheduler: services whose tasks are restarted until they are retired or their job
// is killed.
type schedulerModel struct {
	now     time.Time
	jobs    map[string][]*modelJob // by app
	changed map[string]bool
}

type modelJob struct {
	app, version string
	short        string
	tasks        []*AppInstance
	attempts     []int
	killed       bool
}

func newSchedulerModel(now time.Time) *schedulerModel {
	return &schedulerModel{now: now, jobs: map[string][]*modelJob{}, changed: map[string]bool{}}
}

func (c *schedulerModel) findJob(app, version string) *modelJob {
	for _, j := range slices.Backward(c.jobs[app]) {
		if j.version == version {
			return j
		}
	}
	return nil
}

func (j *modelJob) isEnded() bool {
	for _, t := range j.tasks {
		if t.State.IsLive() || t.KillReason == job.KillByScaling {
			return false
		}
	}
	return true
}

// execute executes an action as package control does.
func (c *schedulerModel) execute(a Action) {
	c.changed[a.TargetApp()] = true
	switch a := a.(type) {
	case SubmitJob:
		c.submitJob(a.App)
	case ScaleJob:
		if j := c.findJob(a.AppID, a.Version); j != nil && !j.killed {
			j.setTasks(c, a.Instances)
		}
	case StopInstances:
		for _, j := range c.jobs[a.AppID] {
			for _, t := range j.tasks {
				if slices.Contains(a.TaskIDs, t.ID) {
					retire(t, c.now)
				}
			}
		}
	case KillJob:
		if j := c.findJob(a.AppID, a.Version); j != nil {
			j.kill(c.now)
		}
	}
}

func (c *schedulerModel) submitJob(app *marathon.App) {
	v := app.VersionInfo.LastConfigChangeAt
	if j := c.findJob(app.ID, v); j != nil && !j.isEnded() {
		return
	}
	short := fmt.Sprintf("v%d", len(c.jobs[app.ID])+1)
	j := &modelJob{app: app.ID, version: v, short: short}
	c.jobs[app.ID] = append(c.jobs[app.ID], j)
	for range app.Instances {
		j.addTasks(c)
	}
}

func (j *modelJob) addTasks(c *schedulerModel) {
	j.attempts = append(j.attempts, 0)
	j.tasks = append(j.tasks, nil)
	j.queueAttempt(c, len(j.tasks)-1)
}

// queueAttempt queues the next attempt of a slot.
func (j *modelJob) queueAttempt(c *schedulerModel, slot int) {
	j.attempts[slot]++
	c.changed[j.app] = true
	id := fmt.Sprintf("%s.%s.%d.%d", strings.ReplaceAll(j.app[1:], "/", "_"), j.short, slot, j.attempts[slot])
	j.tasks[slot] = &AppInstance{Task: job.Task{ID: id, Job: j.app + j.short, State: job.Waiting, Changed: c.now}, Version: j.version}
}

func (j *modelJob) setTasks(c *schedulerModel, n int) {
	for _, t := range j.tasks {
		if t.KillReason != job.KillByScaling {
			n--
		}
	}
	if n < 0 { // in the scheduler's own order
		for _, t := range slices.Backward(j.tasks) {
			if n < 0 && t.KillReason != job.KillByScaling {
				n++
				retire(t, c.now)
			}
		}
		return
	}
	for slot, t := range j.tasks {
		if n <= 0 || t.KillReason != job.KillByScaling {
			continue
		}
		n--
		if t.State.IsLive() {
			t.KillReason = job.KillByReplacement
		} else {
			j.queueAttempt(c, slot)
		}
	}
	for ; n > 0; n-- {
		j.addTasks(c)
	}
}

func retire(t *AppInstance, now time.Time) {
	switch {
	case !t.State.IsLive():
		return
	case t.State == job.Waiting:
		t.State = job.Killed
	case t.State != job.Unreachable:
		t.State = job.Killing
	}
	t.KillRequested, t.KillReason = now, job.KillByScaling
}

func (j *modelJob) kill(now time.Time) {
	j.killed = true
	for _, t := range j.tasks {
		retire(t, now)
		t.KillReason = job.KillByUser
	}
}

// endTask ends a task and restarts it, unless it was retired or its job was killed.
func (c *schedulerModel) endTask(j *modelJob, slot int, as job.State) {
	t := j.tasks[slot]
	c.changed[j.app] = true
	t.State, t.Healthy = as, nil
	if t.KillReason != job.KillByScaling && !j.killed {
		j.queueAttempt(c, slot)
	}
}

// runTask starts a task.
func (c *schedulerModel) runTask(j *modelJob, t *AppInstance, healthy *bool, ready bool) {
	c.changed[j.app] = true
	c.now = c.now.Add(time.Second)
	t.State, t.Started, t.Healthy, t.Ready = job.Running, c.now, healthy, ready
	t.Hostname, t.AgentID = "h", "a"
}

// placeTask starts a task on an agent of a rack.
func (c *schedulerModel) placeTask(id, agent, rack string) {
	j, slot := c.findTask(id)
	yes := true
	c.runTask(j, j.tasks[slot], &yes, true)
	t := j.tasks[slot]
	t.Hostname, t.AgentID, t.Fields = agent, agent, map[string]string{"rack": rack}
}

// takeChanged returns the instances of the apps that changed since the last call, or of all apps.
func (c *schedulerModel) takeChanged(all bool) map[string][]AppInstance {
	seen := map[string][]AppInstance{}
	if all {
		for app := range c.jobs {
			c.changed[app] = true
		}
	}
	for app := range c.changed {
		list := []AppInstance{}
		for _, j := range c.jobs[app] {
			for _, t := range j.tasks {
				list = append(list, *t)
			}
		}
		seen[app] = list
	}
	c.changed = map[string]bool{}
	return seen
}

// forEachTask visits all tasks, the oldest job first.
func (c *schedulerModel) forEachTask(visit func(j *modelJob, slot int, t *AppInstance)) {
	for _, app := range sortedKeys(c.jobs) {
		for _, j := range c.jobs[app] {
			for slot, t := range j.tasks {
				visit(j, slot, t)
			}
		}
	}
}

func (c *schedulerModel) findTask(id string) (*modelJob, int) {
	var found *modelJob
	at := 0
	c.forEachTask(func(j *modelJob, slot int, t *AppInstance) {
		if t.ID == id {
			found, at = j, slot
		}
	})
	return found, at
}
