// What pools have taken from the devices. A pool keeps what is freed into it up
// to its release threshold, so that this counts, not what the program holds of
// it.
#include "limiter.h"
#include <stdlib.h>

struct pool { CUmemoryPool handle; int device; uint64_t charged; };
static struct pool *pool; // grows; a struct pool is where it is while pool_lock is held and none is made
static _Atomic int pools;
static int room;
static struct lock pool_lock;

// Something was freed whose bytes may come back: in this stream, plus one, or
// in several.
static _Atomic uintptr_t freed;

static const uint64_t chunk = 32ull << 20; // what pools grow by

static uint64_t attribute(CUmemoryPool p, int which, uint64_t otherwise)
{
	uint64_t bytes;
	return REAL(cuMemPoolGetAttribute)(p, which, &bytes) == CUDA_SUCCESS ? bytes : otherwise;
}

// settle makes the books say what the pool has taken; extra stands in them
// already.
static void settle(struct pool *p, uint64_t extra)
{
	uint64_t stands = p->charged + extra;
	p->charged = attribute(p->handle, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, stands);
	if (p->charged < stands)
		books_release(p->device, stands - p->charged);
	else if (p->charged > stands)
		books_charge(p->device, p->charged - stands);
}

// still_coming: more is idle in the pool than it keeps, so that the next
// synchronisation may give some back.
static bool still_coming(const struct pool *p)
{
	uint64_t used = attribute(p->handle, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, 0);
	return p->charged > used && p->charged - used >= chunk && p->charged > attribute(p->handle, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, 0);
}

static bool refresh(bool *coming)
{
	bool some = false;
	for (int i = 0; i < pools; i++) {
		if (pool[i].device < 0)
			continue;
		uint64_t before = pool[i].charged;
		settle(&pool[i], 0);
		some = some || pool[i].charged < before;
		*coming = *coming || still_coming(&pool[i]);
	}
	return some;
}

bool pools_settle(void)
{
	bool coming = false;
	lock_take(&pool_lock);
	bool some = refresh(&coming);
	lock_drop(&pool_lock);
	return some;
}

void pools_freed_in(uintptr_t where)
{
	uintptr_t was = 0;
	if (!atomic_compare_exchange_strong(&freed, &was, where) && was != where)
		atomic_store(&freed, ALL_STREAMS);
}

// pools_synchronised looks once more after what was freed, and for the last time
// where all of it has been waited for.
void pools_synchronised(uintptr_t what)
{
	bool coming = false;
	uintptr_t was = atomic_load_explicit(&freed, memory_order_relaxed);
	if (was == 0)
		return;
	if (what == ALL_STREAMS || what == was)
		atomic_compare_exchange_strong(&freed, &was, 0);
	lock_take(&pool_lock);
	refresh(&coming);
	lock_drop(&pool_lock);
	if (coming)
		pools_freed_in(was);
}

// Memory of a pool may be freed as any other.
void pools_freed(void)
{
	if (pools > 0)
		pools_freed_in(ALL_STREAMS);
}

static struct pool *find(CUmemoryPool handle, int device)
{
	for (int i = 0; i < pools; i++)
		if (pool[i].handle == handle)
			return &pool[i];
	if (pools == room) {
		struct pool *larger = realloc(pool, sizeof *pool * (size_t)(room + 64));
		if (!larger)
			return NULL;
		pool = larger;
		room += 64;
	}
	pool[pools] = (struct pool){.handle = handle, .device = device};
	return &pool[pools++];
}

// set_aside reserves what the allocation may take, at most: a whole chunk more,
// then exactly that much, then only what the pool has not idle already.
static bool set_aside(const struct pool *p, uint64_t bytes, uint64_t *extra)
{
	uint64_t rounded = (bytes + chunk - 1) / chunk * chunk;
	uint64_t used = attribute(p->handle, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, p->charged);
	uint64_t idle = p->charged > used ? p->charged - used : 0;
	uint64_t sizes[] = {rounded, bytes, bytes > idle ? bytes - idle : 0};
	if (bytes > UINT64_MAX - chunk)
		return false;
	for (int i = 0; i < 3; i++) {
		*extra = sizes[i];
		if (*extra == 0 || books_reserve(p->device, *extra))
			return true;
	}
	return false;
}

static bool too_much(const struct pool *p)
{
	uint64_t used;
	return !books_used(p->device, &used) || used > limits_get()->device[p->device].memory;
}

// grow tells by undo that the driver took more than there was room for, since
// what was idle in the pool was in pieces: that is not to stay.
static CUresult grow(struct pool *p, CUdeviceptr *out, size_t size, CUstream s, pool_allocate *call, bool *undo)
{
	uint64_t extra;
	bool coming = false;
	if (!set_aside(p, size, &extra) && !(refresh(&coming) && set_aside(p, size, &extra)))
		return CUDA_ERROR_OUT_OF_MEMORY;
	CUresult r = call(out, size, p->handle, s);
	settle(p, extra);
	*undo = r == CUDA_SUCCESS && p->charged > extra && too_much(p);
	return r;
}

CUresult pool_take(CUmemoryPool handle, int device, CUdeviceptr *out, size_t size, CUstream s, pool_allocate *call, bool *undo)
{
	lock_take(&pool_lock);
	struct pool *p = find(handle, device);
	CUresult r = p ? grow(p, out, size, s, call, undo) : CUDA_ERROR_OUT_OF_MEMORY;
	lock_drop(&pool_lock);
	return r;
}

// The device of a pool that the program was not seen to make is the current.
int pool_device(CUmemoryPool handle)
{
	int device = -1;
	lock_take(&pool_lock);
	for (int i = 0; i < pools; i++)
		if (pool[i].handle == handle)
			device = pool[i].device;
	lock_drop(&pool_lock);
	if (device < 0 && device_current(&device, NULL) != CUDA_SUCCESS)
		return -1;
	return device;
}

CUresult cuMemPoolCreate(CUmemoryPool *p, const CUmemPoolProps *props)
{
	CUresult r = REAL(cuMemPoolCreate)(p, props);
	if (r != CUDA_SUCCESS || props->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return r;
	lock_take(&pool_lock);
	struct pool *made = find(*p, device_index(props->location.id));
	lock_drop(&pool_lock);
	if (!made) {
		REAL(cuMemPoolDestroy)(*p);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return r;
}

// What the pool has taken comes back with it; allocations still held keep it
// alive at the driver, and the program should not have any.
CUresult cuMemPoolDestroy(CUmemoryPool handle)
{
	lock_take(&pool_lock);
	CUresult r = REAL(cuMemPoolDestroy)(handle);
	for (int i = 0; r == CUDA_SUCCESS && i < pools; i++) {
		if (pool[i].handle != handle)
			continue;
		if (pool[i].device >= 0)
			books_release(pool[i].device, pool[i].charged);
		pool[i] = pool[--pools];
	}
	lock_drop(&pool_lock);
	return r;
}

CUresult cuMemPoolTrimTo(CUmemoryPool p, size_t keep)
{
	CUresult r = REAL(cuMemPoolTrimTo)(p, keep);
	pools_settle();
	return r;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool p, int which, void *value)
{
	CUresult r = REAL(cuMemPoolSetAttribute)(p, which, value);
	pools_freed_in(ALL_STREAMS);
	pools_settle();
	return r;
}

static void pools_after_fork(void)
{
	pools = 0;
	atomic_store(&pool_lock.word, 0);
}
AFTER_FORK(pools_after_fork)
