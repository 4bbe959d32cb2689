// Contexts. The driver allocates memory for each context; how much depends on
// device, driver and flags. NVML measures a context before and after its
// creation, one context at a time on the host. If NVML reports this process by
// PID, the size is stored in the usage file and reserved for later contexts. If
// the PID is not known, the growth of the whole device is charged, for this
// context only: it may include allocations of other containers.
#include "limiter.h"
#include <stdlib.h>

static struct lock measure_lock;
static const uint64_t most = 2ull << 30; // more than this is not a context

typedef CUresult creation(CUcontext *, void *, int, unsigned, CUdevice);

struct before { bool known; uint64_t used; struct nvml_processes processes; };

static uint64_t learned(int index)
{
	struct books *b;
	if (!books_take(&b))
		return 0;
	uint64_t bytes = b->device[index].context_bytes;
	books_drop();
	return bytes;
}

static void learn(int index, uint64_t bytes)
{
	struct books *b;
	if (!books_take(&b))
		return;
	b->device[index].context_bytes = bytes;
	books_write_device(index);
	books_drop();
}

static const nvmlProcessInfo_t *entry_of(const struct nvml_processes *p, unsigned pid)
{
	for (unsigned i = 0; i < p->count; i++)
		if (p->list[i].pid == pid)
			return &p->list[i];
	return NULL;
}

// identify returns NVML's entry of this process: by its own PID, or, if NVML
// uses another PID namespace, the only entry that is new.
static const nvmlProcessInfo_t *identify(const struct nvml_processes *was, const struct nvml_processes *is)
{
	struct books_slot self;
	unsigned known = books_nvml_pid(), number = 0;
	self_identify(&self);
	const nvmlProcessInfo_t *us = entry_of(is, known ? known : self.pid), *fresh = NULL;
	for (unsigned i = 0; !us && i < is->count; i++)
		if (!entry_of(was, is->list[i].pid)) {
			fresh = &is->list[i];
			number++;
		}
	return number == 1 ? fresh : us;
}

// cost returns the bytes that the context took. It sets sure if they are of
// this process alone.
static uint64_t cost(int index, const struct before *b, bool *sure)
{
	static struct nvml_processes now; // protected by measure_lock
	uint64_t used;
	nvml_processes(index, &now);
	const nvmlProcessInfo_t *us = identify(&b->processes, &now), *was = us ? entry_of(&b->processes, us->pid) : NULL;
	uint64_t before = was ? was->usedGpuMemory : 0;
	if (us)
		books_set_nvml_pid(us->pid);
	*sure = us && us->usedGpuMemory > before && us->usedGpuMemory - before <= most;
	if (*sure)
		return us->usedGpuMemory - before;
	if (!b->known || !nvml_used(index, &used) || used <= b->used)
		return 0;
	return used - b->used < most ? used - b->used : most;
}

static void end_primary(CUdevice device, CUcontext context)
{
	if (REAL(cuDevicePrimaryCtxRelease_v2)(device) == CUDA_SUCCESS)
		release_context(context);
}

