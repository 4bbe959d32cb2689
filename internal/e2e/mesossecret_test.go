//go:build mesos

package e2e

import (
	"testing"

	"mesos-gpu/framework/api"
	"mesos-gpu/internal/testing/apachemesos"
	"mesos-gpu/internal/testing/testimage"
	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/isolator/simulated"
	"mesos-gpu/job"
)

func TestMesosJobSecrets(t *testing.T) {
	loadSecretImage(t)
	settings := map[string]string{"MESOS_GPU_SECRETS": secretsFolder(t)}
	m := startMesosAgent(t, apachemesos.StartMaster(t, "--allocation_interval=200ms").Addr, "127.0.0.1", simulated.DriverVersion, settings, stockAgentFlags...)
	testimage.SaveImage(t, testneeds.RequireDockerEngine(t), secretImage, m.imagesDir) // with the file that Mesos reads
	c := m.startScheduler(t)
	checkSecrets(t, c)
	t.Run("file without an image", func(t *testing.T) {
		c.mustRun("submit", writeJobFile(t, "imageless.yaml",
			"name: imageless\ncpus: 0.2\nmem: 64MiB\nsecret_files: {keys/db: db/password}\ncommand: "+
				"'[ $(cat keys/db) = s3cret ] && ! (echo x > keys/db) && echo read $(id -un)'\n"))
		view := c.awaitJob("imageless", func(v *api.JobView) bool { return v.Terminal })
		if out := c.mustRun("logs", view.Tasks[0].ID); view.State != job.Finished || out != "read nobody\n" {
			t.Errorf("ended %s: %s\n%s", view.State, view.Tasks[0].Message, out)
		}
	})
}
