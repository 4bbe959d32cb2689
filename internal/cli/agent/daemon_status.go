package agent

import (
	"errors"
	"fmt"

	"mesos-gpu/internal/cli"
	"mesos-gpu/isolator/advertise"
	"mesos-gpu/isolator/daemon"
)

// describeStatus returns the daemon's status as one line for systemctl status. agentURL is the
// Mesos agent's.
func describeStatus(s daemon.Status, agentURL string) string {
	gpus, volume, confinement := "looking for GPUs", "", ""
	if s.Discovered {
		gpus = fmt.Sprint(s.GPUs, " GPUs")
		if s.Lost > 0 {
			gpus += fmt.Sprint(", ", s.Lost, " lost")
		}
	}
	if s.VolumeError != nil {
		volume = cli.DescribeError("no driver volume", s.VolumeError)
	}
	if s.ConfinementError != nil {
		confinement = cli.DescribeError("containers cannot be confined here", s.ConfinementError)
	}
	return cli.JoinClauses(gpus, describeProvider(s.Provider, agentURL), volume, confinement)
}

func describeProvider(p *advertise.ProviderStatus, agentURL string) string {
	switch {
	case p == nil:
		return ""
	case errors.Is(p.Err, advertise.ErrRemoved):
		return cli.DescribeError("offered no more until this daemon is started again", p.Err)
	case p.Err != nil:
		return cli.DescribeError("not advertised, waiting for the agent "+agentURL, p.Err)
	default:
		return fmt.Sprint(p.Whole, " whole and ", p.Shared, " shared advertised to ", agentURL)
	}
}
