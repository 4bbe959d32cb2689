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

static void link_record(struct allocation *record)
{
	struct allocation **at = bucket_of(record->kind, record->key);
	record->next = *at;
	*at = record;
}

void allocation_put(struct allocation *record)
{
	lock_acquire(&allocations_lock);
	link_record(record);
	lock_release(&allocations_lock);
}

// Without memory for the record, the bytes stay charged until the process ends.
void allocation_add(struct allocation h)
{
	struct allocation *record = malloc(sizeof *record);
	if (!record)
		return;
	*record = h;
	allocation_put(record);
}

struct allocation *allocation_take(enum allocation_kind kind, uint64_t key)
{
	lock_acquire(&allocations_lock);
	struct allocation **at = find_record(kind, key), *record = *at;
	if (record)
		*at = record->next;
	lock_release(&allocations_lock);
	return record;
}

bool allocation_remove(enum allocation_kind kind, uint64_t key, struct allocation *out)
{
	struct allocation *record = allocation_take(kind, key);
	if (record)
		*out = *record;
	free(record);
	return record != NULL;
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

static bool is_used(const struct allocation *h) { return h->uses[HANDLE_REFERENCE] || h->uses[HANDLE_MAPPING]; }

// A use of a handle is dropped in two steps. handle_begin_drop removes it before the
// driver's call. After the last one the record can no longer be found: the driver
// may free the handle and reuse it before the call returns. It returns NULL if
// the handle has no such use.
struct allocation *handle_begin_drop(uint64_t handle, enum handle_use use)
{
	lock_acquire(&allocations_lock);
	struct allocation **at = find_record(ALLOCATED_HANDLE, handle), *h = *at;
	if (h && h->uses[use] > 0) {
		h->uses[use]--;
		h->dropping++;
		if (!is_used(h))
			*at = h->next;
	} else {
		h = NULL;
	}
	lock_release(&allocations_lock);
	return h;
}

// handle_finish_drop follows the driver's call. It restores the use if the driver
// has refused to end it. It returns true, and frees the record, if no use is left
// and no other thread is dropping one: only then is the memory certainly free.
bool handle_finish_drop(struct allocation *h, enum handle_use use, bool dropped, struct allocation *out)
{
	lock_acquire(&allocations_lock);
	h->dropping--;
	if (!dropped && !is_used(h))
		link_record(h);
	h->uses[use] += !dropped;
	bool unused = !is_used(h) && h->dropping == 0;
	lock_release(&allocations_lock);
	if (unused) {
		*out = *h;
		free(h);
	}
	return unused;
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
