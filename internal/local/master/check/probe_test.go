package check

import (
	"strings"
	"testing"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

func TestProbes(t *testing.T) {
	text := func(s string) *string { return &s }
	early := -1.0
	shell := &mesos.CommandInfo{Value: text("true")}
	tests := []struct {
		name, want string
		task       mesos.TaskInfo
	}{
		{"none", "", mesos.TaskInfo{}},
		{"command", "", mesos.TaskInfo{HealthCheck: &mesos.HealthCheck{Type: mesos.HealthCheck_COMMAND, Command: shell}}},
		{"check by command", "", mesos.TaskInfo{Check: &mesos.CheckInfo{Type: mesos.CheckInfo_COMMAND, Command: &mesos.CheckInfo_Command{Command: *shell}}}},
		{"no type", "'UNKNOWN' is not a valid check type", mesos.TaskInfo{Check: &mesos.CheckInfo{}}},
		{"no command", "expecting 'command' to be set for COMMAND health check", mesos.TaskInfo{HealthCheck: &mesos.HealthCheck{Type: mesos.HealthCheck_COMMAND}}},
		{"empty command", "must contain a command", mesos.TaskInfo{Check: &mesos.CheckInfo{Type: mesos.CheckInfo_COMMAND, Command: &mesos.CheckInfo_Command{}}}},
		{"no http", "expecting 'http' to be set for HTTP check", mesos.TaskInfo{Check: &mesos.CheckInfo{Type: mesos.CheckInfo_HTTP}}},
		{"no tcp", "expecting 'tcp' to be set for TCP check", mesos.TaskInfo{Check: &mesos.CheckInfo{Type: mesos.CheckInfo_TCP}}},
		{"scheme", "scheme: 'ftp'", mesos.TaskInfo{HealthCheck: &mesos.HealthCheck{Type: mesos.HealthCheck_HTTP, HTTP: &mesos.HealthCheck_HTTPCheckInfo{Scheme: text("ftp")}}}},
		{"path", "the path '' of HTTP health check must start with '/'", mesos.TaskInfo{HealthCheck: &mesos.HealthCheck{Type: mesos.HealthCheck_HTTP, HTTP: &mesos.HealthCheck_HTTPCheckInfo{Path: text("")}}}},
		{"path of a check", "the path 'x' of HTTP check", mesos.TaskInfo{Check: &mesos.CheckInfo{Type: mesos.CheckInfo_HTTP, HTTP: &mesos.CheckInfo_Http{Path: text("x")}}}},
		{"grace", "'grace_period_seconds' to be non-negative", mesos.TaskInfo{HealthCheck: &mesos.HealthCheck{Type: mesos.HealthCheck_COMMAND, Command: shell, GracePeriodSeconds: &early}}},
		{"timeout", "'timeout_seconds' to be non-negative", mesos.TaskInfo{Check: &mesos.CheckInfo{Type: mesos.CheckInfo_TCP, TCP: &mesos.CheckInfo_Tcp{}, TimeoutSeconds: &early}}},
	}
	for _, tt := range tests {
		err := validateProbes(tt.task)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q in it", tt.name, err, tt.want)
		}
	}
}
