package marathon

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	gomarathon "github.com/gambol99/go-marathon"
)

const web = "/shop/web"

// TestClient has the client do what it can with one app after another.
func TestClient(t *testing.T) {
	c := newClient(t, start(t))
	heard := c.listen()
	c.part("create", (*client).create)
	c.part("scheduler", (*client).scheduler)
	c.part("scale", (*client).scale)
	c.part("kill", (*client).kill)
	c.part("update", (*client).update)
	c.part("rollback", (*client).rollback)
	c.part("versions", (*client).versions)
	c.part("restart", (*client).restart)
	c.part("queue", (*client).queue)
	c.part("groups", (*client).groups)
	c.part("delete", (*client).remove)
	c.part("events", heard.all)
}

// scheduler asks who answers: the master has given it an id, since it has
// started tasks.
func (c *client) scheduler() {
	if ok, err := c.Ping(); err != nil || !ok {
		c.Errorf("ping: %v, %v", ok, err)
	}
	address := strings.TrimPrefix(c.url, "http://")
	if leader, err := c.Leader(); err != nil || leader != address {
		c.Errorf("leader %q, %v, want %s", leader, err, address)
	}
	info, err := c.Info()
	if err != nil || info.Name != "mesos-gpu" || info.Version != "test" || info.FrameworkID == "" || info.MarathonConfig.MesosRole != "*" {
		c.Errorf("info %+v, %v", info, err)
	}
	_, err = c.AbdicateLeader()
	c.refused(err, gomarathon.ErrCodeForbidden)
	if pods, err := c.SupportsPods(); err != nil || pods {
		c.Errorf("supports pods: %v, %v", pods, err)
	}
}

// Commands of the app: it is healthy once there is a file, which takes it some
// time, or for ever.
const (
	well = "touch well && exec sleep 1000"
	ill  = "exec sleep 1000"
)

// definition leaves the health check as it is: the client cannot say that it
// is to begin at once.
func definition(cmd string) *gomarathon.Application {
	a := new(gomarathon.Application).Name(web).Command(cmd).CPU(0.05).Memory(32).Count(1).AddLabel("tier", "front")
	return a.AddPortDefinition(*new(gomarathon.PortDefinition).SetName("http").SetProtocol("tcp").SetPort(0))
}

const check = `{"healthChecks": [{"protocol": "COMMAND", "command": {"value": "test -e well"}, "delaySeconds": 0, "intervalSeconds": 1, "maxConsecutiveFailures": 0}]}`

// patch changes an app as clients with other types do.
func (c *client) patch(id, body string) (*gomarathon.DeploymentID, error) {
	c.Helper()
	r, err := http.NewRequestWithContext(c.Context(), http.MethodPatch, c.url+"/v2/apps"+id, strings.NewReader(body))
	c.check(err)
	answer, err := http.DefaultClient.Do(r)
	c.check(err)
	defer answer.Body.Close()
	d := new(gomarathon.DeploymentID)
	return d, json.NewDecoder(answer.Body).Decode(d)
}

func (c *client) create() {
	made, err := c.CreateApplication(definition(well))
	c.check(err)
	if made.ID != web || made.Version == "" || len(made.DeploymentIDs()) != 1 {
		c.Errorf("created %+v", made)
	}
	_, err = c.CreateApplication(definition(well))
	c.refused(err, gomarathon.ErrCodeDuplicateID)
	c.check(c.WaitOnApplication(web, patience))
	c.check(c.WaitOnDeployment(made.DeploymentIDs()[0].DeploymentID, patience))
	c.done(c.patch(web, check))
	if ok, err := c.ApplicationOK(web); err != nil || !ok {
		c.Errorf("after its deployment it is ok: %v, %v", ok, err)
	}
	if a := c.app(web); a.TasksRunning != 1 || a.TasksHealthy != 1 || len(a.Tasks[0].Ports) != 1 || (*a.Labels)["tier"] != "front" {
		c.Errorf("got %+v", a)
	}
	if ids, err := c.ListApplications(map[string][]string{"label": {"tier==front"}}); err != nil || !slices.Equal(ids, []string{web}) {
		c.Errorf("apps %v, %v", ids, err)
	}
	_, err = c.Application("/nobody")
	c.refused(err, gomarathon.ErrCodeNotFound)
	_, err = c.CreateApplication(new(gomarathon.Application).Name("/Bad_").Command("true"))
	c.refused(err, gomarathon.ErrCodeInvalidBean)
}

