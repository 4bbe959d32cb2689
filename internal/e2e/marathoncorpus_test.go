package e2e

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/internal/apachemesos"
	"mesos-gpu/job"
	"mesos-gpu/marathon"
	"mesos-gpu/marathon/translate"
)

// here is how definitions are read by the cluster of these tests.
var here = marathon.ParseSettings{Role: "*", GPUBehavior: marathon.GPUUnrestricted, BridgeNetwork: marathon.MesosBridge}

// notHere are the valid definitions that this cluster cannot run, by the
// reason. None gets there by oversight: the test compares.
var notHere = map[string][]string{
	"agents with other attributes": {"constraints-all", "gpu-label-restricted", "gpu-spread"},
	"other ports":                  {"net-require-ports"},
	"docker": {
		"args-of-an-image", "check-exec-argv", "docker-everything", "enums-in-small-letters", "gpu-bridge-service", "gpu-docker", "gpu-shared-memory", "image-alone",
		"net-bridge", "net-bridge-default-port", "net-bridge-no-ports", "net-container", "net-container-ports", "net-container-published", "net-host-ports",
		"old-docker-bridge", "old-docker-host", "old-docker-user", "volumes-external-docker", "volumes-host", "volumes-in-the-sandbox",
	},
	"an image":             {"as-answered", "gpu-mesos", "linux-info-shared-memory", "mesos-image", "mesos-image-args", "volumes-mesos"},
	"a server to fetch of": {"fetch-all", "fetch-executable"},
}

// needs returns a job's unavailable requirement, or "".
func needs(spec *job.Spec) string {
	switch {
	case spec.Containerizer == job.Docker:
		return "docker"
	case spec.Image != "":
		return "an image"
	case len(spec.Fetch) > 0:
		return "a server to fetch of"
	case len(spec.Constraints) > 0:
		return "agents with other attributes"
	case slices.ContainsFunc(spec.Ports, func(p job.Port) bool { return p.Host > 0 && p.Host < 31000 }):
		return "other ports"
	}
	return ""
}

// definitions are the corpus, by names.
func definitions(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("../../marathon/testdata/apps/*.json")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no corpus: %v", err)
	}
	all := map[string]string{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimSuffix(filepath.Base(path), ".json")] = string(text)
	}
	return all
}

// ofRole are definitions that are wrong in other words, or wrong at all,
// because the corpus's golden files are of a scheduler in role web.
var ofRole = []string{"everything-plain", "roles-own", "wrong-for-a-job", "wrong-role"}

// What is wrong with a definition is answered over HTTP as its golden file
// has it.
func TestMarathonCorpusRefused(t *testing.T) {
	c := start(t, "--gpu-scheduling-behavior", here.GPUBehavior)
	refused := 0
	for name, text := range definitions(t) {
		_, err := marathon.ParseApp([]byte(text), here)
		if err == nil {
			continue
		}
		refused++
		var want any = err // *marathon.ValidationError, in JSON what is answered
		if !slices.Contains(ofRole, name) {
			golden, err := os.ReadFile(filepath.Join("../../marathon/testdata/golden", name+".json"))
			if err != nil {
				t.Fatal(err)
			}
			want = json.RawMessage(golden)
		}
		status, answer := c.v2(http.MethodPost, "/apps", text)
		if diff := cmp.Diff(plain(t, want), plain(t, json.RawMessage(answer))); status != http.StatusUnprocessableEntity || diff != "" {
			t.Errorf("%s: status %d, body (-golden +got):\n%s", name, status, diff)
		}
	}
	if refused < 30 {
		t.Errorf("refused %d definitions, want at least 30", refused)
	}
	if left := c.appsLeft(); left > 0 {
		t.Errorf("%d apps are there", left)
	}
}

// plain is what a value's JSON says.
func plain(t *testing.T, v any) (out any) {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	read(t, string(text), &out)
	return out
}

// runnable are the definitions that can run here, with all their fields as
// they are but for the command and the size.
func runnable(t *testing.T) (apps []*marathon.App, texts map[string]string) {
	t.Helper()
	left, texts := map[string][]string{}, map[string]string{}
	for name, text := range definitions(t) {
		app, err := marathon.ParseApp([]byte(text), here)
		if err != nil {
			continue
		}
		spec, err := translate.JobSpec(app, here)
		if err != nil && !errors.Is(err, translate.ErrSuspended) {
			t.Fatal(err)
		}
		if what := needs(&spec); what != "" {
			left[what] = append(left[what], name)
			continue
		}
		apps, texts[app.ID] = append(apps, app), small(t, text)
	}
	for _, names := range left {
		slices.Sort(names)
	}
	if diff := cmp.Diff(notHere, left); diff != "" {
		t.Errorf("not run here (-want +got):\n%s", diff)
	}
	return apps, texts
}

// Each definition of the corpus that can run here does, several at once, and
// is deleted.
func TestMarathonCorpusRuns(t *testing.T) {
	apps, texts := runnable(t)
	c := start(t, "--gpu-scheduling-behavior", here.GPUBehavior)
	for some := range slices.Chunk(apps, 10) { // as many as have room with their executors on two CPUs
		for _, app := range some {
			c.deploys(http.MethodPost, "/apps", texts[app.ID])
		}
		for _, app := range some {
			c.awaitApp(app.ID, "run", func(a *appView) bool { return a.TasksRunning == app.Instances })
			c.deploys(http.MethodDelete, "/apps"+app.ID+"?force=true", "")
		}
		apachemesos.PollUntil(t, "all apps to go", func() bool { return c.appsLeft() == 0 })
	}
	if jobs := c.must("ps"); strings.Contains(jobs, "RUNNING") {
		t.Errorf("still there:\n%s", jobs)
	}
	t.Logf("%d definitions ran", len(apps))
}

// small is a definition whose command is there, and which is so small that
// all run on one machine.
func small(t *testing.T, text string) string {
	t.Helper()
	var fields map[string]any
	read(t, text, &fields)
	delete(fields, "args")
	fields["cmd"], fields["cpus"], fields["mem"] = "exec sleep 1000", 0.01, 128
	out, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// appsLeft counts apps and deployments.
func (c *cluster) appsLeft() int {
	c.t.Helper()
	var apps struct{ Apps []json.RawMessage }
	_, answer := c.v2(http.MethodGet, "/apps", "")
	read(c.t, string(answer), &apps)
	var deployments []json.RawMessage
	_, answer = c.v2(http.MethodGet, "/deployments", "")
	read(c.t, string(answer), &deployments)
	return len(apps.Apps) + len(deployments)
}
