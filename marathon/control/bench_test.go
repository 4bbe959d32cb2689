package control

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"mesos-gpu/marathon"
	"mesos-gpu/marathon/deploy"
)

const (
	manyApps = 1000
	each     = 10 // instances of each app
)

// newAppDocuments returns the documents of 1,000 apps of ten instances each, with health checks and a GPU, of which nothing
// runs yet.
func newAppDocuments(b *testing.B) map[string][]byte {
	b.Helper()
	s, err := deploy.LoadState(nil, func(string) []deploy.AppInstance { return nil })
	if err != nil {
		b.Fatal(err)
	}
	var apps []*marathon.App
	for i := range manyApps {
		text := fmt.Sprintf(`{"id": "/g%d/app%d", "cmd": "exec serve --port $PORT0", "instances": %d, "cpus": 0.5, "mem": 256, "gpus": 1,
			"env": {"LEVEL": "info", "DATA": "/data"}, "labels": {"team": "t%d"}, "healthChecks": [{"path": "/health", "portIndex": 0}]}`, i%10, i, each, i%7)
		a, err := marathon.ParseApp([]byte(text), marathon.ParseSettings{Role: "*"})
		if err != nil {
			b.Fatal(err)
		}
		apps = append(apps, a)
	}
	if _, err := s.PutApps(time.Now(), apps, deploy.ChangeOptions{}); err != nil {
		b.Fatal(err)
	}
	return s.TakeChangedDocuments()
}

// BenchmarkColdStart measures how a Controller deploys 1,000 apps of 10 instances: from their documents to all submitted
// jobs and the end of the deployment, on a cluster that starts tasks at once.
func BenchmarkColdStart(b *testing.B) {
	documents := newAppDocuments(b)
	b.ReportAllocs()
	for b.Loop() {
		f := newFakeCluster()
		maps.Copy(f.documents, documents)
		settled := make(chan struct{})
		f.deny = func(call string) error {
			if strings.HasPrefix(call, "put") && len(f.jobs) == manyApps { // the end of the deployment
				close(settled)
			}
			return nil
		}
		s := startController(b, f, nil)
		<-settled
		if err := s.stopAndWait(); err != nil {
			b.Fatal(err)
		}
		if n := f.countRunning(b)["exec serve --port $PORT0"]; n != manyApps*each {
			b.Fatalf("%d run", n)
		}
	}
}

// BenchmarkList answers GET /v2/apps for 1,000 apps of 10 instances.
func BenchmarkList(b *testing.B) {
	f := newFakeCluster()
	maps.Copy(f.documents, newAppDocuments(b))
	s := startController(b, f, nil)
	<-f.leads
	b.ReportAllocs()
	for b.Loop() {
		var got struct{ Apps []json.RawMessage }
		if s.sendRequest("GET", "/v2/apps", "", &got); len(got.Apps) != manyApps {
			b.Fatalf("%d apps", len(got.Apps))
		}
	}
	if err := s.stopAndWait(); err != nil {
		b.Fatal(err)
	}
}
