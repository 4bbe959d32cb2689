package deploy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/job"
	"mesos-gpu/marathon"
)

func startTime() time.Time { return time.Unix(1_700_000_000, 0).UTC() }

// observedState is a DesiredState whose instances are those that were last passed to Step.
type observedState struct {
	*DesiredState
	seen map[string][]AppInstance
}

func loadState(documents map[string][]byte) (*observedState, error) {
	seen := map[string][]AppInstance{}
	s, err := LoadState(documents, func(app string) []AppInstance { return seen[app] })
	return &observedState{s, seen}, err
}

// Step evaluates the apps with the given instances.
func (s *observedState) Step(seen map[string][]AppInstance) ([]Action, []BusEvent) {
	maps.Copy(s.seen, seen)
	return s.DesiredState.Step(slices.Collect(maps.Keys(seen))...)
}

func newEmptyState(t testing.TB) *observedState {
	t.Helper()
	s, err := loadState(nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func putApps(t testing.TB, s *observedState, now time.Time, line ...string) Deployment {
	t.Helper()
	var apps []*marathon.App
	for _, l := range line {
		apps = append(apps, testApp(t, strings.Fields(l)))
	}
	d, err := s.PutApps(now, apps, ChangeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// newRunningInstances returns n running instances of an app's current configuration.
func newRunningInstances(s *observedState, id string, n int) []AppInstance {
	a, _ := s.App(id)
	v := a.VersionInfo.LastConfigChangeAt
	list := make([]AppInstance, n)
	for i := range list {
		list[i] = AppInstance{
			Task:    job.Task{ID: fmt.Sprintf("%s.%s.%d", id, v, i), State: job.Running, Healthy: new(true), Started: startTime().Add(time.Duration(i) * time.Second)},
			Version: v, Ready: true,
		}
	}
	return list
}

// takeDocuments returns the documents of a state, none of which were taken before.
func takeDocuments(s *observedState) map[string][]byte {
	documents := s.TakeChangedDocuments()
	maps.DeleteFunc(documents, func(_ string, value []byte) bool { return value == nil })
	return documents
}

// Versions always increase, even if the clock does not, and the last 25 are kept.
func TestVersionsIncreaseAndAreBounded(t *testing.T) {
	s := newEmptyState(t)
	var all []string
	for i := range 40 {
		d := putApps(t, s, startTime().Add(-time.Duration(i)*time.Hour), fmt.Sprintf("/web n=0 cmd=x%d", i))
		all = append(all, d.Version)
		s.Step(nil)
	}
	if !slices.IsSorted(all) || len(slices.Compact(slices.Clone(all))) != 40 {
		t.Errorf("versions do not grow: %v", all)
	}
	slices.Reverse(all)
	if got, want := s.Versions("/web"), all[:25]; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if a, ok := s.Version("/web", all[24]); !ok || a.Cmd != "x15run" {
		t.Errorf("the oldest version kept is %+v, want that of x15run", a)
	}
	if _, ok := s.Version("/web", all[25]); ok {
		t.Error("an older version is kept")
	}
	next, err := loadState(takeDocuments(s))
	if err != nil {
		t.Fatal(err)
	}
	if d := putApps(t, next, startTime().Add(-time.Hour), "/web n=0"); d.Version <= all[0] {
		t.Errorf("after a failover the version is %s, not later than %s", d.Version, all[0])
	}
}

// Scaling keeps the configuration; any other change creates a new one.
func TestOnlyScalingKeepsConfiguration(t *testing.T) {
	s := newEmptyState(t)
	v1 := putApps(t, s, startTime(), "/web n=1").Version
	v2 := putApps(t, newEmptyState(t), startTime(), "/web n=1").Version
	if v1 != v2 {
		t.Errorf("got %s and %s for the same time", v1, v2)
	}
	for _, step := range []struct{ line, scaled, config string }{
		{"/web n=3", "2", "1"},
		{"/web n=3 oldest", "3", "3"},
		{"/web n=2 oldest", "4", "3"},
		{"/web n=1", "5", "5"},
	} {
		if _, err := s.PutApps(startTime(), []*marathon.App{testApp(t, strings.Fields(step.line))}, ChangeOptions{Force: true}); err != nil {
			t.Fatal(err)
		}
		a, _ := s.App("/web")
		number := func(v string) string {
			at, _ := time.Parse(versionLayout, v)
			return fmt.Sprint(1 + at.Sub(startTime()).Milliseconds())
		}
		if got, want := number(a.VersionInfo.LastScalingAt)+number(a.VersionInfo.LastConfigChangeAt), step.scaled+step.config; got != want {
			t.Errorf("%s: got versions %s, want %s", step.line, got, want)
		}
	}
}

// A change that could not be recorded is rejected and has no effect.
func TestChangeTooLargeToRecordIsRejected(t *testing.T) {
	s := newEmptyState(t)
	big := testApp(t, []string{"/web"})
	big.Cmd = strings.Repeat("x", maxApp)
	if _, err := s.PutApps(startTime(), []*marathon.App{big}, ChangeOptions{}); err == nil || !strings.Contains(err.Error(), "262144") {
		t.Errorf("got %v for a definition of more than %d bytes", err, maxApp)
	}
	long := testApp(t, []string{"/web"})
	long.ID = strings.Repeat("/"+strings.Repeat("x", 100), 5)
	var wrong *marathon.ValidationError
	if _, err := s.PutApps(startTime(), []*marathon.App{long}, ChangeOptions{}); !errors.As(err, &wrong) {
		t.Errorf("got %v for an id of %d characters", err, len(long.ID))
	}
	twice := testApp(t, []string{"/web"})
	if _, err := s.PutApps(startTime(), []*marathon.App{twice, twice}, ChangeOptions{}); !errors.As(err, &wrong) {
		t.Errorf("got %v for an app that is given twice", err)
	}
	wide := &marathon.Group{ID: "/g"}
	for i := range 30_000 {
		wide.Dependencies = append(wide.Dependencies, fmt.Sprintf("/a-group-with-a-long-name-%d", i))
	}
	if _, err := s.PutGroup(startTime(), "/g", wide, ChangeOptions{}); !errors.As(err, &wrong) {
		t.Errorf("got %v for a group of 30,000 dependencies", err)
	}
	if got := s.TakeChangedDocuments(); len(got) > 0 || len(s.Deployments()) > 0 {
		t.Errorf("refused changes left %d documents", len(got))
	}
	half := testApp(t, []string{"/web", "n=0"})
	for i := range 10 {
		half.Cmd = fmt.Sprint(i, strings.Repeat("x", maxApp/2))
		if _, err := s.PutApps(startTime(), []*marathon.App{half}, ChangeOptions{}); err != nil {
			t.Fatal(err)
		}
		s.Step(nil)
		for key, value := range s.TakeChangedDocuments() {
			if len(value) > maxDocument {
				t.Errorf("%s has %d bytes", key, len(value))
			}
		}
	}
}

// The queue contains waiting instances, and when they may start at the earliest.
func TestQueueListsWaitingInstances(t *testing.T) {
	s := newEmptyState(t)
	putApps(t, s, startTime(), "/a n=3", "/b n=1")
	s.Step(nil)
	seen := newRunningInstances(s, "/a", 3)
	for i := range 2 {
		seen[i].State, seen[i].Changed = job.Waiting, startTime().Add(time.Duration(i)*time.Minute)
		seen[i].NotBefore = startTime().Add(time.Duration(2-i) * time.Hour)
	}
	s.Step(map[string][]AppInstance{"/a": seen, "/b": newRunningInstances(s, "/b", 1)})
	a, _ := s.App("/a")
	want := []QueuedApp{{App: a, Count: 2, Since: startTime(), NotBefore: startTime().Add(time.Hour)}}
	if diff := cmp.Diff(want, s.QueuedApps()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Events have the fields that Marathon's documentation names.
func TestEventsHaveDocumentedFields(t *testing.T) {
	s := newEmptyState(t)
	d := putApps(t, s, startTime(), "/g/web n=1 health")
	_, events := s.Step(nil)
	list := newRunningInstances(s, "/g/web", 1)
	v := list[0].Version
	list[0].ID, list[0].AgentID, list[0].Hostname, list[0].Ports = "web.1", "agent", "host", []int{31000}
	list[0].State, list[0].Healthy = job.Staging, nil
	for _, change := range []func(){func() {}, func() { list[0].State = job.Running }, func() { list[0].Healthy = new(true) }, func() {}} {
		before := list[0].State
		change()
		if list[0].State != before || len(events) == 4 { // also the first observation
			events = append(events, StateChangeEvents("/g/web", list[0])...)
		}
		_, more := s.Step(map[string][]AppInstance{"/g/web": list})
		events = append(events, more...)
	}
	for i, e := range events {
		p, ok := e.(PlanEvent)
		if !ok {
			continue
		}
		whole, err := json.Marshal(e)
		if err != nil || !bytes.Contains(whole, []byte(`"original":{"id":"/"},"target":{"id":"/","groups":[{"id":"/g","apps":[{"id":"/g/web",`)) {
			t.Errorf("%s, %v", whole, err)
		}
		events[i] = p.WithoutGroups()
	}
	plan := fmt.Sprintf(`{"id":%q,"version":%q,"steps":[{"actions":[{"action":"StartApplication","app":"/g/web"}]},{"actions":[{"action":"ScaleApplication","app":"/g/web"}]}]}`,
		d.ID, v)
	first, second := `{"actions":[{"action":"StartApplication","app":"/g/web"}]}`, `{"actions":[{"action":"ScaleApplication","app":"/g/web"}]}`
	changed := `{"instanceId":"web.1","condition":%q,"runSpecId":"/g/web","agentId":"agent","host":"host","runSpecVersion":"` + v + `"}`
	status := `{"slaveId":"agent","taskId":"web.1","taskStatus":%q,"message":"","appId":"/g/web","host":"host","ports":[31000],"version":"` +
		v + `","ipAddresses":[]}`
	want := []string{
		`group_change_success {"groupId":"/g","version":"` + v + `"}`,
		`deployment_info {"plan":` + plan + `,"currentStep":` + first + `}`,
		`deployment_step_success {"plan":` + plan + `,"currentStep":` + first + `}`,
		`deployment_info {"plan":` + plan + `,"currentStep":` + second + `}`,
		`instance_changed_event ` + fmt.Sprintf(changed, "Staging"),
		`status_update_event ` + fmt.Sprintf(status, "TASK_STAGING"),
		`instance_changed_event ` + fmt.Sprintf(changed, "Running"),
		`status_update_event ` + fmt.Sprintf(status, "TASK_RUNNING"),
		`instance_health_changed_event {"instanceId":"web.1","runSpecVersion":"` + v + `","runSpecId":"/g/web","healthy":true}`,
		`deployment_step_success {"plan":` + plan + `,"currentStep":` + second + `}`,
		`deployment_success {"id":"` + d.ID + `","plan":` + plan + `}`,
	}
	var got []string
	for _, e := range events {
		b, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e.EventType()+" "+string(b))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Each state of a task has a name in Marathon.
func TestStatesHaveNames(t *testing.T) {
	for _, state := range job.States() {
		if _, condition := stateNames(state); condition == "" {
			t.Errorf("%s has no name", state)
		}
	}
}

// TestPlanGroups checks that a plan contains all groups before and after the deployment, also in the events of the
// state that a failover restores.
func TestPlanGroups(t *testing.T) {
	s := newEmptyState(t)
	putApps(t, s, startTime(), "/g/old n=1")
	putApps(t, s, startTime(), "/g/web n=1")
	putApps(t, s, startTime(), "/other n=1")
	s.Step(nil)
	for _, d := range s.Deployments() {
		if _, err := s.CancelDeployment(startTime(), d.ID, ChangeOptions{Force: true}); err != nil {
			t.Fatal(err)
		}
	}
	s.Step(nil)
	g, err := marathon.ParseGroup([]byte(`{"apps": [{"id": "web", "cmd": "two", "instances": 5}, {"id": "new", "cmd": "x"}], "dependencies": ["/other"]}`),
		"/g", marathon.ParseSettings{Role: "*"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.PutGroup(startTime(), "/g", g, ChangeOptions{}); err != nil {
		t.Fatal(err)
	}
	next, err := loadState(takeDocuments(s))
	if err != nil {
		t.Fatal(err)
	}
	for name, st := range map[string]*observedState{"the first": s, "the next": next} {
		_, events := st.Step(nil)
		var plan EventPlan
		for _, e := range events {
			if info, ok := e.(DeploymentInfo); ok {
				plan = info.Plan
			}
		}
		for group, want := range map[*marathon.Group]string{
			plan.Original: "/[/other×1] /g[/g/old×1 /g/web×1]", plan.Target: "/[/other×1] /g[/g/new×1 /g/web×5] after [/other]",
		} {
			if got := formatGroup(group); got != want {
				t.Errorf("%s: got %s, want %s", name, got, want)
			}
		}
	}
}

func formatGroup(g *marathon.Group) string {
	if g == nil {
		return "nothing"
	}
	var apps []string
	for _, a := range g.Apps {
		apps = append(apps, fmt.Sprint(a.ID, "×", a.Instances))
	}
	text := fmt.Sprint(g.ID, apps)
	if len(g.Dependencies) > 0 {
		text += fmt.Sprint(" after ", g.Dependencies)
	}
	for _, inner := range g.Groups {
		text += " " + formatGroup(inner)
	}
	return text
}
