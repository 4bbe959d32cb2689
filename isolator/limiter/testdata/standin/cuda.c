// A fake libcuda.so.1 for tests.
#define _GNU_SOURCE
#include "device.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

// One object of a program, by its handle.
struct thing { struct thing *next; int kind, device; uint64_t name, bytes, idle, threshold, used; unsigned refs, maps; void *owner; };
enum { MEMORY, POOL, POOLED, HANDLE, IMPORT, MAPPING, BINDING, ARRAY, CONTEXT, MODULE, HEAP, GRAPH, EXEC, GREEN };
static struct thing *things;
static pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;

// A child must not inherit the lock from a thread that it does not have.
static void lock_own(void) { pthread_mutex_lock(&own); }
static void unlock_own(void) { pthread_mutex_unlock(&own); }
__attribute__((constructor)) static void register_fork(void) { pthread_atfork(lock_own, unlock_own, unlock_own); }
static uint64_t names = 0x700000000000;
static __thread CUcontext current;
static struct thing *capturing; // the graph being captured, NULL for none

#define E_INVALID 1
#define E_CONTEXT 201

static struct thing *add(int kind, int device, uint64_t bytes, void *owner)
{
	struct thing *t = calloc(1, sizeof *t);
	pthread_mutex_lock(&own);
	*t = (struct thing){.next = things, .kind = kind, .device = device, .bytes = bytes, .name = names, .owner = owner, .refs = 1};
	names += (bytes + 0x200000) & ~0xfffffull;
	things = t;
	pthread_mutex_unlock(&own);
	return t;
}

static struct thing *get(int kind, uint64_t name)
{
	pthread_mutex_lock(&own);
	struct thing *t = things;
	while (t && (t->kind != kind || t->name != name))
		t = t->next;
	pthread_mutex_unlock(&own);
	return t;
}

static void drop(struct thing *t)
{
	pthread_mutex_lock(&own);
	for (struct thing **at = &things; *at; at = &(*at)->next)
		if (*at == t) {
			*at = t->next;
			break;
		}
	pthread_mutex_unlock(&own);
	free(t);
}

static int here(void)
{
	struct thing *t = current ? get(CONTEXT, (uint64_t)current) : NULL;
	return t ? t->device : -1;
}

