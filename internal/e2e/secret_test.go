package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mesos-gpu/framework/api"
	"mesos-gpu/internal/testing/testimage"
	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/job"
)

func TestJobSecrets(t *testing.T) {
	archive := loadSecretImage(t)
	t.Setenv("MESOS_GPU_SECRETS", secretsFolder(t))
	checkSecrets(t, startCluster(t, "--gpus", "1xV100", "--images", filepath.Dir(archive)))
}

// secretImage is the image of the tasks of checkSecrets.
const secretImage = "mesos-gpu-e2e-secrets:latest"

// loadSecretImage loads secretImage into the engine and returns its archive.
func loadSecretImage(t *testing.T) string {
	t.Helper()
	docker := testneeds.RequireDockerEngine(t)
	archive := testimage.BusyboxArchive(t, secretImage, nil, nil)
	testimage.LoadImage(t, docker, archive)
	return archive
}

// secretsFolder returns a folder with one secret of the role *. Tasks of other users cannot enter it, and can read the
// file where it is mounted.
func secretsFolder(t *testing.T) string {
	t.Helper()
	secrets := t.TempDir()
	if err := os.MkdirAll(filepath.Join(secrets, "*", "db"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(secrets, "*", "db", "password"), []byte("s3cret\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return secrets
}

// checkSecrets checks that tasks under both containerizers get the secrets that their job
// names, and that the API does not return them.
func checkSecrets(t *testing.T, c *cluster) {
	t.Helper()
	file := "cpus: 0.2\nmem: 256MiB\nsecrets: {PASSWORD: db/password}\ncommand: '[ \"$PASSWORD\" = s3cret ] && echo it is $(echo $PASSWORD | wc -c)'\n"
	asFile := "image: " + secretImage +
		"\ncpus: 0.2\nmem: 256MiB\nsecret_files: {/run/db: db/password, keys/db: db/password}\ncommand: " +
		"'[ $(cat /run/db) = s3cret ] && [ $(cat $MESOS_SANDBOX/keys/db) = s3cret ] && ! echo x > /run/db && echo it is $(cat /run/db | wc -c)'\n"
	for name, lines := range map[string]string{
		"unified":       file,
		"docker":        "image: " + secretImage + "\n" + file,
		"files-unified": "container: mesos\n" + asFile,
		"files-docker":  asFile,
	} {
		t.Run(name, func(t *testing.T) {
			c.mustRun("submit", writeJobFile(t, name+".yaml", "name: "+name+"\n"+lines))
			view := c.awaitJob(name, func(v *api.JobView) bool { return v.Terminal })
			if view.State != job.Finished {
				if said := c.run("logs", view.Tasks[0].ID); strings.Contains(said.out+said.err, "sysrq-trigger") {
					t.Skip("this kernel has no /proc/sysrq-trigger, without which Mesos starts no container with an image")
				}
				t.Fatalf("ended %s: %s", view.State, view.Tasks[0].Message)
			}
			if out := c.mustRun("logs", view.Tasks[0].ID); out != "it is 7\n" {
				t.Errorf("got %q", out)
			}
			if out := c.mustRun("describe", "-o", "json", name); strings.Contains(out, "s3cret\"") {
				t.Errorf("the API returns the secret:\n%s", out)
			}
		})
	}
	t.Run("unknown secret", func(t *testing.T) {
		c.mustRun("submit", writeJobFile(t, "none.yaml", "name: none\ncommand: \"true\"\nsecrets: {PASSWORD: db/pasword}\n"))
		view := c.awaitJob("none", func(v *api.JobView) bool { return v.Terminal })
		if message := view.Tasks[0].Message; view.State != job.Failed || !strings.Contains(message, `secret PASSWORD: "db/pasword" of role "*"`) {
			t.Errorf("ended %s: %s", view.State, message)
		}
	})
}
