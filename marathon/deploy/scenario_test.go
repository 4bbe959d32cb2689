package deploy

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/job"
	"mesos-gpu/marathon"
)

var rewrite = flag.Bool("rewrite", false, "write what the scenarios print into testdata: commit it only if you understand each change")

// TestScenarios runs testdata/*.txt: blocks of commands, a line "----", and the actions and events of the state. See
// script.run for the commands. A model of the scheduler executes the actions at once.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := playScenario(t, string(text))
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(text), got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", file, diff)
			}
		})
	}
}

func playScenario(t *testing.T, text string) string {
	p := newScenarioRunner(t)
	var out strings.Builder
	for i, block := range strings.Split(strings.TrimSpace(text), "\n\n") {
		commands, _, _ := strings.Cut(block, "\n----")
		if i > 0 {
			out.WriteString("\n")
		}
		p.out.Reset()
		for line := range strings.SplitSeq(commands, "\n") {
			if !strings.HasPrefix(line, "#") {
				p.runCommand(line)
			}
		}
		out.WriteString(strings.TrimSpace(commands) + "\n----\n" + p.out.String())
	}
	return out.String()
}

type scenarioRunner struct {
	t         *testing.T
	st        *observedState
	cluster   *schedulerModel
	documents map[string][]byte
	apps      []*marathon.App
	ids       map[string]string // ids of deployments and versions → short names
	out       strings.Builder
}

func newScenarioRunner(t *testing.T) *scenarioRunner {
	p := &scenarioRunner{t: t, cluster: newSchedulerModel(time.Unix(1_700_000_000, 0).UTC()), documents: map[string][]byte{}, ids: map[string]string{}}
	p.st = p.loadState()
	return p
}

func (p *scenarioRunner) loadState() *observedState {
	st, err := loadState(p.documents)
	if err != nil {
		p.t.Fatal(err)
	}
	return st
}

// runCommand executes one command.
func (p *scenarioRunner) runCommand(line string) {
	words := strings.Fields(line)
	verb, args := words[0], words[1:]
	force := ChangeOptions{Force: slices.Contains(args, "force")}
	args = slices.DeleteFunc(args, func(a string) bool { return a == "force" })
	p.cluster.now = p.cluster.now.Add(time.Second)
	now := p.cluster.now
	switch verb {
	case "app": // deploy then puts several at once
		p.apps = append(p.apps, testApp(p.t, args))
	case "put":
		p.printResult(p.st.PutApps(now, []*marathon.App{testApp(p.t, args)}, force))
	case "deploy":
		p.printResult(p.st.PutApps(now, p.apps, force))
		p.apps = nil
	case "group":
		g, err := marathon.ParseGroup([]byte(strings.Join(args[1:], " ")), args[0], marathon.ParseSettings{Role: "*"})
		if err != nil {
			p.t.Fatal(err)
		}
		p.printResult(p.st.PutGroup(now, args[0], g, force))
	case "remove":
		p.printResult(p.st.RemoveApps(now, args, force))
	case "remove-group":
		p.printResult(p.st.RemoveGroup(now, args[0], force))
	case "restart":
		p.printResult(p.st.RestartApps(now, args, force))
	case "retire":
		p.printResult(p.st.RetireInstances(now, args, force))
	case "cancel":
		list := p.st.Deployments()
		p.printResult(p.st.CancelDeployment(now, list[len(list)-1].ID, force))
	default:
		p.runTaskCommand(verb, args)
	}
}

// runTaskCommand changes or prints the running instances.
func (p *scenarioRunner) runTaskCommand(verb string, args []string) {
	c := p.cluster
	switch verb {
	case "run", "sick", "end", "lose", "unreachable", "unready":
		for _, id := range args {
			p.task(verb, id)
		}
		p.step(c.takeChanged(false))
	case "settle":
		p.settle(!slices.Contains(args, "sick"))
	case "kill-job":
		c.findJob(args[0], c.jobs[args[0]][len(c.jobs[args[0]])-1].version).kill(c.now)
		p.step(c.takeChanged(true))
	case "on": // on AGENT RACK TASKS…
		for _, id := range args[2:] {
			c.placeTask(id, args[0], args[1])
		}
		p.step(c.takeChanged(false))
	case "killed": // the end of these tasks
		for _, id := range args {
			j, slot := c.findTask(id)
			c.endTask(j, slot, job.Killed)
		}
		p.step(c.takeChanged(false))
	case "failover":
		p.drain()
		p.st = p.loadState()
		p.step(c.takeChanged(true))
	case "show":
		p.printApps(args)
	case "groups":
		p.printGroups("/", 0)
	default:
		p.t.Fatalf("unknown command %q", verb)
	}
}