static CUresult take(int kind, uint64_t bytes, void *owner, uint64_t *name)
{
	int d = here();
	if (d < 0)
		return E_CONTEXT;
	if (bytes && !device_take(d, bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	*name = add(kind, d, bytes, owner)->name;
	return 0;
}

static CUresult give(int kind, uint64_t name)
{
	struct thing *t = get(kind, name);
	if (!t)
		return E_INVALID;
	if (t->bytes)
		device_give(t->device, t->bytes);
	drop(t);
	return 0;
}

CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t n)
{
	uint64_t name;
	CUresult r = take(MEMORY, n, current, &name);
	*p = r ? 0 : name;
	return r;
}
CUresult cuMemAllocManaged(CUdeviceptr *p, size_t n, unsigned f)
{
	(void)f; // oversubscribed memory is in host memory
	int d = here();
	if (d < 0)
		return E_CONTEXT;
	*p = add(MEMORY, d, device_take(d, n) ? n : 0, current)->name;
	return 0;
}
CUresult cuMemAllocPitch_v2(CUdeviceptr *p, size_t *pitch, size_t w, size_t h, unsigned e)
{
	(void)e;
	*pitch = (w + 255) / 256 * 256;
	return cuMemAlloc_v2(p, *pitch * h);
}

static void trim(struct thing *pool, uint64_t keep)
{
	uint64_t back = pool->bytes - pool->used;
	if (pool->bytes <= keep)
		return;
	if (back > pool->bytes - keep)
		back = pool->bytes - keep;
	back = back / POOL_CHUNK * POOL_CHUNK;
	if (back)
		device_give(pool->device, back);
	pool->bytes -= back;
}

static CUresult pool_alloc(CUdeviceptr *p, size_t n, struct thing *pool)
{
	if (!pool)
		return E_INVALID;
	uint64_t idle = pool->bytes - pool->used;
	uint64_t grow = n > idle ? (n - idle + POOL_CHUNK - 1) / POOL_CHUNK * POOL_CHUNK : 0;
	if (capturing) {
		capturing->used += n;
		grow = n = 0;
	}
	if (grow && !device_take(pool->device, grow))
		return CUDA_ERROR_OUT_OF_MEMORY;
	pool->bytes += grow;
	pool->used += n;
	struct thing *t = add(POOLED, pool->device, 0, pool);
	t->used = n;
	*p = t->name;
	return 0;
}
static struct thing *default_pool(int d)
{
	pthread_mutex_lock(&own);
	struct thing *t = things;
	while (t && (t->kind != POOL || t->device != d || t->owner != NULL))
		t = t->next;
	pthread_mutex_unlock(&own);
	return t ? t : add(POOL, d, 0, NULL);
}
// Except for default streams, a stream has its context's handle.
CUresult cuStreamGetCtx(CUstream s, CUcontext *c) { *c = (uintptr_t)s > 2 ? (CUcontext)s : current; return 0; }
static int of_stream(CUstream s)
{
	CUcontext c;
	cuStreamGetCtx(s, &c);
	struct thing *t = c ? get(CONTEXT, (uint64_t)c) : NULL;
	return t ? t->device : -1;
}
CUresult cuMemAllocAsync(CUdeviceptr *p, size_t n, CUstream s) { int d = of_stream(s); return d < 0 ? E_CONTEXT : pool_alloc(p, n, default_pool(d)); }
CUresult cuMemAllocAsync_ptsz(CUdeviceptr *p, size_t n, CUstream s) { return cuMemAllocAsync(p, n, s); }
CUresult cuMemAllocFromPoolAsync(CUdeviceptr *p, size_t n, CUmemoryPool h, CUstream s) { (void)s; return pool_alloc(p, n, get(POOL, (uint64_t)h)); }
CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *p, size_t n, CUmemoryPool h, CUstream s) { return cuMemAllocFromPoolAsync(p, n, h, s); }
CUresult cuMemFree_v2(CUdeviceptr p)
{
	struct thing *t = get(POOLED, p);
	if (!t)
		return give(MEMORY, p);
	((struct thing *)t->owner)->used -= t->used;
	drop(t);
	return 0;
}
CUresult cuMemFreeAsync(CUdeviceptr p, CUstream s) { (void)s; return cuMemFree_v2(p); }
CUresult cuMemFreeAsync_ptsz(CUdeviceptr p, CUstream s) { return cuMemFreeAsync(p, s); }
CUresult cuDeviceGetMemPool(CUmemoryPool *p, CUdevice d) { *p = (CUmemoryPool)default_pool(d)->name; return 0; }
CUresult cuMemPoolCreate(CUmemoryPool *p, const CUmemPoolProps *x)
{
	*p = (CUmemoryPool)add(POOL, x->location.id, 0, &own)->name;
	return 0;
}
CUresult cuMemPoolDestroy(CUmemoryPool p) { return give(POOL, (uint64_t)p); }
CUresult cuMemPoolTrimTo(CUmemoryPool p, size_t keep) { trim(get(POOL, (uint64_t)p), keep); return 0; }
CUresult cuMemPoolSetAttribute(CUmemoryPool p, int a, void *v)
{
	if (a == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
		get(POOL, (uint64_t)p)->threshold = *(uint64_t *)v;
	return 0;
}
CUresult cuMemPoolGetAttribute(CUmemoryPool p, int a, void *v)
{
	struct thing *t = get(POOL, (uint64_t)p);
	if (!t)
		return E_INVALID;
	*(uint64_t *)v = a == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT ? t->bytes : a == CU_MEMPOOL_ATTR_USED_MEM_CURRENT ? t->used : t->threshold;
	return 0;
}
CUresult cuCtxSynchronize(void)
{
	for (struct thing *t = things; t; t = t->next)
		if (t->kind == POOL)
			trim(t, t->threshold);
	return 0;
}
CUresult cuCtxSynchronize_v2(CUcontext c) { (void)c; return cuCtxSynchronize(); }
CUresult cuStreamSynchronize(CUstream s) { (void)s; return cuCtxSynchronize(); }
CUresult cuStreamSynchronize_ptsz(CUstream s) { return cuStreamSynchronize(s); }
CUresult cuEventSynchronize(CUevent e) { (void)e; return cuCtxSynchronize(); }
CUresult cuStreamIsCapturing(CUstream s, int *on) { (void)s; *on = capturing != NULL; return 0; }
CUresult cuStreamGetCaptureInfo_v2(CUstream s, int *on, uint64_t *id, CUgraph *g, const CUgraphNode **d, size_t *n)
{
	(void)s, (void)id, (void)d, (void)n;
	*on = capturing != NULL;
	*g = capturing ? (CUgraph)capturing->name : NULL;
	return 0;
}
// standin_capture starts a capture, or ends it and returns the graph.
__attribute__((visibility("default"))) uint64_t standin_capture(int on)
{
	uint64_t made = capturing ? capturing->name : 0;
	capturing = on ? add(GRAPH, 0, 0, NULL) : NULL;
	return on ? 0 : made;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *h, size_t n, const CUmemAllocationProp *p, unsigned long long f)
{
	(void)f;
	int d = p->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? p->location.id : 0;
	uint64_t bytes = p->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? n : 0;
	if (bytes && !device_take(d, bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	*h = add(HANDLE, d, bytes, NULL)->name;
	return 0;
}
// standin_meanwhile has f called while the next call ends a reference, mapping or
// binding of a handle: before it does so, or after. It is what another thread may
// do then. The next handle that f creates is the one that was freed.
static void (*meanwhile)(void);
static bool meanwhile_before;
__attribute__((visibility("default"))) void standin_meanwhile(void (*f)(void), int before)
{
	meanwhile = f;
	meanwhile_before = before;
}
static void run_meanwhile(bool before, uint64_t freed)
{
	void (*f)(void) = meanwhile;
	uint64_t next = names;
	if (!f || before != meanwhile_before)
		return;
	meanwhile = NULL;
	names = freed ? freed : next;
	f();
	names = freed ? next : names;
}
static void last(struct thing *h)
{
	if (h->refs == 0 && h->maps == 0)
		give(HANDLE, h->name);
}
// An import is another handle of the same memory; owner is the first handle.
static struct thing *of_handle(uint64_t n)
{
	struct thing *h = get(HANDLE, n);
	return h ? h : (h = get(IMPORT, n)) ? h->owner : NULL;
}
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *n, void *from, int type)
{
	(void)type;
	struct thing *h = get(HANDLE, (uint64_t)from);
	if (!h)
		return E_INVALID;
	h->maps++;
	*n = add(IMPORT, h->device, 0, h)->name;
	return 0;
}
CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *p, CUmemGenericAllocationHandle n)
{
	struct thing *h = of_handle(n);
	if (!h)
		return E_INVALID;
	*p = (CUmemAllocationProp){.type = 1, .location = {CU_MEM_LOCATION_TYPE_DEVICE, h->device}};
	return 0;
}
static void unuse(struct thing *of, struct thing *h)
{
	drop(of);
	h->maps--;
	last(h);
}
CUresult cuMemMapArrayAsync(CUarrayMapInfo *l, unsigned n, CUstream s)
{
	(void)s;
	for (unsigned i = 0; i < n; i++) {
		struct thing *h = of_handle(l[i].memHandle);
		if (!h)
			return E_INVALID;
		h->maps++;
	}
	return 0;
}
CUresult cuMemMapArrayAsync_ptsz(CUarrayMapInfo *l, unsigned n, CUstream s) { return cuMemMapArrayAsync(l, n, s); }
CUresult cuMulticastBindMem(CUmemGenericAllocationHandle m, size_t at, CUmemGenericAllocationHandle n, size_t o, size_t size, unsigned long long f)
{
	(void)o, (void)size, (void)f;
	struct thing *h = of_handle(n), *b;
	if (!h)
		return E_INVALID;
	h->maps++;
	b = add(BINDING, h->device, 0, h);
	b->name = m + at;
	return 0;
}
CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle m, size_t at, CUdeviceptr p, size_t size, unsigned long long f)
{
	struct thing *mapping = get(MAPPING, p);
	return mapping ? cuMulticastBindMem(m, at, ((struct thing *)mapping->owner)->name, 0, size, f) : E_INVALID;
}
CUresult cuMulticastUnbind(CUmemGenericAllocationHandle m, CUdevice d, size_t at, size_t size)
{
	(void)d, (void)size;
	struct thing *b = get(BINDING, m + at);
	if (!b)
		return E_INVALID;
	run_meanwhile(true, 0);
	unuse(b, b->owner);
	run_meanwhile(false, 0);
	return 0;
}
CUresult cuMemRelease(CUmemGenericAllocationHandle n)
{
	struct thing *import = get(IMPORT, n);
	if (import) {
		unuse(import, import->owner);
		return 0;
	}
	struct thing *h = get(HANDLE, n);
	if (!h || h->refs == 0)
		return E_INVALID;
	run_meanwhile(true, 0);
	h->refs--;
	last(h);
	run_meanwhile(false, n);
	return 0;
}
CUresult cuMemMap(CUdeviceptr p, size_t n, size_t o, CUmemGenericAllocationHandle name, unsigned long long f)
{
	(void)o, (void)f;
	struct thing *h = of_handle(name), *m;
	if (!h)
		return E_INVALID;
	h->maps++;
	m = add(MAPPING, h->device, 0, h);
	m->name = p;
	m->used = n;
	return 0;
}
CUresult cuMemUnmap(CUdeviceptr p, size_t n)
{
	uint64_t end = p + n;
	for (uint64_t at = p; at < end;) {
		struct thing *m = get(MAPPING, at);
		if (!m)
			return E_INVALID;
		at += m->used;
	}
	run_meanwhile(true, 0);
	while (p < end) {
		struct thing *m = get(MAPPING, p);
		p += m->used;
		unuse(m, m->owner);
	}
	run_meanwhile(false, 0);
	return 0;
}
CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *h, void *p)
{
	struct thing *m = get(MAPPING, (uint64_t)p);
	if (!m)
		return E_INVALID;
	((struct thing *)m->owner)->refs++;
	*h = ((struct thing *)m->owner)->name;
	return 0;
}

