// Package index holds the caches of package fit: values found by key or by number, columns of agent fields, rankings
// of agents, and scores that equal agents share. Each cache is filled by functions that its caller passes. The
// package does not depend on GPUs, policies or tasks, and it never decides where a task is placed. No cache is safe
// for concurrent use.
package index