func (p *scenarioRunner) task(verb, id string) {
	c := p.cluster
	j, slot := c.findTask(id)
	if j == nil {
		p.t.Fatalf("no task %s", id)
	}
	c.changed[j.app] = true
	yes, no := true, false
	switch t := j.tasks[slot]; verb {
	case "run":
		c.runTask(j, t, &yes, true)
	case "unready":
		c.runTask(j, t, &yes, false)
	case "sick":
		t.State, t.Healthy = job.Running, &no
	case "end":
		c.endTask(j, slot, job.Failed)
	case "lose":
		c.endTask(j, slot, job.Lost)
	case "unreachable":
		t.State = job.Unreachable
	}
}

// settle runs all waiting tasks and ends all killed ones, until there are none.
func (p *scenarioRunner) settle(healthy bool) {
	for range 100 {
		busy := false
		p.cluster.forEachTask(func(j *modelJob, slot int, t *AppInstance) {
			switch t.State {
			case job.Waiting:
				p.cluster.runTask(j, t, &healthy, true)
				busy = true
			case job.Killing:
				p.cluster.endTask(j, slot, job.Killed)
				busy = true
			}
		})
		p.step(p.cluster.takeChanged(false))
		if !busy {
			return
		}
	}
	p.t.Fatal("it does not settle")
}

// printResult prints the result of a change, and steps.
func (p *scenarioRunner) printResult(d Deployment, err error) {
	var locked *LockedError
	switch {
	case errors.As(err, &locked):
		for i, id := range locked.Deployments {
			locked.Deployments[i] = p.shortenID("d", id)
		}
		fmt.Fprintf(&p.out, "locked by %s\n", strings.Join(locked.Deployments, " "))
		return
	case err != nil:
		fmt.Fprintf(&p.out, "refused: %v\n", err)
		return
	case d.ID != "":
		fmt.Fprintf(&p.out, "deployment %s:", p.shortenID("d", d.ID))
		for _, s := range d.Steps {
			fmt.Fprintf(&p.out, " %s", stepText(s))
		}
		fmt.Fprintln(&p.out)
	}
	p.step(nil)
}

func stepText(s PlanStep) string {
	var list []string
	for _, a := range s.Actions {
		list = append(list, strings.TrimSuffix(a.Action, "Application")+" "+a.App)
	}
	return "[" + strings.Join(list, ", ") + "]"
}

func (p *scenarioRunner) drain() {
	for key, value := range p.st.TakeChangedDocuments() {
		if value == nil {
			delete(p.documents, key)
		} else {
			p.documents[key] = value
		}
	}
}

// step executes actions until there are none.
func (p *scenarioRunner) step(seen map[string][]AppInstance) {
	for range 20 {
		actions, events := p.st.Step(seen)
		p.drain()
		for _, e := range events {
			p.printEvent(e)
		}
		if len(actions) == 0 {
			return
		}
		for _, a := range actions {
			p.printAction(a)
			p.cluster.execute(a)
		}
		seen = p.cluster.takeChanged(false)
	}
	p.t.Fatalf("it repeats actions forever:\n%s", p.out.String())
}

func (p *scenarioRunner) printAction(a Action) {
	switch a := a.(type) {
	case SubmitJob:
		fmt.Fprintf(&p.out, "  submit %s %s with %d\n", a.App.ID, p.versionName(a.App.ID, a.App.VersionInfo.LastConfigChangeAt), a.App.Instances)
	case ScaleJob:
		fmt.Fprintf(&p.out, "  scale %s %s to %d\n", a.AppID, p.versionName(a.AppID, a.Version), a.Instances)
	case StopInstances:
		fmt.Fprintf(&p.out, "  stop %s\n", strings.Join(a.TaskIDs, " "))
	case KillJob:
		fmt.Fprintf(&p.out, "  kill %s %s\n", a.AppID, p.versionName(a.AppID, a.Version))
	}
}

