// Memory pools. A pool keeps freed memory up to its release threshold, so the
// charge is what the pool has reserved, not what the program has allocated from
// it.
#include "limiter.h"
#include <stdlib.h>

struct pool { CUmemoryPool handle; int device; uint64_t charged; };
static struct pool *pools; // reallocated as it grows: pointers into it are valid while pool_lock is held and no pool is added
static _Atomic int pool_count;
static int pool_capacity;
static struct lock pool_lock;

// Set after a free whose bytes may still return to the device: the stream plus
// one, or ALL_STREAMS if there are several.
static _Atomic uintptr_t pending_free;

static const uint64_t growth_step = 32ull << 20; // growth step of a pool

static uint64_t read_attribute(CUmemoryPool p, int which, uint64_t otherwise)
{
	uint64_t bytes;
	return REAL(cuMemPoolGetAttribute)(p, which, &bytes) == CUDA_SUCCESS ? bytes : otherwise;
}

// update_charge sets the charge to what the pool has reserved. extra bytes are already
// in the usage file.
static void update_charge(struct pool *p, uint64_t extra)
{
	uint64_t charged_before = p->charged + extra;
	p->charged = read_attribute(p->handle, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, charged_before);
	if (p->charged < charged_before)
		usage_release(p->device, charged_before - p->charged);
	else if (p->charged > charged_before)
		usage_charge(p->device, p->charged - charged_before);
}

// may_release_more reports whether the pool has more idle memory than it keeps, so
// that the next synchronization may release some.
static bool may_release_more(const struct pool *p)
{
	uint64_t used = read_attribute(p->handle, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, 0);
	return p->charged > used && p->charged - used >= growth_step && p->charged > read_attribute(p->handle, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, 0);
}

static bool update_charges(bool *may_release)
{
	bool returned = false;
	for (int i = 0; i < pool_count; i++) {
		if (pools[i].device < 0)
			continue;
		uint64_t before = pools[i].charged;
		update_charge(&pools[i], 0);
		returned = returned || pools[i].charged < before;
		*may_release = *may_release || may_release_more(&pools[i]);
	}
	return returned;
}

bool pools_update_charges(void)
{
	bool may_release = false;
	lock_acquire(&pool_lock);
	bool returned = update_charges(&may_release);
	lock_release(&pool_lock);
	return returned;
}

void pools_mark_freed_in(uintptr_t where)
{
	uintptr_t was = 0;
	if (!atomic_compare_exchange_strong(&pending_free, &was, where) && was != where)
		atomic_store(&pending_free, ALL_STREAMS);
}

// pools_synchronized updates the charges after a synchronization. It clears the
// pending mark if the synchronization covered all freed memory.
void pools_synchronized(uintptr_t what)
{
	bool may_release = false;
	uintptr_t was = atomic_load_explicit(&pending_free, memory_order_relaxed);
	if (was == 0)
		return;
	if (what == ALL_STREAMS || what == was)
		atomic_compare_exchange_strong(&pending_free, &was, 0);
	lock_acquire(&pool_lock);
	update_charges(&may_release);
	lock_release(&pool_lock);
	if (may_release)
		pools_mark_freed_in(was);
}

// cuMemFree also frees memory that came from a pool.
void pools_mark_freed(void)
{
	if (pool_count > 0)
		pools_mark_freed_in(ALL_STREAMS);
}

static struct pool *find_or_add_pool(CUmemoryPool handle, int device)
{
	for (int i = 0; i < pool_count; i++)
		if (pools[i].handle == handle)
			return &pools[i];
	if (pool_count == pool_capacity) {
		struct pool *larger = realloc(pools, sizeof *pools * (size_t)(pool_capacity + 64));
		if (!larger)
			return NULL;
		pools = larger;
		pool_capacity += 64;
	}
	pools[pool_count] = (struct pool){.handle = handle, .device = device};
	return &pools[pool_count++];
}

