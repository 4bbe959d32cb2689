// A futex lock that a forked child can reset: 0 is free, 1 is held, 2 is held
// with waiters. A thread that holds one cannot be cancelled: if it ended while
// it accessed the usage file, the file would stay locked for all others.
#include "limiter.h"
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

static HIDDEN_TLS int cancel_depth, saved_state;

void disable_cancellation(bool begin)
{
	if (begin && cancel_depth++ == 0)
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &saved_state);
	else if (!begin && --cancel_depth == 0)
		pthread_setcancelstate(saved_state, NULL);
}

// In a forked child the locks of the thread that forked are free.
void cancellation_after_fork(void)
{
	if (cancel_depth > 0)
		pthread_setcancelstate(saved_state, NULL);
	cancel_depth = 0;
}

void lock_acquire(struct lock *l)
{
	int previous = 0;
	disable_cancellation(true);
	if (atomic_compare_exchange_strong_explicit(&l->word, &previous, 1, memory_order_acquire, memory_order_relaxed))
		return;
	while (atomic_exchange_explicit(&l->word, 2, memory_order_acquire) != 0)
		syscall(SYS_futex, &l->word, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
}

void lock_release(struct lock *l)
{
	if (atomic_exchange_explicit(&l->word, 0, memory_order_release) == 2)
		syscall(SYS_futex, &l->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	disable_cancellation(false);
}
