package marathon

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	gomarathon "github.com/gambol99/go-marathon"

	"mesos-gpu/marathon/api"
)

const webID = "/shop/web"

// TestGoMarathonClient runs each operation of the client go-marathon against one app, in
// order. Each step continues from the state that the step before it left.
func TestGoMarathonClient(t *testing.T) {
	c := newClient(t, startLocalCluster(t))
	heard := c.recordEvents()
	c.runStep("create", (*client).createApp)
	c.runStep("scheduler", (*client).checkSchedulerInfo)
	c.runStep("scale", (*client).scaleApp)
	c.runStep("kill", (*client).killInstances)
	c.runStep("update", (*client).updateApp)
	c.runStep("rollback", (*client).rollBackUpdate)
	c.runStep("versions", (*client).restoreVersion)
	c.runStep("restart", (*client).restartApp)
	c.runStep("queue", (*client).listQueue)
	c.runStep("groups", (*client).manageGroup)
	c.runStep("delete", (*client).deleteApp)
	c.runStep("events", heard.requireAllEvents)
	c.runStep("abdicate", (*client).abdicateLeadership)
}

// abdicateLeadership makes the only scheduler step down. It leads again.
func (c *client) abdicateLeadership() {
	if message, err := c.AbdicateLeader(); err != nil || message != "Leadership abdicated" {
		c.Errorf("got %q, %v", message, err)
	}
	awaitLeader(c.T, c.url)
}

// checkSchedulerInfo checks the responses about the scheduler itself. The master has assigned
// it a framework ID because it has launched tasks.
func (c *client) checkSchedulerInfo() {
	if ok, err := c.Ping(); err != nil || !ok {
		c.Errorf("ping: %v, %v", ok, err)
	}
	address := strings.TrimPrefix(c.url, "http://")
	if leader, err := c.Leader(); err != nil || leader != address {
		c.Errorf("leader %q, %v, want %s", leader, err, address)
	}
	info, err := c.Info()
	if err != nil || info.Name != "mesos-gpu" || info.Version != api.ServedVersion || info.FrameworkID == "" || info.MarathonConfig.MesosRole != "*" {
		c.Errorf("info %+v, %v", info, err)
	}
	if pods, err := c.SupportsPods(); err != nil || pods {
		c.Errorf("supports pods: %v, %v", pods, err)
	}
}

// Commands of the app. Its health check requires a file, which only healthyCommand creates.
const (
	healthyCommand   = "touch well && exec sleep 1000"
	unhealthyCommand = "exec sleep 1000"
)

// newWebApp returns an app without a health check: the client cannot set delaySeconds to 0.
func newWebApp(cmd string) *gomarathon.Application {
	a := new(gomarathon.Application).Name(webID).Command(cmd).CPU(0.05).Memory(32).Count(1).AddLabel("tier", "front")
	return a.AddPortDefinition(*new(gomarathon.PortDefinition).SetName("http").SetProtocol("tcp").SetPort(0))
}

const healthCheckPatch = `{"healthChecks": [{"protocol": "COMMAND", "command": {"value": "test -e well"}, "delaySeconds": 0, "intervalSeconds": 1, "maxConsecutiveFailures": 0}]}`

// patchApp changes an app with fields that the client's types lack.
func (c *client) patchApp(id, body string) (*gomarathon.DeploymentID, error) {
	c.Helper()
	r, err := http.NewRequestWithContext(c.Context(), http.MethodPatch, c.url+"/v2/apps"+id, strings.NewReader(body))
	c.requireNoError(err)
	answer, err := http.DefaultClient.Do(r)
	c.requireNoError(err)
	defer answer.Body.Close()
	d := new(gomarathon.DeploymentID)
	return d, json.NewDecoder(answer.Body).Decode(d)
}

func (c *client) createApp() {
	made, err := c.CreateApplication(newWebApp(healthyCommand))
	c.requireNoError(err)
	if made.ID != webID || made.Version == "" || len(made.DeploymentIDs()) != 1 {
		c.Errorf("created %+v", made)
	}
	_, err = c.CreateApplication(newWebApp(healthyCommand))
	c.requireRefusal(err, gomarathon.ErrCodeDuplicateID)
	c.requireNoError(c.WaitOnApplication(webID, waitTimeout))
	c.requireNoError(c.WaitOnDeployment(made.DeploymentIDs()[0].DeploymentID, waitTimeout))
	c.awaitDeployment(c.patchApp(webID, healthCheckPatch))
	if ok, err := c.ApplicationOK(webID); err != nil || !ok {
		c.Errorf("after its deployment it is ok: %v, %v", ok, err)
	}
	if a := c.getApp(webID); a.TasksRunning != 1 || a.TasksHealthy != 1 || len(a.Tasks[0].Ports) != 1 || (*a.Labels)["tier"] != "front" {
		c.Errorf("got %+v", a)
	}
	if ids, err := c.ListApplications(map[string][]string{"label": {"tier==front"}}); err != nil || !slices.Equal(ids, []string{webID}) {
		c.Errorf("apps %v, %v", ids, err)
	}
	_, err = c.Application("/unknown")
	c.requireRefusal(err, gomarathon.ErrCodeNotFound)
	_, err = c.CreateApplication(new(gomarathon.Application).Name("/Bad_").Command("true"))
	c.requireRefusal(err, gomarathon.ErrCodeInvalidBean)
}

