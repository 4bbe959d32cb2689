// Contexts. The driver allocates memory for each context; how much depends on
// device, driver and flags. NVML measures a context before and after its
// creation, one context at a time on the host. If NVML reports this process by
// PID, the size is stored in the usage file and reserved for later contexts. If
// the PID is not known, the growth of the whole device is charged, for this
// context only: it may include allocations of other containers. A green context
// keeps the primary context, which is charged as the primary one, and is always
// measured itself.
#include "limiter.h"
#include <stdlib.h>

static struct lock measure_lock;
static const uint64_t max_context_bytes = 2ull << 30; // more than this is not a context

typedef CUresult create_call(CUcontext *, void *, int, unsigned, CUdevice);

struct memory_snapshot { bool known; uint64_t used; struct nvml_processes processes; };

static uint64_t known_context_bytes(int index)
{
	struct usage_file *b;
	if (!usage_lock(&b))
		return 0;
	uint64_t bytes = b->device[index].context_bytes;
	usage_unlock();
	return bytes;
}

static void store_context_bytes(int index, uint64_t bytes)
{
	struct usage_file *b;
	if (!usage_lock(&b))
		return;
	b->device[index].context_bytes = bytes;
	usage_write_device(index);
	usage_unlock();
}

// find_own_process returns NVML's entry of this process: by its own PID, or, if NVML
// uses another PID namespace, the only entry that is new.
static const nvmlProcessInfo_t *find_own_process(const struct nvml_processes *was, const struct nvml_processes *is)
{
	struct process_slot self;
	unsigned known = usage_nvml_pid(), number = 0;
	identify_self(&self);
	const nvmlProcessInfo_t *own = nvml_find_process(is, known ? known : self.pid), *only_new = NULL;
	for (unsigned i = 0; !own && i < is->count; i++)
		if (!nvml_find_process(was, is->list[i].pid)) {
			only_new = &is->list[i];
			number++;
		}
	return number == 1 ? only_new : own;
}

// measure_growth returns the bytes that the context took. It sets own_only if they are of
// this process alone.
static uint64_t measure_growth(int index, const struct memory_snapshot *b, bool *own_only)
{
	static struct nvml_processes now; // protected by measure_lock
	uint64_t used;
	nvml_processes(index, &now);
	const nvmlProcessInfo_t *own = find_own_process(&b->processes, &now), *was = own ? nvml_find_process(&b->processes, own->pid) : NULL;
	uint64_t before = was ? was->usedGpuMemory : 0;
	if (own)
		usage_set_nvml_pid(own->pid);
	*own_only = own && own->usedGpuMemory > before && own->usedGpuMemory - before <= max_context_bytes;
	if (*own_only)
		return own->usedGpuMemory - before;
	if (!b->known || !nvml_used(index, &used) || used <= b->used)
		return 0;
	return used - b->used < max_context_bytes ? used - b->used : max_context_bytes;
}

static void release_primary(CUdevice device, CUcontext context)
{
	if (REAL(cuDevicePrimaryCtxRelease_v2)(device) == CUDA_SUCCESS)
		release_context_memory(context);
}

enum context_kind { OWN_CONTEXT, PRIMARY_CONTEXT, GREEN_CONTEXT };

static void destroy_context(CUcontext context, CUdevice device, enum context_kind kind)
{
	if (kind == PRIMARY_CONTEXT)
		release_primary(device, context);
	else if (kind == GREEN_CONTEXT)
		REAL(cuGreenCtxDestroy)((CUgreenCtx)context);
	else
		REAL(cuCtxDestroy_v2)(context);
}

