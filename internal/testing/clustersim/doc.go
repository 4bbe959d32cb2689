// Package clustersim simulates a whole cluster from one seed: users, a scheduler with its journal, a Mesos master,
// agents and tasks, under faults. Equal seeds give equal histories, so that a failure can be replayed. Only tests
// use it.
//
// The scheduler is the real one: framework/leader.Loop with framework/sched, framework/readmodel, the journal's encoding
// and framework/master's session, which converts events, operations and resources. In some clusters marathon/control runs
// an app, and standbys follow the journal and replace a leader that is stopped for too long. In others tasks have the real
// executor, executor.DetachedExecutor, which survives a restart of its agent. In some, roles have budgets of GPU time, and users
// with different permissions read the answers of framework/apiserver and Marathon's API. The simulation replaces their environment: time, the
// network, the disk or the store that schedulers share, the tasks' processes, and Mesos, as its guides specify it.
// One goroutine runs everything, one event after the other, in virtual time.
package clustersim
