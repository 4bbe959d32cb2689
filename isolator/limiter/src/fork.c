// A forked child starts with nothing: locks free, nothing held, not in the
// books. Whatever thread held a lock is not there to drop it.
#include "limiter.h"
#include <pthread.h>

void pools_after_fork(void);
void graphs_after_fork(void);
void modules_after_fork(void);
void imports_after_fork(void);
void contexts_after_fork(void);
void nvml_after_fork(void);
void limits_after_fork(void);
void table_after_fork(void);

static void child(void)
{
	books_fork_child();
	held_forget();
	pools_after_fork();
	graphs_after_fork();
	modules_after_fork();
	imports_after_fork();
	contexts_after_fork();
	throttle_after_fork();
	nvml_after_fork();
	limits_after_fork();
	table_after_fork();
	uncancelled_after_fork();
}

// The driver forks helpers while the limiter waits for it, so that of the locks
// only that of the books, under which the driver is never called, is taken
// before a fork.
void fork_watch(void)
{
	static _Atomic bool watching;
	if (!atomic_exchange(&watching, true))
		pthread_atfork(books_fork_prepare, books_fork_parent, child);
}