static CUresult create_measured(struct charge *c, CUcontext *context, void *p, int n, unsigned flags, CUdevice device, create_call *create, enum context_kind kind)
{
	static struct memory_snapshot before; // protected by measure_lock
	before.known = nvml_used(c->device, &before.used);
	nvml_processes(c->device, &before.processes);
	CUresult r = create(context, p, n, flags, device);
	if (r != CUDA_SUCCESS)
		return r;
	bool own_only;
	uint64_t bytes = measure_growth(c->device, &before, &own_only);
	if (charge_resize(c, bytes)) {
		if (own_only && kind != GREEN_CONTEXT)
			store_context_bytes(c->device, bytes);
		return r;
	}
	destroy_context(*context, device, kind);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult create_context(CUcontext *context, void *p, int n, unsigned flags, CUdevice device, create_call *create, enum context_kind kind)
{
	int index = device_index(device);
	struct charge c = {0};
	CUresult r = index < 0 ? device_error(device) : CUDA_SUCCESS;
	if (r == CUDA_SUCCESS)
		r = charge_device(&c, index, index < 0 || kind == GREEN_CONTEXT ? 0 : known_context_bytes(index));
	if (r != CUDA_SUCCESS)
		return r;
	struct usage_file *b;
	if (!usage_lock(&b)) // without a usage file no context is created
		return CUDA_ERROR_NOT_INITIALIZED;
	bool missed = b->header.host_lock_missed;
	usage_unlock();
	bool known = c.bytes && limits_get()->device[index].cores == 100;
	if (!known)
		lock_acquire(&measure_lock);
	int lock = host_lock(!known, !missed);
	if ((lock < 0) != missed)
		usage_set_host_lock_missed(lock < 0);
	r = known ? create(context, p, n, flags, device) : create_measured(&c, context, p, n, flags, device, create, kind);
	host_unlock(lock);
	if (!known)
		lock_release(&measure_lock);
	if (r == CUDA_SUCCESS)
		c.context = *context;
	return charge_finish(&c, r, ALLOCATED_CONTEXT, r == CUDA_SUCCESS ? (uint64_t)*context : 0);
}

static CUresult create_v2(CUcontext *c, void *p, int n, unsigned flags, CUdevice d) { (void)p, (void)n; return REAL(cuCtxCreate_v2)(c, flags, d); }
static CUresult create_v3(CUcontext *c, void *p, int n, unsigned flags, CUdevice d) { return REAL(cuCtxCreate_v3)(c, p, n, flags, d); }
static CUresult create_v4(CUcontext *c, void *p, int n, unsigned flags, CUdevice d) { (void)n; return REAL(cuCtxCreate_v4)(c, p, flags, d); }
static CUresult retain_primary(CUcontext *c, void *p, int n, unsigned flags, CUdevice d) { (void)p, (void)n, (void)flags; return REAL(cuDevicePrimaryCtxRetain)(c, d); }

CUresult cuCtxCreate_v2(CUcontext *c, unsigned flags, CUdevice d) { return create_context(c, NULL, 0, flags, d, create_v2, OWN_CONTEXT); }
CUresult cuCtxCreate_v3(CUcontext *c, void *p, int n, unsigned flags, CUdevice d) { return create_context(c, p, n, flags, d, create_v3, OWN_CONTEXT); }
CUresult cuCtxCreate_v4(CUcontext *c, void *p, unsigned flags, CUdevice d) { return create_context(c, p, 0, flags, d, create_v4, OWN_CONTEXT); }

static bool is_primary_active(CUdevice device)
{
	unsigned flags;
	int on = 0;
	return REAL(cuDevicePrimaryCtxGetState)(device, &flags, &on) == CUDA_SUCCESS && on;
}

// The first retain creates the primary context.
static struct lock primary_lock;

CUresult cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice d)
{
	lock_acquire(&primary_lock);
	CUresult r = is_primary_active(d) ? REAL(cuDevicePrimaryCtxRetain)(c, d) : create_context(c, NULL, 0, 0, d, retain_primary, PRIMARY_CONTEXT);
	lock_release(&primary_lock);
	return r;
}

// release_context_memory releases the memory that the driver freed with a context.
void release_context_memory(CUcontext context)
{
	for (struct allocation *h = context ? allocation_remove_context(context) : NULL, *next; h; h = next) {
		next = h->next;
		usage_release(h->device, h->bytes);
		free(h);
	}
}