// Arrays are laid out in blocks of 64 bytes by 8 rows, rounded up to 64 KiB.
static uint64_t up(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }
static uint64_t blocks(uint64_t row, uint64_t rows) { return up(row, 64) * (rows > 1 ? up(rows, 8) : 1); }
static uint64_t element(int f) { return f == 1 || f == 8 ? 1 : f == 2 || f == 9 || f == 16 ? 2 : 4; }
CUresult cuArray3DCreate_v2(CUarray *a, const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	uint64_t n = blocks(d->Width * d->NumChannels * element(d->Format), d->Height) * (d->Depth ? d->Depth : 1);
	return take(ARRAY, up(n, 65536), current, (uint64_t *)a);
}
CUresult cuArrayCreate_v2(CUarray *a, const CUDA_ARRAY_DESCRIPTOR *d)
{
	return cuArray3DCreate_v2(a, &(CUDA_ARRAY3D_DESCRIPTOR){d->Width, d->Height, 0, d->Format, d->NumChannels, 0});
}
CUresult cuMipmappedArrayCreate(CUmipmappedArray *m, const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned levels)
{
	uint64_t sum = 0;
	for (unsigned i = 0; i < levels; i++)
		sum += blocks((d->Width >> i) * d->NumChannels * element(d->Format), d->Height >> i);
	return take(ARRAY, up(sum, 65536), current, (uint64_t *)m);
}
CUresult cuArrayDestroy(CUarray a) { return give(ARRAY, (uint64_t)a); }
CUresult cuMipmappedArrayDestroy(CUmipmappedArray m) { return give(ARRAY, (uint64_t)m); }

