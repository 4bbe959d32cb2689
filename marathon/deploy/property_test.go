package deploy

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"mesos-gpu/job"
	"mesos-gpu/marathon"
)

// randomRun runs a DesiredState on the model of the scheduler, with random changes by users and agents.
type randomRun struct {
	t         *rapid.T
	st        *observedState
	cluster   *schedulerModel
	documents map[string][]byte
	// lossy makes actions fail and observations arrive late. Otherwise actions take effect at once, and invariants
	// are checked at each step.
	lossy, checked bool
	late           map[string]bool
}

// After any sequence of changes, losses, failures and recoveries, deployments end when the cluster stays undisturbed.
// Meanwhile the state respects the bounds of each update, and another state loaded from its documents returns the
// same actions.
func TestDeploymentsConverge(t *testing.T) {
	for _, lossy := range []bool{false, true} {
		t.Run(fmt.Sprintf("lossy %t", lossy), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				c := &randomRun{
					t:         t,
					cluster:   newSchedulerModel(time.Unix(1_700_000_000, 0).UTC()),
					documents: map[string][]byte{},
					lossy:     lossy,
					checked:   !lossy,
					late:      map[string]bool{},
				}
				c.st, _ = loadState(nil)
				for range rapid.IntRange(1, 40).Draw(t, "moves") {
					c.makeRandomMove()
				}
				c.runToCompletion()
			})
		})
	}
}

func (c *randomRun) makeRandomMove() {
	c.cluster.now = c.cluster.now.Add(time.Second)
	switch rapid.IntRange(0, 9).Draw(c.t, "move") {
	case 0, 1:
		c.changeAsUser()
		c.stepUntilIdle()
	case 2:
		c.restoreState()
	default:
		for range rapid.IntRange(1, 4).Draw(c.t, "events") {
			c.changeRandomTask()
		}
		c.stepUntilIdle()
	}
}

// changeAsUser makes a random change by a user. A rejected change has no effect.
func (c *randomRun) changeAsUser() {
	now := c.cluster.now
	o := ChangeOptions{Force: rapid.Bool().Draw(c.t, "force")}
	ids := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"/a", "/b", "/g/c"}), 1, 3, rapid.ID[string]).Draw(c.t, "ids")
	switch rapid.IntRange(0, 7).Draw(c.t, "wish") {
	case 0:
		_, _ = c.st.RemoveApps(now, ids, o)
	case 1:
		_, _ = c.st.RestartApps(now, ids, o)
	case 2:
		for _, d := range c.st.Deployments() {
			_, _ = c.st.CancelDeployment(now, d.ID, o)
			break
		}
	case 3:
		if seen := c.st.instancesOf(ids[0]); len(seen) > 0 {
			_, _ = c.st.RetireInstances(now, []string{rapid.SampledFrom(seen).Draw(c.t, "instance").ID}, o)
		}
	default:
		var apps []*marathon.App
		for _, id := range ids {
			apps = append(apps, c.newRandomApp(id))
		}
		_, _ = c.st.PutApps(now, apps, o)
	}
}

func (c *randomRun) newRandomApp(id string) *marathon.App {
	shares := rapid.SampledFrom([]string{"0", "0.3", "0.5", "1"})
	args := []string{id, fmt.Sprintf("n=%d", rapid.IntRange(0, 5).Draw(c.t, "instances")),
		"min=" + shares.Draw(c.t, "min"), "over=" + shares.Draw(c.t, "over"), fmt.Sprintf("cmd=x%d", rapid.IntRange(0, 2).Draw(c.t, "cmd"))}
	for _, word := range []string{"health", "ready", "oldest"} {
		if rapid.Bool().Draw(c.t, word) {
			args = append(args, word)
		}
	}
	if id == "/g/c" {
		args = append(args, "deps=/a")
	}
	if id == "/b" { // this app never has two instances
		args = append(args, "single", fmt.Sprintf("n=%d", rapid.IntRange(0, 1).Draw(c.t, "instances")))
	}
	return testApp(c.t, args)
}

