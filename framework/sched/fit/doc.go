// Package fit decides which agent a task gets, and which devices and ports on
// it. A Cluster is what a set of agents has free; Fill takes places from it
// for equal tasks, best agent first, and everything taken can be given back.
// It is a pure function of what it is told: it performs no I/O, reads no
// clock, starts nothing, and gives equal answers for agents in any order. It
// never decides which job is next.
package fit