// reserve_growth reserves an upper bound for the allocation: a whole chunk, else the
// exact size, else only what exceeds the idle memory of the pool.
static bool reserve_growth(const struct pool *p, uint64_t bytes, uint64_t *extra)
{
	uint64_t rounded = (bytes + growth_step - 1) / growth_step * growth_step;
	uint64_t used = read_attribute(p->handle, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, p->charged);
	uint64_t idle = p->charged > used ? p->charged - used : 0;
	uint64_t sizes[] = {rounded, bytes, bytes > idle ? bytes - idle : 0};
	if (bytes > UINT64_MAX - growth_step)
		return false;
	for (int i = 0; i < 3; i++) {
		*extra = sizes[i];
		if (*extra == 0 || usage_reserve(p->device, *extra))
			return true;
	}
	return false;
}

static bool exceeds_limit(const struct pool *p)
{
	uint64_t used;
	return !usage_total(p->device, &used) || used > limits_get()->device[p->device].memory;
}

// allocate_from_pool sets undo if the driver reserved more than the limit allows because the
// idle memory of the pool was fragmented. The caller must then free the
// allocation.
static CUresult allocate_from_pool(struct pool *p, CUdeviceptr *out, size_t size, CUstream s, pool_allocator *call, bool *undo)
{
	uint64_t extra;
	bool may_release = false;
	if (!reserve_growth(p, size, &extra) && !(update_charges(&may_release) && reserve_growth(p, size, &extra)))
		return CUDA_ERROR_OUT_OF_MEMORY;
	CUresult r = call(out, size, p->handle, s);
	update_charge(p, extra);
	*undo = r == CUDA_SUCCESS && p->charged > extra && exceeds_limit(p);
	return r;
}

CUresult pool_allocate(CUmemoryPool handle, int device, CUdeviceptr *out, size_t size, CUstream s, pool_allocator *call, bool *undo)
{
	lock_acquire(&pool_lock);
	struct pool *p = find_or_add_pool(handle, device);
	CUresult r = p ? allocate_from_pool(p, out, size, s, call, undo) : CUDA_ERROR_OUT_OF_MEMORY;
	lock_release(&pool_lock);
	return r;
}

// A pool whose creation the limiter did not see is assumed to be on the current
// device.
int pool_device(CUmemoryPool handle)
{
	int device = -1;
	lock_acquire(&pool_lock);
	for (int i = 0; i < pool_count; i++)
		if (pools[i].handle == handle)
			device = pools[i].device;
	lock_release(&pool_lock);
	if (device < 0 && device_current(&device, NULL) != CUDA_SUCCESS)
		return -1;
	return device;
}

CUresult cuMemPoolCreate(CUmemoryPool *p, const CUmemPoolProps *props)
{
	CUresult r = REAL(cuMemPoolCreate)(p, props);
	if (r != CUDA_SUCCESS || props->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return r;
	lock_acquire(&pool_lock);
	struct pool *made = find_or_add_pool(*p, device_index(props->location.id));
	lock_release(&pool_lock);
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
	lock_acquire(&pool_lock);
	CUresult r = REAL(cuMemPoolDestroy)(handle);
	for (int i = 0; r == CUDA_SUCCESS && i < pool_count; i++) {
		if (pools[i].handle != handle)
			continue;
		if (pools[i].device >= 0)
			usage_release(pools[i].device, pools[i].charged);
		pools[i] = pools[--pool_count];
	}
	lock_release(&pool_lock);
	return r;
}

CUresult cuMemPoolTrimTo(CUmemoryPool p, size_t keep)
{
	CUresult r = REAL(cuMemPoolTrimTo)(p, keep);
	pools_update_charges();
	return r;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool p, int which, void *value)
{
	CUresult r = REAL(cuMemPoolSetAttribute)(p, which, value);
	pools_mark_freed_in(ALL_STREAMS);
	pools_update_charges();
	return r;
}

static void pools_after_fork(void)
{
	pool_count = 0;
	atomic_store(&pool_lock.word, 0);
}
AFTER_FORK(pools_after_fork)
