// Virtual memory management: physical memory is a handle, which lives as long
// as somebody holds it or has it mapped. Handles imported from elsewhere are
// charged where they were made.
#include "limiter.h"

CUresult cuMemCreate(CUmemGenericAllocationHandle *h, size_t size, const CUmemAllocationProp *prop, unsigned long long flags)
{
	if (!prop || prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return REAL(cuMemCreate)(h, size, prop, flags); // the host's memory
	struct charge c = {0};
	CUresult r = charge_on(&c, device_index(prop->location.id), size);
	if (r != CUDA_SUCCESS)
		return r;
	r = REAL(cuMemCreate)(h, size, prop, flags);
	if (r == CUDA_SUCCESS)
		held_put((struct held){.kind = HELD_HANDLE, .key = *h, .device = c.device, .bytes = size, .refs = 1});
	else
		books_release(c.device, size);
	return r;
}

static void one_more(struct held *h) { h->refs++; }
static void one_less(struct held *h) { h->refs -= h->refs > 0; }
static void map_more(struct held *h) { h->maps++; }
static void map_less(struct held *h) { h->maps -= h->maps > 0; }

static bool unreferenced(const struct held *h, const void *handle)
{
	return h->kind == HELD_HANDLE && h->key == *(const CUmemGenericAllocationHandle *)handle && h->refs == 0 && h->maps == 0;
}

static void drop_if_last(CUmemGenericAllocationHandle handle)
{
	struct held h;
	if (held_take_if(unreferenced, &handle, &h))
		books_release(h.device, h.bytes);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle h)
{
	CUresult r = REAL(cuMemRelease)(h);
	if (r == CUDA_SUCCESS && held_edit(HELD_HANDLE, h, one_less))
		drop_if_last(h);
	return r;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *h, void *address)
{
	CUresult r = REAL(cuMemRetainAllocationHandle)(h, address);
	if (r == CUDA_SUCCESS)
		held_edit(HELD_HANDLE, *h, one_more);
	return r;
}

CUresult cuMemMap(CUdeviceptr p, size_t size, size_t offset, CUmemGenericAllocationHandle h, unsigned long long flags)
{
	CUresult r = REAL(cuMemMap)(p, size, offset, h, flags);
	if (r == CUDA_SUCCESS && held_edit(HELD_HANDLE, h, map_more))
		held_put((struct held){.kind = HELD_MAPPING, .key = p, .bytes = h});
	return r;
}

struct range { CUdeviceptr from; size_t size; };

static bool mapped_in(const struct held *h, const void *range)
{
	const struct range *r = range;
	return h->kind == HELD_MAPPING && h->key - r->from < r->size;
}

// One call may unmap several mappings, whole ones.
CUresult cuMemUnmap(CUdeviceptr p, size_t size)
{
	struct held mapping;
	CUresult r = REAL(cuMemUnmap)(p, size);
	while (r == CUDA_SUCCESS && held_take_if(mapped_in, &(struct range){p, size}, &mapping)) {
		held_edit(HELD_HANDLE, mapping.bytes, map_less);
		drop_if_last(mapping.bytes);
	}
	return r;
}
