// Resets a forked child: its locks are free, it holds no memory, and it has no
// slot in the usage file. The thread that held a lock does not exist in it.
#include "limiter.h"
#include <pthread.h>

enum { MOST = 16 };
static void (*resets[MOST])(void);
static int count;
static void (*take_lock)(void), (*drop_lock)(void);

// Called by constructors only, before the program has threads.
void register_after_fork(void (*reset)(void))
{
	if (count < MOST)
		resets[count++] = reset;
}

void register_fork_lock(void (*take)(void), void (*drop)(void))
{
	take_lock = take;
	drop_lock = drop;
}

static void before_fork(void)
{
	if (take_lock)
		take_lock();
}

static void in_parent(void)
{
	if (drop_lock)
		drop_lock();
}

static void reset_child(void)
{
	for (int i = 0; i < count; i++)
		resets[i]();
	uncancelled_after_fork();
}

// The driver forks helpers while the limiter waits for it. So only the lock of
// the usage file, under which the driver is never called, is taken before a fork.
void watch_forks(void)
{
	static _Atomic bool watching;
	if (!atomic_exchange(&watching, true))
		pthread_atfork(before_fork, in_parent, reset_child);
}