static CUresult measured(struct charge *c, CUcontext *context, void *p, int n, unsigned flags, CUdevice device, creation *create, bool primary)
{
	static struct before before; // protected by measure_lock
	before.known = nvml_used(c->device, &before.used);
	nvml_processes(c->device, &before.processes);
	CUresult r = create(context, p, n, flags, device);
	if (r != CUDA_SUCCESS)
		return r;
	bool sure;
	uint64_t bytes = cost(c->device, &before, &sure);
	if (charge_resize(c, bytes)) {
		if (sure)
			learn(c->device, bytes);
		return r;
	}
	if (primary)
		end_primary(device, *context);
	else
		REAL(cuCtxDestroy_v2)(*context);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult make(CUcontext *context, void *p, int n, unsigned flags, CUdevice device, creation *create, bool primary)
{
	int index = device_index(device);
	struct charge c = {0};
	CUresult r = charge_on(&c, index, index < 0 ? 0 : learned(index));
	if (r != CUDA_SUCCESS)
		return r;
	struct books *b;
	if (!books_take(&b)) // without a usage file no context is created
		return CUDA_ERROR_NOT_INITIALIZED;
	books_drop();
	bool known = c.bytes && limits_get()->device[index].cores == 100;
	if (!known)
		lock_take(&measure_lock);
	int lock = host_lock(!known);
	r = known ? create(context, p, n, flags, device) : measured(&c, context, p, n, flags, device, create, primary);
	host_unlock(lock);
	if (!known)
		lock_drop(&measure_lock);
	if (r == CUDA_SUCCESS)
		c.context = *context;
	return charge_end(&c, r, HELD_CONTEXT, r == CUDA_SUCCESS ? (uint64_t)*context : 0);
}

static CUresult create_v2(CUcontext *c, void *p, int n, unsigned flags, CUdevice d) { (void)p, (void)n; return REAL(cuCtxCreate_v2)(c, flags, d); }
static CUresult create_v3(CUcontext *c, void *p, int n, unsigned flags, CUdevice d) { return REAL(cuCtxCreate_v3)(c, p, n, flags, d); }
static CUresult create_v4(CUcontext *c, void *p, int n, unsigned flags, CUdevice d) { (void)n; return REAL(cuCtxCreate_v4)(c, p, flags, d); }
static CUresult retain(CUcontext *c, void *p, int n, unsigned flags, CUdevice d) { (void)p, (void)n, (void)flags; return REAL(cuDevicePrimaryCtxRetain)(c, d); }

CUresult cuCtxCreate_v2(CUcontext *c, unsigned flags, CUdevice d) { return make(c, NULL, 0, flags, d, create_v2, false); }
CUresult cuCtxCreate_v3(CUcontext *c, void *p, int n, unsigned flags, CUdevice d) { return make(c, p, n, flags, d, create_v3, false); }
CUresult cuCtxCreate_v4(CUcontext *c, void *p, unsigned flags, CUdevice d) { return make(c, p, 0, flags, d, create_v4, false); }

static bool active(CUdevice device)
{
	unsigned flags;
	int on = 0;
	return REAL(cuDevicePrimaryCtxGetState)(device, &flags, &on) == CUDA_SUCCESS && on;
}

// The first retain creates the primary context.
static struct lock primary_lock;

CUresult cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice d)
{
	lock_take(&primary_lock);
	CUresult r = active(d) ? REAL(cuDevicePrimaryCtxRetain)(c, d) : make(c, NULL, 0, 0, d, retain, true);
	lock_drop(&primary_lock);
	return r;
}

// release_context releases the memory that the driver freed with a context.
void release_context(CUcontext context)
{
	for (struct held *h = context ? held_take_context(context) : NULL, *next; h; h = next) {
		next = h->next;
		books_release(h->device, h->bytes);
		free(h);
	}
}

CUresult cuCtxDestroy_v2(CUcontext c)
{
	CUresult r = REAL(cuCtxDestroy_v2)(c);
	if (r == CUDA_SUCCESS)
		release_context(c);
	return r;
}

CUresult cuCtxDestroy(CUcontext c) { return cuCtxDestroy_v2(c); }

static CUresult end(CUdevice device, CUresult (*call)(CUdevice))
{
	CUcontext context = NULL;
	lock_take(&primary_lock);
	bool was = active(device);
	// Retaining the primary context is the only way to get its handle.
	if (was && REAL(cuDevicePrimaryCtxRetain)(&context, device) == CUDA_SUCCESS)
		REAL(cuDevicePrimaryCtxRelease_v2)(device);
	CUresult r = call(device);
	if (was && r == CUDA_SUCCESS && !active(device))
		release_context(context);
	lock_drop(&primary_lock);
	return r;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice d) { return end(d, REAL(cuDevicePrimaryCtxRelease)); }
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice d) { return end(d, REAL(cuDevicePrimaryCtxRelease_v2)); }
CUresult cuDevicePrimaryCtxReset(CUdevice d) { return end(d, REAL(cuDevicePrimaryCtxReset)); }
CUresult cuDevicePrimaryCtxReset_v2(CUdevice d) { return end(d, REAL(cuDevicePrimaryCtxReset_v2)); }

// The driver reserves the whole heap for device-side malloc when its limit is
// set.
CUresult cuCtxSetLimit(int limit, size_t value)
{
	if (limit != CU_LIMIT_MALLOC_HEAP_SIZE)
		return REAL(cuCtxSetLimit)(limit, value);
	struct charge c = {0};
	struct held before;
	CUresult r = charge_here(&c, value);
	if (r != CUDA_SUCCESS)
		return r;
	r = REAL(cuCtxSetLimit)(limit, value);
	if (r == CUDA_SUCCESS && held_take(HELD_HEAP, (uint64_t)c.context, &before))
		books_release(before.device, before.bytes);
	return charge_end(&c, r, HELD_HEAP, (uint64_t)c.context);
}

static void contexts_after_fork(void)
{
	atomic_store(&measure_lock.word, 0);
	atomic_store(&primary_lock.word, 0);
}
AFTER_FORK(contexts_after_fork)