CUresult cuCtxDestroy_v2(CUcontext c)
{
	CUresult r = REAL(cuCtxDestroy_v2)(c);
	if (r == CUDA_SUCCESS)
		release_context_memory(c);
	return r;
}

CUresult cuCtxDestroy(CUcontext c) { return cuCtxDestroy_v2(c); }

// A green context is destroyed by close_primary, too: it may be the last user of
// the primary context.
static CUresult release_device(CUdevice device, void *call) { return ((CUresult (*)(CUdevice))call)(device); }
static CUresult destroy_green(CUdevice device, void *context) { (void)device; return REAL(cuGreenCtxDestroy)((CUgreenCtx)context); }

static CUresult close_primary(CUdevice device, CUresult (*call)(CUdevice, void *), void *argument)
{
	CUcontext context = NULL;
	lock_acquire(&primary_lock);
	bool was = is_primary_active(device);
	// Retaining the primary context is the only way to get its handle.
	if (was && REAL(cuDevicePrimaryCtxRetain)(&context, device) == CUDA_SUCCESS)
		REAL(cuDevicePrimaryCtxRelease_v2)(device);
	CUresult r = call(device, argument);
	if (was && r == CUDA_SUCCESS && !is_primary_active(device))
		release_context_memory(context);
	lock_release(&primary_lock);
	return r;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice d) { return close_primary(d, release_device, (void *)REAL(cuDevicePrimaryCtxRelease)); }
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice d) { return close_primary(d, release_device, (void *)REAL(cuDevicePrimaryCtxRelease_v2)); }
CUresult cuDevicePrimaryCtxReset(CUdevice d) { return close_primary(d, release_device, (void *)REAL(cuDevicePrimaryCtxReset)); }
CUresult cuDevicePrimaryCtxReset_v2(CUdevice d) { return close_primary(d, release_device, (void *)REAL(cuDevicePrimaryCtxReset_v2)); }

static CUresult create_green(CUcontext *c, void *p, int n, unsigned flags, CUdevice d) { (void)n; return REAL(cuGreenCtxCreate)((CUgreenCtx *)c, p, d, flags); }

// The primary context is retained before, so that it is charged as such, and not
// as a part of the green context, which may end before it.
CUresult cuGreenCtxCreate(CUgreenCtx *c, CUdevResourceDesc resources, CUdevice d, unsigned flags)
{
	CUcontext primary;
	CUresult r = cuDevicePrimaryCtxRetain(&primary, d);
	if (r != CUDA_SUCCESS)
		return r;
	r = create_context((CUcontext *)c, resources, 0, flags, d, create_green, GREEN_CONTEXT);
	cuDevicePrimaryCtxRelease_v2(d);
	return r;
}

CUresult cuGreenCtxDestroy(CUgreenCtx c)
{
	struct allocation a;
	if (!allocation_find(ALLOCATED_CONTEXT, (uint64_t)c, &a))
		return REAL(cuGreenCtxDestroy)(c);
	CUresult r = close_primary(device_ordinal(a.device), destroy_green, c);
	if (r == CUDA_SUCCESS)
		release_context_memory((CUcontext)c);
	return r;
}

// The driver reserves the whole heap for device-side malloc when its limit is
// set.
CUresult cuCtxSetLimit(int limit, size_t value)
{
	if (limit != CU_LIMIT_MALLOC_HEAP_SIZE)
		return REAL(cuCtxSetLimit)(limit, value);
	struct charge c = {0};
	struct allocation before;
	CUresult r = charge_current_device(&c, value);
	if (r != CUDA_SUCCESS)
		return r;
	r = REAL(cuCtxSetLimit)(limit, value);
	if (r == CUDA_SUCCESS && allocation_remove(ALLOCATED_HEAP, (uint64_t)c.context, &before))
		usage_release(before.device, before.bytes);
	return charge_finish(&c, r, ALLOCATED_HEAP, (uint64_t)c.context);
}

static void contexts_after_fork(void)
{
	atomic_store(&measure_lock.word, 0);
	atomic_store(&primary_lock.word, 0);
}
AFTER_FORK(contexts_after_fork)
