// Package fit decides which agent a task gets, and which devices and ports on
// that agent. A Cluster stores what a set of agents has free. PlaceTasks takes
// resources for equal tasks in three stages: which agents are feasible
// (feasible*.go), what each of them scores by the policy (score*.go), and which
// agent and devices are selected (select*.go). UndoPlacements returns what was
// taken. explain*.go says why an agent is not feasible. All caches are in
// cluster_index.go, on top of package index.
//
// The package is pure: it performs no I/O, reads no clock and starts no
// goroutine. Its results do not depend on the order of the agents. It never
// decides which job is next.
package fit
