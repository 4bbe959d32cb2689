// All functions that start work on a device. Without a core limit a hook costs
// one load, one test and one jump into the driver.
#include "limiter.h"

#define UNLIKELY(x) __builtin_expect(!!(x), 0)

#define LAUNCH(name, wait, parameters, arguments)                                     \
	CUresult name parameters                                                      \
	{                                                                             \
		if (UNLIKELY(atomic_load_explicit(&launches_limited, memory_order_relaxed))) \
			wait();                                                       \
		return ((__typeof__(&name))real[H_##name])arguments;                  \
	}

#define GRID unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, CUstream s

LAUNCH(cuLaunchKernel, throttle_current, (CUfunction f, GRID, void **p, void **x), (f, gx, gy, gz, bx, by, bz, shared, s, p, x))
LAUNCH(cuLaunchKernel_ptsz, throttle_current, (CUfunction f, GRID, void **p, void **x), (f, gx, gy, gz, bx, by, bz, shared, s, p, x))
LAUNCH(cuLaunchKernelEx, throttle_current, (const void *c, CUfunction f, void **p, void **x), (c, f, p, x))
LAUNCH(cuLaunchKernelEx_ptsz, throttle_current, (const void *c, CUfunction f, void **p, void **x), (c, f, p, x))
LAUNCH(cuLaunchCooperativeKernel, throttle_current, (CUfunction f, GRID, void **p), (f, gx, gy, gz, bx, by, bz, shared, s, p))
LAUNCH(cuLaunchCooperativeKernel_ptsz, throttle_current, (CUfunction f, GRID, void **p), (f, gx, gy, gz, bx, by, bz, shared, s, p))
LAUNCH(cuLaunchCooperativeKernelMultiDevice, throttle_all, (void *list, unsigned n, unsigned flags), (list, n, flags))
LAUNCH(cuGraphLaunch, throttle_current, (CUgraphExec g, CUstream s), (g, s))
LAUNCH(cuGraphLaunch_ptsz, throttle_current, (CUgraphExec g, CUstream s), (g, s))
LAUNCH(cuLaunch, throttle_current, (CUfunction f), (f))
LAUNCH(cuLaunchGrid, throttle_current, (CUfunction f, int w, int h), (f, w, h))
LAUNCH(cuLaunchGridAsync, throttle_current, (CUfunction f, int w, int h, CUstream s), (f, w, h, s))
