package deploy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/job"
	"mesos-gpu/marathon"
)

// An action whose effect is not observed yet counts as executed, so that a late observation does not stop another
// healthy instance.
func TestStaleObservationRepeatsNoAction(t *testing.T) {
	s := newEmptyState(t)
	putApps(t, s, startTime(), "/web n=3 health min=1 over=0")
	s.Step(nil)
	old := newRunningInstances(s, "/web", 3)
	s.Step(map[string][]AppInstance{"/web": old})
	putApps(t, s, startTime(), "/web n=3 health min=1 over=0 cmd=x")
	s.Step(nil)
	all := append(old, newRunningInstances(s, "/web", 1)...)
	first, _ := s.Step(map[string][]AppInstance{"/web": all})
	want := StopInstances{AppID: "/web", TaskIDs: []string{old[2].ID}}
	if len(first) != 2 || !cmp.Equal(first[0], Action(want)) {
		t.Fatalf("got %+v, want %+v and a Scale", first, want)
	}
	again, _ := s.Step(map[string][]AppInstance{"/web": all})
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("requested a second time (-first +again):\n%s", diff)
	}
	all[0].Healthy = new(false) // stopping it costs nothing; the others stay
	third, _ := s.Step(map[string][]AppInstance{"/web": all})
	want.TaskIDs = []string{old[0].ID, old[2].ID}
	if !cmp.Equal(third[0], Action(want)) {
		t.Errorf("got %+v, want %+v", third[0], want)
	}
}

