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
	"mesos-gpu/internal/testimage"
	"mesos-gpu/internal/testneeds"
	"mesos-gpu/job"
)

// sharing is a job that has part of a device.
const sharing = `name: NAME
image: IMAGE
container: CONTAINERIZER
cpus: 0.1
mem: 256MiB
share: {memory: 3GiB, cores: 30}
command: |
`

// submitSharing submits a job of one task of fills, under that containerizer.
func submitSharing(t *testing.T, c *cluster, containerizer, image string) {
	t.Helper()
	name := "fills-" + containerizer
	text := strings.NewReplacer("NAME", name, "IMAGE", image, "CONTAINERIZER", containerizer).Replace(sharing)
	c.must("submit", write(t, name, text+"  "+strings.ReplaceAll(fills, "\n", "\n  ")))
}

// awaitFilling waits until the task holds all that it can, and returns its id
// and its part.
func awaitFilling(t *testing.T, c *cluster, containerizer string) (id string, part gpu.DeviceShare) {
	t.Helper()
	name := "fills-" + containerizer
	view := c.await(name, func(v *api.JobView) bool {
		if len(v.Tasks) == 1 && v.Tasks[0].State == job.Running {
			return strings.HasSuffix(c.must("logs", v.Tasks[0].ID), "done\n")
		}
		return v.Terminal
	})
	if view.Terminal || len(view.Tasks[0].Shares) != 1 {
		t.Fatalf("%s: %+v", name, view.Tasks)
	}
	return view.Tasks[0].ID, view.Tasks[0].Shares[0]
}

// over asks what a GPU daemon says at its socket.
func over(t *testing.T, socket, path string) string {
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

// eventually waits until what is said holds all of want.
func eventually(t *testing.T, what string, say func() string, want ...string) {
	t.Helper()
	tick, late := time.NewTicker(200*time.Millisecond), time.After(patience)
	defer tick.Stop()
	for {
		said, missing := say(), ""
		for _, w := range want {
			if !strings.Contains(said, w) {
				missing = w
			}
		}
		if missing == "" {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%s: no %q within %s in:\n%s", what, missing, patience, said)
		}
	}
}

// shares tells what the metrics say of a task's part of a device.
func shares(metrics, task string) string {
	found := regexp.MustCompile(`(?m)^mesos_gpu_share_(\w+)\{.*task="`+regexp.QuoteMeta(task)+`".*\} (\S+)$`).FindAllStringSubmatch(metrics, -1)
	var list []string
	for _, f := range found {
		list = append(list, f[1]+" "+f[2])
	}
	return strings.Join(list, ", ")
}

// A docker task and one of Mesos's own containers have parts of one device, and
// neither gets a byte more than its own; killed, they give all back.
func TestTasksAreHeldToTheirParts(t *testing.T) {
	if hasDriver() {
		t.Skip("this machine has a driver: its GPUs would be shared")
	}
	testneeds.RequireRoot(t)
	testneeds.RequireProgram(t, "runc", "runc")
	docker := testneeds.RequireDockerEngine(t)
	l := newLimited(t, "mesos-gpu-e2e-limited")
	image, work := testimage.LoadImage(t, docker, l.archive), t.TempDir()
	c := start(t, "--work-dir", work, "--gpus", "2xT4", "--share", "all", "--share-limit", "preload", "--share-library", l.library, "--images", filepath.Dir(l.archive))
	var devices []struct{ Device gpu.Device }
	socket := filepath.Join(work, "agent.sock")
	read(t, over(t, socket, "/v1/devices"), &devices)

	ids := map[string]string{}
	for _, containerizer := range []string{"docker", "mesos"} {
		submitSharing(t, c, containerizer, image)
		id, part := awaitFilling(t, c, containerizer)
		if part.UUID != devices[0].Device.UUID {
			t.Errorf("%s: part of %s, want one of the first device", containerizer, part)
		}
		if got, want := c.must("logs", id), filled(devices[0].Device, 30); got != want {
			t.Errorf("%s: got\n%swant\n%s", containerizer, got, want)
		}
		ids[containerizer] = id
	}
	table := c.must("gpus")
	for _, want := range []string{"6144/15109 MiB, 60/100 % (preload)", "0/15109 MiB, 0/100 % (preload)", "6144/30218 MiB (20 %) of 2 shared GPUs", ids["docker"], ids["mesos"]} {
		if !strings.Contains(table, want) {
			t.Errorf("gpus have no %q:\n%s", want, table)
		}
	}
	for containerizer, id := range ids {
		eventually(t, "metrics of "+containerizer, func() string { return shares(over(t, socket, "/metrics"), id) },
			"memory_used_bytes 3.221225472e+09", "memory_limit_bytes 3.221225472e+09", "cores 30")
	}
	for containerizer, id := range ids {
		killTask(t, id)
		view := c.await("fills-"+containerizer, func(v *api.JobView) bool { return v.Terminal })
		if view.State != job.Failed {
			t.Errorf("%s: killed, it is %s", containerizer, view.State)
		}
	}
	eventually(t, "gpus", func() string { return c.must("gpus") }, "0/30218 MiB (0 %) of 2 shared GPUs")
	eventually(t, "books", func() string {
		left, _ := os.ReadDir(filepath.Join(work, "limits"))
		return fmt.Sprint(len(left))
	}, "0")
}

// The example, on an agent that shares.
func TestShareExample(t *testing.T) {
	r := runProgram(t, releasedBinary(t), nil, nil, "local", "--free-ports", "--gpus", "1xV100", "--share", "all", "--run", example("share.yaml"))
	if r.code != 0 || !strings.HasSuffix(r.out, " FINISHED\n") {
		t.Errorf("status %d\n%s%s", r.code, r.out, r.err)
	}
}

// Three tasks of 3 GiB are on one card; the other has what is larger, and who
// then finds no room is told why.
func TestSharesPackOnOneCard(t *testing.T) {
	c := start(t, "--gpus", "2xT4", "--share", "all", "--share-limit", "none")
	c.must("submit", write(t, "packs", "name: packs\ntasks: 3\ncpus: 0.1\nmem: 256MiB\nshare: {memory: 3GiB}\ncommand: exec sleep 1000\n"))
	running := func(v *api.JobView) bool {
		for _, task := range v.Tasks {
			if task.State != job.Running {
				return false
			}
		}
		return true
	}
	on := map[string]int{}
	for _, task := range c.await("packs", running).Tasks {
		on[task.Shares[0].UUID]++
		if !strings.Contains(task.Message, "no limit holds") {
			t.Errorf("nothing holds the task, and it says %q", task.Message)
		}
	}
	if len(on) != 1 {
		t.Errorf("three tasks are on %v, want one card", on)
	}
	c.must("submit", write(t, "large", "name: large\ncpus: 0.1\nmem: 256MiB\nshare: {memory: 14GiB}\ncommand: exec sleep 1000\n"))
	c.await("large", running)
	c.must("submit", write(t, "more", "name: more\ncpus: 0.1\nmem: 256MiB\nshare: {memory: 7GiB}\ncommand: exec sleep 1000\n"))
	eventually(t, "the job that waits", func() string { return c.must("describe", "more") }, "2 of 2 devices lack 7168 MiB of shared memory (most free 5893)")
	c.must("kill", "packs")
	c.await("more", running)
}
