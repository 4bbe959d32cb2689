package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/gpu"
	"mesos-gpu/internal/testing/testimage"
	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/job"
)

// shareJobFile is a job with a share of a device.
const shareJobFile = `name: NAME
image: IMAGE
container: CONTAINERIZER
cpus: 0.1
mem: 256MiB
share: {memory: 3GiB, cores: 30}
command: |
`

// submitShareJob submits a job with one task that runs fillShareScript under a containerizer.
func submitShareJob(t *testing.T, c *cluster, containerizer, image string) {
	t.Helper()
	name := "fills-" + containerizer
	text := strings.NewReplacer("NAME", name, "IMAGE", image, "CONTAINERIZER", containerizer).Replace(shareJobFile)
	c.mustRun("submit", writeJobFile(t, name, text+"  "+strings.ReplaceAll(fillShareScript, "\n", "\n  ")))
}

// awaitShareFilled waits until the task has allocated its whole share, and returns its ID and
// its share.
func awaitShareFilled(t *testing.T, c *cluster, containerizer string) (id string, part gpu.DeviceShare) {
	t.Helper()
	name := "fills-" + containerizer
	view := c.awaitJob(name, func(v *api.JobView) bool {
		if len(v.Tasks) == 1 && v.Tasks[0].State == job.Running {
			return strings.HasSuffix(c.mustRun("logs", v.Tasks[0].ID), "done\n")
		}
		return v.Terminal
	})
	if view.Terminal || len(view.Tasks[0].Shares) != 1 {
		t.Fatalf("%s: %+v", name, view.Tasks)
	}
	return view.Tasks[0].ID, view.Tasks[0].Shares[0]
}

// getFromDaemon sends a GET request to a GPU daemon's socket and returns the body.
func getFromDaemon(t *testing.T, socket, path string) string {
	t.Helper()
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	transport := &http.Transport{DialContext: dial, DisableKeepAlives: true}
	resp, err := (&http.Client{Transport: transport}).Get("http://agent" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", path, resp.Status, err)
	}
	return string(text)
}

// awaitText polls until the text contains all of want.
func awaitText(t *testing.T, what string, read func() string, want ...string) {
	t.Helper()
	tick, late := time.NewTicker(200*time.Millisecond), time.After(waitTimeout)
	defer tick.Stop()
	for {
		text, missing := read(), ""
		for _, w := range want {
			if !strings.Contains(text, w) {
				missing = w
			}
		}
		if missing == "" {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%s: no %q within %s in:\n%s", what, missing, waitTimeout, text)
		}
	}
}

// shareMetrics returns the metrics of a task's share as "NAME VALUE, …".
func shareMetrics(metrics, task string) string {
	found := regexp.MustCompile(`(?m)^mesos_gpu_share_(\w+)\{.*task="`+regexp.QuoteMeta(task)+`".*\} (\S+)$`).FindAllStringSubmatch(metrics, -1)
	var list []string
	for _, f := range found {
		list = append(list, f[1]+" "+f[2])
	}
	return strings.Join(list, ", ")
}

// TestTasksAreLimitedToTheirShares runs a Docker task and a Mesos container with shares of one
// device. Neither can allocate more than its share, and when they are killed, everything is
// released.
func TestTasksAreLimitedToTheirShares(t *testing.T) {
	if hasDriver() {
		t.Skip("this machine has a driver: its GPUs would be shared")
	}
	testneeds.RequireRoot(t)
	testneeds.RequireProgram(t, "runc", "runc")
	docker := testneeds.RequireDockerEngine(t)
	l := buildLimiter(t, "mesos-gpu-e2e-limited")
	image, work := testimage.LoadImage(t, docker, l.archive), t.TempDir()
	c := startCluster(t, "--work-dir", work, "--gpus", "2xT4", "--share", "all", "--share-limit", "preload", "--share-library",
		l.library, "--images", filepath.Dir(l.archive))
	var devices []struct{ Device gpu.Device }
	socket := filepath.Join(work, "agent.sock")
	decodeJSON(t, getFromDaemon(t, socket, "/v1/devices"), &devices)

	ids := map[string]string{}
	for _, containerizer := range []string{"docker", "mesos"} {
		submitShareJob(t, c, containerizer, image)
		id, part := awaitShareFilled(t, c, containerizer)
		if part.UUID != devices[0].Device.UUID {
			t.Errorf("%s: part of %s, want one of the first device", containerizer, part)
		}
		if got, want := c.mustRun("logs", id), fillShareOutput(devices[0].Device, 30); got != want {
			t.Errorf("%s: got\n%swant\n%s", containerizer, got, want)
		}
		ids[containerizer] = id
	}
	table := c.mustRun("gpus")
	for _, want := range []string{
		"6144/15109 MiB, 60/100 % (preload)", "0/15109 MiB, 0/100 % (preload)",
		"6144/30218 MiB (20 %) of 2 shared GPUs", ids["docker"], ids["mesos"],
	} {
		if !strings.Contains(table, want) {
			t.Errorf("gpus have no %q:\n%s", want, table)
		}
	}
	for containerizer, id := range ids {
		awaitText(t, "metrics of "+containerizer, func() string { return shareMetrics(getFromDaemon(t, socket, "/metrics"), id) },
			"memory_used_bytes 3.221225472e+09", "memory_limit_bytes 3.221225472e+09", "cores 30")
	}
	for containerizer, id := range ids {
		killTaskProcesses(t, id)
		view := c.awaitJob("fills-"+containerizer, func(v *api.JobView) bool { return v.Terminal })
		if view.State != job.Failed {
			t.Errorf("%s: killed, it is %s", containerizer, view.State)
		}
	}
	awaitText(t, "gpus", func() string { return c.mustRun("gpus") }, "0/30218 MiB (0 %) of 2 shared GPUs")
	awaitText(t, "number of limit files", func() string {
		left, _ := os.ReadDir(filepath.Join(work, "limits"))
		return fmt.Sprint(len(left))
	}, "0")
}

