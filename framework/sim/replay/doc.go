// Package replay runs recorded jobs through the scheduler under a virtual
// clock. Around the very same sched.State that runs in production stands a
// virtual master, which offers what is free, remembers what was refused, and
// ends tasks when the record says so; nothing waits and nothing runs. It says
// how long jobs waited and how well the cluster was used. It is a function of
// its arguments: it reads no clock and no file, starts nothing, and gives
// equal answers for equal arguments. It decides nothing about who goes where.
package replay
