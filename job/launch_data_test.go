package job

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// LaunchData has a newer version only if an older executor would run something else.
func TestLaunchVersions(t *testing.T) {
	for name, test := range map[string]struct {
		launch LaunchData
		want   int
	}{
		"plain":                  {LaunchData{Job: "a", Command: []string{"x"}, Fetch: []FetchArtifact{{URI: "/a"}}}, LaunchVersion},
		"more health checks":     {LaunchData{Job: "a", HealthChecks: []json.RawMessage{[]byte(`{"type":"TCP"}`)}}, entrypointLaunchVersion},
		"secrets":                {LaunchData{Job: "a", Secrets: map[string]string{"A": "b"}, ImageEntrypoint: true}, secretsLaunchVersion},
		"secrets as files":       {LaunchData{Job: "a", SecretFiles: map[string]string{"a": "b"}, Secrets: map[string]string{"A": "b"}}, filesLaunchVersion},
		"devices":                {LaunchData{Job: "a", Devices: []string{"/dev/infiniband"}, SecretFiles: map[string]string{"a": "b"}}, devicesLaunchVersion},
		"a pull secret":          {LaunchData{Job: "a", PullSecret: "registry", Warn: &Warning{}}, pullSecretLaunchVersion},
		"a shutdown delay":       {LaunchData{Job: "a", ShutdownDelay: 1, PullSecret: "registry"}, delayLaunchVersion},
		"a shared folder":        {LaunchData{Job: "a", Chdir: "/home/alice", HostUser: &HostUser{UID: 1}}, chdirLaunchVersion},
		"the image's entrypoint": {LaunchData{Job: "a", ImageEntrypoint: true}, entrypointLaunchVersion},
	} {
		data, err := test.launch.Encode()
		if err != nil {
			t.Fatal(err)
		}
		got, ok, err := ParseLaunch(data)
		if err != nil || !ok || got.Version != test.want {
			t.Errorf("%s: version %d (%t, %v), want %d", name, got.Version, ok, err, test.want)
		}
		got.Version = 0
		if diff := cmp.Diff(test.launch, got); diff != "" {
			t.Errorf("%s (-sent +got):\n%s", name, diff)
		}
	}
}

// Records from before jobs could have several health checks and fixed host ports are read unchanged.
func TestOldContainerRecordsAreReadable(t *testing.T) {
	var got Container
	if err := json.Unmarshal([]byte(`{"ports":[{"container":80}],"health_check":{"tcp":{"port":80},"failures":3}}`), &got); err != nil {
		t.Fatal(err)
	}
	want := Container{Ports: []Port{{Container: 80}}, HealthCheck: &HealthCheck{Check: Check{TCP: &TCPCheck{CheckPort{Port: 80}}}, Failures: 3}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if all := got.HealthChecks(); len(all) != 1 || all[0] != got.HealthCheck {
		t.Errorf("health checks %v", all)
	}
}