// TestShareExample runs the example on an agent with shared devices.
func TestShareExample(t *testing.T) {
	t.Parallel()
	r := runProgram(t, buildReleased(t), nil, nil, "local", "--free-ports", "--gpus", "1xV100", "--share", "all", "--run", examplePath("share.yaml"))
	if r.code != 0 || !strings.HasSuffix(r.out, " FINISHED\n") {
		t.Errorf("status %d\n%s%s", r.code, r.out, r.err)
	}
}

// TestWholeJobsUseIdleSharedDevices runs jobs for whole GPUs on an agent that shares all of its GPUs: each has one alone, as if
// it were not shared. A share waits until one of them ends, and then another job for a whole GPU waits for the share.
func TestWholeJobsUseIdleSharedDevices(t *testing.T) {
	t.Parallel()
	c := startCluster(t, "--gpus", "2xT4", "--share", "all", "--share-limit", "none")
	submit := func(name, devices string) {
		c.mustRun("submit", writeJobFile(t, name, "name: "+name+"\ncpus: 0.1\nmem: 256MiB\n"+devices+"\ncommand: env; exec sleep 1000\n"))
	}
	deviceOf := func(name string) string {
		view := c.awaitJob(name, func(v *api.JobView) bool { return v.Tasks[0].State == job.Running || v.Terminal })
		task := view.Tasks[0]
		if len(task.DeviceIDs) != 1 || len(task.Shares) != 1 {
			t.Fatalf("%s: %+v", name, task)
		}
		if whole := view.Spec.Request.Share.IsWhole(); whole != (task.Shares[0].MilliDevices == 1000) || whole == strings.Contains(task.Message, "no limit holds") {
			t.Errorf("%s has %+v, message %q", name, task.Shares[0], task.Message)
		}
		return task.DeviceIDs[0]
	}
	submit("one", "gpus: 1")
	submit("two", "gpus: 1")
	one, two := deviceOf("one"), deviceOf("two")
	if one == two {
		t.Fatalf("two jobs for whole GPUs have %s", one)
	}
	awaitText(t, "the variables of a whole GPU", func() string { return c.mustRun("logs", "one") }, "NVIDIA_VISIBLE_DEVICES="+one)
	if text := c.mustRun("logs", "one"); strings.Contains(text, "MESOS_GPU_SHARE=") {
		t.Errorf("a job for a whole GPU has the variables of a share:\n%s", text)
	}
	awaitText(t, "the GPUs", func() string {
		return strings.Join(regexp.MustCompile(`(?m)\bheld\b.*$`).FindAllString(c.mustRun("gpus"), -1), " ")
	}, "one.0.", "two.0.")
	submit("part", "share: {memory: 3GiB}")
	awaitText(t, "the share that waits", func() string { return c.mustRun("describe", "part") }, "2 of 2 devices lack 3072 MiB of shared memory (most free 0)")
	c.mustRun("kill", "one")
	if part := deviceOf("part"); part != one {
		t.Errorf("the share is on %s, which another job has whole; %s is idle", part, one)
	}
	submit("three", "gpus: 1")
	awaitText(t, "the job that waits", func() string { return c.mustRun("describe", "three") }, "1 agent has GPUs, none has one free; tasks have shares of 1")
	c.mustRun("kill", "part")
	if three := deviceOf("three"); three != one {
		t.Errorf("the job that waited for the share is on %s, which another job has whole", three)
	}
}

// TestSharesArePackedOnOneDevice runs three tasks of 3 GiB, which share one device, and a
// larger task, which gets the other one. A task that fits on neither waits, with the reason in
// describe.
func TestSharesArePackedOnOneDevice(t *testing.T) {
	t.Parallel()
	c := startCluster(t, "--gpus", "2xT4", "--share", "all", "--share-limit", "none")
	c.mustRun("submit", writeJobFile(t, "packs", "name: packs\ntasks: 3\ncpus: 0.1\nmem: 256MiB\nshare: {memory: 3GiB}\ncommand: exec sleep 1000\n"))
	running := func(v *api.JobView) bool {
		for _, task := range v.Tasks {
			if task.State != job.Running {
				return false
			}
		}
		return true
	}
	on := map[string]int{}
	for _, task := range c.awaitJob("packs", running).Tasks {
		on[task.Shares[0].UUID]++
		if !strings.Contains(task.Message, "no limit holds") {
			t.Errorf("no limit is enforced, but the message is %q", task.Message)
		}
	}
	if len(on) != 1 {
		t.Errorf("three tasks are on %v, want one device", on)
	}
	c.mustRun("submit", writeJobFile(t, "large", "name: large\ncpus: 0.1\nmem: 256MiB\nshare: {memory: 14GiB}\ncommand: exec sleep 1000\n"))
	c.awaitJob("large", running)
	c.mustRun("submit", writeJobFile(t, "more", "name: more\ncpus: 0.1\nmem: 256MiB\nshare: {memory: 7GiB}\ncommand: exec sleep 1000\n"))
	awaitText(t, "the job that waits", func() string { return c.mustRun("describe", "more") }, "2 of 2 devices lack 7168 MiB of shared memory (most free 5893)")
	c.mustRun("kill", "packs")
	c.awaitJob("more", running)
}
