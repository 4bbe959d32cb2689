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

	"mesos-gpu/internal/testing/apachemesos"
	"mesos-gpu/job"
	"mesos-gpu/marathon"
	"mesos-gpu/marathon/translate"
)

// clusterSettings are the settings with which the cluster of these tests parses definitions.
var clusterSettings = marathon.ParseSettings{Role: "*", GPUBehavior: marathon.GPUUnrestricted, BridgeNetwork: marathon.MesosBridge, Strict: true}

// unsupportedDefinitions are the valid definitions that this cluster cannot run, by reason.
// The test compares the list, so a definition cannot be skipped by mistake.
var unsupportedDefinitions = map[string][]string{
	"agents with other attributes": {"constraints-all", "gpu-label-restricted", "gpu-spread"},
	"other ports":                  {"net-require-ports"},
	"a CNI network":                {"net-imageless-container", "old-ip-bridge", "old-ip-discovery"},
	"docker": {
		"args-of-an-image", "check-exec-argv", "docker-everything", "docker-pull-config", "enums-in-small-letters",
		"gpu-bridge-service", "gpu-docker", "gpu-shared-memory", "image-alone",
		"net-bridge", "net-bridge-default-port", "net-bridge-no-ports", "net-container", "net-container-ports",
		"net-container-published", "net-host-ports", "net-mappings-in-host",
		"old-docker-bridge", "old-docker-host", "old-docker-user", "ports-definitions-in-bridge", "volumes-external-docker", "volumes-host", "volumes-in-the-sandbox",
	},
	"an image":                   {"as-answered", "gpu-mesos", "linux-info-shared-memory", "mesos-image", "mesos-image-args", "volumes-mesos"},
	"a server for fetched files": {"fetch-all", "fetch-executable"},
}

// unavailableRequirement returns the first requirement of a job that this cluster cannot
// satisfy, or "".
func unavailableRequirement(spec *job.Spec) string {
	switch {
	case spec.Containerizer == job.Docker:
		return "docker"
	case spec.Image != "":
		return "an image"
	case spec.CNINetwork() != "":
		return "a CNI network"
	case len(spec.Fetch) > 0:
		return "a server for fetched files"
	case len(spec.Constraints) > 0:
		return "agents with other attributes"
	case slices.ContainsFunc(spec.Ports, func(p job.Port) bool { return p.Host > 0 && p.Host < 31000 }):
		return "other ports"
	}
	return ""
}

// readCorpus returns the definitions in the corpus by name.
func readCorpus(t *testing.T) map[string]string {
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

// roleDependentDefinitions are definitions whose error depends on the scheduler's role. The
// golden files were written for the role web.
var roleDependentDefinitions = []string{"everything-plain", "roles-own", "wrong-for-a-job", "wrong-role"}

// TestMarathonCorpusRejections checks that the HTTP response to each invalid definition is its
// golden file.
func TestMarathonCorpusRejections(t *testing.T) {
	c := startCluster(t, "--marathon-strict", "--gpu-scheduling-behavior", clusterSettings.GPUBehavior)
	refused := 0
	for name, text := range readCorpus(t) {
		_, err := marathon.ParseApp([]byte(text), clusterSettings)
		if err == nil {
			continue
		}
		refused++
		var want any = err // a *marathon.ValidationError, whose JSON is the response
		if !slices.Contains(roleDependentDefinitions, name) {
			golden, err := os.ReadFile(filepath.Join("../../marathon/testdata/golden", name+".json"))
			if err != nil {
				t.Fatal(err)
			}
			want = json.RawMessage(golden)
		}
		status, answer := c.callMarathon(http.MethodPost, "/apps", text)
		if diff := cmp.Diff(normalizeJSON(t, want), normalizeJSON(t, json.RawMessage(answer))); status != http.StatusUnprocessableEntity || diff != "" {
			t.Errorf("%s: status %d, body (-golden +got):\n%s", name, status, diff)
		}
	}
	if refused < 30 {
		t.Errorf("refused %d definitions, want at least 30", refused)
	}
	if left := c.countApps(); left > 0 {
		t.Errorf("%d apps or deployments remain", left)
	}
}

// normalizeJSON encodes a value as JSON and decodes it into generic types.
func normalizeJSON(t *testing.T, v any) (out any) {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	decodeJSON(t, string(text), &out)
	return out
}

// selectRunnable returns the definitions that can run on this cluster. Only their command and
// their size are changed.
func selectRunnable(t *testing.T) (apps []*marathon.App, texts map[string]string) {
	t.Helper()
	left, texts := map[string][]string{}, map[string]string{}
	for name, text := range readCorpus(t) {
		app, err := marathon.ParseApp([]byte(text), clusterSettings)
		if err != nil {
			continue
		}
		spec, err := translate.JobSpec(app, clusterSettings)
		if err != nil && !errors.Is(err, translate.ErrSuspended) {
			t.Fatal(err)
		}
		if what := unavailableRequirement(&spec); what != "" {
			left[what] = append(left[what], name)
			continue
		}
		apps, texts[app.ID] = append(apps, app), shrinkDefinition(t, text)
	}
	for _, names := range left {
		slices.Sort(names)
	}
	if diff := cmp.Diff(unsupportedDefinitions, left); diff != "" {
		t.Errorf("not run here (-want +got):\n%s", diff)
	}
	return apps, texts
}

// TestMarathonCorpusRuns runs each supported definition of the corpus, ten at a time, and
// deletes it.
func TestMarathonCorpusRuns(t *testing.T) {
	apps, texts := selectRunnable(t)
	c := startCluster(t, "--marathon-strict", "--gpu-scheduling-behavior", clusterSettings.GPUBehavior)
	for some := range slices.Chunk(apps, 10) { // more do not fit on two CPUs with their executors
		for _, app := range some {
			c.mustCallMarathon(http.MethodPost, "/apps", texts[app.ID])
		}
		for _, app := range some {
			c.awaitApp(app.ID, "run", func(a *appView) bool { return a.TasksRunning == app.Instances })
			c.mustCallMarathon(http.MethodDelete, "/apps"+app.ID+"?force=true", "")
		}
		apachemesos.PollUntil(t, "all apps to go", func() bool { return c.countApps() == 0 })
	}
	if jobs := c.mustRun("ps"); strings.Contains(jobs, "RUNNING") {
		t.Errorf("still there:\n%s", jobs)
	}
	t.Logf("%d definitions ran", len(apps))
}

// shrinkDefinition replaces the command and reduces the resources, so that all instances fit
// on one machine.
func shrinkDefinition(t *testing.T, text string) string {
	t.Helper()
	var fields map[string]any
	decodeJSON(t, text, &fields)
	delete(fields, "args")
	fields["cmd"], fields["cpus"], fields["mem"] = "exec sleep 1000", 0.01, 128
	out, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// countApps returns the number of apps plus the number of deployments.
func (c *cluster) countApps() int {
	c.t.Helper()
	var apps struct{ Apps []json.RawMessage }
	_, answer := c.callMarathon(http.MethodGet, "/apps", "")
	decodeJSON(c.t, string(answer), &apps)
	var deployments []json.RawMessage
	_, answer = c.callMarathon(http.MethodGet, "/deployments", "")
	decodeJSON(c.t, string(answer), &deployments)
	return len(apps.Apps) + len(deployments)
}
