package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"mesos-gpu/internal/testing/testimage"
	"mesos-gpu/internal/testing/testneeds"
)

// TestFetchedFilesAreInSandbox checks that fetched files are in the sandbox when the command
// starts: under Docker, and under Mesos with and without an image. A file that cannot be
// fetched fails the task with the reason.
func TestFetchedFilesAreInSandbox(t *testing.T) {
	t.Parallel()
	testneeds.RequireProgram(t, "runc", "runc")
	docker := testneeds.RequireDockerEngine(t)
	archive := testimage.BusyboxArchive(t, "mesos-gpu-e2e-fetch", nil, nil)
	loaded := testimage.LoadImage(t, docker, archive)
	store := t.TempDir()
	hardLink(t, archive, filepath.Join(store, filepath.Base(archive)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/model.bin" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, "weights")
	}))
	defer server.Close()
	c := startCluster(t, "--images", store)
	for name, container := range map[string]string{
		"docker": "container: docker\nimage: " + loaded, "image": "container: mesos\nimage: mesos-gpu-e2e-fetch", "plain": "container: mesos",
	} {
		t.Run(name, func(t *testing.T) {
			text := fmt.Sprintf("name: %s\n%s\ncpus: 0.1\nmem: 256MiB\nfetch: [{uri: %q, path: models/m}]\ncommand: [sh, -c, 'cat $MESOS_SANDBOX/models/m']\n",
				name, container, server.URL+"/model.bin")
			c.mustRun("submit", writeJobFile(t, name, text))
			c.awaitJobEnd(name)
			if out := c.mustRun("logs", name); !strings.Contains(out, "weights") {
				t.Errorf("the task prints %q, want what was fetched\n%s", out, c.mustRun("describe", name))
			}
		})
	}
	c.mustRun("submit", writeJobFile(t, "gone", fmt.Sprintf("name: gone\ncpus: 0.1\nmem: 256MiB\nfetch: [%q]\ncommand: \"true\"\n", server.URL+"/gone.bin")))
	c.awaitJobEnd("gone")
	if out := c.mustRun("describe", "gone"); !strings.Contains(out, "404 Not Found") {
		t.Errorf("describe does not say what could not be fetched:\n%s", out)
	}
}
