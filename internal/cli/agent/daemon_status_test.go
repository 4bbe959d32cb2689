package agent

import (
	"errors"
	"fmt"
	"testing"

	"mesos-gpu/isolator/advertise"
	"mesos-gpu/isolator/daemon"
)

func TestDescribeStatus(t *testing.T) {
	refused := errors.New("connection refused")
	for want, s := range map[string]daemon.Status{
		"looking for GPUs": {},
		"0 GPUs":           {Discovered: true},
		"3 GPUs, 1 lost":   {GPUs: 3, Lost: 1, Discovered: true},
		"2 GPUs; containers cannot be confined here: connection refused": {GPUs: 2, Discovered: true, ConfinementError: refused},
		"4 GPUs; no driver volume: connection refused":                   {GPUs: 4, Discovered: true, VolumeError: refused},
		"4 GPUs; not advertised, waiting for the agent http://a:5051: connection refused": {GPUs: 4,
			Discovered: true, Provider: &advertise.ProviderStatus{Err: refused}},
		"4 GPUs; 3 whole and 1 shared advertised to http://a:5051; no driver volume: connection refused": {GPUs: 4,
			Discovered: true, Provider: &advertise.ProviderStatus{Whole: 3, Shared: 1}, VolumeError: refused},
		"4 GPUs; offered no more until this daemon is started again: advertise GPUs: " + advertise.ErrRemoved.Error(): {
			GPUs: 4, Discovered: true, Provider: &advertise.ProviderStatus{Err: fmt.Errorf("advertise GPUs: %w", advertise.ErrRemoved)},
		},
	} {
		if got := describeStatus(s, "http://a:5051"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
