// A program with kernels of its own for a machine with a GPU. It needs the
// driver, but no toolkit. Like program.c it executes one command per input
// line; each result line is an error number and a value.
#define _GNU_SOURCE
#include "../src/cuda.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// The driver compiles this for the current device. spin loops n times.
static const char ptx[] =
	".version 6.0\n.target sm_60\n.address_size 64\n"
	".visible .entry nothing()\n{\n ret;\n}\n"
	".visible .entry spin(.param .u64 out, .param .u32 rounds)\n{\n"
	" .reg .u64 %o; .reg .u32 %n, %i, %x; .reg .pred %p;\n"
	" ld.param.u64 %o, [out];\n ld.param.u32 %n, [rounds];\n"
	" mov.u32 %i, 0;\n mov.u32 %x, %tid.x;\n"
	"again:\n mad.lo.u32 %x, %x, 1664525, 1013904223;\n add.u32 %i, %i, 1;\n"
	" setp.lt.u32 %p, %i, %n;\n @%p bra again;\n"
	" setp.eq.u32 %p, %x, 0;\n @%p st.global.u32 [%o], %x;\n ret;\n}\n";

enum { PER_SM = 4, THREADS = 256, BURST = 256, BURSTS = 400, HELD = 1 << 16, IN_GRAPH = 4 };
enum { ATTRIBUTE_SMS = 16, CAPTURE_RELAXED = 2, NON_BLOCKING = 1 };
static const uint64_t kernel_ns = 2000000;

typedef struct { CUmemLocation location; int flags; } access_desc;

static void *library;
static CUfunction spin, nothing;
static CUdeviceptr out_at;
static CUdeviceptr held[HELD];
static size_t helds;
static CUstream stream;
static unsigned rounds = 1000;
static int sms;

static CUresult absent(void) { return CUDA_ERROR_NOT_FOUND; }
static void *find(const char *name)
{
	void *f = dlsym(library, name);
	return f ? f : (void *)absent;
}
#define CALL(name) ((__typeof__(&name))find(#name))
#define CU(name, ...) ((CUresult (*)(__VA_ARGS__))find(name))
#define TRY(call) do { CUresult r_ = (call); if (r_) return r_; } while (0)

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static CUresult context(void)
{
	CUcontext c;
	TRY(CALL(cuDevicePrimaryCtxRetain)(&c, 0));
	TRY(CU("cuCtxSetCurrent", CUcontext)(c));
	return CU("cuDeviceGetAttribute", int *, int, CUdevice)(&sms, ATTRIBUTE_SMS, 0);
}

static CUresult kernels(void)
{
	CUmodule m;
	TRY(CALL(cuModuleLoadData)(&m, ptx));
	TRY(CU("cuModuleGetFunction", CUfunction *, CUmodule, const char *)(&spin, m, "spin"));
	TRY(CU("cuModuleGetFunction", CUfunction *, CUmodule, const char *)(&nothing, m, "nothing"));
	TRY(CU("cuStreamCreate", CUstream *, unsigned)(&stream, NON_BLOCKING));
	return CALL(cuMemAlloc_v2)(&out_at, 4096);
}

static CUresult launch_spin(int cooperative)
{
	void *p[] = {&out_at, &rounds};
	if (cooperative)
		return CALL(cuLaunchCooperativeKernel)(spin, (unsigned)sms * PER_SM, 1, 1, THREADS, 1, 1, 0, stream, p);
	return CALL(cuLaunchKernel)(spin, (unsigned)sms * PER_SM, 1, 1, THREADS, 1, 1, 0, stream, p, NULL);
}

static CUresult finish(void) { return CALL(cuStreamSynchronize)(stream); }

// calibrate measures how many loops take kernel_ns on an idle device.
static CUresult calibrate(uint64_t *answer)
{
	for (int i = 0; i < 20; i++) {
		uint64_t began = now(), took;
		TRY(launch_spin(0));
		TRY(finish());
		took = now() - began;
		if (i > 3 && took > kernel_ns * 9 / 10 && took < kernel_ns * 11 / 10)
			break;
		double next = (double)rounds * (double)kernel_ns / (double)took;
		rounds = next < 1 ? 1 : next > 1e9 ? 1000000000 : (unsigned)next;
	}
	*answer = rounds;
	return 0;
}

