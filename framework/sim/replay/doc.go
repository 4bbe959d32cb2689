// Package replay runs recorded jobs through the scheduler under a virtual clock. It uses the sched.State of production
// with a virtual master, which offers what is free, applies filters, and ends tasks when the record says so. It measures
// how long jobs waited and how well the cluster was used. A replay is a function of its arguments: it reads no clock and no
// file, starts no goroutine, and makes no placement decision itself.
package replay
