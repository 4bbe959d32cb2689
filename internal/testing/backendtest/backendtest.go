// Package backendtest makes backends of the API's server from test doubles.
package backendtest

import "mesos-gpu/framework/apiserver"

// Reads has all reads of the server. A test double embeds it, and has the methods that the test calls.
type Reads interface {
	apiserver.JobReader
	apiserver.TaskFileReader
	apiserver.AgentReader
	apiserver.QueueReader
	apiserver.EventSource
	apiserver.StatusReader
}

// Commands has all that only a leader answers.
type Commands interface {
	apiserver.JobCommands
	apiserver.HoldCommands
	apiserver.OperatorCommands
	apiserver.ScheduleCommands
	apiserver.NotificationCommands
	apiserver.TaskStreams
	apiserver.WorkdirStore
	apiserver.ArtifactReader
	apiserver.AccountingReader
	apiserver.UsageReader
	apiserver.UsageHistoryReader
	apiserver.Forecaster
}

// NewLeader returns a backend for which b answers all requests.
func NewLeader(b interface {
	Reads
	Commands
}) apiserver.Backend {
	return apiserver.Backend{
		Reads: &apiserver.ReadBackend{Jobs: b, TaskFiles: b, Agents: b, Queue: b, Events: b, Status: b},
		Leader: &apiserver.LeaderBackend{
			Jobs: b, Holds: b, Operator: b, Schedules: b, Notifications: b, Streams: b, Workdirs: b, Artifacts: b, Accounting: b,
			Usage: b, UsageHistory: b, Forecast: b,
		},
	}
}
