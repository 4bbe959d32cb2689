// Package fit decides which agent a task gets, and which devices and ports on that agent. A Cluster stores what a set
// of agents has free. PlaceTasks takes resources for equal tasks in three stages: which agents are feasible
// (feasible*.go), what score each of them has by the policy (score*.go), and which agent and devices are selected
// (select*.go). UndoPlacements frees what was taken. explain*.go explains why an agent is not feasible. All caches
// are in cluster_index.go and use package index.
//
// The package is pure: it performs no I/O, reads no clock and starts no goroutine. Its results do not depend on the
// order of the agents. It never decides which job is next.
package fit
