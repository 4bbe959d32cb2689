package volumes

import (
	"testing"

	"mesos-gpu/internal/cli"
)

// PATH is of this machine: below another root it means nothing.
func TestVolumeSearchesPath(t *testing.T) {
	a := &commands{&cli.App{ProcessIO: cli.ProcessIO{Getenv: func(name string) string { return name + " of this machine" }}}}
	if got := a.driverSearch("/"); got.Path != "PATH of this machine" {
		t.Errorf("below /: %+v", got)
	}
	if got := a.driverSearch("/driver"); got.Path != "" {
		t.Errorf("below another root: %+v", got)
	}
}