// scale changes no instance that stays.
func (c *client) scale() {
	first := c.tasks(web, 1)
	c.done(c.ScaleApplicationInstances(web, 3, false))
	three := c.tasks(web, 3)
	if !slices.Contains(three, first[0]) {
		c.Errorf("%v runs no more among %v", first, three)
	}
	c.done(c.ScaleApplicationInstances(web, 2, false))
	for _, id := range c.tasks(web, 2) {
		if !slices.Contains(three, id) {
			c.Errorf("%s is new: there were %v", id, three)
		}
	}
	all, err := c.AllTasks(&gomarathon.AllTasksOpts{Status: "running"})
	if err != nil || len(all.Tasks) != 2 {
		c.Errorf("all tasks: %+v, %v", all, err)
	}
}

// kill ends an instance that is replaced, then one that is not.
func (c *client) kill() {
	before := c.tasks(web, 2)
	c.check(c.KillTasks(before[:1], &gomarathon.KillTaskOpts{}))
	deadline := time.Now().Add(patience)
	for after := before; slices.Contains(after, before[0]) || len(after) != 2; {
		if time.Now().After(deadline) {
			c.Fatalf("%s is not replaced: %v run", before[0], after)
		}
		a := c.app(web)
		after = nil
		for _, one := range a.Tasks {
			if one.State == "TASK_RUNNING" {
				after = append(after, one.ID)
			}
		}
	}
	if n := *c.app(web).Instances; n != 2 {
		c.Errorf("it wants %d instances, want 2 still", n)
	}
	now := c.tasks(web, 2)
	c.check(c.KillTasks(now[1:], &gomarathon.KillTaskOpts{Scale: true}))
	for _, d := range c.app(web).DeploymentIDs() {
		c.check(c.WaitOnDeployment(d.DeploymentID, patience))
	}
	if n := *c.app(web).Instances; n != 1 || c.tasks(web, 1)[0] != now[0] {
		c.Errorf("it wants %d instances, %v run, want %s alone", n, c.tasks(web, 1), now[0])
	}
	if gone, err := c.KillApplicationTasks(web, &gomarathon.KillApplicationTasksOpts{Host: "nowhere"}); err != nil || len(gone.Tasks) != 0 {
		c.Errorf("on no host: %+v, %v", gone, err)
	}
}

// update replaces instances once the new ones are healthy.
func (c *client) update() {
	before := c.tasks(web, 1)
	changed := definition(well).AddEnv("COLOUR", "green")
	c.done(c.UpdateApplication(changed, false))
	if after := c.tasks(web, 1); after[0] == before[0] {
		c.Errorf("%v still runs", after)
	}
	if a := c.app(web); (*a.Env)["COLOUR"] != "green" || a.TasksHealthy != 1 {
		c.Errorf("got %+v", a)
	}
}

// rollback takes back an update that never becomes healthy, under which what
// ran before runs on.
func (c *client) rollback() {
	before := c.tasks(web, 1)
	bad, err := c.UpdateApplication(definition(ill), false)
	c.check(err)
	_, err = c.ScaleApplicationInstances(web, 5, false)
	c.refused(err, gomarathon.ErrCodeAppLocked)
	all, err := c.Deployments()
	if err != nil || len(all) != 1 || all[0].ID != bad.DeploymentID || !slices.Equal(all[0].AffectedApps, []string{web}) || all[0].Steps[0][0].Action != "RestartApplication" {
		c.Fatalf("deployments %+v, %v", all, err)
	}
	c.done(c.DeleteDeployment(bad.DeploymentID, false))
	if after := c.tasks(web, 1); !slices.Equal(before, after) {
		c.Errorf("%v runs, want %v still", after, before)
	}
	if a := c.app(web); (*a.Env)["COLOUR"] != "green" || *a.Cmd != well {
		c.Errorf("it is %q with %v", *a.Cmd, *a.Env)
	}
	if list, err := c.ApplicationDeployments(web); err != nil || len(list) != 0 {
		c.Errorf("deployments %v, %v", list, err)
	}
}

