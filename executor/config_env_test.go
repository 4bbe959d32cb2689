package executor

import (
	"strings"
	"testing"
	"time"
)

func getenv(vars map[string]string) func(string) string {
	return func(name string) string { return vars[name] }
}

func TestConfigFromEnv(t *testing.T) {
	c, err := ConfigFromEnv(getenv(map[string]string{
		"MESOS_AGENT_ENDPOINT":                 "10.0.0.1:5051",
		"MESOS_SLAVE_PID":                      "slave(2)@10.0.0.1:5051",
		"MESOS_FRAMEWORK_ID":                   "f",
		"MESOS_EXECUTOR_ID":                    "e",
		"MESOS_SANDBOX":                        "/mnt/mesos/sandbox",
		"MESOS_DIRECTORY":                      "/var/lib/mesos/slaves/s/frameworks/f/executors/e/runs/c0ffee",
		"MESOS_CHECKPOINT":                     "1",
		"MESOS_RECOVERY_TIMEOUT":               "15mins",
		"MESOS_SUBSCRIPTION_BACKOFF_MAX":       "2secs",
		"MESOS_EXECUTOR_SHUTDOWN_GRACE_PERIOD": "5secs",
		"MESOS_EXECUTOR_AUTHENTICATION_TOKEN":  "token",
		"MESOS_GPU_DEV":                        "/tmp/dev",
		"MESOS_GPU_VOLUMES":                    "/tmp/volumes",
		"MESOS_GPU_DRIVER_ROOT":                "/tmp/driver",
		"DOCKER_HOST":                          "unix:///tmp/docker.sock",
		"MESOS_GPU_ALLOW_HOST_IPC":             "1",
		"MESOS_GPU_ALLOW_DEVICES":              "/dev/infiniband,/dev/fuse",
		"MESOS_GPU_DOCKER_CONFIG":              "/etc/docker/config.json",
		"MESOS_GPU_SECRETS":                    "/etc/mesos-gpu/secrets",
		"MESOS_GPU_LOG_SIZE":                   "2GiB",
		"MESOS_GPU_LOG_FILES":                  "3",
	}))
	if err != nil {
		t.Fatal(err)
	}
	for _, check := range []struct {
		name      string
		got, want any
	}{
		{"url", c.agentURL("/api/v1"), "http://10.0.0.1:5051/slave(2)/api/v1"},
		{"container", c.ContainerID, "c0ffee"},
		{"sandbox", c.Sandbox, "/mnt/mesos/sandbox"},
		{"checkpoint", c.Checkpoint, true},
		{"recovery", c.RecoveryTimeout, 15 * time.Minute},
		{"backoff", c.BackoffMax, 2 * time.Second},
		{"shutdown", c.ShutdownGrace, 5 * time.Second},
		{"token", c.Token, "token"},
		{"dev", c.DevDir, "/tmp/dev"},
		{"volumes", c.VolumesDir, "/tmp/volumes"},
		{"driver root", c.DriverRoot, "/tmp/driver"},
		{"host's ipc", c.AllowHostIPC, true},
		{"devices", strings.Join(c.AllowedDevices, " "), "/dev/infiniband /dev/fuse"},
		{"registries", c.DockerConfig, "/etc/docker/config.json"},
		{"secrets", c.SecretsDir, "/etc/mesos-gpu/secrets"},
		{"log size", c.LogBytes, int64(2 << 30)},
		{"log files", c.LogFiles, 3},
		{"docker", c.DockerHost, "unix:///tmp/docker.sock"},
	} {
		if check.got != check.want {
			t.Errorf("%s: got %v, want %v", check.name, check.got, check.want)
		}
	}
	engine, err := c.NewDockerClient()
	if err != nil || engine.DaemonHost() != "unix:///tmp/docker.sock" {
		t.Errorf("docker client is for %v (%v)", engine, err)
	}
}

func TestConfigFromEnvDefaults(t *testing.T) {
	c, err := ConfigFromEnv(getenv(map[string]string{"MESOS_AGENT_ENDPOINT": "a:1", "MESOS_DIRECTORY": "/sandbox", "LIBPROCESS_SSL_ENABLED": "true"}))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := c.agentURL("/api/v1/executor"), "https://a:1/slave(1)/api/v1/executor"; got != want {
		t.Errorf("url is %s, want %s", got, want)
	}
	if c.LogBytes != 100<<20 || c.LogFiles != 5 || c.DiskInterval != 10*time.Second || c.AllowHostIPC || c.DockerConfig != "" {
		t.Errorf("logs of %d bytes in %d files, disk measured each %s, host's ipc %v, registries %q", c.LogBytes, c.LogFiles,
			c.DiskInterval, c.AllowHostIPC, c.DockerConfig)
	}
	if c.Sandbox != "/sandbox" || c.ContainerID != "" || c.DevDir != "/dev" || c.DriverRoot != "/" || c.VolumesDir != "/var/lib/mesos-gpu/volumes" {
		t.Errorf("sandbox %q, container %q, dev %q, driver root %q, volumes %q", c.Sandbox, c.ContainerID, c.DevDir, c.DriverRoot, c.VolumesDir)
	}
	c.Socket = "/run/agent.sock"
	if got, want := c.agentURL("/api/v1"), "http://agent/slave(1)/api/v1"; got != want {
		t.Errorf("url over a socket is %s, want %s", got, want)
	}
}

func TestLogSize(t *testing.T) {
	for value, want := range map[string]int64{"0": 0, "65536": 64 << 10, "70000B": 70000, "64KiB": 64 << 10, "1TiB": 1 << 40} {
		c, err := ConfigFromEnv(getenv(map[string]string{"MESOS_GPU_LOG_SIZE": value}))
		if err != nil || c.LogBytes != want {
			t.Errorf("%s is %d bytes (%v), want %d", value, c.LogBytes, err, want)
		}
	}
	for _, value := range []string{"-1", "MiB", "1MB", "1", "63KiB", "9999999999GiB", "1 MiB"} {
		if c, err := ConfigFromEnv(getenv(map[string]string{"MESOS_GPU_LOG_SIZE": value})); err == nil {
			t.Errorf("%s is taken for %d bytes", value, c.LogBytes)
		}
	}
}

func TestConfigFromEnvErrors(t *testing.T) {
	for name, value := range map[string]string{
		"MESOS_CHECKPOINT":                     "maybe",
		"MESOS_RECOVERY_TIMEOUT":               "15m",
		"MESOS_EXECUTOR_SHUTDOWN_GRACE_PERIOD": "soon",
		"MESOS_SUBSCRIPTION_BACKOFF_MAX":       "2",
		"MESOS_GPU_ALLOW_HOST_IPC":             "yes",
		"MESOS_GPU_ALLOW_DEVICES":              "/dev",
		"MESOS_GPU_LOG_SIZE":                   "100Mi",
		"MESOS_GPU_LOG_FILES":                  "0",
	} {
		if _, err := ConfigFromEnv(getenv(map[string]string{name: value})); err == nil || !strings.Contains(err.Error(), name+"="+value) {
			t.Errorf("%s=%s: got error %v, want it to name both", name, value, err)
		}
	}
}
