// Package crash has no code of its own. Its tests kill schedulers, as
// processes and outright, wherever the journal says that something was or is
// about to be recorded, while jobs come in on the embedded cluster. Then they
// ask everyone but the scheduler what happened: the tasks themselves, which
// leave one line each and lock their devices, and the master's books. The
// test binary is the scheduler, the executor and the container's first
// process; nothing needs root, for what isolates devices is tested elsewhere.
package crash
