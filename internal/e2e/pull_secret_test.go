package e2e

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	dockerimage "github.com/docker/docker/api/types/image"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"mesos-gpu/framework/api"
	"mesos-gpu/internal/testing/testimage"
	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/job"
)

// TestPullSecret checks that the credentials in a secret pull the image of a job and of a Marathon app from a registry that
// demands them, and that neither the API nor the task gets them.
func TestPullSecret(t *testing.T) {
	docker := testneeds.RequireDockerEngine(t)
	const user, password = "ann", "s3cret-of-the-registry"
	host := startPrivateRegistry(t, user, password)
	image := host + "/team/app:v1"
	pushImage(t, image, user, password)
	t.Cleanup(func() {
		if _, err := docker.ImageRemove(context.Background(), image, dockerimage.RemoveOptions{Force: true, PruneChildren: true}); err != nil {
			t.Error(err)
		}
	})
	secrets := t.TempDir()
	config := fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, host, base64.StdEncoding.EncodeToString([]byte(user+":"+password)))
	for path, text := range map[string]string{"team/registry": config, "other": `{"auths":{}}`} {
		path = filepath.Join(secrets, "*", path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("MESOS_GPU_SECRETS", secrets)
	c := startCluster(t, "--gpu-scheduling-behavior", "unrestricted")

	c.mustRun("run", "-d", "--image", image, "--pull", "always", "--pull-secret", "other", "--name", "denied", "--", "true")
	denied := c.awaitJob("denied", func(v *api.JobView) bool { return v.Terminal })
	if message := denied.Tasks[0].Message; denied.State != job.Failed || !strings.Contains(message, "no credentials for registry "+host) {
		t.Errorf("with credentials of another registry: %s, %s", denied.State, message)
	}
	c.mustRun("run", "-d", "--image", image, "--pull", "always", "--pull-secret", "team/registry", "--name", "pulled", "--",
		"sh", "-c", "env; grep -r s3cret $MESOS_SANDBOX; true")
	pulled := c.awaitJob("pulled", func(v *api.JobView) bool { return v.Terminal })
	if pulled.State != job.Finished {
		t.Fatalf("ended %s: %s", pulled.State, pulled.Tasks[0].Message)
	}
	shown := c.mustRun("describe", "-o", "json", "pulled") + c.mustRun("logs", "pulled") + c.output.String()
	if !strings.Contains(shown, `"pull_secret": "team/registry"`) || strings.Contains(shown, password) ||
		strings.Contains(shown, base64.StdEncoding.EncodeToString([]byte(password))) {
		t.Errorf("the secret's name alone is expected in\n%s", shown)
	}

	c.mustCallMarathon(http.MethodPost, "/apps", fmt.Sprintf(`{"id": "/private", "cmd": "exec sleep 1000", "cpus": 0.1, "mem": 64,
		"container": {"docker": {"image": %q, "forcePullImage": true, "pullConfig": {"secret": "registry"}}}, "secrets": {"registry": {"source": "/team/registry"}}}`,
		image))
	c.awaitApp("/private", "run", func(a *appView) bool { return a.TasksRunning == 1 })
	if _, text := c.callMarathon(http.MethodGet, "/apps//private", ""); !strings.Contains(string(text), `"pullConfig":{"secret":"registry"}`) {
		t.Errorf("the app is returned without its pullConfig: %s", text)
	}
}

// startPrivateRegistry returns the address of a registry that demands a password.
func startPrivateRegistry(t *testing.T, user, password string) string {
	t.Helper()
	inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if gotUser, gotPassword, _ := r.BasicAuth(); gotUser != user || gotPassword != password {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			http.Error(w, `{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}`, http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// pushImage pushes a busybox image.
func pushImage(t *testing.T, image, user, password string) {
	t.Helper()
	img, err := tarball.ImageFromPath(testimage.BusyboxArchive(t, "mesos-gpu-e2e-private:latest", nil, nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	ref, err := name.ParseReference(image)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, img, remote.WithAuth(&authn.Basic{Username: user, Password: password})); err != nil {
		t.Fatal(err)
	}
}
