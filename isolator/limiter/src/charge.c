// Reserve, allocate, confirm. Bytes are added to the usage file before the
// driver allocates them, and removed after the driver has freed them. A process
// killed in between leaves a figure that is too high, never too low, until it
// is found dead.
#include "limiter.h"

// charge_device reserves memory of a device, by its index in the limits. The
// driver's own error comes first, for a program that has not initialized it.
CUresult charge_device(struct charge *c, int device, uint64_t bytes)
{
	c->device = device;
	c->bytes = bytes;
	if (device < 0) {
		CUcontext current;
		CUresult r = REAL(cuCtxGetCurrent)(&current);
		if (r != CUDA_SUCCESS)
			return r;
		PRINT_ERROR_ONCE("%s does not list the device of an allocation: it is refused", limits_path);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (bytes == 0 || usage_reserve(device, bytes))
		return CUDA_SUCCESS;
	// Pools may have returned memory since the last update.
	return pools_update_charges() && usage_reserve(device, bytes) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult charge_current_device(struct charge *c, uint64_t bytes)
{
	int device;
	CUresult r = device_current(&device, &c->context);
	return r == CUDA_SUCCESS ? charge_device(c, device, bytes) : r;
}

bool charge_resize(struct charge *c, uint64_t bytes)
{
	if (bytes > c->bytes && !usage_reserve(c->device, bytes - c->bytes))
		return false;
	if (bytes < c->bytes)
		usage_release(c->device, c->bytes - bytes);
	c->bytes = bytes;
	return true;
}

CUresult charge_finish(struct charge *c, CUresult r, enum allocation_kind kind, uint64_t key)
{
	if (r == CUDA_SUCCESS)
		allocation_add((struct allocation){.kind = kind, .key = key, .device = c->device, .bytes = c->bytes, .context = c->context});
	else if (c->bytes)
		usage_release(c->device, c->bytes);
	return r;
}

// free_allocation removes the record before the driver can reuse the handle for
// another allocation.
CUresult free_allocation(enum allocation_kind kind, uint64_t key, CUresult (*release)(uint64_t))
{
	struct allocation h;
	bool known = allocation_remove(kind, key, &h);
	CUresult r = release(key);
	if (known && r == CUDA_SUCCESS)
		usage_release(h.device, h.bytes);
	else if (known)
		allocation_add(h);
	return r;
}