// changeRandomTask changes a random task.
func (c *randomRun) changeRandomTask() {
	var ids []string
	c.cluster.forEachTask(func(_ *modelJob, _ int, t *AppInstance) {
		if t.State.IsLive() {
			ids = append(ids, t.ID)
		}
	})
	if len(ids) == 0 {
		return
	}
	j, slot := c.cluster.findTask(rapid.SampledFrom(ids).Draw(c.t, "task"))
	t := j.tasks[slot]
	health := rapid.SampledFrom([]*bool{nil, new(false), new(true), new(true)}).Draw(c.t, "healthy")
	switch {
	case t.State == job.Waiting:
		c.cluster.runTask(j, t, health, rapid.Bool().Draw(c.t, "ready"))
	case t.State == job.Killing:
		c.cluster.endTask(j, slot, job.Killed)
	default:
		c.runTask(j, slot, health)
	}
}

func (c *randomRun) runTask(j *modelJob, slot int, health *bool) {
	t := j.tasks[slot]
	switch rapid.IntRange(0, 5).Draw(c.t, "fate") {
	case 0:
		c.cluster.endTask(j, slot, job.Failed)
	case 1:
		t.State = job.Unreachable
	case 2:
		if !t.KillRequested.IsZero() {
			c.cluster.endTask(j, slot, job.Killed)
		}
	default:
		c.cluster.runTask(j, t, health, true)
		if !t.KillRequested.IsZero() {
			t.State = job.Killing
		}
	}
	c.cluster.changed[j.app] = true
}

// stepUntilIdle reports changes to the state and executes the returned actions, until there are none.
func (c *randomRun) stepUntilIdle() {
	for range 50 {
		seen := c.takeObservations()
		before := c.countInstances()
		if n := before["/b"]; c.checked && n.placed > 1 {
			c.t.Fatalf("an app with a single instance runs %d instances", n.placed)
		}
		actions, _ := c.st.Step(seen)
		c.saveDocuments()
		if len(actions) == 0 {
			return
		}
		failed := map[string]bool{}
		for _, a := range actions {
			if c.lossy && rapid.IntRange(0, 3).Draw(c.t, "fails") == 0 {
				failed[a.TargetApp()] = true
			}
			if failed[a.TargetApp()] {
				c.cluster.changed[a.TargetApp()] = true
				continue
			}
			c.cluster.execute(a)
		}
		if c.lossy {
			return
		}
		if c.checked {
			c.checkBounds(before, actions)
		}
	}
	c.t.Fatal("it repeats actions forever")
}

// takeObservations returns changed apps. If lossy is set it postpones some of them.
func (c *randomRun) takeObservations() map[string][]AppInstance {
	for id := range c.late {
		c.cluster.changed[id] = true
	}
	clear(c.late)
	for _, id := range sortedKeys(c.cluster.changed) {
		if c.lossy && rapid.IntRange(0, 2).Draw(c.t, "late") == 0 {
			c.late[id] = true
			delete(c.cluster.changed, id)
		}
	}
	return c.cluster.takeChanged(false)
}

func (c *randomRun) saveDocuments() {
	for key, value := range c.st.TakeChangedDocuments() {
		if value == nil {
			delete(c.documents, key)
		} else {
			c.documents[key] = value
		}
	}
}

// instanceCounts is how many of an app's instances stay, serve, and are placed.
type instanceCounts struct{ wanted, serving, placed int }

func (c *randomRun) countInstances() map[string]instanceCounts {
	all := map[string]instanceCounts{}
	c.cluster.forEachTask(func(j *modelJob, _ int, t *AppInstance) {
		n := all[j.app]
		if !t.isLeaving() {
			n.wanted++
			config, _ := c.st.AppAtConfig(j.app, t.Version)
			current, ok := c.st.App(j.app)
			if t.isHealthy(config) && (!ok || current.VersionInfo.LastConfigChangeAt != t.Version || t.isReady(config)) {
				n.serving++
			}
		}
		if t.State.IsPlaced() {
			n.placed++
		}
		all[j.app] = n
	})
	return all
}

