package api

import (
	"strings"

	"mesos-gpu/marathon"
)

// embedOptions are the parts of an app that an answer contains.
type embedOptions struct {
	tasks, counts, deployments, readiness, failure, stats bool
}

// readAppEmbeds reads embed parameters. "apps.tasks", "app.tasks" and "tasks" mean the same.
// Unknown ones are ignored, as in Marathon.
func readAppEmbeds(params []string) (e embedOptions) {
	for _, p := range params {
		for _, prefix := range []string{"group.apps.", "apps.", "app."} {
			if rest, ok := strings.CutPrefix(p, prefix); ok {
				p = rest
				break
			}
		}
		switch p {
		case "tasks":
			e.tasks, e.deployments = true, true
		case "failures":
			e.tasks, e.failure, e.deployments = true, true, true
		case "deployments":
			e.deployments = true
		case "readiness":
			e.readiness = true
		case "lastTaskFailure":
			e.failure = true
		case "counts":
			e.counts = true
		case "taskStats":
			e.stats = true
		}
	}
	return e
}

// describeApp returns an app with the parts that e selects.
func (s *apiServer) describeApp(a AppStatus, e embedOptions) appInfo {
	i := appInfo{App: a.App}
	tasks := completeTasks(a)
	if e.counts {
		c := countTasks(tasks)
		i.taskCounts = &c
	}
	if e.tasks {
		i.Tasks = &tasks
	}
	if e.deployments {
		ids := []objectID{}
		for _, id := range a.Deployments {
			ids = append(ids, objectID{id})
		}
		i.Deployments = &ids
	}
	if e.readiness {
		results := emptyIfNil(a.Readiness)
		i.Readiness = &results
	}
	if e.failure {
		i.LastFailure = a.LastFailure
	}
	if e.stats {
		i.Stats = summarizeTasks(a.App.VersionInfo, tasks, s.now())
	}
	return i
}

// completeTasks returns an app's tasks with service ports, and with empty rather than nil
// lists.
func completeTasks(a AppStatus) []AppTask {
	all := make([]AppTask, 0, len(a.Tasks))
	ports := servicePorts(a.App)
	for _, t := range a.Tasks {
		t.ServicePorts, t.LocalVolumes = ports, []struct{}{}
		t.Ports, t.IPAddresses, t.HealthCheckResults = emptyIfNil(t.Ports), emptyIfNil(t.IPAddresses), emptyIfNil(t.HealthCheckResults)
		all = append(all, t)
	}
	return all
}

func emptyIfNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// countTasks counts tasks by state, and running ones by health. A task without health checks
// is neither healthy nor unhealthy.
func countTasks(tasks []AppTask) (c taskCounts) {
	for _, t := range tasks {
		switch t.State {
		case "TASK_STAGING", "TASK_STARTING":
			c.Staged++
		case runningState:
			c.Running++
			c.addHealth(t.HealthCheckResults)
		}
	}
	return c
}

const runningState = "TASK_RUNNING"

func (c *taskCounts) addHealth(results []HealthResult) {
	for _, h := range results {
		if !h.Alive {
			c.Unhealthy++
			return
		}
	}
	if len(results) > 0 {
		c.Healthy++
	}
}

// servicePorts returns the ports by which load balancers identify the app.
func servicePorts(a *marathon.App) []int { return emptyIfNil(a.ServicePorts()) }
