// Memory figures for programs: the total is the limit, and the used memory is
// what the container uses. Free and used always add up to the total.
#include "limiter.h"
#include <string.h>

struct memory_info { uint64_t total, used; };

static bool read_memory_info(int device, struct memory_info *v)
{
	const struct limits *l = limits_get();
	if (!l || device < 0)
		return false;
	v->total = l->device[device].memory;
	if (!usage_total(device, &v->used) || v->used > v->total)
		v->used = v->total;
	return true;
}

CUresult cuMemGetInfo_v2(size_t *free, size_t *total)
{
	struct memory_info v = {0};
	int device;
	CUresult r = REAL(cuMemGetInfo_v2)(free, total);
	if (r != CUDA_SUCCESS || (r = device_current(&device, NULL)) != CUDA_SUCCESS)
		return r;
	pools_update_charges();
	read_memory_info(device, &v); // all zero without limits
	*free = v.total - v.used;
	*total = v.total;
	return r;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice d)
{
	struct memory_info v = {0};
	CUresult r = REAL(cuDeviceTotalMem_v2)(bytes, d);
	if (r == CUDA_SUCCESS) {
		read_memory_info(device_index(d), &v);
		*bytes = v.total;
	}
	return r;
}

// For a device that is not in the limits file NVML's own figures are returned.
static bool read_nvml_memory_info(nvmlDevice_t d, struct memory_info *v)
{
	char text[96] = "";
	uint8_t uuid[16];
	return REAL(nvmlDeviceGetUUID)(d, text, sizeof text) == NVML_SUCCESS && uuid_parse(text, uuid) && read_memory_info(limits_find(uuid), v);
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t d, nvmlMemory_t *m)
{
	struct memory_info v;
	nvmlReturn_t r = REAL(nvmlDeviceGetMemoryInfo)(d, m);
	if (r == NVML_SUCCESS && read_nvml_memory_info(d, &v))
		*m = (nvmlMemory_t){.total = v.total, .used = v.used, .free = v.total - v.used};
	return r;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t d, nvmlMemory_v2_t *m)
{
	struct memory_info v;
	nvmlReturn_t r = REAL(nvmlDeviceGetMemoryInfo_v2)(d, m);
	if (r == NVML_SUCCESS && read_nvml_memory_info(d, &v))
		*m = (nvmlMemory_v2_t){.version = m->version, .total = v.total, .used = v.used, .free = v.total - v.used};
	return r;
}