static CUresult context(CUcontext *c, CUdevice d, void *primary)
{
	if (!device_take(d, CONTEXT_BYTES))
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (getenv("STANDIN_SLOW")) // real contexts take as long
		nanosleep(&(struct timespec){0, 200000000}, NULL);
	*c = (CUcontext)add(CONTEXT, d, CONTEXT_BYTES, primary)->name;
	return 0;
}
CUresult cuCtxCreate_v2(CUcontext *c, unsigned f, CUdevice d)
{
	(void)f;
	CUresult r = context(c, d, NULL);
	if (!r)
		current = *c;
	return r;
}
CUresult cuCtxCreate_v3(CUcontext *c, void *p, int n, unsigned f, CUdevice d) { (void)p, (void)n; return cuCtxCreate_v2(c, f, d); }
CUresult cuCtxCreate_v4(CUcontext *c, void *p, unsigned f, CUdevice d) { (void)p; return cuCtxCreate_v2(c, f, d); }
static void end(CUcontext c)
{
	for (struct thing *t = things, *next; t; t = next) {
		next = t->next;
		if (t->owner == c && (t->kind == MEMORY || t->kind == ARRAY || t->kind == MODULE || t->kind == HEAP))
			give(t->kind, t->name);
	}
	give(CONTEXT, (uint64_t)c);
	if (current == c)
		current = NULL;
}
CUresult cuCtxDestroy_v2(CUcontext c) { end(c); return 0; }
CUresult cuCtxDestroy(CUcontext c) { return cuCtxDestroy_v2(c); }
CUresult cuCtxSetCurrent(CUcontext c);
__attribute__((visibility("default"))) CUresult cuCtxSetCurrent(CUcontext c) { current = c; return 0; }
__attribute__((visibility("default"))) CUresult cuInit(unsigned f) { (void)f; machine(); return 0; }
static __thread CUcontext pushed;
CUresult cuCtxPushCurrent_v2(CUcontext c) { pushed = current, current = c; return 0; }
CUresult cuCtxPopCurrent_v2(CUcontext *c) { *c = current, current = pushed; return 0; }
CUresult cuCtxSetLimit(int limit, size_t n)
{
	uint64_t name, was = 0;
	for (struct thing *t = things; t; t = t->next)
		if (t->kind == HEAP && t->owner == current)
			was = t->name;
	if (limit != CU_LIMIT_MALLOC_HEAP_SIZE)
		return 0;
	CUresult r = take(HEAP, n, current, &name);
	return r || !was ? r : give(HEAP, was);
}
CUresult cuCtxGetCurrent(CUcontext *c) { *c = current; return 0; }
CUresult cuCtxGetDevice(CUdevice *d) { *d = here(); return *d < 0 ? E_CONTEXT : 0; }

