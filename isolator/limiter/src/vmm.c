// Virtual memory management. Physical memory is a handle that lives while it is
// referenced, mapped or bound. The size of an imported handle is not known, so
// it is charged when it is mapped, if its device is in the limits file. Memory
// of other devices belongs to another container.
#include "limiter.h"
#include <stdlib.h>

CUresult cuMemCreate(CUmemGenericAllocationHandle *h, size_t size, const CUmemAllocationProp *prop, unsigned long long flags)
{
	if (!prop || prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return REAL(cuMemCreate)(h, size, prop, flags); // host memory
	struct charge c = {0};
	int index = device_index(prop->location.id);
	CUresult r = index < 0 ? device_error(prop->location.id) : CUDA_SUCCESS;
	if (r == CUDA_SUCCESS)
		r = charge_device(&c, index, size);
	if (r != CUDA_SUCCESS)
		return r;
	r = REAL(cuMemCreate)(h, size, prop, flags);
	if (r == CUDA_SUCCESS)
		allocation_add((struct allocation){.kind = ALLOCATED_HANDLE, .key = *h, .device = c.device, .bytes = size, .uses[HANDLE_REFERENCE] = 1});
	else
		usage_release(c.device, size);
	return r;
}

static const size_t max_tile_bytes = 2 << 20; // maximum size of a tile of a sparse array

static void add_uses(struct allocation *h, uint64_t use) { h->uses[use]++; }

static bool add_use(CUmemGenericAllocationHandle handle, enum handle_use use)
{
	return allocation_update(ALLOCATED_HANDLE, handle, add_uses, use);
}

static void finish_drop(struct allocation *h, enum handle_use use, bool dropped)
{
	struct allocation unused;
	if (h && handle_finish_drop(h, use, dropped, &unused))
		usage_release(unused.device, unused.bytes);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle h)
{
	struct allocation *known = handle_begin_drop(h, HANDLE_REFERENCE);
	CUresult r = REAL(cuMemRelease)(h);
	finish_drop(known, HANDLE_REFERENCE, r == CUDA_SUCCESS);
	return r;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *h, void *address)
{
	CUresult r = REAL(cuMemRetainAllocationHandle)(h, address);
	if (r == CUDA_SUCCESS)
		add_use(*h, HANDLE_REFERENCE);
	return r;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *h, void *from, int type)
{
	CUmemAllocationProp prop;
	CUresult r = REAL(cuMemImportFromShareableHandle)(h, from, type);
	if (r != CUDA_SUCCESS || add_use(*h, HANDLE_REFERENCE) || REAL(cuMemGetAllocationPropertiesFromHandle)(&prop, *h) != CUDA_SUCCESS)
		return r;
	int device = prop.location.type == CU_MEM_LOCATION_TYPE_DEVICE ? device_index(prop.location.id) : -1;
	if (device >= 0)
		allocation_add((struct allocation){.kind = ALLOCATED_HANDLE, .key = *h, .device = device, .uses[HANDLE_REFERENCE] = 1, .imported = true});
	return r;
}

static struct lock import_lock;

static void set_bytes(struct allocation *h, uint64_t size) { h->bytes = size; }

// charge_import charges an imported handle for at least size bytes.
static CUresult charge_import(CUmemGenericAllocationHandle handle, uint64_t size)
{
	struct allocation h;
	struct charge c;
	CUresult r = CUDA_SUCCESS;
	lock_acquire(&import_lock);
	if (allocation_find(ALLOCATED_HANDLE, handle, &h) && h.imported && size > h.bytes) {
		r = charge_device(&c, h.device, size - h.bytes);
		if (r == CUDA_SUCCESS)
			allocation_update(ALLOCATED_HANDLE, handle, set_bytes, size);
	}
	lock_release(&import_lock);
	return r;
}

static void imports_after_fork(void) { atomic_store(&import_lock.word, 0); }
AFTER_FORK(imports_after_fork)

CUresult cuMemMap(CUdeviceptr p, size_t size, size_t offset, CUmemGenericAllocationHandle h, unsigned long long flags)
{
	CUresult r = charge_import(h, offset + size);
	if (r != CUDA_SUCCESS || (r = REAL(cuMemMap)(p, size, offset, h, flags)) != CUDA_SUCCESS)
		return r;
	add_use(h, HANDLE_MAPPING);
	allocation_add((struct allocation){.kind = ALLOCATED_MAPPING, .key = p, .handle = h, .size = size});
	return r;
}

// begin_unmap takes the mapping or binding out of the index before the driver's
// call, because the driver may free its address or key and reuse it before the call
// returns. It returns NULL if neither was recorded.
static struct allocation *begin_unmap(enum allocation_kind kind, uint64_t key)
{
	struct allocation *mapping = allocation_take(kind, key);
	if (mapping)
		mapping->dropping_handle = handle_begin_drop(mapping->handle, HANDLE_MAPPING);
	return mapping;
}

static void finish_unmap(struct allocation *mapping, bool dropped)
{
	if (!mapping)
		return;
	finish_drop(mapping->dropping_handle, HANDLE_MAPPING, dropped);
	if (dropped)
		free(mapping);
	else
		allocation_put(mapping);
}

// One call may unmap several complete adjacent mappings.
CUresult cuMemUnmap(CUdeviceptr p, size_t size)
{
	struct allocation *list = NULL, *mapping;
	for (CUdeviceptr at = p, end = p + size; at < end && (mapping = begin_unmap(ALLOCATED_MAPPING, at)); at += mapping->size) {
		mapping->next = list;
		list = mapping;
	}
	CUresult r = REAL(cuMemUnmap)(p, size);
	while ((mapping = list)) {
		list = mapping->next;
		finish_unmap(mapping, r == CUDA_SUCCESS);
	}
	return r;
}

// Mappings into a sparse array are not tracked: the handle stays charged until
// the process ends.
static CUresult map_array(CUarrayMapInfo *list, unsigned n, CUstream s, __typeof__(&cuMemMapArrayAsync) call)
{
	CUresult r = CUDA_SUCCESS;
	for (unsigned i = 0; i < n && r == CUDA_SUCCESS; i++)
		if (list[i].memOperationType == CU_MEM_OPERATION_TYPE_MAP)
			r = charge_import(list[i].memHandle, list[i].offset + max_tile_bytes);
	if (r != CUDA_SUCCESS || (r = call(list, n, s)) != CUDA_SUCCESS)
		return r;
	for (unsigned i = 0; i < n; i++)
		if (list[i].memOperationType == CU_MEM_OPERATION_TYPE_MAP)
			add_use(list[i].memHandle, HANDLE_MAPPING);
	return r;
}

CUresult cuMemMapArrayAsync(CUarrayMapInfo *l, unsigned n, CUstream s) { return map_array(l, n, s, REAL(cuMemMapArrayAsync)); }
CUresult cuMemMapArrayAsync_ptsz(CUarrayMapInfo *l, unsigned n, CUstream s) { return map_array(l, n, s, REAL(cuMemMapArrayAsync_ptsz)); }

// A binding is identified by multicast object, offset and device.
static uint64_t binding_key(CUmemGenericAllocationHandle multicast, size_t at, int device)
{
	return (multicast * 0x9e3779b97f4a7c15ull ^ at) * 0x9e3779b97f4a7c15ull ^ (uint64_t)device;
}

static void record_binding(CUmemGenericAllocationHandle multicast, size_t at, CUmemGenericAllocationHandle handle)
{
	struct allocation h;
	if (!allocation_find(ALLOCATED_HANDLE, handle, &h))
		return;
	add_use(handle, HANDLE_MAPPING);
	allocation_add((struct allocation){.kind = ALLOCATED_BINDING, .key = binding_key(multicast, at, h.device), .handle = handle});
}

CUresult cuMulticastBindMem(CUmemGenericAllocationHandle m, size_t at, CUmemGenericAllocationHandle h, size_t offset, size_t size, unsigned long long flags)
{
	CUresult r = charge_import(h, offset + size);
	if (r == CUDA_SUCCESS && (r = REAL(cuMulticastBindMem)(m, at, h, offset, size, flags)) == CUDA_SUCCESS)
		record_binding(m, at, h);
	return r;
}

CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle m, size_t at, CUdeviceptr p, size_t size, unsigned long long flags)
{
	struct allocation mapping;
	CUresult r = REAL(cuMulticastBindAddr)(m, at, p, size, flags);
	if (r == CUDA_SUCCESS && allocation_find(ALLOCATED_MAPPING, p, &mapping))
		record_binding(m, at, mapping.handle);
	return r;
}

CUresult cuMulticastUnbind(CUmemGenericAllocationHandle m, CUdevice device, size_t at, size_t size)
{
	struct allocation *binding = begin_unmap(ALLOCATED_BINDING, binding_key(m, at, device_index(device)));
	CUresult r = REAL(cuMulticastUnbind)(m, device, at, size);
	finish_unmap(binding, r == CUDA_SUCCESS);
	return r;
}
