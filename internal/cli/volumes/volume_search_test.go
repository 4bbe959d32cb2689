package volumes

import (
	"testing"

	"mesos-gpu/internal/cli"
)

// PATH applies to this machine only, not to another root.
func TestVolumeSearchesPath(t *testing.T) {
	a := &volumeCommands{&cli.App{ProcessIO: cli.ProcessIO{Getenv: func(name string) string { return name + " of this machine" }}}}
	if got := a.driverSearch("/"); got.Path != "PATH of this machine" {
		t.Errorf("below /: %+v", got)
	}
	if got := a.driverSearch("/driver"); got.Path != "" {
		t.Errorf("below another root: %+v", got)
	}
}
