// Stream-ordered allocations. A pool keeps what is freed into it up to its
// release threshold, so that what counts is what the pool has taken from the
// device, not what the program holds of it.
#include "limiter.h"

enum { POOLS = 64 };
struct pool { CUmemoryPool handle; int device; uint64_t charged; };
static struct pool pool[POOLS];
static int pools;
static struct lock pool_lock;
static _Atomic bool dirty; // something was freed whose bytes may come back

typedef CUresult allocate(CUdeviceptr *, size_t, CUmemoryPool, CUstream);
typedef CUresult release(CUdeviceptr, CUstream);

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

static bool refresh(void)
{
	bool some = false;
	for (int i = 0; i < pools; i++) {
		if (pool[i].device < 0)
			continue;
		uint64_t before = pool[i].charged;
		settle(&pool[i], 0);
		some = some || pool[i].charged < before;
	}
	return some;
}

bool pools_refresh(void)
{
	if (!atomic_load_explicit(&dirty, memory_order_relaxed))
		return false;
	lock_take(&pool_lock);
	bool some = refresh();
	lock_drop(&pool_lock);
	return some;
}

static struct pool *find(CUmemoryPool handle, int device)
{
	for (int i = 0; i < pools; i++)
		if (pool[i].handle == handle)
			return &pool[i];
	if (pools == POOLS)
		return NULL;
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

static CUresult grow(struct pool *p, CUdeviceptr *out, size_t size, CUstream s, allocate *call, release *undo)
{
	uint64_t extra;
	if (!set_aside(p, size, &extra) && !(refresh() && set_aside(p, size, &extra)))
		return CUDA_ERROR_OUT_OF_MEMORY;
	CUresult r = call(out, size, p->handle, s);
	settle(p, extra);
	if (r != CUDA_SUCCESS || p->charged <= extra || !too_much(p))
		return r;
	undo(*out, s);
	REAL(cuStreamSynchronize)(s);
	REAL(cuMemPoolTrimTo)(p->handle, 0);
	settle(p, 0);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult from_pool(CUdeviceptr *out, size_t size, CUmemoryPool handle, int device, CUstream s, allocate *call, release *undo)
{
	int capturing = 0;
	if (device < 0)
		return charge_on(&(struct charge){0}, device, size);
	if (REAL(cuStreamIsCapturing)(s, &capturing) == CUDA_SUCCESS && capturing) {
		CUresult r = graph_memory(device, size);
		return r == CUDA_SUCCESS ? call(out, size, handle, s) : r;
	}
	lock_take(&pool_lock);
	struct pool *p = find(handle, device);
	CUresult r = p ? grow(p, out, size, s, call, undo) : CUDA_ERROR_OUT_OF_MEMORY;
	lock_drop(&pool_lock);
	return r;
}

static CUresult default_pool(CUmemoryPool *handle, int *index)
{
	CUdevice device;
	CUresult r = REAL(cuCtxGetDevice)(&device);
	if (r == CUDA_SUCCESS)
		*index = device_index(device);
	return r == CUDA_SUCCESS ? REAL(cuDeviceGetMemPool)(handle, device) : r;
}

// The device of a pool that the program was not seen to make is the current.
static int device_of(CUmemoryPool handle)
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

#define STREAM_ORDERED(variant, default_stream)                                                                                       \
	static CUresult call_default##variant(CUdeviceptr *p, size_t n, CUmemoryPool h, CUstream s)                                   \
	{                                                                                                                             \
		(void)h;                                                                                                              \
		return REAL(cuMemAllocAsync##variant)(p, n, s);                                                                       \
	}                                                                                                                             \
	static CUresult call_pool##variant(CUdeviceptr *p, size_t n, CUmemoryPool h, CUstream s)                                      \
	{                                                                                                                             \
		return REAL(cuMemAllocFromPoolAsync##variant)(p, n, h, s);                                                            \
	}                                                                                                                             \
	static CUresult call_free##variant(CUdeviceptr p, CUstream s) { return REAL(cuMemFreeAsync##variant)(p, s); }                 \
	CUresult cuMemAllocAsync##variant(CUdeviceptr *p, size_t n, CUstream s)                                                       \
	{                                                                                                                             \
		CUmemoryPool h;                                                                                                       \
		int device;                                                                                                           \
		CUresult r = default_pool(&h, &device);                                                                               \
		return r == CUDA_SUCCESS ? from_pool(p, n, h, device, s ? s : default_stream, call_default##variant, call_free##variant) : r; \
	}                                                                                                                             \
	CUresult cuMemAllocFromPoolAsync##variant(CUdeviceptr *p, size_t n, CUmemoryPool h, CUstream s)                               \
	{                                                                                                                             \
		return from_pool(p, n, h, device_of(h), s ? s : default_stream, call_pool##variant, call_free##variant);              \
	}                                                                                                                             \
	CUresult cuStreamSynchronize##variant(CUstream s)                                                                             \
	{                                                                                                                             \
		CUresult r = REAL(cuStreamSynchronize##variant)(s);                                                                   \
		pools_refresh();                                                                                                      \
		return r;                                                                                                             \
	}

// Stream 0 of the _ptsz functions is the thread's own, known to all as 2.
STREAM_ORDERED(, NULL)
STREAM_ORDERED(_ptsz, (CUstream)2)

// Memory of cuMemAlloc may be freed in stream order too: it is a device
// synchronisation later that it is back, but the driver orders what follows.
static CUresult free_ordered(CUdeviceptr p, CUstream s, release *call)
{
	struct held h;
	bool known = held_take(HELD_MEMORY, p, &h);
	CUresult r = call(p, s);
	if (known && r == CUDA_SUCCESS) {
		REAL(cuStreamSynchronize)(s);
		books_release(h.device, h.bytes);
	} else if (known) {
		held_put(h);
	}
	atomic_store_explicit(&dirty, true, memory_order_relaxed);
	return r;
}

CUresult cuMemFreeAsync(CUdeviceptr p, CUstream s) { return free_ordered(p, s, call_free); }
CUresult cuMemFreeAsync_ptsz(CUdeviceptr p, CUstream s) { return free_ordered(p, s ? s : (CUstream)2, call_free_ptsz); }

CUresult cuEventSynchronize(CUevent e)
{
	CUresult r = REAL(cuEventSynchronize)(e);
	pools_refresh();
	return r;
}

CUresult cuCtxSynchronize(void)
{
	CUresult r = REAL(cuCtxSynchronize)();
	pools_refresh();
	return r;
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
	atomic_store_explicit(&dirty, true, memory_order_relaxed);
	pools_refresh();
	return r;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool p, int which, void *value)
{
	CUresult r = REAL(cuMemPoolSetAttribute)(p, which, value);
	pools_refresh();
	return r;
}

void pools_after_fork(void)
{
	pools = 0;
	atomic_store(&pool_lock.word, 0);
}
