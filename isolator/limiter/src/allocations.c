// Allocations that this process holds, indexed by the driver's handles.
#include "limiter.h"
#include <stdlib.h>

enum { BUCKETS = 4096 };
static struct allocation *bucket[BUCKETS];
static struct lock allocations_lock;

static struct allocation **bucket_of(enum allocation_kind kind, uint64_t key)
{
	uint64_t h = (key ^ (uint64_t)kind << 56) * 0x9e3779b97f4a7c15ull;
	return &bucket[h >> 52];
}

static struct allocation **find_record(enum allocation_kind kind, uint64_t key)
{
	struct allocation **at = bucket_of(kind, key);
	while (*at && ((*at)->kind != kind || (*at)->key != key))
		at = &(*at)->next;
	return at;
}

// Without memory for the record, the bytes stay charged until the process ends.
void allocation_add(struct allocation h)
{
	struct allocation *record = malloc(sizeof *record);
	if (!record)
		return;
	lock_acquire(&allocations_lock);
	struct allocation **at = bucket_of(h.kind, h.key);
	*record = h;
	record->next = *at;
	*at = record;
	lock_release(&allocations_lock);
}

static void move_record(struct allocation **at, struct allocation *out)
{
	struct allocation *record = *at;
	*at = record->next;
	*out = *record;
	free(record);
}

bool allocation_remove(enum allocation_kind kind, uint64_t key, struct allocation *out)
{
	lock_acquire(&allocations_lock);
	struct allocation **at = find_record(kind, key);
	bool found = *at != NULL;
	if (found)
		move_record(at, out);
	lock_release(&allocations_lock);
	return found;
}

bool allocation_find(enum allocation_kind kind, uint64_t key, struct allocation *out)
{
	lock_acquire(&allocations_lock);
	struct allocation **at = find_record(kind, key);
	bool found = *at != NULL;
	if (found)
		*out = **at;
	lock_release(&allocations_lock);
	return found;
}

bool allocation_update(enum allocation_kind kind, uint64_t key, void (*edit)(struct allocation *, uint64_t), uint64_t value)
{
	lock_acquire(&allocations_lock);
	struct allocation **at = find_record(kind, key);
	bool found = *at != NULL;
	if (found)
		edit(*at, value);
	lock_release(&allocations_lock);
	return found;
}

// allocation_remove_if removes the record only if matches returns true.
bool allocation_remove_if(enum allocation_kind kind, uint64_t key, bool (*matches)(const struct allocation *), struct allocation *out)
{
	lock_acquire(&allocations_lock);
	struct allocation **at = find_record(kind, key);
	bool found = *at != NULL && matches(*at);
	if (found)
		move_record(at, out);
	lock_release(&allocations_lock);
	return found;
}

struct allocation *allocation_remove_context(CUcontext context)
{
	struct allocation *taken = NULL;
	lock_acquire(&allocations_lock);
	for (int i = 0; i < BUCKETS; i++)
		for (struct allocation **at = &bucket[i]; *at;) {
			struct allocation *record = *at;
			if (record->context != context) {
				at = &record->next;
				continue;
			}
			*at = record->next;
			record->next = taken;
			taken = record;
		}
	lock_release(&allocations_lock);
	return taken;
}

// A forked child holds none of its parent's allocations.
static void allocations_after_fork(void)
{
	atomic_store(&allocations_lock.word, 0);
	for (int i = 0; i < BUCKETS; i++)
		bucket[i] = NULL;
}

AFTER_FORK(allocations_after_fork)
