package deploy

import (
	"maps"
	"testing"
	"time"

	"mesos-gpu/job"
	"mesos-gpu/marathon"
)

// Damaged documents cause an error and no panic. A state that was loaded can be used.
func FuzzNew(f *testing.F) {
	s := newEmptyState(f)
	putApps(f, s, startTime(), "/g/a n=2")
	s.Step(nil)
	s.Step(map[string][]AppInstance{"/g/a": newRunningInstances(s, "/g/a", 2)})
	group, err := marathon.ParseGroup([]byte(`{"dependencies": ["/x"], "apps": [{"id": "a", "cmd": "b"}]}`), "/g", marathon.ParseSettings{Role: "*"})
	if err != nil {
		f.Fatal(err)
	}
	d, err := s.PutGroup(startTime(), "/g", group, ChangeOptions{})
	if err != nil {
		f.Fatal(err)
	}
	documents := s.TakeChangedDocuments()
	f.Add(d.ID, documents[appKey+"/g/a"], documents[groupKey+"/g"], documents[deploymentKey+d.ID])
	f.Add(d.ID, documents[appKey+"/g/a"], []byte(nil), []byte(`{"id":"`+d.ID+`","current":0,"from":{}}`))
	f.Add("", []byte(`{"versions":[null]}`), []byte(`null`), []byte(`null`))
	f.Fuzz(func(t *testing.T, id string, app, group, deployment []byte) {
		documents := map[string][]byte{}
		for key, value := range map[string][]byte{appKey + "/g/a": app, groupKey + "/g": group, deploymentKey + id: deployment} {
			if len(value) > 0 {
				documents[key] = value
			}
		}
		s, err := loadState(documents)
		if err != nil {
			return
		}
		seen := []AppInstance{{Task: job.Task{ID: "1", State: job.Running}}, {Task: job.Task{ID: "2", State: job.Waiting}, Version: "x"}}
		for _, a := range s.Apps() {
			seen = append(seen, AppInstance{Task: job.Task{ID: a.Version, State: job.Running}, Version: a.VersionInfo.LastConfigChangeAt})
		}
		s.Step(map[string][]AppInstance{"/g/a": seen})
		for _, d := range s.Deployments() {
			if _, err := s.CancelDeployment(startTime(), d.ID, ChangeOptions{}); err != nil {
				t.Logf("cancel: %v", err)
			}
			s.Step(nil)
		}
		_, _ = s.PutGroup(startTime().Add(time.Hour), "/g", &marathon.Group{ID: "/g", Apps: []*marathon.App{}}, ChangeOptions{Force: true})
		s.Step(nil)
		s.Group("/")
		kept := s.TakeChangedDocuments()
		for key, value := range documents {
			if _, changed := kept[key]; !changed {
				kept[key] = value
			}
		}
		maps.DeleteFunc(kept, func(_ string, value []byte) bool { return value == nil })
		if _, err := loadState(kept); err != nil {
			t.Errorf("read what was written: %v", err)
		}
	})
}