// Instances that were asked to end and are desired again are not stopped repeatedly.
func TestRemovedAppIsAddedAgain(t *testing.T) {
	s := newEmptyState(t)
	putApps(t, s, startTime(), "/web n=2 min=0 over=0")
	s.Step(nil)
	list := newRunningInstances(s, "/web", 2)
	s.Step(map[string][]AppInstance{"/web": list})
	d := putApps(t, s, startTime(), "/web n=2 min=0 over=0 cmd=x")
	s.Step(nil)
	if _, err := s.CancelDeployment(startTime(), d.ID, ChangeOptions{}); err != nil {
		t.Fatal(err)
	}
	got, _ := s.Step(nil)
	a, _ := s.App("/web")
	want := []Action{StopInstances{AppID: "/web", TaskIDs: []string{list[0].ID, list[1].ID}}, ScaleJob{AppID: "/web", Version: a.VersionInfo.LastConfigChangeAt, Instances: 2}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for i := range list { // the scheduler replaces them
		list[i].State, list[i].KillRequested, list[i].KillReason = job.Killing, startTime(), job.KillByReplacement
	}
	if got, _ := s.Step(map[string][]AppInstance{"/web": list}); len(got) > 0 {
		t.Errorf("got %+v, want nothing", got)
	}
}

// The version that runs and the version of a rollback are always kept, and a document stays within its size limit.
func TestNeededVersionsAreKept(t *testing.T) {
	portless := func() *marathon.App { // service ports would lengthen the definition
		app := testApp(t, []string{"/web"})
		app.PortDefinitions = []marathon.PortDefinition{}
		return app
	}
	small, err := definitionText(portless())
	if err != nil {
		t.Fatal(err)
	}
	big := strings.Repeat("x", maxApp-len(small))
	for name, change := range map[string]struct {
		cmd  func(i int) string
		n    func(i int) int
		most int
	}{
		"many":    {func(i int) string { return fmt.Sprint(i) }, func(int) int { return 1 }, 25},
		"large":   {func(i int) string { return big + fmt.Sprint(100+i) }, func(int) int { return 1 }, 4},
		"scaling": {func(int) string { return "" }, func(i int) int { return 1 + i%2 }, 25},
	} {
		t.Run(name, func(t *testing.T) {
			s := newEmptyState(t)
			app := portless()
			app.Cmd = change.cmd(0)
			for i := range 40 {
				app.Cmd, app.Instances = change.cmd(i), change.n(i)
				if _, err := s.PutApps(startTime(), []*marathon.App{app}, ChangeOptions{Force: true}); err != nil {
					t.Fatal(err)
				}
				if i == 0 {
					s.Step(map[string][]AppInstance{"/web": newRunningInstances(s, "/web", 1)})
				}
			}
			d, _ := s.Deployment("/web")
			if _, ok := s.Version("/web", d.From["/web"]); !ok {
				t.Errorf("the version that %s goes back to is not kept", d.ID)
			}
			if got := len(s.Versions("/web")); got > change.most {
				t.Errorf("got %d versions, want %d at most", got, change.most)
			}
			if _, ok := s.AppAtConfig("/web", startTime().Format(versionLayout)); !ok {
				t.Error("the version that runs is not kept")
			}
			documents := takeDocuments(s)
			if _, err := loadState(documents); err != nil {
				t.Error(err)
			}
			for key, value := range documents {
				if len(value) > maxDocument {
					t.Errorf("%s has %d bytes", key, len(value))
				}
			}
		})
	}
}

// An app whose instances have too many large versions cannot be changed before some of these instances have ended.
func TestTooManyLargeVersions(t *testing.T) {
	s := newEmptyState(t)
	app := testApp(t, []string{"/web"})
	var refused error
	for i := 0; refused == nil && i < 10; i++ {
		app.Cmd = fmt.Sprint(i, strings.Repeat("x", maxApp-2000))
		if _, refused = s.PutApps(startTime(), []*marathon.App{app}, ChangeOptions{Force: true}); refused != nil {
			break
		}
		s.Step(map[string][]AppInstance{"/web": append(s.instancesOf("/web"), newRunningInstances(s, "/web", 1)...)})
		for key, value := range s.TakeChangedDocuments() {
			if len(value) > maxDocument {
				t.Fatalf("%s has %d bytes", key, len(value))
			}
		}
	}
	if refused == nil || !strings.Contains(refused.Error(), "instances of so many versions") {
		t.Errorf("got %v", refused)
	}
}

// Versions are times in UTC with milliseconds, in any time zone of the clock.
func TestVersionsIncrease(t *testing.T) {
	now := time.Date(2024, 2, 29, 23, 30, 0, 123_456_789, time.FixedZone("", -3600))
	if got, want := newEmptyState(t).nextVersion(now), "2024-03-01T00:30:00.123Z"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestDeploymentKeepsUser checks that the actions of a deployment have the user who requested it, also after a failover, and
// that later actions have none.
func TestDeploymentKeepsUser(t *testing.T) {
	s := newEmptyState(t)
	putApps(t, s, startTime(), "/web n=1")
	s.Step(nil)
	s.Step(map[string][]AppInstance{"/web": newRunningInstances(s, "/web", 1)})
	app := testApp(t, strings.Fields("/web n=3"))
	if _, err := s.PutApps(startTime(), []*marathon.App{app}, ChangeOptions{By: "ada"}); err != nil {
		t.Fatal(err)
	}
	after, err := loadState(takeDocuments(s))
	if err != nil {
		t.Fatal(err)
	}
	a, _ := s.App("/web")
	config := a.VersionInfo.LastConfigChangeAt
	for name, s := range map[string]*observedState{"the same scheduler": s, "the next one": after} {
		got, _ := s.Step(map[string][]AppInstance{"/web": newRunningInstances(s, "/web", 1)})
		if diff := cmp.Diff([]Action{ScaleJob{AppID: "/web", Version: config, Instances: 3, By: "ada"}}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		s.Step(map[string][]AppInstance{"/web": newRunningInstances(s, "/web", 3)})
		got, _ = s.Step(map[string][]AppInstance{"/web": newRunningInstances(s, "/web", 2)})
		if diff := cmp.Diff([]Action{ScaleJob{AppID: "/web", Version: config, Instances: 3}}, got); diff != "" {
			t.Errorf("%s, after the deployment (-want +got):\n%s", name, diff)
		}
	}
}
