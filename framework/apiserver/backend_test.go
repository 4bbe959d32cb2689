package apiserver

// allReads has all reads of the server. A test double embeds it, and has the methods that the test calls.
type allReads interface {
	JobReader
	TaskFileReader
	AgentReader
	QueueReader
	EventSource
	StatusReader
}

// allCommands has all that only a leader answers.
type allCommands interface {
	JobCommands
	HoldCommands
	OperatorCommands
	ScheduleCommands
	NotificationCommands
	TaskStreams
	WorkdirStore
	ArtifactReader
	AccountingReader
	UsageReader
	UsageHistoryReader
	Forecaster
}

// newLeaderBackend returns a backend for which b answers all requests.
func newLeaderBackend(b interface {
	allReads
	allCommands
}) Backend {
	return Backend{
		Reads: &ReadBackend{Jobs: b, TaskFiles: b, Agents: b, Queue: b, Events: b, Status: b},
		Leader: &LeaderBackend{
			Jobs: b, Holds: b, Operator: b, Schedules: b, Notifications: b, Streams: b, Workdirs: b, Artifacts: b, Accounting: b,
			Usage: b, UsageHistory: b, Forecast: b,
		},
	}
}
