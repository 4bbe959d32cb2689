// cuMemAlloc and its variants.
#include "limiter.h"

// device_or_host uses managed memory if the device has no room and the limits
// file allows oversubscription: the driver then moves pages to host memory.
static CUresult device_or_host(CUdeviceptr *p, size_t size, int device)
{
	CUresult r = REAL(cuMemAlloc_v2)(p, size);
	if (r == CUDA_ERROR_OUT_OF_MEMORY && limits_get()->device[device].oversubscribe)
		r = REAL(cuMemAllocManaged)(p, size, CU_MEM_ATTACH_GLOBAL);
	return r;
}

CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t size)
{
	struct charge c;
	CUresult r = charge_current_device(&c, size);
	if (r != CUDA_SUCCESS)
		return r;
	r = device_or_host(p, size, c.device);
	return charge_finish(&c, r, ALLOCATED_MEMORY, r == CUDA_SUCCESS ? *p : 0);
}

CUresult cuMemAllocManaged(CUdeviceptr *p, size_t size, unsigned flags)
{
	struct charge c;
	CUresult r = charge_current_device(&c, size);
	if (r != CUDA_SUCCESS)
		return r;
	r = REAL(cuMemAllocManaged)(p, size, flags);
	return charge_finish(&c, r, ALLOCATED_MEMORY, r == CUDA_SUCCESS ? *p : 0);
}

// The driver chooses the padding of rows. 512 bytes have been enough on every
// device so far; the pitch that the driver returns is what is charged.
CUresult cuMemAllocPitch_v2(CUdeviceptr *p, size_t *pitch, size_t width, size_t height, unsigned element)
{
	struct charge c;
	size_t row = width + (512 - width % 512) % 512, bytes = 0;
	bool overflow = row < width || __builtin_mul_overflow(row, height, &bytes);
	CUresult r = charge_current_device(&c, overflow ? 0 : bytes);
	if (r == CUDA_SUCCESS && overflow)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (r != CUDA_SUCCESS)
		return r;
	r = REAL(cuMemAllocPitch_v2)(p, pitch, width, height, element);
	if (r == CUDA_SUCCESS && !charge_resize(&c, *pitch * height)) {
		REAL(cuMemFree_v2)(*p);
		r = CUDA_ERROR_OUT_OF_MEMORY;
	}
	return charge_finish(&c, r, ALLOCATED_MEMORY, r == CUDA_SUCCESS ? *p : 0);
}

static CUresult release(uint64_t p) { return REAL(cuMemFree_v2)(p); }

CUresult cuMemFree_v2(CUdeviceptr p)
{
	CUresult r = free_allocation(ALLOCATED_MEMORY, p, release);
	pools_mark_freed(); // p may be memory of a pool
	return r;
}
