// Arrays and mipmapped arrays. How the device lays them out only the driver
// knows, and it says so once they are made; until then their plain size is
// reserved.
#include "limiter.h"

static uint64_t channel_bytes(int format)
{
	switch (format) {
	case 0x01: case 0x08: // 8-bit integers
		return 1;
	case 0x02: case 0x09: case 0x10: // 16 bits
		return 2;
	default:
		return 4;
	}
}

static uint64_t times(uint64_t a, uint64_t b)
{
	uint64_t product;
	return __builtin_mul_overflow(a, b ? b : 1, &product) ? UINT64_MAX : product;
}

static uint64_t plain_size(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	if (!d || (d->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)))
		return 0; // backed by handles, which are charged
	return times(times(times(times(d->Width, d->Height), d->Depth), d->NumChannels), channel_bytes(d->Format));
}

static uint64_t levels_size(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned levels)
{
	uint64_t total = 0, level = plain_size(d);
	for (unsigned i = 0; i < levels && level > 0; i++, level /= 2)
		total = total > UINT64_MAX - level ? UINT64_MAX : total + level;
	return total;
}

static bool fit(struct charge *c, CUresult known, const CUDA_ARRAY_MEMORY_REQUIREMENTS *need)
{
	return known != CUDA_SUCCESS || c->bytes == 0 || charge_resize(c, need->size);
}

static CUresult finish_array(struct charge *c, CUresult r, CUarray *a)
{
	CUDA_ARRAY_MEMORY_REQUIREMENTS need;
	CUdevice device;
	if (r == CUDA_SUCCESS && REAL(cuCtxGetDevice)(&device) == CUDA_SUCCESS && !fit(c, REAL(cuArrayGetMemoryRequirements)(&need, *a, device), &need)) {
		REAL(cuArrayDestroy)(*a);
		r = CUDA_ERROR_OUT_OF_MEMORY;
	}
	return charge_end(c, r, HELD_ARRAY, r == CUDA_SUCCESS ? (uint64_t)*a : 0);
}

CUresult cuArrayCreate_v2(CUarray *a, const CUDA_ARRAY_DESCRIPTOR *d)
{
	CUDA_ARRAY3D_DESCRIPTOR flat = {0};
	struct charge c;
	if (d)
		flat = (CUDA_ARRAY3D_DESCRIPTOR){.Width = d->Width, .Height = d->Height, .Format = d->Format, .NumChannels = d->NumChannels};
	CUresult r = charge_here(&c, plain_size(&flat));
	return r == CUDA_SUCCESS ? finish_array(&c, REAL(cuArrayCreate_v2)(a, d), a) : r;
}

CUresult cuArray3DCreate_v2(CUarray *a, const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	struct charge c;
	CUresult r = charge_here(&c, plain_size(d));
	return r == CUDA_SUCCESS ? finish_array(&c, REAL(cuArray3DCreate_v2)(a, d), a) : r;
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray *m, const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned levels)
{
	struct charge c;
	CUDA_ARRAY_MEMORY_REQUIREMENTS need;
	CUdevice device;
	CUresult r = charge_here(&c, levels_size(d, levels));
	if (r != CUDA_SUCCESS)
		return r;
	r = REAL(cuMipmappedArrayCreate)(m, d, levels);
	if (r == CUDA_SUCCESS && REAL(cuCtxGetDevice)(&device) == CUDA_SUCCESS && !fit(&c, REAL(cuMipmappedArrayGetMemoryRequirements)(&need, *m, device), &need)) {
		REAL(cuMipmappedArrayDestroy)(*m);
		r = CUDA_ERROR_OUT_OF_MEMORY;
	}
	return charge_end(&c, r, HELD_MIPMAP, r == CUDA_SUCCESS ? (uint64_t)*m : 0);
}

static CUresult destroy_array(uint64_t a) { return REAL(cuArrayDestroy)((CUarray)a); }
static CUresult destroy_mipmap(uint64_t m) { return REAL(cuMipmappedArrayDestroy)((CUmipmappedArray)m); }

CUresult cuArrayDestroy(CUarray a) { return free_held(HELD_ARRAY, (uint64_t)a, destroy_array); }
CUresult cuMipmappedArrayDestroy(CUmipmappedArray m) { return free_held(HELD_MIPMAP, (uint64_t)m, destroy_mipmap); }
