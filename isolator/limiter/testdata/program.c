// A program like those that tasks run, for tests. It executes one command per
// line of standard input and prints one result line for each. The first
// argument selects how it finds the driver's functions: proc (as the CUDA
// runtime does), dlsym, dlvsym, dlsym-by-dlsym, dlsym-by-dlvsym or
// dlvsym-by-dlsym, which take the C library's lookup from another lookup, or
// link if it is linked with the driver.
#define _GNU_SOURCE
#include "../src/cuda.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

CUresult cuInit(unsigned);
CUresult cuCtxSetCurrent(CUcontext);
static const char *how;
static void *library;
static int version = 11030; // up to this version cuCtxCreate is cuCtxCreate_v2

// libc_lookup returns the lookup of the C library that another lookup finds. It
// is in libdl before version 2.34. Versions of its symbols differ by machine.
static void *libc_lookup(const char *symbol, int versioned)
{
	static const char *const libraries[] = {"libc.so.6", "libdl.so.2"}, *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};
	for (int l = 0; l < 2; l++) {
		void *handle = dlopen(libraries[l], RTLD_LAZY), *f = handle && !versioned ? dlsym(handle, symbol) : NULL;
		for (int v = 0; handle && versioned && !f && v < 3; v++)
			f = dlvsym(handle, symbol, versions[v]);
		if (f)
			return f;
	}
	return NULL;
}

static void *found(const char *base, const char *symbol, uint64_t flags)
{
	void *f = NULL;
	int status;
	if (strcmp(how, "dlsym") == 0)
		return dlsym(library, symbol);
	if (strcmp(how, "dlvsym") == 0)
		return dlvsym(library, symbol, "libcuda.so.1"); // symbol version of the fake driver
	if (strncmp(how, "dlsym-by-", 9) == 0)
		return ((void *(*)(void *, const char *))libc_lookup("dlsym", strcmp(how + 9, "dlvsym") == 0))(library, symbol);
	if (strcmp(how, "dlvsym-by-dlsym") == 0)
		return ((void *(*)(void *, const char *, const char *))libc_lookup("dlvsym", 0))(library, symbol, "libcuda.so.1");
	CUresult (*get)(const char *, void **, int, uint64_t, int *) = dlsym(library, "cuGetProcAddress_v2");
	if (get)
		get(base, &f, version, flags, &status);
	else // driver 470
		((CUresult (*)(const char *, void **, int, uint64_t))dlsym(library, "cuGetProcAddress"))(base, &f, version, flags);
	return f;
}

#ifdef LINKED
#define CALL(base, symbol, flags) symbol
#else
static CUresult missing(void) { return -1; }
#define CALL(base, symbol, flags) ((__typeof__(&symbol))({ void *f = found(#base, #symbol, flags); f ? f : (void *)missing; }))
#endif

enum { NAMES = 4096 };
static unsigned long long name[NAMES];
static unsigned long long out;

