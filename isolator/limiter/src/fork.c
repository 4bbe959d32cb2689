// Resets a forked child: its locks are free, it holds no memory, and it has no
// slot in the usage file. The thread that held a lock does not exist in it.
#include "limiter.h"
#include <pthread.h>

enum { MAX_RESETS = 16 };
static void (*resets[MAX_RESETS])(void);
static int count;
static void (*acquire_usage_lock)(void), (*release_usage_lock)(void);

// Called by constructors only, before the program has threads.
void register_after_fork(void (*reset)(void))
{
	if (count < MAX_RESETS)
		resets[count++] = reset;
}

void register_fork_lock(void (*acquire)(void), void (*release)(void))
{
	acquire_usage_lock = acquire;
	release_usage_lock = release;
}

static void before_fork(void)
{
	if (acquire_usage_lock)
		acquire_usage_lock();
}

static void in_parent(void)
{
	if (release_usage_lock)
		release_usage_lock();
}

static void reset_child(void)
{
	for (int i = 0; i < count; i++)
		resets[i]();
	cancellation_after_fork();
}

// The driver forks helpers while the limiter waits for it. So only the lock of
// the usage file, under which the driver is never called, is taken before a fork.
void register_fork_handlers(void)
{
	static _Atomic bool watching;
	if (!atomic_exchange(&watching, true))
		pthread_atfork(before_fork, in_parent, reset_child);
}
