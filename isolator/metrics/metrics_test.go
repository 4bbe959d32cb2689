package metrics

import (
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/share"
	"mesos-gpu/isolator/watch"
)

var rewrite = flag.Bool("rewrite", false, "rewrite testdata")

// makeProc creates a /proc with the given cgroups by PID.
func makeProc(t testing.TB, cgroups map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for pid, text := range cgroups {
		if err := os.MkdirAll(filepath.Join(root, pid), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, pid, "cgroup"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func fullSample(now time.Time) gpu.Sample {
	return gpu.Sample{
		At: now,
		Values: map[gpu.SampleField]float64{
			gpu.MemUsedBytes: 4 << 30, gpu.MemTotalBytes: 16 << 30, gpu.DutyRatio: 0.97, gpu.MemDutyRatio: 0.4, gpu.SMClockHertz: 1530e6, gpu.MemClockHertz: 877e6,
			gpu.Celsius: 61, gpu.PowerWatts: 243.5, gpu.PowerLimitWatts: 300, gpu.EnergyJoules: 123456.789, gpu.ECCCorrected: 3, gpu.ECCUncorrected: 0,
			gpu.RowsPending: 0, gpu.RowsFailed: 0, gpu.RecoveryAction: 1, gpu.FabricState: 3, gpu.ThrottleReasons: 1<<2 | 1<<6, gpu.PCIeTxBytes: 1.5e9, gpu.PCIeRxBytes: 2e9, gpu.NVLinkTxBytes: 7e12, gpu.NVLinkRxBytes: 8e12,
		},
		Processes: []gpu.DeviceProcess{{PID: 10, MemBytes: 3 << 30}, {PID: 11, MemBytes: 1 << 30}, {PID: 99, MemBytes: 512}},
	}
}

// newConfig has two devices: one in use and failed, and one with few known values.
func newConfig(t testing.TB) ExporterConfig {
	now := time.Now()
	return ExporterConfig{
		Agent: "agent1", Version: "1.0", Host: gpu.Host{
			Driver: "535.104.05", CUDA: "12.2", Lost: []gpu.LostDevice{{Device: gpu.Device{Minor: -1}}, {Device: gpu.Device{UUID: "GPU-a", Model: "Tesla V100-SXM2-16GB"}}},
		},
		procRoot: makeProc(t, map[string]string{
			"10": "5:devices:/mesos/c1\n1:name=systemd:/mesos_executors.slice\n", "11": "0::/mesos/c1/mesos/child\n", "99": "0::/user.slice\n",
		}),
		Devices: func() []watch.DeviceState {
			return []watch.DeviceState{
				{
					Device:    gpu.Device{UUID: "GPU-a", Model: "Tesla V100-SXM2-16GB", PCI: "0000:3b:00.0", NUMA: 1},
					Condition: gpu.DeviceCondition{Health: gpu.Failed, Reason: "XID 79", Cordoned: true},
					Sample:    fullSample(now), XIDs: map[uint64]uint64{13: 4, 79: 1, 0: 2}, SampleErrors: 7,
				},
				{
					Device:    gpu.Device{UUID: "MIG-b", Model: "NVIDIA A100", Minor: 1, NUMA: -1, MIG: &gpu.MIG{Parent: "GPU-p", Profile: "1g.5gb"}},
					Condition: gpu.DeviceCondition{Health: gpu.Healthy},
					Sample:    gpu.Sample{At: now, Values: map[gpu.SampleField]float64{gpu.MemUsedBytes: 5}},
				},
			}
		},
		Holders: func() []gpu.ContainerDevices {
			return []gpu.ContainerDevices{{Container: "c1", Framework: "F-0001", Executor: "e", Task: "train.0", Job: "train", Devices: []string{"GPU-a", "GPU-gone"}}}
		},
	}
}

func scrapeText(t testing.TB, c ExporterConfig) string {
	t.Helper()
	registry, err := newRegistry(c)
	if err != nil {
		t.Fatal(err)
	}
	return getText(t, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
}

func getText(t testing.TB, h http.Handler) string {
	t.Helper()
	recorder := httptest.NewRecorder()
	h.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	body, err := io.ReadAll(recorder.Result().Body)
	if err != nil || recorder.Code != http.StatusOK {
		t.Fatalf("%d %v: %s", recorder.Code, err, body)
	}
	return string(body)
}

// changingValues matches values that differ between runs.
var changingValues = regexp.MustCompile(`(goversion=")[^"]*|(_timestamp_seconds\{.*\} ).*`)

func TestGoldenScrape(t *testing.T) {
	got := changingValues.ReplaceAllString(scrapeText(t, newConfig(t)), "${1}${2}X")
	path := filepath.Join("testdata", "metrics.txt")
	if *rewrite {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("(-want +got), -rewrite if it is meant:\n%s", diff)
	}
}

func TestNamesFollowPrometheus(t *testing.T) {
	registry, err := newRegistry(newConfig(t))
	if err != nil {
		t.Fatal(err)
	}
	problems, err := testutil.GatherAndLint(registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// docs/reference/metrics.md has one row for each metric and no others.
func TestMetricsAreDocumented(t *testing.T) {
	document, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(mesos_gpu_[a-z_]+)`").FindAllStringSubmatch(string(document), -1) {
		documented[m[1]] = true
	}
	c := newConfig(t)
	c.ShareUsage = func(string) (parts []share.ShareUsage, err error) {
		for _, d := range c.Devices() {
			parts = append(parts, share.ShareUsage{UUID: d.Device.UUID, Measured: true})
		}
		return parts, nil
	}
	registry, err := newRegistry(c)
	if err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	exported := map[string]bool{}
	for _, f := range families {
		exported[f.GetName()] = true
		name := f.GetName()
		if device := strings.Replace(name, "_task_", "_", 1); name != device && documented[device] {
			name = device // one row documents both
		}
		if !documented[name] {
			t.Errorf("docs/reference/metrics.md lacks %s", f.GetName())
		}
	}
	for name := range documented {
		if strings.HasPrefix(name, "mesos_gpu_scheduler_") || strings.HasPrefix(name, "mesos_gpu_marathon_") {
			continue // a scheduler metric: framework/metrics
		}
		if !exported[name] {
			t.Errorf("docs/reference/metrics.md names %s, which is not exported", name)
		}
	}
	if len(exported) < 40 {
		t.Errorf("only %d metrics are exported: the test's devices lack something", len(exported))
	}
}

func TestHandlerServesMetrics(t *testing.T) {
	h, err := NewHandler(newConfig(t))
	if err != nil {
		t.Fatal(err)
	}
	body := getText(t, h)
	for _, want := range []string{
		"mesos_gpu_build_info{", "go_goroutines ", "process_resident_memory_bytes ",
		`mesos_gpu_task_duty_ratio{agent="agent1",container="c1",`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("lacks %s", want)
		}
	}
	again, err := NewHandler(newConfig(t)) // a second handler in the same process: there is no global state
	if err != nil || !strings.Contains(getText(t, again), "mesos_gpu_build_info") {
		t.Errorf("a second one: %v", err)
	}
	for _, bad := range []ExporterConfig{{}, {Agent: "a", Devices: newConfig(t).Devices}, {Devices: newConfig(t).Devices, Holders: newConfig(t).Holders}} {
		if _, err := NewHandler(bad); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
}

// slowWriter is a client that reads nothing until it is released.
type slowWriter struct {
	*httptest.ResponseRecorder
	reading chan<- struct{}
	release <-chan struct{}
}

func (s slowWriter) Write(p []byte) (int, error) {
	s.reading <- struct{}{}
	<-s.release
	return s.ResponseRecorder.Write(p)
}

// Slow clients do not block other clients.
func TestSlowReadersDoNotBlockScrapes(t *testing.T) {
	h, err := NewHandler(newConfig(t))
	if err != nil {
		t.Fatal(err)
	}
	reading, release := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	var clients []slowWriter
	for range 2 * maxScrapes {
		c := slowWriter{httptest.NewRecorder(), reading, release}
		clients = append(clients, c)
		all.Go(func() { h.ServeHTTP(c, httptest.NewRequest(http.MethodGet, "/metrics", nil)) })
		<-reading // the response is written, but not read
	}
	if body := getText(t, h); !strings.Contains(body, "mesos_gpu_build_info{") {
		t.Errorf("got %s", body)
	}
	close(release)
	all.Wait()
	for _, c := range clients {
		if c.Code != http.StatusOK || !strings.Contains(c.Body.String(), "mesos_gpu_build_info{") {
			t.Errorf("%d: %.200s", c.Code, c.Body)
		}
	}
}

// A device that does not answer reports its health, but no old samples.
func TestOldSamplesAreNotShown(t *testing.T) {
	c := newConfig(t)
	devices := c.Devices()[:1]
	devices[0].Sample.At = time.Now().Add(-time.Minute)
	c.Devices = func() []watch.DeviceState { return devices }
	body := scrapeText(t, c)
	for want, there := range map[string]bool{
		"mesos_gpu_memory_used_bytes{": false, "mesos_gpu_task_memory_used_bytes{": false, "mesos_gpu_task_process_memory_bytes{": false,
		`mesos_gpu_health{agent="agent1",gpu="GPU-a",model="Tesla V100-SXM2-16GB",state="failed"} 1`: true, "mesos_gpu_last_sample_timestamp_seconds{": true,
		"mesos_gpu_task_xid_errors_total{": true,
	} {
		if strings.Contains(body, want) != there {
			t.Errorf("%s is there: %t, want %t", want, !there, there)
		}
	}
	devices[0].Sample = gpu.Sample{}
	if body := scrapeText(t, c); strings.Contains(body, "timestamp") {
		t.Error("a device that was never measured has a time")
	}
}