static CUcontext primary[DEVICES];
static int retained[DEVICES];
CUresult cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice d)
{
	CUresult r = retained[d] ? 0 : context(&primary[d], d, &own);
	if (!r)
		retained[d]++;
	*c = primary[d];
	return r;
}
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice d)
{
	if (retained[d] == 0)
		return E_INVALID;
	if (--retained[d] == 0)
		end(primary[d]);
	return 0;
}
// A green context keeps the primary context of its device.
CUresult cuGreenCtxCreate(CUgreenCtx *c, CUdevResourceDesc resources, CUdevice d, unsigned flags)
{
	(void)resources, (void)flags;
	CUcontext unused;
	CUresult r = cuDevicePrimaryCtxRetain(&unused, d);
	if (r)
		return r;
	if (!device_take(d, GREEN_BYTES)) {
		cuDevicePrimaryCtxRelease_v2(d);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*c = (CUgreenCtx)add(GREEN, d, GREEN_BYTES, NULL)->name;
	return 0;
}
CUresult cuGreenCtxDestroy(CUgreenCtx c)
{
	struct thing *t = get(GREEN, (uint64_t)c);
	if (!t)
		return E_INVALID;
	cuDevicePrimaryCtxRelease_v2(t->device);
	return give(GREEN, (uint64_t)c);
}
CUresult cuDevicePrimaryCtxRelease(CUdevice d) { return cuDevicePrimaryCtxRelease_v2(d); }
CUresult cuDevicePrimaryCtxReset_v2(CUdevice d)
{
	if (retained[d])
		end(primary[d]);
	retained[d] = 0;
	return 0;
}
CUresult cuDevicePrimaryCtxReset(CUdevice d) { return cuDevicePrimaryCtxReset_v2(d); }
CUresult cuDevicePrimaryCtxGetState(CUdevice d, unsigned *f, int *on) { *f = 0; *on = retained[d] > 0; return 0; }
CUresult cuDeviceGetUuid_v2(CUuuid *u, CUdevice d) { uuid_of(d, u->bytes); return d < DEVICES ? 0 : E_INVALID; }
CUresult cuDeviceGetUuid(CUuuid *u, CUdevice d) { return cuDeviceGetUuid_v2(u, d); }

CUresult cuModuleLoadData(CUmodule *m, const void *i)
{
	(void)i;
	const char *mib = getenv("STANDIN_MODULE_MIB"); // one with a large __device__ array
	return take(MODULE, mib ? (uint64_t)atoi(mib) << 20 : MODULE_BYTES, current, (uint64_t *)m);
}
CUresult cuModuleLoad(CUmodule *m, const char *f) { return cuModuleLoadData(m, f); }
CUresult cuModuleLoadDataEx(CUmodule *m, const void *i, unsigned n, int *o, void **v) { (void)n, (void)o, (void)v; return cuModuleLoadData(m, i); }
CUresult cuModuleLoadFatBinary(CUmodule *m, const void *i) { return cuModuleLoadData(m, i); }
CUresult cuModuleUnload(CUmodule m) { return give(MODULE, (uint64_t)m); }
CUresult cuLibraryLoadData(CUlibrary *l, const void *c, int *a, void **b, unsigned n, int *o, void **v, unsigned k) { (void)a, (void)b, (void)n, (void)o, (void)v, (void)k; return cuModuleLoadData((CUmodule *)l, c); }
CUresult cuLibraryLoadFromFile(CUlibrary *l, const char *f, int *a, void **b, unsigned n, int *o, void **v, unsigned k) { return cuLibraryLoadData(l, f, a, b, n, o, v, k); }
CUresult cuLibraryUnload(CUlibrary l) { return cuModuleUnload((CUmodule)l); }

CUresult cuMemGetInfo_v2(size_t *f, size_t *t)
{
	int d = here();
	if (d < 0)
		return E_CONTEXT;
	*t = machine()->device[d].total;
	*f = *t - machine()->device[d].used;
	return 0;
}
CUresult cuDeviceTotalMem_v2(size_t *n, CUdevice d) { *n = machine()->device[d].total; return 0; }

// Graphs free what they allocate, so a launch takes only what exceeds the idle
// graph memory of the process, and a trim returns it. The handle of a graph of
// kernels only is its duration.
static uint64_t graph_reserved;
__attribute__((visibility("default"))) CUresult cuGraphCreate(CUgraph *g, unsigned f) { (void)f; *g = (CUgraph)add(GRAPH, 0, 0, NULL)->name; return 0; }
CUresult cuGraphAddMemAllocNode(CUgraphNode *n, CUgraph g, const CUgraphNode *d, size_t k, CUDA_MEM_ALLOC_NODE_PARAMS *p)
{
	(void)n, (void)d, (void)k;
	struct thing *t = get(GRAPH, (uint64_t)g);
	if (!t)
		return E_INVALID;
	t->used += p->bytesize;
	return 0;
}
CUresult cuGraphAddNode(CUgraphNode *n, CUgraph g, const CUgraphNode *d, size_t k, CUgraphNodeParams *p) { return p->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ? cuGraphAddMemAllocNode(n, g, d, k, &p->alloc) : 0; }
CUresult cuGraphInstantiateWithFlags(CUgraphExec *e, CUgraph g, unsigned long long f)
{
	(void)f;
	struct thing *t = get(GRAPH, (uint64_t)g), *made = t ? add(EXEC, 0, 0, NULL) : NULL;
	*e = (CUgraphExec)g;
	if (made) {
		made->used = t->used;
		*e = (CUgraphExec)made->name;
	}
	return 0;
}
CUresult cuGraphInstantiate(CUgraphExec *e, CUgraph g, CUgraphNode *b, char *l, size_t n) { (void)b, (void)l, (void)n; return cuGraphInstantiateWithFlags(e, g, 0); }
CUresult cuGraphInstantiate_v2(CUgraphExec *e, CUgraph g, CUgraphNode *b, char *l, size_t n) { return cuGraphInstantiate(e, g, b, l, n); }
CUresult cuGraphInstantiateWithParams(CUgraphExec *e, CUgraph g, void *p) { (void)p; return cuGraphInstantiateWithFlags(e, g, 0); }
CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec *e, CUgraph g, void *p) { return cuGraphInstantiateWithParams(e, g, p); }
CUresult cuGraphDestroy(CUgraph g) { return give(GRAPH, (uint64_t)g); }
CUresult cuGraphExecDestroy(CUgraphExec e) { return give(EXEC, (uint64_t)e); }
static bool graph_takes(CUgraphExec e)
{
	struct thing *t = get(EXEC, (uint64_t)e);
	uint64_t more = t && t->used > graph_reserved ? t->used - graph_reserved : 0;
	if (more && !device_take(0, more))
		return false;
	graph_reserved += more;
	return true;
}
CUresult cuGraphAddNode_v2(CUgraphNode *n, CUgraph g, const CUgraphNode *d, const void *e, size_t k, CUgraphNodeParams *p) { (void)e; return cuGraphAddNode(n, g, d, k, p); }
CUresult cuDeviceGraphMemTrim(CUdevice d)
{
	if (d == 0 && graph_reserved)
		device_give(0, graph_reserved);
	graph_reserved = d == 0 ? 0 : graph_reserved;
	return 0;
}
CUresult cuDeviceGetGraphMemAttribute(CUdevice d, int a, void *v) { (void)a; *(uint64_t *)v = d == 0 ? graph_reserved : 0; return 0; }

