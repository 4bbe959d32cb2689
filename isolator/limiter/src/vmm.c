// Virtual memory management. Physical memory is a handle that lives while it is
// referenced, mapped or bound. The size of an imported handle is not known, so
// it is charged when it is mapped, if its device is in the limits file. Memory
// of other devices belongs to another container.
#include "limiter.h"

CUresult cuMemCreate(CUmemGenericAllocationHandle *h, size_t size, const CUmemAllocationProp *prop, unsigned long long flags)
{
	if (!prop || prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return REAL(cuMemCreate)(h, size, prop, flags); // host memory
	struct charge c = {0};
	CUresult r = charge_device(&c, device_index(prop->location.id), size);
	if (r != CUDA_SUCCESS)
		return r;
	r = REAL(cuMemCreate)(h, size, prop, flags);
	if (r == CUDA_SUCCESS)
		allocation_add((struct allocation){.kind = ALLOCATED_HANDLE, .key = *h, .device = c.device, .bytes = size, .refs = 1});
	else
		usage_release(c.device, size);
	return r;
}

static const size_t max_tile_bytes = 2 << 20; // maximum size of a tile of a sparse array

static void add_reference(struct allocation *h, uint64_t n) { h->refs += n; }
static void remove_reference(struct allocation *h, uint64_t n) { h->refs -= h->refs > 0 ? n : 0; }
static void add_mapping(struct allocation *h, uint64_t n) { h->maps += n; }
static void remove_mapping(struct allocation *h, uint64_t n) { h->maps -= h->maps > 0 ? n : 0; }

static bool is_unreferenced(const struct allocation *h) { return h->refs == 0 && h->maps == 0; }

static void release_if_unused(CUmemGenericAllocationHandle handle)
{
	struct allocation h;
	if (allocation_remove_if(ALLOCATED_HANDLE, handle, is_unreferenced, &h))
		usage_release(h.device, h.bytes);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle h)
{
	CUresult r = REAL(cuMemRelease)(h);
	if (r == CUDA_SUCCESS && allocation_update(ALLOCATED_HANDLE, h, remove_reference, 1))
		release_if_unused(h);
	return r;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *h, void *address)
{
	CUresult r = REAL(cuMemRetainAllocationHandle)(h, address);
	if (r == CUDA_SUCCESS)
		allocation_update(ALLOCATED_HANDLE, *h, add_reference, 1);
	return r;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *h, void *from, int type)
{
	CUmemAllocationProp prop;
	CUresult r = REAL(cuMemImportFromShareableHandle)(h, from, type);
	if (r != CUDA_SUCCESS || allocation_update(ALLOCATED_HANDLE, *h, add_reference, 1) || REAL(cuMemGetAllocationPropertiesFromHandle)(&prop, *h) != CUDA_SUCCESS)
		return r;
	int device = prop.location.type == CU_MEM_LOCATION_TYPE_DEVICE ? device_index(prop.location.id) : -1;
	if (device >= 0)
		allocation_add((struct allocation){.kind = ALLOCATED_HANDLE, .key = *h, .device = device, .refs = 1, .imported = true});
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
	allocation_update(ALLOCATED_HANDLE, h, add_mapping, 1);
	allocation_add((struct allocation){.kind = ALLOCATED_MAPPING, .key = p, .handle = h, .size = size});
	return r;
}

static bool end_mapping(enum allocation_kind kind, uint64_t key, struct allocation *use)
{
	if (!allocation_remove(kind, key, use))
		return false;
	if (allocation_update(ALLOCATED_HANDLE, use->handle, remove_mapping, 1))
		release_if_unused(use->handle);
	return true;
}

// One call may unmap several complete adjacent mappings.
CUresult cuMemUnmap(CUdeviceptr p, size_t size)
{
	struct allocation mapping;
	CUresult r = REAL(cuMemUnmap)(p, size);
	for (CUdeviceptr end = p + size; r == CUDA_SUCCESS && p < end && end_mapping(ALLOCATED_MAPPING, p, &mapping);)
		p += mapping.size;
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
			allocation_update(ALLOCATED_HANDLE, list[i].memHandle, add_mapping, 1);
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
	allocation_update(ALLOCATED_HANDLE, handle, add_mapping, 1);
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
	struct allocation use;
	CUresult r = REAL(cuMulticastUnbind)(m, device, at, size);
	if (r == CUDA_SUCCESS)
		end_mapping(ALLOCATED_BINDING, binding_key(m, at, device_index(device)), &use);
	return r;
}
