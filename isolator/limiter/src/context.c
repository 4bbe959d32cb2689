// Contexts: the driver takes memory for each, how much depends on device,
// driver and flags. The first of a container is measured, one at a time, by
// NVML before and after; the figure stands in the books and is reserved ahead
// of those that follow. What another container does in that moment is
// measured along, unless NVML shows this process by its own number.
#include "limiter.h"

static struct lock measure_lock;
static const uint64_t most = 2ull << 30; // more is not a context

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

static bool listed(const struct nvml_processes *p, unsigned pid)
{
	for (unsigned i = 0; i < p->count; i++)
		if (p->list[i].pid == pid)
			return true;
	return false;
}

// identify finds out by which number NVML knows this process: its own, or,
// where NVML counts in another pid namespace, the only one that is new.
static const nvmlProcessInfo_t *identify(const struct nvml_processes *was, const struct nvml_processes *is, unsigned pid)
{
	const nvmlProcessInfo_t *fresh = NULL;
	unsigned number = 0;
	for (unsigned i = 0; i < is->count; i++) {
		if (is->list[i].pid == pid)
			return &is->list[i];
		if (!listed(was, is->list[i].pid)) {
			fresh = &is->list[i];
			number++;
		}
	}
	return number == 1 ? fresh : NULL;
}

static uint64_t cost(int index, const struct before *b)
{
	static struct nvml_processes now; // measure_lock
	struct books_slot self;
	uint64_t used, bytes = 0;
	self_identify(&self);
	nvml_processes(index, &now);
	const nvmlProcessInfo_t *us = identify(&b->processes, &now, self.pid);
	if (us)
		books_set_nvml_pid(us->pid);
	if (us && us->pid == self.pid && us->usedGpuMemory <= most && !listed(&b->processes, self.pid))
		bytes = us->usedGpuMemory;
	else if (b->known && nvml_used(index, &used) && used > b->used)
		bytes = used - b->used;
	return bytes < most ? bytes : most;
}

static void end_primary(CUdevice device, CUcontext context)
{
	if (REAL(cuDevicePrimaryCtxRelease_v2)(device) == CUDA_SUCCESS)
		release_context(context);
}

static CUresult measured(struct charge *c, CUcontext *context, void *p, int n, unsigned flags, CUdevice device, creation *create, bool primary)
{
	static struct before before; // measure_lock
	before.known = nvml_used(c->device, &before.used);
	nvml_processes(c->device, &before.processes);
	CUresult r = create(context, p, n, flags, device);
	if (r != CUDA_SUCCESS)
		return r;
	uint64_t bytes = cost(c->device, &before);
	if (charge_resize(c, bytes)) {
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
	if (!books_take(&b)) // no context without books either
		return CUDA_ERROR_NOT_INITIALIZED;
	books_drop();
	if (c.bytes && limits_get()->device[index].cores == 100) {
		r = create(context, p, n, flags, device);
	} else {
		lock_take(&measure_lock);
		bool one = books_context_lock(true);
		r = measured(&c, context, p, n, flags, device, create, primary);
		if (one)
			books_context_lock(false);
		lock_drop(&measure_lock);
	}
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

// The primary context is made by the first that retains it.
static struct lock primary_lock;

CUresult cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice d)
{
	lock_take(&primary_lock);
	CUresult r = active(d) ? REAL(cuDevicePrimaryCtxRetain)(c, d) : make(c, NULL, 0, 0, d, retain, true);
	lock_drop(&primary_lock);
	return r;
}

static bool of_context(const struct held *h, const void *context) { return h->context == context; }

// release_context gives back what ended with a context.
void release_context(CUcontext context)
{
	struct held h;
	while (context && held_take_if(of_context, context, &h))
		books_release(h.device, h.bytes);
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
	// Its handle is had by retaining it once more.
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

void contexts_after_fork(void)
{
	atomic_store(&measure_lock.word, 0);
	atomic_store(&primary_lock.word, 0);
}