static CUresult launch(const char *kind, uint64_t ns)
{
	void *f = (void *)ns;
	if (strcmp(kind, "kernel") == 0)
		return CALL(cuLaunchKernel, cuLaunchKernel, 0)(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
	if (strcmp(kind, "kernel_ptsz") == 0)
		return CALL(cuLaunchKernel, cuLaunchKernel_ptsz, 2)(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
	if (strcmp(kind, "ex") == 0)
		return CALL(cuLaunchKernelEx, cuLaunchKernelEx, 0)(NULL, f, NULL, NULL);
	if (strcmp(kind, "cooperative") == 0)
		return CALL(cuLaunchCooperativeKernel, cuLaunchCooperativeKernel, 0)(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL);
	if (strcmp(kind, "multi") == 0)
		return CALL(cuLaunchCooperativeKernelMultiDevice, cuLaunchCooperativeKernelMultiDevice, 0)(f, 1, 0);
	if (strcmp(kind, "graph") == 0)
		return CALL(cuGraphLaunch, cuGraphLaunch, 0)(f, NULL);
	if (strcmp(kind, "graph_ptsz") == 0)
		return CALL(cuGraphLaunch, cuGraphLaunch_ptsz, 2)(f, NULL);
	if (strcmp(kind, "grid") == 0)
		return CALL(cuLaunchGrid, cuLaunchGrid, 0)(f, 1, 1);
	return -1;
}

// keep_busy launches kernels for run_ns of simulated time. It returns the
// fraction of that time, in millionths, that the device worked for this
// process.
static long keep_busy(const char *kind, uint64_t kernel_ns, uint64_t run_ns)
{
	void (*join)(void) = dlsym(library, "standin_join"), (*leave)(void) = dlsym(library, "standin_leave");
	uint64_t (*now)(void) = dlsym(library, "standin_now"), (*busy)(void) = dlsym(library, "standin_busy");
	join();
	uint64_t began = now(), used;
	CUresult r = 0;
	while (now() - began < run_ns && r == 0)
		r = launch(kind, kernel_ns);
	used = busy();
	uint64_t took = now() - began;
	leave();
	return r ? -r : (long)(used * 1000000 / took);
}

// time_launches measures launches that do nothing in the driver, in picoseconds
// per launch.
static long time_launches(long n)
{
	struct timespec a, b;
	__typeof__(&cuLaunchKernel) f = CALL(cuLaunchKernel, cuLaunchKernel, 0);
	f(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
	clock_gettime(CLOCK_MONOTONIC, &a);
	for (long i = 0; i < n; i++)
		f(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
	clock_gettime(CLOCK_MONOTONIC, &b);
	return ((b.tv_sec - a.tv_sec) * 1000000000 + b.tv_nsec - a.tv_nsec) * 1000 / n;
}

// churn allocates and frees at random and checks that free and used add up to
// the total.
static CUresult churn(unsigned seed, long rounds, long most)
{
	CUdeviceptr held[16] = {0};
	for (long i = 0; i < rounds; i++) {
		size_t free, total;
		int k = rand_r(&seed) % 16;
		if (held[k]) {
			if (CALL(cuMemFree, cuMemFree_v2, 0)(held[k]))
				return 91;
			held[k] = 0;
		} else {
			CUresult r = CALL(cuMemAlloc, cuMemAlloc_v2, 0)(&held[k], 1 + (size_t)(rand_r(&seed) % most));
			if (r != 0 && r != CUDA_ERROR_OUT_OF_MEMORY)
				return r;
			if (r)
				held[k] = 0;
		}
		if (i % 8 == 0 && (CALL(cuMemGetInfo, cuMemGetInfo_v2, 0)(&free, &total) || free > total))
			return 92;
	}
	for (int k = 0; k < 16; k++)
		if (held[k] && CALL(cuMemFree, cuMemFree_v2, 0)(held[k]))
			return 93;
	return 0;
}

static CUresult array(unsigned long long w, unsigned long long h, unsigned long long d, unsigned levels)
{
	CUDA_ARRAY3D_DESCRIPTOR x = {w, h, d, 0x20, 4, 0};
	if (levels)
		return CALL(cuMipmappedArrayCreate, cuMipmappedArrayCreate, 0)((CUmipmappedArray *)&out, &x, levels);
	if (d)
		return CALL(cuArray3DCreate, cuArray3DCreate_v2, 0)((CUarray *)&out, &x);
	return CALL(cuArrayCreate, cuArrayCreate_v2, 0)((CUarray *)&out, &(CUDA_ARRAY_DESCRIPTOR){w, h, 0x20, 4});
}

static CUresult do_line(const char *word, unsigned long long a, unsigned long long b, unsigned long long c, unsigned long long d, const char *kind)
{
	CUmemAllocationProp prop = {.type = 1, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	CUmemPoolProps props = {.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	size_t pitch;
#define IS(w) (strcmp(word, w) == 0)
	if (IS("ctx"))
		return CALL(cuCtxCreate, cuCtxCreate_v2, 0)((CUcontext *)&out, 0, (int)a);
	if (IS("ctx3"))
		return CALL(cuCtxCreate, cuCtxCreate_v3, 0)((CUcontext *)&out, NULL, 0, 0, (int)a);
	if (IS("ctx4"))
		return CALL(cuCtxCreate, cuCtxCreate_v4, 0)((CUcontext *)&out, NULL, 0, (int)a);
	if (IS("ctxdestroy"))
		return CALL(cuCtxDestroy, cuCtxDestroy_v2, 0)((CUcontext)name[a]);
	if (IS("retain")) {
		CUresult r = CALL(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 0)((CUcontext *)&out, (int)a);
		return r ? r : CALL(cuCtxSetCurrent, cuCtxSetCurrent, 0)((CUcontext)out);
	}
	if (IS("green"))
		return CALL(cuGreenCtxCreate, cuGreenCtxCreate, 0)((CUgreenCtx *)&out, NULL, (int)a, 1);
	if (IS("greendestroy"))
		return CALL(cuGreenCtxDestroy, cuGreenCtxDestroy, 0)((CUgreenCtx)name[a]);
	if (IS("unretain"))
		return CALL(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, 0)((int)a);
	if (IS("alloc"))
		return CALL(cuMemAlloc, cuMemAlloc_v2, 0)(&out, a);
	if (IS("oldalloc"))
		return CALL(cuMemAlloc_, cuMemAlloc, 0)((unsigned *)&out, (unsigned)a);
	if (IS("pitch"))
		return CALL(cuMemAllocPitch, cuMemAllocPitch_v2, 0)(&out, &pitch, a, b, 4);
	if (IS("managed"))
		return CALL(cuMemAllocManaged, cuMemAllocManaged, 0)(&out, a, 1);
	if (IS("free"))
		return CALL(cuMemFree, cuMemFree_v2, 0)(name[a]);
	if (IS("async"))
		return CALL(cuMemAllocAsync, cuMemAllocAsync, 0)(&out, a, NULL);
	if (IS("async_ptsz"))
		return CALL(cuMemAllocAsync, cuMemAllocAsync_ptsz, 2)(&out, a, NULL);
	if (IS("freeasync"))
		return CALL(cuMemFreeAsync, cuMemFreeAsync, 0)(name[a], NULL);
	if (IS("sync"))
		return CALL(cuStreamSynchronize, cuStreamSynchronize, 0)(NULL);
	if (IS("pool"))
		return CALL(cuMemPoolCreate, cuMemPoolCreate, 0)((CUmemoryPool *)&out, &props);
	if (IS("threshold"))
		return CALL(cuMemPoolSetAttribute, cuMemPoolSetAttribute, 0)((CUmemoryPool)name[a], CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &b);
	if (IS("poolalloc"))
		return CALL(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, 0)(&out, b, (CUmemoryPool)name[a], NULL);
	if (IS("trim"))
		return CALL(cuMemPoolTrimTo, cuMemPoolTrimTo, 0)((CUmemoryPool)name[a], b);
	if (IS("pooldestroy"))
		return CALL(cuMemPoolDestroy, cuMemPoolDestroy, 0)((CUmemoryPool)name[a]);
	if (IS("create"))
		return CALL(cuMemCreate, cuMemCreate, 0)(&out, a, &prop, 0);
	if (IS("release"))
		return CALL(cuMemRelease, cuMemRelease, 0)(name[a]);
	if (IS("map"))
		return CALL(cuMemMap, cuMemMap, 0)(b, c, 0, name[a], 0);
	if (IS("unmap"))
		return CALL(cuMemUnmap, cuMemUnmap, 0)(a, b);
	if (IS("rehandle"))
		return CALL(cuMemRetainAllocationHandle, cuMemRetainAllocationHandle, 0)(&out, (void *)a);
	if (IS("array"))
		return array(a, b, c, (unsigned)d);
	if (IS("arraydestroy"))
		return CALL(cuArrayDestroy, cuArrayDestroy, 0)((CUarray)name[a]);
	if (IS("mipmapdestroy"))
		return CALL(cuMipmappedArrayDestroy, cuMipmappedArrayDestroy, 0)((CUmipmappedArray)name[a]);
	if (IS("module"))
		return CALL(cuModuleLoadData, cuModuleLoadData, 0)((CUmodule *)&out, "");
	if (IS("unload"))
		return CALL(cuModuleUnload, cuModuleUnload, 0)((CUmodule)name[a]);
	if (IS("graph"))
		return ((CUresult (*)(CUgraph *, unsigned))dlsym(library, "cuGraphCreate"))((CUgraph *)&out, 0);
	if (IS("graphalloc"))
		return CALL(cuGraphAddMemAllocNode, cuGraphAddMemAllocNode, 0)(NULL, (CUgraph)name[a], NULL, 0, &(CUDA_MEM_ALLOC_NODE_PARAMS){.poolProps = props, .bytesize = b});
	if (IS("graphnode") || IS("graphnode2")) {
		CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC, .alloc = {.poolProps = props, .bytesize = b}};
		return IS("graphnode") ? CALL(cuGraphAddNode, cuGraphAddNode, 0)(NULL, (CUgraph)name[a], NULL, 0, &params)
				       : CALL(cuGraphAddNode, cuGraphAddNode_v2, 0)(NULL, (CUgraph)name[a], NULL, NULL, 0, &params);
	}
	if (IS("instantiate"))
		return CALL(cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags, 0)((CUgraphExec *)&out, (CUgraph)name[a], 0);
	if (IS("graphlaunch"))
		return CALL(cuGraphLaunch, cuGraphLaunch, 0)((CUgraphExec)name[a], NULL);
	if (IS("graphdestroy"))
		return CALL(cuGraphDestroy, cuGraphDestroy, 0)((CUgraph)name[a]);
	if (IS("execdestroy"))
		return CALL(cuGraphExecDestroy, cuGraphExecDestroy, 0)((CUgraphExec)name[a]);
	if (IS("graphtrim"))
		return CALL(cuDeviceGraphMemTrim, cuDeviceGraphMemTrim, 0)(0);
	if (IS("capture")) {
		out = ((uint64_t (*)(int))dlsym(library, "standin_capture"))((int)a);
		return 0;
	}
	if (IS("current"))
		return CALL(cuCtxSetCurrent, cuCtxSetCurrent, 0)((CUcontext)name[a]);
	if (IS("asyncon")) // in the fake driver a stream has its context's handle
		return CALL(cuMemAllocAsync, cuMemAllocAsync, 0)(&out, b, (CUstream)name[a]);
	if (IS("heap"))
		return CALL(cuCtxSetLimit, cuCtxSetLimit, 0)(CU_LIMIT_MALLOC_HEAP_SIZE, a);
	if (IS("import"))
		return CALL(cuMemImportFromShareableHandle, cuMemImportFromShareableHandle, 0)(&out, (void *)name[a], 1);
	if (IS("maparray"))
		return CALL(cuMemMapArrayAsync, cuMemMapArrayAsync, 0)(&(CUarrayMapInfo){.memOperationType = CU_MEM_OPERATION_TYPE_MAP, .memHandle = name[a]}, 1, NULL);
	if (IS("bind"))
		return CALL(cuMulticastBindMem, cuMulticastBindMem, 0)(77, b, name[a], 0, 1 << 20, 0);
	if (IS("bindaddress"))
		return CALL(cuMulticastBindAddr, cuMulticastBindAddr, 0)(77, b, a, 1 << 20, 0);
	if (IS("unbind"))
		return CALL(cuMulticastUnbind, cuMulticastUnbind, 0)(77, 0, a, 1 << 20);
	if (IS("alloc9")) {
		__typeof__(&cuMemAlloc_v2) f = strcmp(how, "dlvsym") == 0 ? dlvsym(library, "cuMemAlloc_v9", "libcuda.so.1") : dlsym(library, "cuMemAlloc_v9");
		return f ? f(&out, a) : CUDA_ERROR_NOT_FOUND;
	}
	if (IS("info")) {
		size_t f = 0, t = 0;
		CUresult r = CALL(cuMemGetInfo, cuMemGetInfo_v2, 0)(&f, &t);
		return r ? r : (out = f, f <= t ? 0 : 90);
	}
	if (IS("total")) {
		size_t t = 0;
		CUresult r = CALL(cuDeviceTotalMem, cuDeviceTotalMem_v2, 0)(&t, (int)a);
		return out = t, r;
	}
	if (IS("nvml")) {
		void *l = dlopen("libnvidia-ml.so.1", RTLD_LAZY), *device;
		nvmlMemory_v2_t m = {.version = 2};
		((__typeof__(&nvmlDeviceGetHandleByUUID))dlsym(l, "nvmlDeviceGetHandleByUUID"))("GPU-01020304-0506-0708-090a-0b0c0d0e0fa0", (nvmlDevice_t *)&device);
		int r = ((__typeof__(&nvmlDeviceGetMemoryInfo_v2))dlsym(l, "nvmlDeviceGetMemoryInfo_v2"))(device, &m);
		return out = m.used, r || m.used + m.free != m.total;
	}
	if (IS("version"))
		return version = (int)a, 0;
	if (IS("launch"))
		return launch(kind, a);
	if (IS("busy"))
		return out = (unsigned long long)keep_busy(kind, a, b), 0;
	if (IS("time"))
		return out = (unsigned long long)time_launches((long)a), 0;
	if (IS("churn"))
		return churn((unsigned)a, (long)b, (long)c);
	if (IS("setenv"))
		return setenv("CUDA_DEVICE_MEMORY_LIMIT", "64g", 1) || setenv("LD_PRELOAD", "", 1) || setenv("MESOS_GPU_LIMITS", "/tmp/other", 1);
	if (IS("closefiles")) {
		for (int i = 3; i < 1024; i++)
			close(i);
		return 0;
	}
	return -2;
}

// Commands that run within another call of the driver, as those of another thread
// could.
static struct planned { unsigned long long slot, a, b, c; char word[32]; CUresult result; } planned[4];
static unsigned plans;

static void run_planned(void)
{
	for (unsigned i = 0; i < plans; i++) {
		struct planned *p = &planned[i];
		out = 0;
		p->result = do_line(p->word, p->a, p->b, p->c, 0, "");
		if (p->result == 0 && out != 0)
			name[p->slot % NAMES] = out;
	}
	out = plans = 0;
}

static CUresult plan(struct planned p, int before)
{
	if (plans == sizeof planned / sizeof *planned)
		return -4;
	planned[plans++] = p;
	((void (*)(void (*)(void), int))dlsym(library, "standin_meanwhile"))(run_planned, before);
	return 0;
}

static void serve(void);

// The child of a fork continues without exec; the parent prints its results
// after the child's.
static CUresult fork_and_serve(void)
{
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		serve();
		_exit(0);
	}
	int status;
	waitpid(child, &status, 0);
	return status;
}

static void serve(void)
{
	char line[256], word[32], kind[32];
	while (fgets(line, sizeof line, stdin)) {
		unsigned long long a = 0, b = 0, c = 0, d = 0, slot = 0;
		kind[0] = 0;
		out = 0;
		if (sscanf(line, "%llu %31s %llu %llu %llu %llu", &slot, word, &a, &b, &c, &d) < 3)
			sscanf(line, "%llu %31s %31s %llu %llu %llu", &slot, word, kind, &a, &b, &c);
		CUresult r;
		if (strcmp(word, "fork") == 0)
			r = fork_and_serve();
		else if (strcmp(word, "exit") == 0)
			return (void)(puts("0 0"), fflush(stdout));
		else if (strcmp(word, "exec") == 0) {
			puts("0 0");
			fflush(stdout);
			execlp("sleep", "sleep", "60", NULL);
			r = -3;
		} else if (strcmp(word, "before") == 0 || strcmp(word, "after") == 0) {
			struct planned p = {slot, a, b, c, "", -5};
			strcpy(p.word, kind);
			r = plan(p, word[0] == 'b');
		} else if (strcmp(word, "planned") == 0)
			r = planned[a % 4].result;
		else
			r = do_line(word, a, b, c, d, kind);
		if (r == 0 && out != 0)
			name[slot % NAMES] = out;
		printf("%d %llu\n", r, out);
		fflush(stdout);
	}
}

int main(int argc, char **argv)
{
	how = argc > 1 ? argv[1] : "proc";
	setvbuf(stdin, NULL, _IONBF, 0); // unbuffered: a forked child must not have read ahead
	library = dlopen("libcuda.so.1", RTLD_LAZY);
	if (!library)
		return fprintf(stderr, "%s\n", dlerror()), 1;
	int r = CALL(cuInit, cuInit, 0)(0);
	printf("%d 0\n", r);
	fflush(stdout);
	serve();
	return 0;
}
