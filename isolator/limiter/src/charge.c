// Reserve, allocate, confirm. Bytes are added to the usage file before the
// driver allocates them, and removed after the driver has freed them. A process
// killed in between leaves a figure that is too high, never too low, until it
// is found dead.
#include "limiter.h"

CUresult charge_on(struct charge *c, int device, uint64_t bytes)
{
	c->device = device;
	c->bytes = bytes;
	if (device < 0) {
		COMPLAIN_ONCE("%s does not name a device that memory is asked of: none can be had", limits_path);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (bytes == 0 || books_reserve(device, bytes))
		return CUDA_SUCCESS;
	// Pools may have returned memory since the last update.
	return pools_settle() && books_reserve(device, bytes) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult charge_here(struct charge *c, uint64_t bytes)
{
	int device;
	CUresult r = device_current(&device, &c->context);
	return r == CUDA_SUCCESS ? charge_on(c, device, bytes) : r;
}

bool charge_resize(struct charge *c, uint64_t bytes)
{
	if (bytes > c->bytes && !books_reserve(c->device, bytes - c->bytes))
		return false;
	if (bytes < c->bytes)
		books_release(c->device, c->bytes - bytes);
	c->bytes = bytes;
	return true;
}

CUresult charge_end(struct charge *c, CUresult r, enum kind kind, uint64_t key)
{
	if (r == CUDA_SUCCESS)
		held_put((struct held){.kind = kind, .key = key, .device = c->device, .bytes = c->bytes, .context = c->context});
	else if (c->bytes)
		books_release(c->device, c->bytes);
	return r;
}

// free_held removes the record before the driver can reuse the handle for
// another allocation.
CUresult free_held(enum kind kind, uint64_t key, CUresult (*release)(uint64_t))
{
	struct held h;
	bool known = held_take(kind, key, &h);
	CUresult r = release(key);
	if (known && r == CUDA_SUCCESS)
		books_release(h.device, h.bytes);
	else if (known)
		held_put(h);
	return r;
}