// scaleApp scales to 3 and then to 2 instances. Remaining instances must not be replaced.
func (c *client) scaleApp() {
	first := c.listTasks(webID, 1)
	c.awaitDeployment(c.ScaleApplicationInstances(webID, 3, false))
	three := c.listTasks(webID, 3)
	if !slices.Contains(three, first[0]) {
		c.Errorf("instance %v is not among %v", first, three)
	}
	c.awaitDeployment(c.ScaleApplicationInstances(webID, 2, false))
	for _, id := range c.listTasks(webID, 2) {
		if !slices.Contains(three, id) {
			c.Errorf("instance %s is new; there were %v", id, three)
		}
	}
	all, err := c.AllTasks(&gomarathon.AllTasksOpts{Status: "running"})
	if err != nil || len(all.Tasks) != 2 {
		c.Errorf("all tasks: %+v, %v", all, err)
	}
}

// killInstances kills an instance, which must be replaced, and then one with scale=true, which
// must not.
func (c *client) killInstances() {
	before := c.listTasks(webID, 2)
	c.requireNoError(c.KillTasks(before[:1], &gomarathon.KillTaskOpts{}))
	deadline := time.Now().Add(waitTimeout)
	for after := before; slices.Contains(after, before[0]) || len(after) != 2; {
		if time.Now().After(deadline) {
			c.Fatalf("%s is not replaced: %v run", before[0], after)
		}
		a := c.getApp(webID)
		after = nil
		for _, one := range a.Tasks {
			if one.State == "TASK_RUNNING" {
				after = append(after, one.ID)
			}
		}
	}
	if n := *c.getApp(webID).Instances; n != 2 {
		c.Errorf("the app has %d instances, want 2 as before", n)
	}
	now := c.listTasks(webID, 2)
	c.requireNoError(c.KillTasks(now[1:], &gomarathon.KillTaskOpts{Scale: true}))
	for _, d := range c.getApp(webID).DeploymentIDs() {
		c.requireNoError(c.WaitOnDeployment(d.DeploymentID, waitTimeout))
	}
	if n := *c.getApp(webID).Instances; n != 1 || c.listTasks(webID, 1)[0] != now[0] {
		c.Errorf("the app has %d instances and runs %v, want only %s", n, c.listTasks(webID, 1), now[0])
	}
	if gone, err := c.KillApplicationTasks(webID, &gomarathon.KillApplicationTasksOpts{Host: "nowhere"}); err != nil || len(gone.Tasks) != 0 {
		c.Errorf("kill on an unknown host: got %+v, %v", gone, err)
	}
}

// updateApp changes the app. The old instance is replaced once the new one is healthy.
func (c *client) updateApp() {
	before := c.listTasks(webID, 1)
	changed := newWebApp(healthyCommand).AddEnv("COLOUR", "green")
	c.awaitDeployment(c.UpdateApplication(changed, false))
	if after := c.listTasks(webID, 1); after[0] == before[0] {
		c.Errorf("%v still runs", after)
	}
	if a := c.getApp(webID); (*a.Env)["COLOUR"] != "green" || a.TasksHealthy != 1 {
		c.Errorf("got %+v", a)
	}
}

// rollBackUpdate starts an update that never becomes healthy and rolls it back. The instances
// from before the update must keep running.
func (c *client) rollBackUpdate() {
	before := c.listTasks(webID, 1)
	bad, err := c.UpdateApplication(newWebApp(unhealthyCommand), false)
	c.requireNoError(err)
	_, err = c.ScaleApplicationInstances(webID, 5, false)
	c.requireRefusal(err, gomarathon.ErrCodeAppLocked)
	all, err := c.Deployments()
	if err != nil || len(all) != 1 || all[0].ID != bad.DeploymentID || !slices.Equal(all[0].AffectedApps, []string{webID}) ||
		all[0].Steps[0][0].Action != "RestartApplication" {
		c.Fatalf("deployments %+v, %v", all, err)
	}
	c.awaitDeployment(c.DeleteDeployment(bad.DeploymentID, false))
	if after := c.listTasks(webID, 1); !slices.Equal(before, after) {
		c.Errorf("%v runs, want %v as before", after, before)
	}
	if a := c.getApp(webID); (*a.Env)["COLOUR"] != "green" || *a.Cmd != healthyCommand {
		c.Errorf("the app runs %q with %v", *a.Cmd, *a.Env)
	}
	if list, err := c.ApplicationDeployments(webID); err != nil || len(list) != 0 {
		c.Errorf("deployments %v, %v", list, err)
	}
}

