// Stream-ordered allocations. A pool keeps what is freed into it up to its
// release threshold, so that what counts is what the pool has taken from the
// device, not what the program holds of it.
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
static const uintptr_t several = UINTPTR_MAX;

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

static void note_freed(uintptr_t where)
{
	uintptr_t was = 0;
	if (!atomic_compare_exchange_strong(&freed, &was, where) && was != where)
		atomic_store(&freed, several);
}

// synchronised looks once more after what was freed, and for the last time
// where all of it has been waited for: what is one stream, plus one, or several
// for all there are.
static void synchronised(uintptr_t what)
{
	bool coming = false;
	uintptr_t was = atomic_load_explicit(&freed, memory_order_relaxed);
	if (was == 0)
		return;
	if (what == several || what == was)
		atomic_compare_exchange_strong(&freed, &was, 0);
	lock_take(&pool_lock);
	refresh(&coming);
	lock_drop(&pool_lock);
	if (coming)
		note_freed(was);
}

// Memory of a pool may be freed as any other.
void pools_freed(void)
{
	if (pools > 0)
		note_freed(several);
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
static CUresult grow(struct pool *p, CUdeviceptr *out, size_t size, CUstream s, allocate *call, bool *undo)
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

// give_back waits for the stream, and so for what others have put into it: no
// lock is held.
static CUresult give_back(CUdeviceptr p, CUmemoryPool handle, CUstream s, release *undo)
{
	undo(p, s);
	REAL(cuStreamSynchronize)(s);
	REAL(cuMemPoolTrimTo)(handle, 0);
	pools_settle();
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult captured(CUdeviceptr *out, size_t size, CUmemoryPool handle, int device, CUstream s, allocate *call)
{
	CUgraph graph = NULL;
	int status;
	if (REAL(cuStreamGetCaptureInfo_v2)(s, &status, NULL, &graph, NULL, NULL) != CUDA_SUCCESS)
		graph = NULL;
	CUresult r = graph_memory(graph, device, size);
	if (r != CUDA_SUCCESS)
		return r;
	r = call(out, size, handle, s);
	if (r != CUDA_SUCCESS)
		graph_memory_back(graph, device, size);
	return r;
}

static CUresult from_pool(CUdeviceptr *out, size_t size, CUmemoryPool handle, int device, CUstream s, allocate *call, release *undo)
{
	int capturing = 0;
	bool too_large = false;
	if (device < 0)
		return charge_on(&(struct charge){0}, device, size);
	if (REAL(cuStreamIsCapturing)(s, &capturing) == CUDA_SUCCESS && capturing)
		return captured(out, size, handle, device, s, call);
	lock_take(&pool_lock);
	struct pool *p = find(handle, device);
	CUresult r = p ? grow(p, out, size, s, call, &too_large) : CUDA_ERROR_OUT_OF_MEMORY;
	lock_drop(&pool_lock);
	return too_large ? give_back(*out, handle, s, undo) : r;
}

static CUresult default_pool(CUmemoryPool *handle, int *index, CUstream s)
{
	CUdevice device;
	CUresult r = device_of_stream(s, &device);
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
		CUresult r = default_pool(&h, &device, s);                                                                            \
		return r == CUDA_SUCCESS ? from_pool(p, n, h, device, s ? s : default_stream, call_default##variant, call_free##variant) : r; \
	}                                                                                                                             \
	CUresult cuMemAllocFromPoolAsync##variant(CUdeviceptr *p, size_t n, CUmemoryPool h, CUstream s)                               \
	{                                                                                                                             \
		return from_pool(p, n, h, device_of(h), s ? s : default_stream, call_pool##variant, call_free##variant);              \
	}                                                                                                                             \
	CUresult cuStreamSynchronize##variant(CUstream s)                                                                             \
	{                                                                                                                             \
		CUresult r = REAL(cuStreamSynchronize##variant)(s);                                                                   \
		synchronised((uintptr_t)(s ? s : default_stream) + 1);                                                                \
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
	note_freed((uintptr_t)s + 1);
	return r;
}

CUresult cuMemFreeAsync(CUdeviceptr p, CUstream s) { return free_ordered(p, s, call_free); }
CUresult cuMemFreeAsync_ptsz(CUdeviceptr p, CUstream s) { return free_ordered(p, s ? s : (CUstream)2, call_free_ptsz); }

CUresult cuEventSynchronize(CUevent e)
{
	CUresult r = REAL(cuEventSynchronize)(e);
	synchronised(0);
	return r;
}

CUresult cuCtxSynchronize(void)
{
	CUresult r = REAL(cuCtxSynchronize)();
	synchronised(several);
	return r;
}

CUresult cuCtxSynchronize_v2(CUcontext c)
{
	CUresult r = REAL(cuCtxSynchronize_v2)(c);
	synchronised(0);
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
	pools_settle();
	return r;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool p, int which, void *value)
{
	CUresult r = REAL(cuMemPoolSetAttribute)(p, which, value);
	note_freed(several);
	pools_settle();
	return r;
}

void pools_after_fork(void)
{
	pools = 0;
	atomic_store(&pool_lock.word, 0);
}
