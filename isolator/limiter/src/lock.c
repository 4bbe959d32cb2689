// A lock that a forked child may simply reset, on futexes: 0 is free, 1 held,
// 2 held and waited for.
#include "limiter.h"
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

void lock_take(struct lock *l)
{
	int was = 0;
	if (atomic_compare_exchange_strong_explicit(&l->word, &was, 1, memory_order_acquire, memory_order_relaxed))
		return;
	while (atomic_exchange_explicit(&l->word, 2, memory_order_acquire) != 0)
		syscall(SYS_futex, &l->word, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
}

void lock_drop(struct lock *l)
{
	if (atomic_exchange_explicit(&l->word, 0, memory_order_release) == 2)
		syscall(SYS_futex, &l->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
