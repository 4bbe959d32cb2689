// Memory pools. A pool keeps freed memory up to its release threshold, so the
// charge is what the pool has reserved, not what the program has allocated from
// it.
#include "limiter.h"
#include <stdlib.h>

struct pool { CUmemoryPool handle; int device; uint64_t charged; };
static struct pool *pool; // reallocated as it grows: pointers into it are valid while pool_lock is held and no pool is added
static _Atomic int pools;
static int room;
static struct lock pool_lock;

// Set after a free whose bytes may still return to the device: the stream plus
// one, or ALL_STREAMS if there are several.
static _Atomic uintptr_t freed;

static const uint64_t chunk = 32ull << 20; // growth step of a pool

static uint64_t attribute(CUmemoryPool p, int which, uint64_t otherwise)
{
	uint64_t bytes;
	return REAL(cuMemPoolGetAttribute)(p, which, &bytes) == CUDA_SUCCESS ? bytes : otherwise;
}

// settle sets the charge to what the pool has reserved. extra bytes are already
// in the usage file.
static void settle(struct pool *p, uint64_t extra)
{
	uint64_t stands = p->charged + extra;
	p->charged = attribute(p->handle, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, stands);
	if (p->charged < stands)
		books_release(p->device, stands - p->charged);
	else if (p->charged > stands)
		books_charge(p->device, p->charged - stands);
}

// still_coming reports whether the pool has more idle memory than it keeps, so
// that the next synchronization may release some.
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

// pools_synchronised updates the charges after a synchronization. It clears the
// pending mark if the synchronization covered all freed memory.
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

// cuMemFree also frees memory that came from a pool.
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

// set_aside reserves an upper bound for the allocation: a whole chunk, else the
// exact size, else only what exceeds the idle memory of the pool.
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

// grow sets undo if the driver reserved more than the limit allows because the
// idle memory of the pool was fragmented. The caller must then free the
// allocation.
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

// A pool whose creation the limiter did not see is assumed to be on the current
// device.
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

// Destroying a pool releases all its memory. The driver keeps it while
// allocations remain, which a correct program does not have.
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