static CUresult graph_of_spins(CUgraphExec *exec)
{
	CUgraph g;
	TRY(CU("cuStreamBeginCapture_v2", CUstream, int)(stream, CAPTURE_RELAXED));
	for (int i = 0; i < IN_GRAPH; i++)
		TRY(launch_spin(0));
	TRY(CU("cuStreamEndCapture", CUstream, CUgraph *)(stream, &g));
	return CU("cuGraphInstantiateWithFlags", CUgraphExec *, CUgraph, unsigned long long)(exec, g, 0);
}

// work runs kernels for skip and then for run seconds. It returns the number of
// kernels per thousand seconds that ended in the second period.
static CUresult work(const char *kind, uint64_t skip, uint64_t run, uint64_t *answer)
{
	CUgraphExec exec = NULL;
	int graph = strcmp(kind, "graph") == 0, cooperative = strcmp(kind, "cooperative") == 0;
	uint64_t done = 0, began = now(), from = 0;
	if (graph)
		TRY(graph_of_spins(&exec));
	for (;;) {
		TRY(graph ? CALL(cuGraphLaunch)(exec, stream) : launch_spin(cooperative));
		TRY(finish());
		uint64_t at = now();
		if (from == 0 && at - began >= skip * 1000000000)
			from = at;
		else if (from != 0)
			done += graph ? IN_GRAPH : 1;
		if (from != 0 && at - from >= run * 1000000000) {
			*answer = (uint64_t)((double)done * 1e12 / (double)(at - from));
			return 0;
		}
	}
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

// time_launches returns the median of many bursts in picoseconds per launch.
// Bursts are short, so that no launch waits for the device.
static CUresult time_launches(uint64_t *answer)
{
	static uint64_t took[BURSTS];
	__typeof__(&cuLaunchKernel) launch = CALL(cuLaunchKernel);
	for (int i = 0; i < BURSTS; i++) {
		uint64_t began = now();
		for (int k = 0; k < BURST; k++)
			TRY(launch(nothing, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
		took[i] = now() - began;
		TRY(finish());
	}
	qsort(took, BURSTS, sizeof took[0], by_value);
	*answer = took[BURSTS / 2] * 1000 / BURST;
	return 0;
}

// fill allocates pieces until an allocation fails, and returns the number of
// bytes.
static CUresult fill(size_t piece, uint64_t *answer)
{
	CUresult r = 0;
	while (helds < HELD && (r = CALL(cuMemAlloc_v2)(&held[helds], piece)) == 0)
		helds++;
	*answer = helds * piece;
	return helds == HELD ? 0 : r;
}

static CUresult pool(size_t bytes, int give)
{
	static CUdeviceptr p;
	static CUmemoryPool of;
	CUmemPoolProps props = {.allocType = 1, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	if (!give) {
		CUmemoryPool made;
		TRY(CALL(cuMemPoolCreate)(&made, &props));
		CUdeviceptr at;
		CUresult r = CALL(cuMemAllocFromPoolAsync)(&at, bytes, made, stream);
		if (r)
			return CALL(cuMemPoolDestroy)(made), r;
		of = made, p = at;
		return finish();
	}
	TRY(CALL(cuMemFreeAsync)(p, stream));
	TRY(finish());
	return CALL(cuMemPoolDestroy)(of);
}

static CUresult vmm(size_t bytes, int give)
{
	static CUmemGenericAllocationHandle h;
	static CUdeviceptr at;
	CUmemAllocationProp prop = {.type = 1, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	access_desc all = {prop.location, 3};
	if (give) {
		TRY(CALL(cuMemUnmap)(at, bytes));
		return CU("cuMemAddressFree", CUdeviceptr, size_t)(at, bytes);
	}
	TRY(CALL(cuMemCreate)(&h, bytes, &prop, 0));
	TRY(CU("cuMemAddressReserve", CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long)(&at, bytes, 0, 0, 0));
	TRY(CALL(cuMemMap)(at, bytes, 0, h, 0));
	TRY(CU("cuMemSetAccess", CUdeviceptr, size_t, const access_desc *, size_t)(at, bytes, &all, 1));
	return CALL(cuMemRelease)(h); // the memory lives while it is mapped
}

// addresses requests every hooked function as the CUDA runtime does, by the
// name without version. It returns how many existing functions the driver
// returns at an address that it does not export under a name of the same
// family: the limiter identifies functions by these addresses.
static const char *const hooked[] = {
#define HOOK(lib, name) HOOKED_##lib(name)
#define USE(lib, name)
#define HOOKED_cuda(name) #name,
#define HOOKED_nvml(name)
#include "../src/hooks.def"
};
enum { HOOKED = sizeof hooked / sizeof hooked[0] };

static size_t base_of(const char *name, char base[64])
{
	size_t n = strlen(name);
	n -= n > 5 && strcmp(name + n - 5, "_ptsz") == 0 ? 5 : 0;
	n -= n > 3 && name[n - 3] == '_' && name[n - 2] == 'v' ? 3 : 0;
	memcpy(base, name, n);
	base[n] = 0;
	return n;
}

static int exported(const char *base, const void *f)
{
	char other[64];
	for (int i = 0; i < HOOKED; i++)
		if (base_of(hooked[i], other) && strcmp(other, base) == 0 && dlsym(library, hooked[i]) == f)
			return 1;
	return 0;
}

static CUresult addresses(uint64_t *answer)
{
	CUresult (*get)(const char *, void **, int, uint64_t, int *) = (__typeof__(get))find("cuGetProcAddress_v2");
	int version, status;
	char base[64];
	TRY(CU("cuDriverGetVersion", int *)(&version));
	for (int i = 0; i < HOOKED; i++)
		for (uint64_t flags = 0; flags <= 2; flags += 2) {
			void *f = NULL;
			base_of(hooked[i], base);
			if (get(base, &f, version, flags, &status) == 0 && f && !exported(base, f)) {
				fprintf(stderr, "%s by cuGetProcAddress is not exported\n", base);
				++*answer;
			}
		}
	return 0;
}

static CUresult do_line(const char *word, uint64_t a, uint64_t b, const char *kind, uint64_t *answer)
{
	size_t free, total;
#define IS(w) (strcmp(word, w) == 0)
	if (IS("ctx"))
		return context();
	if (IS("addresses"))
		return addresses(answer);
	if (IS("kernels"))
		return kernels();
	if (IS("calibrate"))
		return calibrate(answer);
	if (IS("rounds"))
		return rounds = (unsigned)a, 0;
	if (IS("work"))
		return work(kind, a, b, answer);
	if (IS("time"))
		return time_launches(answer);
	if (IS("fill"))
		return fill(a, answer);
	if (IS("pool"))
		return pool(a, (int)b);
	if (IS("vmm"))
		return vmm(a, (int)b);
	if (IS("used") || IS("total")) {
		TRY(CALL(cuMemGetInfo_v2)(&free, &total));
		return *answer = IS("used") ? total - free : total, 0;
	}
	return -2;
}

// probe prints the driver, the UUID and the name of the device.
static int probe(void)
{
	char name[128] = "";
	int version = 0;
	CUuuid u;
	if (CU("cuDeviceGetName", char *, int, CUdevice)(name, sizeof name, 0) || CU("cuDriverGetVersion", int *)(&version))
		return 1;
	if (CALL(cuDeviceGetUuid_v2)(&u, 0) && CALL(cuDeviceGetUuid)(&u, 0))
		return 1;
	printf("%s\n%d.%d\nGPU-", dlsym(library, "standin_make") ? "standin" : "driver", version / 1000, version % 1000 / 10);
	for (int i = 0; i < 16; i++)
		printf("%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", u.bytes[i]);
	printf("\n%s\n", name);
	return 0;
}

int main(int argc, char **argv)
{
	char line[256], word[32], kind[32];
	library = dlopen("libcuda.so.1", RTLD_LAZY);
	CUresult r = library ? CU("cuInit", unsigned)(0) : CUDA_ERROR_NOT_FOUND;
	if (argc > 1 && strcmp(argv[1], "probe") == 0)
		return r || probe();
	printf("%d 0\n", r);
	fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		unsigned long long slot = 0, a = 0, b = 0;
		uint64_t answer = 0;
		kind[0] = 0;
		if (sscanf(line, "%llu %31s %llu %llu", &slot, word, &a, &b) < 3)
			sscanf(line, "%llu %31s %31s %llu %llu", &slot, word, kind, &a, &b);
		r = do_line(word, a, b, kind, &answer);
		printf("%d %llu\n", r, (unsigned long long)answer);
		fflush(stdout);
	}
	return 0;
}
