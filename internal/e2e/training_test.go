package e2e

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"mesos-gpu/framework/api"
	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/job"
)

// submitExample submits an example whose programs are those of testdata/launchers, and ends it with the test. The flags are
// those of submit.
func submitExample(t *testing.T, c *cluster, name string, flags ...string) {
	t.Helper()
	launchers, err := filepath.Abs(filepath.Join("testdata", "launchers"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(examplePath(name + ".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), name+".yaml")
	path := launchers + ":" + filepath.Dir(buildReleased(t)) + ":" + os.Getenv("PATH")
	env := fmt.Sprintf("\nenv: {PATH: %q, MESOS_GPU_API: %q}\n", path, c.api)
	if err := os.WriteFile(copied, append(text, env...), 0o600); err != nil {
		t.Fatal(err)
	}
	c.mustRun(append([]string{"submit", copied}, flags...)...)
	t.Cleanup(func() { c.run("kill", name); c.awaitJobEnd(name) })
}

// finishExample submits an example, waits for its end and returns its output.
func finishExample(t *testing.T, c *cluster, name string, flags ...string) (output string) {
	t.Helper()
	submitExample(t, c, name, flags...)
	if r := c.run("wait", name); r.code != 0 {
		t.Fatalf("%s%s%s", r.out, r.err, c.mustRun("describe", name))
	}
	return c.mustRun("logs", name)
}

// checkTorchrun runs the example for torchrun with two tasks of some GPUs, and checks the ranks and the result.
func checkTorchrun(t *testing.T, c *cluster, gpus int) {
	t.Helper()
	out := finishExample(t, c, "torchrun", "--gpus", strconv.Itoa(gpus))
	if !strings.Contains(out, "y = 3.00 x + 1.00\n") {
		t.Errorf("the sum of all processes' gradients leads to another line:\n%s", out)
	}
	for rank := range 2 * gpus {
		if want := fmt.Sprintf("torchrun.%d | rank %d of %d, local rank %d\n", rank/gpus, rank, 2*gpus, rank%gpus); !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// TestTrainingExamples runs the examples for training, notebooks and inference. Programs that are rarely installed stand
// in testdata/launchers; Python runs the examples' own code.
func TestTrainingExamples(t *testing.T) {
	t.Parallel()
	testneeds.RequireProgram(t, "python3", "python3")
	c := startDaemon(t, buildReleased(t), "local", "--free-ports", "--work-dir", makeWorkDir(t), "--gpus", "8xV100,2xK80")
	submit := func(t *testing.T, name string) { t.Helper(); submitExample(t, c, name) }
	finish := func(t *testing.T, name string) (output string) { t.Helper(); return finishExample(t, c, name) }

	t.Run("torchrun", func(t *testing.T) { checkTorchrun(t, c, 4) })

	t.Run("MPI", func(t *testing.T) {
		out := finish(t, "mpi")
		for rank := range 4 {
			if want := fmt.Sprintf("rank %d of 4 in task %d\n", rank, rank/2); !strings.Contains(out, want) {
				t.Errorf("no %q in\n%s", want, out)
			}
		}
	})

	t.Run("sweep", func(t *testing.T) {
		losses := regexp.MustCompile(`rate=\S+ seed=\d loss=\d\.\d{6}\n`).FindAllString(finish(t, "sweep"), -1)
		byLoss := func(line string) string { return line[strings.LastIndex(line, "=")+1:] }
		best := slices.MinFunc(losses, func(a, b string) int { return strings.Compare(byLoss(a), byLoss(b)) })
		if len(losses) != 6 || !strings.HasPrefix(best, "rate=0.1 ") {
			t.Errorf("the best is %q of %q", best, losses)
		}
	})

	t.Run("Ray", func(t *testing.T) {
		submit(t, "ray")
		c.mustRun("wait", "--for", "running", "ray")
		c.awaitOutput("3 nodes, 3 GPUs", "exec", "ray.0", "--", "ray", "status")
	})

	t.Run("Jupyter", func(t *testing.T) {
		submit(t, "jupyter")
		task := c.awaitHealthy("jupyter").Tasks[0]
		if body := readURL(t, fmt.Sprintf("http://127.0.0.1:%d/api", task.Ports[0]), ""); body != `{"version": "2"}` {
			t.Errorf("answers %s", body)
		}
		if r := c.run("logs", "jupyter"); !strings.Contains(r.err, fmt.Sprintf(":%d/lab?token=", task.Ports[0])) {
			t.Errorf("the log has no address:\n%s%s", r.out, r.err)
		}
	})

	t.Run("inference", func(t *testing.T) {
		submit(t, "inference")
		view := c.awaitHealthy("inference")
		for _, task := range view.Tasks {
			if body := readURL(t, fmt.Sprintf("http://127.0.0.1:%d/predict", task.Ports[0]), "[1, 2]"); body != `{"score": 1.0}` {
				t.Errorf("task %s answers %s", task.ID, body)
			}
		}
	})

	// Of the listed types K80 is first, and has room for two tasks. V100 has room for three.
	t.Run("one GPU type for a gang", func(t *testing.T) {
		c.mustRun("run", "--name", "small", "--gang", "--tasks", "2", "--gpus", "1", "--cpus", "0.1", "--gpu-type", "same,K80,V100", "--", "true")
		spec := `{"name": "large", "gang": true, "tasks": 3, "cpus": 0.1, "mem_mib": 64, "command": ["true"],
			"request": {"gpus": 1, "types": {"same": true, "include": ["K80", "V100"]}}}`
		readURL(t, c.api+"/v1/jobs", spec)
		c.awaitJobEnd("large")
		for name, want := range map[string]string{"small": "K80", "large": "V100"} {
			var view api.JobView
			decodeJSON(t, readURL(t, c.api+"/v1/jobs/"+name, ""), &view)
			for _, task := range view.Tasks {
				if got := slices.Collect(maps.Keys(task.GPUTypes)); !slices.Equal(got, []string{want}) {
					t.Errorf("task %s has GPUs of %v, want %s", task.ID, got, want)
				}
			}
		}
		if r := c.run("run", "--tasks", "2", "--gpus", "1", "--gpu-type", "same", "--", "true"); r.code == 0 || !strings.Contains(r.err, "set gang: true") {
			t.Errorf("status %d: %s", r.code, r.err)
		}
	})

	t.Run("devices need the operator's permission", func(t *testing.T) {
		r := c.run("run", "--image", "debian:12", "--device", "/dev/infiniband", "--", "true")
		if want := "devices: /dev/infiniband is the agent's own: the scheduler's operator allows such devices by --allow-devices, " +
			"and has allowed none"; r.code == 0 ||
			!strings.Contains(r.err, want) {
			t.Errorf("status %d, want …%s…: %s", r.code, want, r.err)
		}
		if r := c.run("run", "--image", "debian:12", "--device", "/dev/nvidia0", "--", "true"); r.code == 0 ||
			!strings.Contains(r.err, "/dev/nvidia0 belongs to GPUs") {
			t.Errorf("status %d: %s", r.code, r.err)
		}
	})

	t.Run("a retry has other ports", func(t *testing.T) {
		folder, file := makeWorkDir(t), filepath.Join(t.TempDir(), "ports.yaml")
		if err := os.Chmod(folder, 0o777); err != nil { // for tasks of another user
			t.Fatal(err)
		}
		drawn := filepath.Join(folder, "drawn")
		text := fmt.Sprintf("name: ports\nports: 1\ncpus: 0.1\nmem: 32MiB\nretries: 3\ncommand: echo $PORT0 >> %s; exit 1\n", drawn)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c.mustRun("submit", file)
		c.awaitJobEnd("ports")
		lines, err := os.ReadFile(drawn)
		if err != nil {
			t.Fatal(err)
		}
		if ports := strings.Fields(string(lines)); len(ports) != 4 || len(slices.Compact(slices.Sorted(slices.Values(ports)))) < 3 {
			t.Errorf("the attempts had the ports %v", ports)
		}
	})
}

// awaitHealthy waits until all tasks of a job are healthy.
func (c *cluster) awaitHealthy(name string) api.JobView {
	c.t.Helper()
	return c.awaitJob(name, func(v *api.JobView) bool {
		return !slices.ContainsFunc(v.Tasks, func(t job.Task) bool { return t.Healthy == nil || !*t.Healthy })
	})
}

// readURL returns the body of a successful answer to GET, or to POST of JSON if there is some.
func readURL(t *testing.T, url, body string) string {
	t.Helper()
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= 300 {
		t.Fatalf("%s %s: %s: %s %v", method, url, resp.Status, text, err)
	}
	return strings.TrimSpace(string(text))
}
