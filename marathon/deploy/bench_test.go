package deploy

import (
	"fmt"
	"testing"

	"mesos-gpu/marathon"
)

// newThousandApps returns a state with 1,000 apps of ten instances each.
func newThousandApps(b *testing.B) *observedState {
	s := newEmptyState(b)
	var apps []*marathon.App
	for i := range 1000 {
		apps = append(apps, testApp(b, []string{fmt.Sprintf("/g%d/app%d", i%10, i), "n=10", "health"}))
	}
	if _, err := s.PutApps(startTime(), apps, ChangeOptions{}); err != nil {
		b.Fatal(err)
	}
	return s
}

// BenchmarkColdPlan deploys 1,000 apps of 10 instances: from their documents to all submitted jobs, and to the end of the
// deployment when all instances run.
func BenchmarkColdPlan(b *testing.B) {
	wanted := newThousandApps(b)
	documents := wanted.TakeChangedDocuments()
	running := map[string][]AppInstance{}
	for _, a := range wanted.Apps() {
		running[a.ID] = newRunningInstances(wanted, a.ID, 10)
	}
	b.ReportAllocs()
	for b.Loop() {
		s, err := loadState(documents)
		if err != nil {
			b.Fatal(err)
		}
		if actions, _ := s.Step(nil); len(actions) != 1000 {
			b.Fatalf("got %d actions", len(actions))
		}
		if actions, _ := s.Step(running); len(actions) != 0 || len(s.Deployments()) != 0 {
			b.Fatalf("got %d actions and %d deployments", len(actions), len(s.Deployments()))
		}
	}
}

// BenchmarkOneChanged measures Step after a change of one instance of one of 1,000 apps.
func BenchmarkOneChanged(b *testing.B) {
	s := newThousandApps(b)
	s.Step(nil)
	running := map[string][]AppInstance{}
	for _, a := range s.Apps() {
		running[a.ID] = newRunningInstances(s, a.ID, 10)
	}
	s.Step(running)
	one := running["/g0/app0"]
	b.ReportAllocs()
	for b.Loop() {
		one[0].Healthy = new(!*one[0].Healthy)
		s.Step(map[string][]AppInstance{"/g0/app0": one})
	}
}

// BenchmarkPutOne changes one of 1,000 apps.
func BenchmarkPutOne(b *testing.B) {
	s := newThousandApps(b)
	s.Step(nil)
	apps := []*marathon.App{testApp(b, []string{"/g0/app0", "n=10", "health"})}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		apps[0].Cmd = fmt.Sprint("x", i)
		if _, err := s.PutApps(startTime(), apps, ChangeOptions{Force: true}); err != nil {
			b.Fatal(err)
		}
		s.Step(nil)
		s.TakeChangedDocuments()
	}
}