func (p *scenarioRunner) printEvent(e BusEvent) {
	switch e := e.(type) {
	case DeploymentInfo:
		fmt.Fprintf(&p.out, "%s begins %s\n", p.shortenID("d", e.Plan.ID), stepText(e.Step))
	case DeploymentStepSuccess:
		fmt.Fprintf(&p.out, "%s has done %s\n", p.shortenID("d", e.Plan.ID), stepText(e.Step))
	case DeploymentSuccess:
		fmt.Fprintf(&p.out, "%s succeeded\n", p.shortenID("d", e.ID))
	case DeploymentFailed:
		fmt.Fprintf(&p.out, "%s failed\n", p.shortenID("d", e.ID))
	case AppTerminated:
		fmt.Fprintf(&p.out, "%s terminated\n", e.AppID)
	}
}

// shortenID numbers ids in the order of their first use.
func (p *scenarioRunner) shortenID(prefix, id string) string {
	if p.ids[id] == "" {
		n := 1
		for v := range maps.Values(p.ids) {
			if strings.HasPrefix(v, prefix) {
				n++
			}
		}
		p.ids[id] = prefix + strconv.Itoa(n)
	}
	return p.ids[id]
}

// versionName returns the short name of the configuration's latest job, or of the next one.
func (p *scenarioRunner) versionName(app, v string) string {
	if j := p.cluster.findJob(app, v); j != nil {
		return j.short
	}
	return fmt.Sprintf("v%d", len(p.cluster.jobs[app])+1)
}

// printApps prints the desired number of instances of apps, and their live tasks.
func (p *scenarioRunner) printApps(args []string) {
	for _, id := range args {
		if a, ok := p.st.App(id); ok {
			fmt.Fprintf(&p.out, "%s wants %d in %d versions\n", id, a.Instances, len(p.st.Versions(id)))
		} else {
			fmt.Fprintf(&p.out, "%s is not there\n", id)
		}
		for _, i := range p.st.instancesOf(id) {
			if i.State.IsLive() {
				fmt.Fprintf(&p.out, "  %s %s\n", i.ID, i.State)
			}
		}
	}
}

func (p *scenarioRunner) printGroups(id string, depth int) {
	g, _ := p.st.Group(id)
	fmt.Fprintf(&p.out, "%s%s", strings.Repeat("  ", depth), g.ID)
	for _, a := range g.Apps {
		fmt.Fprintf(&p.out, " app %s ×%d", a.ID, a.Instances)
	}
	for _, d := range g.Dependencies {
		fmt.Fprintf(&p.out, " after %s", d)
	}
	fmt.Fprintln(&p.out)
	for _, inner := range g.Groups {
		p.printGroups(inner.ID, depth+1)
	}
}

// testApp reads ID n=3 cmd=x min=1 over=0.5 deps=/a,/b apart=rack:UNIQUE and
// the words health, ready, oldest and single.
func testApp(t interface{ Fatal(...any) }, args []string) *marathon.App {
	opt := map[string]string{}
	for _, a := range args[1:] {
		key, value, _ := strings.Cut(a, "=")
		opt[key] = value
	}
	a, err := marathon.ParseApp(fmt.Appendf(nil, `{"id": %q, "cmd": %q, "instances": 1}`, args[0], opt["cmd"]+"run"), marathon.ParseSettings{Role: "*"})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := strconv.Atoi(opt["n"]); err == nil {
		a.Instances = n
	}
	for key, to := range map[string]*float64{"min": &a.UpgradeStrategy.MinimumHealthCapacity, "over": &a.UpgradeStrategy.MaximumOverCapacity} {
		if x, err := strconv.ParseFloat(opt[key], 64); err == nil {
			*to = x
		}
	}
	if opt["deps"] != "" {
		a.Dependencies = strings.Split(opt["deps"], ",")
	}
	if opt["apart"] != "" {
		a.Constraints = [][]string{strings.Split(opt["apart"], ":")}
	}
	for _, word := range args[1:] {
		switch word {
		case "health":
			a.HealthChecks = []marathon.HealthCheck{{Protocol: "MESOS_TCP"}}
		case "ready":
			a.ReadinessChecks = []marathon.ReadinessCheck{{Name: "r"}}
		case "oldest":
			a.KillSelection = "OLDEST_FIRST"
		case "single":
			a.Labels = map[string]string{"MARATHON_SINGLE_INSTANCE_APP": "true"}
			*a.UpgradeStrategy = marathon.UpgradeStrategy{}
		}
	}
	return a
}
