// Maps CUDA devices to devices of the limits file by UUID: CUDA and NVML number
// devices independently.
#include "limiter.h"

enum { ORDINALS = 64 };
static _Atomic signed char ordinal[ORDINALS]; // index + 1; 0: not looked up yet

int device_index(CUdevice device)
{
	if (device < 0 || device >= ORDINALS)
		return -1;
	int known = atomic_load_explicit(&ordinal[device], memory_order_relaxed);
	if (known)
		return known - 1;
	CUuuid uuid;
	// cuDeviceGetUuid_v2 returns a MIG instance's own UUID.
	if (REAL(cuDeviceGetUuid_v2)(&uuid, device) != CUDA_SUCCESS && REAL(cuDeviceGetUuid)(&uuid, device) != CUDA_SUCCESS)
		return -1;
	int index = limits_find(uuid.bytes);
	if (index >= 0)
		atomic_store_explicit(&ordinal[device], (signed char)(index + 1), memory_order_relaxed);
	return index;
}

// device_error returns the driver's error for a device that device_index does not
// know: it does not exist, or the driver is not initialized. It returns success
// for a device that exists and is not listed.
CUresult device_error(CUdevice device)
{
	CUuuid uuid;
	CUresult r = REAL(cuDeviceGetUuid_v2)(&uuid, device);
	return r == CUDA_SUCCESS ? r : REAL(cuDeviceGetUuid)(&uuid, device);
}

CUdevice device_ordinal(int index)
{
	CUdevice d = 0;
	while (d < ORDINALS && atomic_load_explicit(&ordinal[d], memory_order_relaxed) != index + 1)
		d++;
	return d;
}

// device_of_stream returns the stream's device, which may differ from the
// current one. NULL, 1 and 2 are streams of the current context.
CUresult device_of_stream(CUstream s, CUdevice *device)
{
	CUcontext theirs = NULL, ours = NULL;
	if ((uintptr_t)s <= 2 || REAL(cuStreamGetCtx)(s, &theirs) != CUDA_SUCCESS || REAL(cuCtxGetCurrent)(&ours) != CUDA_SUCCESS || theirs == ours || REAL(cuCtxPushCurrent_v2)(theirs) != CUDA_SUCCESS)
		return REAL(cuCtxGetDevice)(device);
	CUresult r = REAL(cuCtxGetDevice)(device);
	REAL(cuCtxPopCurrent_v2)(&theirs);
	return r;
}

CUresult device_current(int *index, CUcontext *context)
{
	CUdevice device;
	CUresult r = REAL(cuCtxGetDevice)(&device);
	if (r != CUDA_SUCCESS)
		return r;
	if (context && REAL(cuCtxGetCurrent)(context) != CUDA_SUCCESS)
		*context = NULL;
	*index = device_index(device);
	return CUDA_SUCCESS;
}