// versions goes back to the first one.
func (c *client) versions() {
	list, err := c.ApplicationVersions(web)
	c.check(err)
	if len(list.Versions) != 8 {
		c.Errorf("versions %v, want 8", list.Versions)
	}
	oldest := list.Versions[len(list.Versions)-1]
	if ok, err := c.HasApplicationVersion(web, oldest); err != nil || !ok {
		c.Errorf("has %s: %v, %v", oldest, ok, err)
	}
	if a, err := c.ApplicationByVersion(web, oldest); err != nil || a.Env != nil && len(*a.Env) > 0 {
		c.Errorf("the first version: %+v, %v", a, err)
	}
	c.done(c.SetApplicationVersion(web, &gomarathon.ApplicationVersion{Version: oldest}))
	if a := c.app(web); a.Env != nil && len(*a.Env) > 0 {
		c.Errorf("it has %v still", *a.Env)
	}
}

func (c *client) restart() {
	before := c.tasks(web, 1)
	c.done(c.RestartApplication(web, false))
	if after := c.tasks(web, 1); after[0] == before[0] {
		c.Errorf("%v still runs", after)
	}
}

// queue has an app that no agent can hold, and one of which each instance
// fails.
func (c *client) queue() {
	_, err := c.CreateApplication(new(gomarathon.Application).Name("/huge").Command("sleep 1000").CPU(4000).Memory(32).Count(3))
	c.check(err)
	q, err := c.Queue()
	c.check(err)
	if len(q.Items) != 1 || q.Items[0].Count != 3 || q.Items[0].Application.ID != "/huge" || q.Items[0].Role != "*" {
		c.Errorf("queue %+v", q)
	}
	c.check(c.DeleteQueueDelay("/huge"))
	c.refused(c.DeleteQueueDelay("/nobody"), gomarathon.ErrCodeNotFound)
	c.done(c.DeleteApplication("/huge", true))
	if q, err = c.Queue(); err != nil || len(q.Items) != 0 {
		c.Errorf("queue %+v, %v", q, err)
	}
}

// groups makes two apps of which one waits for the other, one with a GPU.
func (c *client) groups() {
	gpu := 1.0
	train := new(gomarathon.Application).Name("/lab/train").Command("exec sleep 1000").CPU(0.05).Memory(32).Count(1).SetGPUs(gpu)
	board := new(gomarathon.Application).Name("/lab/board").Command("exec sleep 1000").CPU(0.05).Memory(32).Count(1).DependsOn("/lab/train")
	c.check(c.CreateGroup(gomarathon.NewApplicationGroup("/lab").App(train).App(board)))
	c.check(c.WaitOnGroup("/lab", patience))
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
	c.done(c.UpdateGroup("/lab", gomarathon.NewApplicationGroup("/lab").App(train).App(board), false))
	c.tasks("/lab/board", 0)
	if a := c.app("/lab/train"); *a.GPUs != gpu {
		c.Errorf("it has %v GPUs", *a.GPUs)
	}
	c.done(c.DeleteGroup("/lab", false))
	if ok, err := c.HasGroup("/lab"); err != nil || ok {
		c.Errorf("has the group that was deleted: %v, %v", ok, err)
	}
}

func (c *client) remove() {
	c.done(c.DeleteApplication(web, false))
	_, err := c.Application(web)
	c.refused(err, gomarathon.ErrCodeNotFound)
	if all, err := c.Applications(nil); err != nil || len(all.Apps) != 0 {
		c.Errorf("apps %+v, %v", all, err)
	}
	if all, err := c.AllTasks(nil); err != nil || len(all.Tasks) != 0 {
		c.Errorf("tasks %+v, %v", all, err)
	}
}
