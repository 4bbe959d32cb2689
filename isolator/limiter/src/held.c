// Allocations that this process holds, indexed by the driver's handles.
#include "limiter.h"
#include <stdlib.h>

enum { BUCKETS = 4096 };
static struct held *bucket[BUCKETS];
static struct lock held_lock;

static struct held **bucket_of(enum kind kind, uint64_t key)
{
	uint64_t h = (key ^ (uint64_t)kind << 56) * 0x9e3779b97f4a7c15ull;
	return &bucket[h >> 52];
}

static struct held **find(enum kind kind, uint64_t key)
{
	struct held **at = bucket_of(kind, key);
	while (*at && ((*at)->kind != kind || (*at)->key != key))
		at = &(*at)->next;
	return at;
}

// Without memory for the record, the bytes stay charged until the process ends.
void held_put(struct held h)
{
	struct held *note = malloc(sizeof *note);
	if (!note)
		return;
	lock_take(&held_lock);
	struct held **at = bucket_of(h.kind, h.key);
	*note = h;
	note->next = *at;
	*at = note;
	lock_drop(&held_lock);
}

static void unlink_into(struct held **at, struct held *out)
{
	struct held *note = *at;
	*at = note->next;
	*out = *note;
	free(note);
}

bool held_take(enum kind kind, uint64_t key, struct held *out)
{
	lock_take(&held_lock);
	struct held **at = find(kind, key);
	bool found = *at != NULL;
	if (found)
		unlink_into(at, out);
	lock_drop(&held_lock);
	return found;
}

bool held_get(enum kind kind, uint64_t key, struct held *out)
{
	lock_take(&held_lock);
	struct held **at = find(kind, key);
	bool found = *at != NULL;
	if (found)
		*out = **at;
	lock_drop(&held_lock);
	return found;
}

bool held_edit(enum kind kind, uint64_t key, void (*edit)(struct held *, uint64_t), uint64_t value)
{
	lock_take(&held_lock);
	struct held **at = find(kind, key);
	bool found = *at != NULL;
	if (found)
		edit(*at, value);
	lock_drop(&held_lock);
	return found;
}

// held_take_if removes the record only if wanted returns true.
bool held_take_if(enum kind kind, uint64_t key, bool (*wanted)(const struct held *), struct held *out)
{
	lock_take(&held_lock);
	struct held **at = find(kind, key);
	bool found = *at != NULL && wanted(*at);
	if (found)
		unlink_into(at, out);
	lock_drop(&held_lock);
	return found;
}

struct held *held_take_context(CUcontext context)
{
	struct held *taken = NULL;
	lock_take(&held_lock);
	for (int i = 0; i < BUCKETS; i++)
		for (struct held **at = &bucket[i]; *at;) {
			struct held *note = *at;
			if (note->context != context) {
				at = &note->next;
				continue;
			}
			*at = note->next;
			note->next = taken;
			taken = note;
		}
	lock_drop(&held_lock);
	return taken;
}

// A forked child holds none of its parent's allocations.
static void held_after_fork(void)
{
	atomic_store(&held_lock.word, 0);
	for (int i = 0; i < BUCKETS; i++)
		bucket[i] = NULL;
}

AFTER_FORK(held_after_fork)
