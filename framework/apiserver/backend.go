package apiserver

import (
	"context"

	"mesos-gpu/framework/api"
)

// Backend answers the requests of the API as long as the scheduler's role does
// not change: the handler asks for it once per request.
type Backend struct {
	// Reads answers what a leader and a standby both know. It is nil while the
	// scheduler has nothing to answer from.
	Reads *ReadBackend
	// Leader changes the cluster and answers what only the leader knows. It is
	// nil where this scheduler does not lead.
	Leader *LeaderBackend
	// Redirect returns the error for a request that Reads or Leader would answer
	// if it were not nil: RedirectToLeader, or NewUnavailable where no leader is
	// known. It is required unless both are set.
	Redirect func(ctx context.Context) error
}

// NewUnavailableBackend returns a Backend that answers every request with
// status 503 and the reason, for example while the scheduler starts.
func NewUnavailableBackend(reason string) Backend {
	return Backend{Redirect: func(context.Context) error { return api.NewUnavailable("%s: ask again", reason) }}
}

// ReadBackend answers requests that change nothing, on the leader and on a standby. An error is a *api.Problem where the
// client needs more than status 500. The file of a handler has the interface that it uses.
type ReadBackend struct {
	Jobs JobReader
	// Names resolves what requests call a job; nil takes it as it is.
	Names     JobResolver
	TaskFiles TaskFileReader
	// StoredOutput may be nil: no output is stored.
	StoredOutput StoredOutputReader
	Agents       AgentReader
	Queue        QueueReader
	Events       EventSource
	Status       StatusReader
}

// LeaderBackend answers what only the leader can: changes, which it records before it returns, and reads that depend on its
// offers or its memory. The file of a handler has the interface that it uses.
type LeaderBackend struct {
	Jobs          JobCommands
	Holds         HoldCommands
	Operator      OperatorCommands
	Schedules     ScheduleCommands
	Notifications NotificationCommands
	Streams       TaskStreams
	Workdirs      WorkdirStore
	Artifacts     ArtifactReader
	Accounting    AccountingReader
	Usage         UsageReader
	UsageHistory  UsageHistoryReader
	Forecast      Forecaster
}

// reads returns the backend for reads, or the error that answers the request.
func (s *apiServer) reads(ctx context.Context) (*ReadBackend, error) {
	b := s.backend()
	if b.Reads == nil {
		return nil, b.Redirect(ctx)
	}
	return b.Reads, nil
}

// leader returns the leader's backend, or the error that redirects the request
// to the scheduler that leads.
func (s *apiServer) leader(ctx context.Context) (*LeaderBackend, error) {
	b := s.backend()
	if b.Leader == nil {
		return nil, b.Redirect(ctx)
	}
	return b.Leader, nil
}
