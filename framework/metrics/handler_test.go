package metrics

import (
	"context"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// fakeSource is a SnapshotSource with one fixed result.
type fakeSource struct {
	Snapshot
	err error
}

func (v fakeSource) MetricsSnapshot(context.Context) (Snapshot, error) { return v.Snapshot, v.err }

// someSnapshot returns a scheduler with jobs of two roles, and an extension.
func someSnapshot() fakeSource {
	now := time.Unix(1_700_000_000, 0)
	v := fakeSource{Snapshot: Snapshot{
		IsLeader: true, Connected: true, Cordoned: 2, Now: now, GPUs: map[string]GPUCount{"A100": {16, 8}},
		GPUSeconds:   []GPUSeconds{{"research", "A100", 7200.5}},
		RoleShares:   []RoleShare{{"research", "A100", 8, 12.5, 10}, {"research", "*", 8, 13.5, 11}},
		HostShares:   []HostShare{{"research", "cpus", 64, 70.5, 8}, {"research", "mem", 1 << 36, 1 << 37, 1 << 30}},
		RecentUsages: []RecentUsage{{"research", 6.25, 86400}},
		Budgets:      []Budget{{"research", "", "*", 1003.25, 1000, 5}, {"research", "ann", "A100", 12.5, 100, 0}},
		Notifications: &NotificationFigures{
			Webhooks: DeliveryCounts{Sent: 7, Failed: 2},
			Mails:    DeliveryCounts{Sent: 3, Failed: 1},
			Dropped:  5,
			Pending:  4,
			GivenUp:  6,
		},
	}}
	ago := func(seconds int) time.Time { return now.Add(-time.Duration(seconds) * time.Second) }
	wants := func(tasks int, types ...string) gpu.Request {
		return gpu.Request{GPUs: tasks, Types: gpu.TypeSelector{Include: types}}
	}
	for _, j := range []job.Job{
		{Spec: &job.Spec{Name: "train", Role: "research"}, Tasks: []job.Task{
			{State: job.Running, GPUTypes: map[string]int{"A100": 4, "": 1}}, {State: job.Unreachable, GPUTypes: map[string]int{"A100": 4}},
		}},
		{Spec: &job.Spec{Name: "waits", Role: "research"}, Tasks: []job.Task{
			{State: job.Waiting, Changed: ago(30)}, {State: job.Waiting, Changed: ago(20)}, {State: job.Running, GPUTypes: map[string]int{"V100": 2}},
			{State: job.Running, Shares: []gpu.DeviceShare{{Type: "V100", MilliDevices: 250}, {Type: "T4", MilliDevices: 500}}},
		}},
		{Spec: &job.Spec{Name: "queued", Role: "research", Request: wants(4, "a100", "NVIDIA V100-SXM2")}, Tasks: []job.Task{
			{State: job.Waiting, Changed: ago(90), NotBefore: now.Add(time.Second)}, {State: job.Waiting, Changed: ago(60)},
			{State: job.Waiting, Changed: ago(7200), NotBefore: ago(10)},
		}},
		{Spec: &job.Spec{
			Name:    "follows",
			Role:    "research",
			Request: wants(2),
			After:   []job.Dependency{{Job: "train"}},
		}, Tasks: []job.Task{{State: job.Waiting, Changed: ago(900)}}},
		{Spec: &job.Spec{
			Name:    "released",
			Role:    "research",
			Request: wants(2, "h100"),
			After:   []job.Dependency{{Job: "x", Met: true}},
		}, Tasks: []job.Task{{State: job.Waiting, Changed: ago(900), NotBefore: ago(5)}}},
		{Spec: &job.Spec{
			Name:        "in turn",
			Role:        "research",
			Request:     wants(1),
			MaxParallel: 1,
		}, Tasks: []job.Task{{State: job.Running}, {State: job.Waiting, Changed: ago(900)}}},
		{Spec: &job.Spec{Name: "gang", Role: "research", Gang: true}, Tasks: []job.Task{{State: job.Killing}, {State: job.Waiting, Changed: ago(900)}}},
		{Spec: &job.Spec{Name: "pauses", Role: "research", Gang: true}, Tasks: []job.Task{
			{State: job.Waiting, Changed: ago(900), NotBefore: now.Add(time.Second)},
			{State: job.Waiting, Changed: ago(900)},
		}},
		{Spec: &job.Spec{Name: "paused", Role: "research", Gang: true, Request: wants(1, "T4")}, Tasks: []job.Task{
			{State: job.Waiting, Changed: ago(900), NotBefore: ago(40)}, {State: job.Waiting, Changed: ago(800)},
		}},
		{Spec: &job.Spec{Name: "misspelt", Role: "research", Request: wants(1, "Z1000")}, Tasks: []job.Task{{State: job.Waiting, Changed: now.Add(time.Second)}}},
		{Spec: &job.Spec{Name: "ended", Role: "*"}, Tasks: []job.Task{{State: job.Finished, GPUTypes: map[string]int{"V100": 8}}}},
		{Spec: &job.Spec{Name: "broken", Role: "*"}, Tasks: []job.Task{
			{State: job.Failed, GPUTypes: map[string]int{"V100": 8}}, {State: job.Killing, GPUTypes: map[string]int{"V\xff100": 1}},
		}},
	} {
		v.CountJob(&j, false)
	}
	for state, n := range map[string]float64{"RUNNING": 3, "WAITING": 1} {
		v.Gauges = append(v.Gauges, ExtensionGauge{"marathon_instances", "Instances by state.", map[string]string{"state": state}, n})
	}
	v.Gauges = append(v.Gauges, ExtensionGauge{Name: "marathon_apps", Help: "Number of apps.", Value: 2})
	return v
}

func TestCollector(t *testing.T) {
	for name, v := range map[string]fakeSource{"some": someSnapshot(), "none": {}} {
		t.Run(name, func(t *testing.T) {
			want, err := os.Open(filepath.Join("testdata", name+".txt"))
			if err != nil {
				t.Fatal(err)
			}
			defer want.Close()
			c, err := newCollector(t.Context(), v)
			if err != nil {
				t.Fatal(err)
			}
			if err := testutil.CollectAndCompare(c, want); err != nil {
				t.Error(err)
			}
			problems, err := testutil.CollectAndLint(c)
			if err != nil || len(problems) > 0 {
				t.Errorf("%v, %v", problems, err)
			}
		})
	}
}

// TestMetricsHandler checks that a scrape has the metrics of the process and a new snapshot, and
// that a failed snapshot writes nothing.
func TestMetricsHandler(t *testing.T) {
	p, v := NewMetricsHandler(), someSnapshot()
	for _, line := range []string{"mesos_gpu_scheduler_leads 1\n", "mesos_gpu_scheduler_leads 0\n"} {
		w := httptest.NewRecorder()
		if err := p.ServeScrape(w, httptest.NewRequest("GET", "/metrics", nil), v); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{line, "go_goroutines ", "process_open_fds "} {
			if !strings.Contains(w.Body.String(), "\n"+want) {
				t.Errorf("lacks %q", want)
			}
		}
		if kind := w.Header().Get("Content-Type"); !strings.HasPrefix(kind, "text/plain; version=0.0.4") {
			t.Errorf("Content-Type %q", kind)
		}
		v.IsLeader = false
	}
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		view fakeSource
		want string
	}{
		"no view": {fakeSource{err: broken}, "broken"},
		"no name": {fakeSource{Snapshot: Snapshot{Gauges: []ExtensionGauge{{Name: "marathon\xff"}}}}, "export the snapshot"},
		"keys that differ": {fakeSource{Snapshot: Snapshot{Gauges: []ExtensionGauge{{Name: "a"}, {Name: "a", Labels: map[string]string{"b": "c"}}}}},
			"export the snapshot"},
	} {
		w := httptest.NewRecorder()
		err := p.ServeScrape(w, httptest.NewRequest("GET", "/metrics", nil), c.view)
		if err == nil || !strings.Contains(err.Error(), c.want) || w.Body.Len() > 0 || len(w.Header()) > 0 {
			t.Errorf("%s: %v, written %s %v", name, err, w.Body, w.Header())
		}
	}
}

// The length of a label is limited, whatever type names agents use.
func TestLabelsAreBounded(t *testing.T) {
	v := fakeSource{}
	long := strings.Repeat("ü", 1000)
	v.CountJob(&job.Job{Spec: &job.Spec{}, Tasks: []job.Task{{State: job.Running, GPUTypes: map[string]int{long + "a": 1, long + "b": 2}}}}, false)
	c, err := newCollector(t.Context(), v)
	if err != nil {
		t.Fatal(err)
	}
	want := `# HELP mesos_gpu_scheduler_gpus_held GPUs that tasks hold, by role and type; the type is empty if the agent does not report it.
# TYPE mesos_gpu_scheduler_gpus_held gauge
mesos_gpu_scheduler_gpus_held{role="",type="` + strings.Repeat("ü", maxLabelSize/2) + `"} 3
`
	if err := testutil.CollectAndCompare(c, strings.NewReader(want), prometheus.BuildFQName(namespace, subsystem, "gpus_held")); err != nil {
		t.Error(err)
	}
}
