//go:build mesos

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"mesos-gpu/framework/api"
	"mesos-gpu/gpu"
	"mesos-gpu/internal/testing/testimage"
	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/job"
)

// TestMesosTasksAreLimitedToTheirShares runs on Apache Mesos with a resource provider and the
// module. Jobs that request shares wait while no device is shared, and are placed when an
// operator shares one, although the scheduler had declined all offers of the agent. Docker
// tasks and Mesos containers are limited to their shares and cannot open another device. Once
// it is idle, the device is whole again.
func TestMesosTasksAreLimitedToTheirShares(t *testing.T) {
	requireMesosImages(t)
	docker := testneeds.RequireDockerEngine(t)
	l := buildLimiter(t, "mesos-gpu-e2e-share")
	image, images := testimage.LoadImage(t, docker, l.archive), t.TempDir()
	testimage.SaveImage(t, docker, image, images)
	limit := []string{"--share-limit", "preload", "--share-library", l.library}
	resources, attributes := printAgentFlags(t, "", limit...)
	a := startModuleAgent(t, resources, attributes, "--image_providers=docker", "--docker_registry="+images)
	a.startDaemon(t, "", limit...)
	c := (&mesos{master: a.master}).startScheduler(t)
	var devices []struct{ Device gpu.Device }
	decodeJSON(t, getFromDaemon(t, a.socket, "/v1/devices"), &devices)
	awaitText(t, "gpus", func() string { return c.mustRun("gpus") }, "0 of 4 GPUs held")

	for _, containerizer := range []string{"docker", "mesos"} {
		submitShareJob(t, c, containerizer, image)
		awaitText(t, "a job before anything is shared", func() string { return c.mustRun("describe", "fills-"+containerizer) },
			"4 of 4 devices are whole (not shared: see mesos-gpu agent share)")
	}
	share := func(verb string) {
		t.Helper()
		if r := runCommand(t, nil, "agent", verb, "2", "--socket", a.socket); r.code != 0 {
			t.Fatalf("%s: status %d, %s", verb, r.code, r.err)
		}
	}
	share("share")
	ids := map[string]string{}
	for _, containerizer := range []string{"docker", "mesos"} {
		id, part := awaitShareFilled(t, c, containerizer)
		if part.UUID != devices[2].Device.UUID || part.LimitedBy != gpu.EnforcedByPreload {
			t.Errorf("%s: part is %s, want one of device 2", containerizer, part)
		}
		if got, want := c.mustRun("logs", id), fillShareOutput(devices[2].Device, 30); got != want {
			t.Errorf("%s: got\n%swant\n%s", containerizer, got, want)
		}
		ids[containerizer] = id
	}
	awaitText(t, "gpus", func() string { return c.mustRun("gpus") }, fmt.Sprintf("6144/%d MiB, 60/100 %% (preload)", devices[2].Device.MemMiB), "0 of 3 GPUs held")
	for containerizer, id := range ids {
		awaitText(t, "metrics of "+containerizer, func() string { return shareMetrics(getFromDaemon(t, a.socket, "/metrics"), id) },
			"memory_used_bytes 3.221225472e+09", "memory_limit_bytes 3.221225472e+09", "cores 30")
	}
	share("unshare")
	if table := runCommand(t, nil, "agent", "devices", "--socket", a.socket).out; !strings.Contains(table, "changes once idle") {
		t.Errorf("after unshare of a device in use, the devices are\n%s", table)
	}
	for containerizer, id := range ids {
		killTaskProcesses(t, id)
		if view := c.awaitJob("fills-"+containerizer, func(v *api.JobView) bool { return v.Terminal }); view.State != job.Failed {
			t.Errorf("%s: killed, it is %s", containerizer, view.State)
		}
	}
	awaitText(t, "gpus", func() string { return c.mustRun("gpus") }, "0 of 4 GPUs held")
	if r := c.run("run", "--gpus", "4", "--gpu-type", "V100", "--", "true"); r.code != 0 {
		t.Errorf("four whole devices: status %d, %s", r.code, r.err)
	}
}
