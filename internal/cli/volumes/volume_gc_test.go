package volumes

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// gc keeps volumes that Docker containers and volumes refer to, even stopped ones. If the
// engine does not respond, it keeps all.
func TestVolumeGCAsksTheEngine(t *testing.T) {
	dir := "/volumes"
	answers := map[string]any{
		"/containers/json": []map[string]any{{"Id": "1", "Mounts": []map[string]any{
			{"Type": "bind", "Source": "/volumes/nvidia_1.1"}, {"Type": "volume", "Name": "nvidia_1.2", "Source": "/run/mesos-gpu/volumes/nvidia_1.2"},
		}}},
		"/volumes": map[string]any{"Volumes": []map[string]any{{"Name": "x", "Options": map[string]string{"device": "/volumes/nvidia_1.3"}}, {"Name": "y"}}},
	}
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for path, answer := range answers {
			if strings.HasSuffix(r.URL.Path, path) {
				w.Header().Set("Content-Type", "application/json")
				_ = json.NewEncoder(w).Encode(answer) // the test notices missing data
			}
		}
	}))
	t.Setenv("DOCKER_HOST", "tcp://"+engine.Listener.Addr().String())
	users, err := listDockerMounts(context.Background(), dir)
	want := []string{"/volumes/nvidia_1.1", "/run/mesos-gpu/volumes/nvidia_1.2", "/volumes/nvidia_1.2", "/volumes/nvidia_1.3"}
	if diff := cmp.Diff(want, users); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	engine.Close()
	if users, err := listDockerMounts(context.Background(), dir); err == nil || !strings.Contains(err.Error(), "--no-docker goes without") {
		t.Errorf("an engine that is away: %v, %v", users, err)
	}
}