// A function's handle is its duration in nanoseconds.
#define GRID unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned sh, CUstream s
#define UNUSED (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)sh, (void)s
#define RUN(f) (f && !device_captures((uint64_t)(f)) ? device_run((uint64_t)(f)) : (void)0, 0)
CUresult cuLaunchKernel(CUfunction f, GRID, void **p, void **x) { UNUSED, (void)p, (void)x; return RUN(f); }
CUresult cuLaunchKernel_ptsz(CUfunction f, GRID, void **p, void **x) { UNUSED, (void)p, (void)x; return RUN(f); }
CUresult cuLaunchKernelEx(const void *c, CUfunction f, void **p, void **x) { (void)c, (void)p, (void)x; return RUN(f); }
CUresult cuLaunchKernelEx_ptsz(const void *c, CUfunction f, void **p, void **x) { return cuLaunchKernelEx(c, f, p, x); }
CUresult cuLaunchCooperativeKernel(CUfunction f, GRID, void **p) { UNUSED, (void)p; return RUN(f); }
CUresult cuLaunchCooperativeKernel_ptsz(CUfunction f, GRID, void **p) { UNUSED, (void)p; return RUN(f); }
CUresult cuLaunchCooperativeKernelMultiDevice(void *l, unsigned n, unsigned f) { (void)n, (void)f; return RUN(l); }
CUresult cuGraphLaunch(CUgraphExec g, CUstream s) { (void)s; return !graph_takes(g) ? CUDA_ERROR_OUT_OF_MEMORY : get(EXEC, (uint64_t)g) ? 0 : RUN(g); }
CUresult cuGraphLaunch_ptsz(CUgraphExec g, CUstream s) { return cuGraphLaunch(g, s); }
CUresult cuLaunch(CUfunction f) { return RUN(f); }
CUresult cuLaunchGrid(CUfunction f, int w, int h) { (void)w, (void)h; return RUN(f); }
CUresult cuLaunchGridAsync(CUfunction f, int w, int h, CUstream s) { (void)s; return cuLaunchGrid(f, w, h); }

