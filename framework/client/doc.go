// Package client is the Go client of the scheduler's REST API.
//
// A [Client] sends requests to the leading scheduler through any of the given addresses.
// It follows redirects from standbys, waits while a new leader takes over, and retries
// requests that are safe to repeat. [Client.SubmitJob] is one of them: it sends an
// idempotency key, so that a retry does not submit the job twice.
//
//	c, err := client.New("https://s1:8080,https://s2:8080",
//		client.WithToken(token), client.WithTrustedCA("/etc/mesos-gpu/ca.pem"))
//
// The methods by subject:
//
//   - Jobs: [Client.SubmitJob], [Client.GetJob], [Client.ListJobs], [Client.EachJob],
//     [Client.ListRuns], [Client.RerunJob], [Client.UpdateJob], [Client.EditJob], [Client.HoldJob],
//     [Client.ReleaseJob], [Client.RequeueJob], [Client.WaitForJob], [Client.KillJob], [Client.ScaleJob],
//     [Client.StopTask]
//   - Output: [Client.ReadTaskOutput], and [Client.Exec] for a command in a container
//   - Events: [Client.FollowEvents] reconnects, [Client.StreamEvents] does not
//   - Cluster: [Client.ListGPUs], [Client.ListAgents], [Client.ListQueue],
//     [Client.ListUsage], [Client.GetDemand], [Client.GetHealth]
//   - Operation: [Client.SetQuota], [Client.CordonAgent], [Client.DrainAgent],
//     [Client.UncordonAgent]
//   - Schedules: [Client.AddSchedule], [Client.ListSchedules], [Client.EndSchedule]
//
// Jobs are values of package job, documents of the API are in package api.
// job/jobfile reads job files. The Each methods iterate over lists page by page.
//
// # Errors
//
// If the scheduler rejects a request, errors.As finds a [*Problem] in the error. Its Code
// classifies it, and [CodeOf] returns the code of any error:
//
//	if client.CodeOf(err) == client.CodeJobNotFound { ... }
//
// A [*NoListenerError] means that no process listens at the addresses. [IsTemporary]
// reports whether a later retry may succeed.
//
// # Timeouts
//
// Every method ends with its context. [WithTimeouts] sets the limits of connections,
// responses and retries.
package client