// checkBounds compares the counts before and after the actions with InstanceBounds.
func (c *randomRun) checkBounds(before map[string]instanceCounts, actions []Action) {
	after := c.countInstances()
	for id, now := range after {
		was := before[id]
		app, ok := c.st.App(id)
		d, rolls := c.st.Deployment(id)
		if !ok || !rolls || !d.hasReached(id) {
			continue
		}
		least, most := InstanceBounds(app)
		if least == most {
			most++
		}
		if len(d.Kill[id]) == 0 && now.serving < min(was.serving, least) {
			c.t.Fatalf("%s: %d served, then %d, of %d at least, by %+v", id, was.serving, now.serving, least, actions)
		}
		if now.wanted > max(was.wanted, most) {
			c.t.Fatalf("%s: %d instances, then %d, of %d at most, by %+v", id, was.wanted, now.wanted, most, actions)
		}
	}
	if n := after["/b"]; n.wanted > 1 {
		c.t.Fatalf("an app with a single instance has %d instances, by %+v", n.wanted, actions)
	}
}

// restoreState loads another state from the documents, which must return the same actions as the first.
func (c *randomRun) restoreState() {
	c.saveDocuments()
	other, err := loadState(maps.Clone(c.documents))
	if err != nil {
		c.t.Fatal(err)
	}
	all := c.cluster.takeChanged(true)
	if !c.lossy {
		got, _ := other.Step(all)
		want, _ := c.st.Step(all)
		if diff := cmp.Diff(want, got); diff != "" {
			c.t.Fatalf("the restored state returns other actions (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(c.st.TakeChangedDocuments(), other.TakeChangedDocuments()); diff != "" {
			c.t.Fatalf("the restored state has other documents (-want +got):\n%s", diff)
		}
		if len(want) > 0 {
			c.t.Fatalf("repeated an action whose effect was observed: %+v", want)
		}
		return
	}
	c.st = other
	clear(c.late)
	actions, _ := c.st.Step(all)
	c.saveDocuments()
	for _, a := range actions {
		c.cluster.execute(a)
	}
}

// runToCompletion runs and ends all tasks that wait for it; then the desired state must be reached.
func (c *randomRun) runToCompletion() {
	maps.Copy(c.cluster.changed, c.late)
	clear(c.late)
	checked := !c.lossy
	c.lossy = false
	c.stepUntilIdle() // may repeat failed actions, although instances have recovered since
	c.checked = checked
	for range 100 {
		busy := false
		c.cluster.forEachTask(func(j *modelJob, slot int, t *AppInstance) {
			switch {
			case !t.State.IsLive():
			case t.State == job.Killing, t.State == job.Unreachable:
				c.cluster.endTask(j, slot, job.Killed)
				busy = true
			case t.State == job.Waiting, t.Healthy == nil || !*t.Healthy || !t.Ready:
				c.cluster.runTask(j, t, new(true), true)
				busy = true
			}
		})
		c.stepUntilIdle()
		if !busy {
			break
		}
	}
	if list := c.st.Deployments(); len(list) > 0 {
		c.t.Fatalf("deployments do not end: %+v undone %v", list[0], list[0].pending)
	}
	running := map[string]int{}
	c.cluster.forEachTask(func(j *modelJob, _ int, t *AppInstance) {
		if t.State.IsLive() {
			running[j.app]++
		}
	})
	for _, a := range c.st.Apps() {
		if running[a.ID] != a.Instances {
			c.t.Fatalf("%s: got %d instances, want %d", a.ID, running[a.ID], a.Instances)
		}
		delete(running, a.ID)
	}
	for id, n := range running {
		if n > 0 {
			c.t.Fatalf("%s is not in the desired state and has %d instances", id, n)
		}
	}
	if actions, _ := c.st.Step(c.cluster.takeChanged(true)); len(actions) > 0 {
		c.t.Fatalf("all is done and it returns %+v", actions)
	}
}
