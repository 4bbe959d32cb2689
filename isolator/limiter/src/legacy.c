// The driver still exports the functions of CUDA 3.1 and earlier, which use
// 32-bit sizes. Current programs do not call them; refusing them closes a way
// around the limit.
#include "limiter.h"

CUresult cuMemAlloc(unsigned *p, unsigned n) { (void)p, (void)n; return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuMemAllocPitch(unsigned *p, unsigned *q, unsigned w, unsigned h, unsigned e) { (void)p, (void)q, (void)w, (void)h, (void)e; return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuMemFree(unsigned p) { (void)p; return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuMemGetInfo(unsigned *f, unsigned *t) { (void)f, (void)t; return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuDeviceTotalMem(unsigned *n, CUdevice d) { (void)n, (void)d; return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuArrayCreate(CUarray *a, const void *d) { (void)a, (void)d; return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuArray3DCreate(CUarray *a, const void *d) { (void)a, (void)d; return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuCtxCreate(CUcontext *c, unsigned f, CUdevice d) { (void)c, (void)f, (void)d; return CUDA_ERROR_NOT_SUPPORTED; }
