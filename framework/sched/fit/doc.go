// Package fit decides which agent a task gets, and which devices and ports on that agent. A Cluster stores what a set
// of agents has free (cluster.go, capacity.go). PlaceTasks takes resources for equal tasks in three stages, which
// place_tasks.go has in this order: which agents are feasible (for shares feasible_shares.go), what score each of them
// has by the policy (score*.go, ranking.go), and which agent and devices are selected (select*.go). UndoPlacements frees
// what was taken (cluster_resources.go). explain*.go explains why an agent is not feasible. Package hardware matches
// requirements with GPUs and chooses between devices. What is computed once for many tasks is stored in
// cluster_index.go, in the caches of package index.
//
// The package is pure: it performs no I/O, reads no clock and starts no goroutine. Its results do not depend on the
// order of the agents. It never decides which job is next.
package fit
