package image

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// readAsk returns what an image requires, independently of the agent.
func readAsk(labels map[string]string, env []string) (DriverRequest, error) {
	return parseRequest(labels, parseEnvironment(env))
}

// needsDriver returns whether the image needs the driver's files.
func needsDriver(labels map[string]string, env []string) bool {
	return parseImageDevices(labels, parseEnvironment(env)).NeedsDriver()
}

// The rows of docs/reference/executor.md test NeedsDriver; these cases test how labels and entries
// are parsed.
func TestImagesThatNeedTheDriver(t *testing.T) {
	label := map[string]string{"com.nvidia.volumes.needed": "nvidia_driver"}
	tests := []struct {
		name   string
		labels map[string]string
		env    []string
		want   bool
	}{
		{name: "nothing said"},
		{name: "label", labels: label, want: true},
		{name: "label without a value", labels: map[string]string{"com.nvidia.volumes.needed": ""}},
		{name: "another label", labels: map[string]string{"com.ati.volumes.needed": "nvidia_driver"}},
		{name: "all devices", env: []string{"PATH=/bin", "NVIDIA_VISIBLE_DEVICES=all"}, want: true},
		{name: "devices by uuid", env: []string{"NVIDIA_VISIBLE_DEVICES=GPU-a,GPU-b"}, want: true},
		{name: "empty beats the label", labels: label, env: []string{"NVIDIA_VISIBLE_DEVICES="}},
		{name: "all with another label", labels: map[string]string{"a": "b"}, env: []string{"NVIDIA_VISIBLE_DEVICES=all"}, want: true},
		{name: "entry without a value is ignored", labels: label, env: []string{"NVIDIA_VISIBLE_DEVICES"}, want: true},
		{name: "similar variable", env: []string{"XNVIDIA_VISIBLE_DEVICES=all", "NVIDIA_VISIBLE_DEVICES_=all"}},
		{name: "legacy", env: []string{"CUDA_VERSION=8.0.61"}, want: true},
		{name: "what cannot be understood asks still", labels: label, env: []string{"NVIDIA_REQUIRE_CUDA=12"}, want: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := needsDriver(tt.labels, tt.env); got != tt.want {
				t.Errorf("NeedsDriver(%v, %v): got %v, want %v", tt.labels, tt.env, got, tt.want)
			}
		})
	}
}

// The job's variables override the image's, except for the devices.
func TestJobEnvironment(t *testing.T) {
	env := []string{"NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_REQUIRE_CUDA=cuda>=12.4"}
	old := HostDriver{Driver: "535.104.05", CUDA: "12.2"}
	tests := []struct {
		name         string
		job          map[string]string
		fits         bool
		capabilities string
	}{
		{name: "none", capabilities: "compute,utility"},
		{name: "check nothing", job: map[string]string{"NVIDIA_DISABLE_REQUIRE": "1"}, fits: true, capabilities: "compute,utility"},
		{name: "ask for less", job: map[string]string{"NVIDIA_REQUIRE_CUDA": "cuda>=12.0"}, fits: true, capabilities: "compute,utility"},
		{name: "ask for more", job: map[string]string{"NVIDIA_REQUIRE_MINE": "driver>=600"}, capabilities: "compute,utility"},
		{name: "other parts", job: map[string]string{"NVIDIA_DISABLE_REQUIRE": "1", "NVIDIA_DRIVER_CAPABILITIES": "video"}, fits: true, capabilities: "video"},
		{name: "no devices", job: map[string]string{"NVIDIA_VISIBLE_DEVICES": "void"}, capabilities: "compute,utility"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ask, err := Examine(nil, env, tt.job, old)
			var unfit *IncompatibleError
			if tt.fits != (err == nil) || err != nil && !errors.As(err, &unfit) {
				t.Errorf("got %v, want it to fit: %v", err, tt.fits)
			}
			if got := ask.Capabilities.String(); got != tt.capabilities || !ask.NeedsDriver() {
				t.Errorf("got capabilities %s and driver %v, want %s and true", got, ask.NeedsDriver(), tt.capabilities)
			}
		})
	}
	if ask, err := Examine(nil, nil, map[string]string{"NVIDIA_VISIBLE_DEVICES": "all"}, old); err != nil || ask.NeedsDriver() {
		t.Errorf("a job that names devices: got driver %v (%v), want that its image decides", ask.NeedsDriver(), err)
	}
}

// The cause is known for an error of this process and for the text of one that an agent sent.
func TestMismatchCauseOf(t *testing.T) {
	for _, by := range []MismatchCause{DriverMismatch, GPUMismatch} {
		err := error(&IncompatibleError{Cause: by, RequiredBy: "NVIDIA_REQUIRE_CUDA", Required: "cuda>=13.0", Found: "driver 535.104.05 with CUDA 12.2"})
		answer := ParseAgentError(errors.New("prepare container c1: " + err.Error() + "; and more"))
		for _, err := range []error{err, answer} {
			if got := MismatchCauseOf(fmt.Errorf("image app: %w", err)); got != by {
				t.Errorf("%v: got %q, want %q", err, got, by)
			}
		}
	}
	_, err := readAsk(nil, []string{"NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_REQUIRE_CUDA=cuda"})
	if err == nil || MismatchCauseOf(err) != "" || ParseAgentError(err) != err || ParseAgentError(nil) != nil {
		t.Errorf("an image that cannot be understood (%v): got %q, want none", err, MismatchCauseOf(err))
	}
}

// A long requirement of an image does not hide the agent's versions in the error.
func TestLongRequirementIsShortened(t *testing.T) {
	wish := "cuda>=13.0," + strings.Repeat("brand!=ä,", 1000)
	_, err := Examine(nil, []string{"NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_REQUIRE_CUDA=" + wish}, nil, HostDriver{Driver: "535.104.05", CUDA: "12.2"})
	var unfit *IncompatibleError
	if !errors.As(err, &unfit) {
		t.Fatalf("got %v, want that the image is unfit", err)
	}
	if !strings.HasPrefix(unfit.Required, "cuda>=13.0,brand!=") || !strings.HasSuffix(unfit.Required, "…") ||
		!utf8.ValidString(unfit.Required) || len(unfit.Required) > maxDescriptionBytes+len("…") {
		t.Errorf("got %d bytes: %q", len(unfit.Required), unfit.Required)
	}
}