// restoreVersion goes back to the first version of the app.
func (c *client) restoreVersion() {
	list, err := c.ApplicationVersions(webID)
	c.requireNoError(err)
	if len(list.Versions) != 8 {
		c.Errorf("versions %v, want 8", list.Versions)
	}
	oldest := list.Versions[len(list.Versions)-1]
	if ok, err := c.HasApplicationVersion(webID, oldest); err != nil || !ok {
		c.Errorf("has %s: %v, %v", oldest, ok, err)
	}
	if a, err := c.ApplicationByVersion(webID, oldest); err != nil || a.Env != nil && len(*a.Env) > 0 {
		c.Errorf("the first version: %+v, %v", a, err)
	}
	c.awaitDeployment(c.SetApplicationVersion(webID, &gomarathon.ApplicationVersion{Version: oldest}))
	if a := c.getApp(webID); a.Env != nil && len(*a.Env) > 0 {
		c.Errorf("the app still has %v", *a.Env)
	}
}

func (c *client) restartApp() {
	before := c.listTasks(webID, 1)
	c.awaitDeployment(c.RestartApplication(webID, false))
	if after := c.listTasks(webID, 1); after[0] == before[0] {
		c.Errorf("%v still runs", after)
	}
}

// listQueue creates an app that fits no agent and finds it in the queue.
func (c *client) listQueue() {
	_, err := c.CreateApplication(new(gomarathon.Application).Name("/huge").Command("sleep 1000").CPU(4000).Memory(32).Count(3))
	c.requireNoError(err)
	q, err := c.Queue()
	c.requireNoError(err)
	if len(q.Items) != 1 || q.Items[0].Count != 3 || q.Items[0].Application.ID != "/huge" || q.Items[0].Role != "*" {
		c.Errorf("queue %+v", q)
	}
	c.requireNoError(c.DeleteQueueDelay("/huge"))
	c.requireRefusal(c.DeleteQueueDelay("/unknown"), gomarathon.ErrCodeNotFound)
	c.awaitDeployment(c.DeleteApplication("/huge", true))
	if q, err = c.Queue(); err != nil || len(q.Items) != 0 {
		c.Errorf("queue %+v, %v", q, err)
	}
}

// manageGroup creates a group of two apps, one of which has a GPU and is a dependency of the
// other. It then updates and deletes the group.
func (c *client) manageGroup() {
	gpu := 1.0
	train := new(gomarathon.Application).Name("/lab/train").Command("exec sleep 1000").CPU(0.05).Memory(32).Count(1).SetGPUs(gpu)
	board := new(gomarathon.Application).Name("/lab/board").Command("exec sleep 1000").CPU(0.05).Memory(32).Count(1).DependsOn("/lab/train")
	c.requireNoError(c.CreateGroup(gomarathon.NewApplicationGroup("/lab").App(train).App(board)))
	c.requireNoError(c.WaitOnGroup("/lab", waitTimeout))
	if ok, err := c.HasGroup("/lab"); err != nil || !ok {
		c.Errorf("has the group: %v, %v", ok, err)
	}
	if g, err := c.Group("/lab"); err != nil || len(g.Apps) != 2 {
		c.Errorf("group %+v, %v", g, err)
	}
	if all, err := c.Groups(); err != nil || len(all.Groups) != 2 {
		c.Errorf("groups %+v, %v", all, err)
	}
	none := 0
	board.Instances = &none
	c.awaitDeployment(c.UpdateGroup("/lab", gomarathon.NewApplicationGroup("/lab").App(train).App(board), false))
	c.listTasks("/lab/board", 0)
	if a := c.getApp("/lab/train"); *a.GPUs != gpu {
		c.Errorf("it has %v GPUs", *a.GPUs)
	}
	c.awaitDeployment(c.DeleteGroup("/lab", false))
	if ok, err := c.HasGroup("/lab"); err != nil || ok {
		c.Errorf("has the group that was deleted: %v, %v", ok, err)
	}
}

func (c *client) deleteApp() {
	c.awaitDeployment(c.DeleteApplication(webID, false))
	_, err := c.Application(webID)
	c.requireRefusal(err, gomarathon.ErrCodeNotFound)
	if all, err := c.Applications(nil); err != nil || len(all.Apps) != 0 {
		c.Errorf("apps %+v, %v", all, err)
	}
	if all, err := c.AllTasks(nil); err != nil || len(all.Tasks) != 0 {
		c.Errorf("tasks %+v, %v", all, err)
	}
}
