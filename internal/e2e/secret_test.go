package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mesos-gpu/framework/api"
	"mesos-gpu/internal/testimage"
	"mesos-gpu/internal/testneeds"
	"mesos-gpu/job"
)

func TestJobSecrets(t *testing.T) {
	t.Setenv("MESOS_GPU_SECRETS", secretsFolder(t))
	checkSecrets(t, start(t, "--gpus", "1xV100"))
}

// secretsFolder has one secret, of the role *.
func secretsFolder(t *testing.T) string {
	t.Helper()
	docker := testneeds.RequireDockerEngine(t)
	testimage.LoadImage(t, docker, testimage.BusyboxArchive(t, "busybox:latest", nil, nil))
	secrets := t.TempDir()
	if err := os.MkdirAll(filepath.Join(secrets, "*", "db"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(secrets, "*", "db", "password"), []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return secrets
}

// checkSecrets: a task of either containerizer has the secrets that its job
// names, and nobody else learns them.
func checkSecrets(t *testing.T, c *cluster) {
	t.Helper()
	file := "cpus: 0.2\nmem: 256MiB\nsecrets: {PASSWORD: db/password}\ncommand: '[ \"$PASSWORD\" = s3cret ] && echo it is $(echo $PASSWORD | wc -c)'\n"
	for name, lines := range map[string]string{"unified": "", "docker": "image: busybox:latest\n"} {
		t.Run(name, func(t *testing.T) {
			c.must("submit", write(t, name+".yaml", "name: "+name+"\n"+lines+file))
			view := c.await(name, func(v *api.JobView) bool { return v.Terminal })
			if view.State != job.Finished {
				t.Fatalf("ended %s: %s", view.State, view.Tasks[0].Message)
			}
			if out := c.must("logs", view.Tasks[0].ID); out != "it is 7\n" {
				t.Errorf("got %q", out)
			}
			if out := c.must("describe", "-o", "json", name); strings.Contains(out, "s3cret\"") {
				t.Errorf("the API tells the secret:\n%s", out)
			}
		})
	}
	t.Run("none of that name", func(t *testing.T) {
		c.must("submit", write(t, "none.yaml", "name: none\ncommand: \"true\"\nsecrets: {PASSWORD: db/pasword}\n"))
		view := c.await("none", func(v *api.JobView) bool { return v.Terminal })
		if message := view.Tasks[0].Message; view.State != job.Failed || !strings.Contains(message, `secret PASSWORD: "db/pasword" of role "*"`) {
			t.Errorf("ended %s: %s", view.State, message)
		}
	})
}