CUresult cuMemAlloc(unsigned *p, unsigned n) { CUdeviceptr q; CUresult r = cuMemAlloc_v2(&q, n); *p = (unsigned)q; return r; }
CUresult cuMemAllocPitch(unsigned *p, unsigned *q, unsigned w, unsigned h, unsigned e) { (void)e; *q = w; return cuMemAlloc(p, w * h); }
CUresult cuMemFree(unsigned p) { return cuMemFree_v2(p); }
CUresult cuMemGetInfo(unsigned *f, unsigned *t) { *f = *t = 1; return 0; }
CUresult cuDeviceTotalMem(unsigned *n, CUdevice d) { (void)d; *n = 1; return 0; }
CUresult cuArrayCreate(CUarray *a, const void *d) { return cuArrayCreate_v2(a, d); }
CUresult cuArray3DCreate(CUarray *a, const void *d) { return cuArray3DCreate_v2(a, d); }
CUresult cuCtxCreate(CUcontext *c, unsigned f, CUdevice d) { return cuCtxCreate_v2(c, f, d); }
CUresult cuMemAlloc_v9(CUdeviceptr *p, size_t n);
__attribute__((visibility("default"))) CUresult cuMemAlloc_v9(CUdeviceptr *p, size_t n) { return cuMemAlloc_v2(p, n); }

