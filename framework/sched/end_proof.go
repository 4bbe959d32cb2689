package sched

import (
	"time"

	"mesos-gpu/job"
)

// EndProof states whether an update with the state LOST proves the end of its attempt. Updates with other final states come from the
// executor or the agent, or the launch was rejected: they prove the end.
//
// Mesos's books can lag behind an agent. A launch that is sent into a partition may arrive when the agent registers again:
// the master has removed the task and offers its resources, and the task runs. So only the agent knows.
type EndProof string

const (
	// ProvenEnd: nothing of the attempt runs, and nothing will.
	ProvenEnd EndProof = ""
	// AbsentFromAgent: the agent reports that it does not have the attempt. A launch that is on its way may still arrive, or
	// may have arrived since: agents repeat such a report until it is acknowledged.
	AbsentFromAgent EndProof = "absent from agent"
	// UnknownToMaster: the agent is registered, and its master does not know the attempt. The agent may run it.
	UnknownToMaster EndProof = "unknown to master"
	// AgentUnknown: the master does not know the agent either. A master that has lost its registry learns of it when the agent
	// registers again.
	AgentUnknown EndProof = "agent unknown"
	// AgentRemoved: the agent has shut down for good, or its machine has registered under another id. The attempt is given
	// up, but containers of it may be left on the machine.
	AgentRemoved EndProof = "agent removed"
)

// minLaunchDelay is within which a launch arrives without a partition.
const minLaunchDelay = 5 * time.Second

// attemptDoubt collects evidence about an attempt while it is unknown whether its agent has it.
type attemptDoubt struct {
	// unknownToMaster is set while the master reports that it does not know the attempt, which may run nevertheless.
	unknownToMaster bool
	// missedAt is when the agent, while it was registered, was first known not to have the attempt. It is zero before that,
	// after the attempt was reported, and while the agent is away.
	missedAt time.Time
	// launchedEarlier is set if another process has launched the attempt: its clock may have differed by any time.
	launchedEarlier bool
}

func (d *attemptDoubt) isZero() bool { return *d == attemptDoubt{} }

// noteUnproven notes an update that says LOST and does not prove it. It returns false for a repeated one.
func (d *attemptDoubt) noteUnproven(proof EndProof, now time.Time) (isNew bool) {
	if d.missedAt.IsZero() && proof != AgentUnknown {
		d.missedAt = now
	}
	isNew = !d.unknownToMaster
	d.unknownToMaster = true
	return isNew
}

// launchArrivesBy returns when the launch of an attempt that its agent was found not to have has arrived there or never will:
// a partition delays it at most for as long as the partition lasted, and by MaxLaunchDelay. How long it lasted is known at
// most by the clock that measured the time of the launch too.
func (s *State) launchArrivesBy(t *job.Task, missedAt time.Time, launchedEarlier bool) time.Time {
	if launchedEarlier {
		return missedAt.Add(s.cfg.MaxLaunchDelay)
	}
	return missedAt.Add(min(max(missedAt.Sub(t.Launched), minLaunchDelay), s.cfg.MaxLaunchDelay))
}

// wasReported reports whether the agent is known to have received the attempt. Only then an agent without it has lost or
// ended it.
func wasReported(t *job.Task) bool {
	return !t.Started.IsZero() || t.State == job.Starting || t.State == job.Running
}
