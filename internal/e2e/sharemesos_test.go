//go:build mesos

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"mesos-gpu/framework/api"
	"mesos-gpu/gpu"
	"mesos-gpu/internal/testimage"
	"mesos-gpu/internal/testneeds"
	"mesos-gpu/job"
)

// On Apache Mesos, by a resource provider and with the module: jobs that want
// parts wait while devices are whole, and get them once an operator shares one,
// although their scheduler has declined all that the agent had. Tasks in Docker
// and in Mesos's own containers are held to their parts, and can open no other
// device. When it is idle the device goes whole again.
func TestMesosShareHoldsTasks(t *testing.T) {
	docker := testneeds.RequireDockerEngine(t)
	l := newLimited(t, "mesos-gpu-e2e-share")
	image, images := testimage.LoadImage(t, docker, l.archive), t.TempDir()
	testimage.SaveImage(t, docker, image, images)
	limit := []string{"--share-limit", "preload", "--share-library", l.library}
	resources, attributes := agentFlags(t, "", limit...)
	a := startModuleAgent(t, resources, attributes, "--image_providers=docker", "--docker_registry="+images)
	a.daemon(t, "", limit...)
	c := (&mesos{master: a.master}).scheduler(t)
	var devices []struct{ Device gpu.Device }
	read(t, over(t, a.socket, "/v1/devices"), &devices)
	eventually(t, "gpus", func() string { return c.must("gpus") }, "0 of 4 GPUs held")

	for _, containerizer := range []string{"docker", "mesos"} {
		submitSharing(t, c, containerizer, image)
		eventually(t, "a job before anything is shared", func() string { return c.must("describe", "fills-"+containerizer) }, "4 of 4 devices are whole (not shared)")
	}
	share := func(verb string) {
		t.Helper()
		if r := command(t, nil, "agent", verb, "2", "--socket", a.socket); r.code != 0 {
			t.Fatalf("%s: status %d, %s", verb, r.code, r.err)
		}
	}
	share("share")
	ids := map[string]string{}
	for _, containerizer := range []string{"docker", "mesos"} {
		id, part := awaitFilling(t, c, containerizer)
		if part.UUID != devices[2].Device.UUID || part.LimitedBy != gpu.EnforcedByPreload {
			t.Errorf("%s: part is %s, want one of device 2", containerizer, part)
		}
		if got, want := c.must("logs", id), filled(devices[2].Device, 30); got != want {
			t.Errorf("%s: got\n%swant\n%s", containerizer, got, want)
		}
		ids[containerizer] = id
	}
	eventually(t, "gpus", func() string { return c.must("gpus") }, fmt.Sprintf("6144/%d MiB, 60/100 %% (preload)", devices[2].Device.MemMiB), "0 of 3 GPUs held")
	for containerizer, id := range ids {
		eventually(t, "metrics of "+containerizer, func() string { return shares(over(t, a.socket, "/metrics"), id) },
			"memory_used_bytes 3.221225472e+09", "memory_limit_bytes 3.221225472e+09", "cores 30")
	}
	share("unshare")
	if table := command(t, nil, "agent", "devices", "--socket", a.socket).out; !strings.Contains(table, "changes once idle") {
		t.Errorf("in use and asked to be whole, the devices are\n%s", table)
	}
	for containerizer, id := range ids {
		killTask(t, id)
		if view := c.await("fills-"+containerizer, func(v *api.JobView) bool { return v.Terminal }); view.State != job.Failed {
			t.Errorf("%s: killed, it is %s", containerizer, view.State)
		}
	}
	eventually(t, "gpus", func() string { return c.must("gpus") }, "0 of 4 GPUs held")
	if r := c.do("run", "--gpus", "4", "--gpu-type", "V100", "--", "true"); r.code != 0 {
		t.Errorf("four whole devices: status %d, %s", r.code, r.err)
	}
}
