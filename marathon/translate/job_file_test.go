package translate

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mesos-gpu/job/jobfile"
)

// Each job that is written as a job file reads as the same job.
func TestJobsRoundTripThroughJobFiles(t *testing.T) {
	for name, spec := range readCorpusJobs(t) {
		t.Run(name, func(t *testing.T) {
			var text bytes.Buffer
			if err := jobfile.Write(&text, &spec); err != nil {
				t.Fatal(err)
			}
			got, err := jobfile.Read(strings.NewReader(text.String()), "f")
			if err != nil {
				t.Fatalf("%v\n%s", err, text.String())
			}
			if diff := cmp.Diff(&spec, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s\n%s", diff, text.String())
			}
		})
	}
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
		spec, ok := readCorpusJobs(t)[name]
		if !ok {
			t.Fatalf("no definition %s", name)
		}
		var text strings.Builder
		if err := jobfile.Write(&text, &spec); err != nil || !strings.Contains(text.String(), want) {
			t.Errorf("%s (%v): got\n%s\nwant in it\n%s", name, err, text.String(), want)
		}
	}
}
