// Functions that a whole program calls and the limiter does not hook. A kernel
// named spin takes a millisecond, any other no time.
#include "device.h"
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
enum { SPIN_NS = 1000000 };

static __thread uint64_t captured;

EXPORT CUresult cuDriverGetVersion(int *v) { *v = 12040; return 0; }
EXPORT CUresult cuDeviceGetName(char *name, int n, CUdevice d) { (void)d; strncpy(name, "stand-in", (size_t)n); return 0; }
EXPORT CUresult cuDeviceGetAttribute(int *v, int a, CUdevice d) { (void)a, (void)d; *v = 4; return 0; }
EXPORT CUresult cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name)
{
	(void)m;
	*f = (CUfunction)(uintptr_t)(strcmp(name, "spin") == 0 ? SPIN_NS : 0);
	return 0;
}
EXPORT CUresult cuStreamCreate(CUstream *s, unsigned f) { (void)f; *s = NULL; return 0; }
EXPORT CUresult cuMemAddressReserve(CUdeviceptr *p, size_t n, size_t a, CUdeviceptr at, unsigned long long f)
{
	static uint64_t next = 0x10000000000;
	(void)a, (void)at, (void)f;
	*p = next;
	next += n;
	return 0;
}
EXPORT CUresult cuMemAddressFree(CUdeviceptr p, size_t n) { (void)p, (void)n; return 0; }
EXPORT CUresult cuMemSetAccess(CUdeviceptr p, size_t n, const void *d, size_t k) { (void)p, (void)n, (void)d, (void)k; return 0; }

// The handle of a graph and of its executable is the duration of its kernels.
EXPORT CUresult cuStreamBeginCapture_v2(CUstream s, int mode) { (void)s, (void)mode; captured = 1; return 0; }
EXPORT CUresult cuStreamEndCapture(CUstream s, CUgraph *g) { (void)s; *g = (CUgraph)(uintptr_t)(captured - 1); captured = 0; return 0; }

bool device_captures(uint64_t ns)
{
	if (captured)
		captured += ns;
	return captured != 0;
}
