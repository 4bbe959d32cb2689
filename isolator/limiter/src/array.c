// Arrays and mipmapped arrays. The driver does not report how much memory they
// take. They are counted in blocks of 64 bytes by 8 rows, rounded up to the
// granularity of a mapping.
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

static uint64_t saturating_multiply(uint64_t a, uint64_t b)
{
	uint64_t product;
	return __builtin_mul_overflow(a, b ? b : 1, &product) ? UINT64_MAX : product;
}

static uint64_t round_up(uint64_t n, uint64_t to) { return n > UINT64_MAX - to ? UINT64_MAX : (n + to - 1) / to * to; }

static uint64_t halve(uint64_t n) { return n > 1 ? n / 2 : n; }

static uint64_t array_size(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned levels)
{
	if (!d || (d->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)))
		return 0; // backed by handles, which are charged
	uint64_t total = 0, w = d->Width, h = d->Height, depth = d->Depth;
	bool layers = d->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
	for (unsigned i = 0; i < levels && i < 64; i++, w = halve(w), h = halve(h), depth = layers ? depth : halve(depth)) {
		uint64_t row = round_up(saturating_multiply(saturating_multiply(w, d->NumChannels), channel_bytes(d->Format)), 64);
		uint64_t level = saturating_multiply(saturating_multiply(row, h > 1 ? round_up(h, 8) : 1), depth);
		total = total > UINT64_MAX - level ? UINT64_MAX : total + level;
	}
	return round_up(total, 65536);
}

CUresult cuArray3DCreate_v2(CUarray *a, const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	struct charge c;
	CUresult r = charge_current_device(&c, array_size(d, 1));
	if (r != CUDA_SUCCESS)
		return r;
	r = REAL(cuArray3DCreate_v2)(a, d);
	return charge_finish(&c, r, ALLOCATED_ARRAY, r == CUDA_SUCCESS ? (uint64_t)*a : 0);
}

CUresult cuArrayCreate_v2(CUarray *a, const CUDA_ARRAY_DESCRIPTOR *d)
{
	CUDA_ARRAY3D_DESCRIPTOR flat = {0};
	struct charge c;
	if (d)
		flat = (CUDA_ARRAY3D_DESCRIPTOR){.Width = d->Width, .Height = d->Height, .Format = d->Format, .NumChannels = d->NumChannels};
	CUresult r = charge_current_device(&c, array_size(&flat, 1));
	if (r != CUDA_SUCCESS)
		return r;
	r = REAL(cuArrayCreate_v2)(a, d);
	return charge_finish(&c, r, ALLOCATED_ARRAY, r == CUDA_SUCCESS ? (uint64_t)*a : 0);
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray *m, const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned levels)
{
	struct charge c;
	CUresult r = charge_current_device(&c, array_size(d, levels));
	if (r != CUDA_SUCCESS)
		return r;
	r = REAL(cuMipmappedArrayCreate)(m, d, levels);
	return charge_finish(&c, r, ALLOCATED_MIPMAP, r == CUDA_SUCCESS ? (uint64_t)*m : 0);
}

static CUresult destroy_array(uint64_t a) { return REAL(cuArrayDestroy)((CUarray)a); }
static CUresult destroy_mipmap(uint64_t m) { return REAL(cuMipmappedArrayDestroy)((CUmipmappedArray)m); }

CUresult cuArrayDestroy(CUarray a) { return free_allocation(ALLOCATED_ARRAY, (uint64_t)a, destroy_array); }
CUresult cuMipmappedArrayDestroy(CUmipmappedArray m) { return free_allocation(ALLOCATED_MIPMAP, (uint64_t)m, destroy_mipmap); }
