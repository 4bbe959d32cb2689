package placement

import (
	"slices"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/job"
)

// deviceIDsOf returns the ids of all devices of a placement, whole and shared.
func deviceIDsOf(p *fit.Placement) []string {
	if p.Shares == nil {
		return p.DeviceIDs
	}
	ids := slices.Grow(slices.Clone(p.DeviceIDs), len(p.Shares))
	for i := range p.Shares {
		ids = append(ids, p.Shares[i].UUID)
	}
	return ids
}

// gangPeers returns the addresses of a gang's tasks by rank, nil for a job that is no gang.
func gangPeers(j *queue.WaitingJob, agents []fit.AgentResources, places []fit.Placement) []job.GangPeer {
	if !j.Spec.Gang {
		return nil
	}
	peers := make([]job.GangPeer, len(places))
	for i := range places {
		peers[i].Host = agents[places[i].Agent].Hostname
		if len(places[i].Ports) > 0 {
			peers[i].Port = places[i].Ports[0]
		}
	}
	return peers
}