// Function names and the version that introduced them. The newest version that
// the caller supports applies.
#define HOOK(lib, name) NAME_##lib(name)
#define USE(lib, name) NAME_##lib(name)
#define NAME_cuda(name) {#name, (void *)name},
#define NAME_nvml(name)
static const struct { const char *name; void *function; } exported[] = {
#include "../../src/hooks.def"
	{"cuInit", (void *)cuInit}, {"cuCtxSetCurrent", (void *)cuCtxSetCurrent}, {"cuMemAlloc_v9", (void *)cuMemAlloc_v9}};

// ABSENT lists the functions that a driver lacks; by default none.
#ifndef ABSENT
#define ABSENT
#endif
static const char *const absent[] = {ABSENT NULL};

static void *named(const char *base, const char *suffix)
{
	char name[96];
	strcpy(name, base);
	strcat(name, suffix);
	for (size_t i = 0; absent[i]; i++)
		if (strcmp(absent[i], name) == 0)
			return NULL;
	for (size_t i = 0; i < sizeof exported / sizeof exported[0]; i++)
		if (strcmp(exported[i].name, name) == 0)
			return exported[i].function;
	return NULL;
}

// As in NVIDIA's driver, the second form succeeds without a pointer for what it
// does not find, and the first one leaves the pointer as it was.
CUresult cuGetProcAddress_v2(const char *name, void **f, int version, uint64_t flags, int *status)
{
	static const struct { const char *suffix; int since; } versions[] = {{"_v9", 99000}, {"_v4", 12050}, {"_v3", 11040}, {"_v2", 3020}, {"", 0}};
	*f = flags & 2 ? named(name, "_ptsz") : NULL;
	if (strcmp(name, "cuCtxSynchronize") == 0 && version < 13000)
		version = 0; // cuCtxCreate_v2 exists from this version on
	for (int i = 0; !*f && i < 5; i++)
		if (version >= versions[i].since)
			*f = named(name, versions[i].suffix);
	if (status)
		*status = *f ? 0 : 1;
	return 0;
}
CUresult cuGetProcAddress(const char *name, void **f, int version, uint64_t flags)
{
	void *found;
	cuGetProcAddress_v2(name, &found, version, flags, NULL);
	if (found)
		*f = found;
	return found ? 0 : CUDA_ERROR_NOT_FOUND;
}
