package translate

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.yaml.in/yaml/v3"

	"mesos-gpu/job"
	"mesos-gpu/job/jobfile"
)

// A job file that is read again is the same job, but for the keys that job
// files have no words for.
func TestFilesAreReadAgain(t *testing.T) {
	if !slices.Contains(jobfile.Keys(), "health_check") {
		t.Skip("job files have no words for containers")
	}
	lacking := map[string]bool{}
	for name, spec := range jobs(t) {
		t.Run(name, func(t *testing.T) {
			text, keys, err := File(&spec)
			if err != nil {
				t.Fatal(err)
			}
			keys = slices.DeleteFunc(keys, func(k string) bool { return slices.Contains(jobfile.Keys(), k) })
			for _, k := range keys {
				lacking[k] = true
			}
			got, err := jobfile.Read(bytes.NewReader(without(t, text, keys)), "f")
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			if diff := cmp.Diff(cleared(t, spec, keys), *got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s\n%s", diff, text)
			}
		})
	}
	if len(lacking) > 0 {
		t.Logf("job files have no %v yet", lacking)
	}
}

// without takes top keys out of a job file.
func without(t *testing.T, text []byte, keys []string) []byte {
	t.Helper()
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	root := doc.Content[0]
	for _, k := range keys {
		i := slices.IndexFunc(root.Content, func(n *yaml.Node) bool { return n.Value == k })
		root.Content = slices.Delete(root.Content, i, i+2)
	}
	text, err := yaml.Marshal(&doc)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// cleared takes out of a job what those keys say.
func cleared(t *testing.T, s job.Spec, keys []string) job.Spec {
	t.Helper()
	for _, k := range keys {
		switch k {
		case "service":
			s.Service = nil
		case "group":
			s.Group = ""
		case "user":
			s.User = ""
		case "entrypoint":
			s.Entrypoint = ""
		case "fetch":
			s.Fetch = nil
		case "limits":
			s.Limits = job.Limits{}
		case "parameters":
			s.Parameters = nil
		default:
			t.Errorf("job files have no key %s", k)
		}
	}
	return s
}

func TestFile(t *testing.T) {
	for name, want := range map[string]string{
		"docker-everything": `name: docker_everything.mjwaidke
tasks: 3
gpus: 2
cpus: 4
mem: 16384MiB
limits:
  cpus: 8
  mem: unlimited
container: docker
image: serve:1
force_pull: true
entrypoint: /bin/sh
command: [-c, serve --port $PORT0]
user: 1000:1000
`,
		"everything-plain": `service:
  backoff: 5s
  backoff_factor: 2
  backoff_max: 10m0s
  replace_after: 1m0s
group: /plain/everything
role: web
kill_grace: 30s
`,
		"gpu-bridge-service": `health_check:
  http:
    port_index: 0
    path: /health
  interval: 5s
  timeout: 3s
  grace: 2m0s
  failures: 2
`,
	} {
		spec, ok := jobs(t)[name]
		if !ok {
			t.Fatalf("no definition %s", name)
		}
		text, _, err := File(&spec)
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s (%v): got\n%s\nwant in it\n%s", name, err, text, want)
		}
	}
}
