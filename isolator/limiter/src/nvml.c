// NVML handles and measurements for devices of the limits file.
#include "limiter.h"
#include <stdio.h>

static struct lock nvml_lock;
static bool nvml_started;
static nvmlDevice_t nvml_handles[MAX_DEVICES];

static void format_uuid(const uint8_t u[16], const char *prefix, char text[41])
{
	snprintf(text, 41, "%s%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", prefix, u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7],
	         u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
}

static nvmlDevice_t find_nvml_device(int index)
{
	char text[41];
	nvmlDevice_t device = NULL;
	const struct limits *l = limits_get();
	if (!nvml_started && REAL(nvmlInit_v2)() == NVML_SUCCESS)
		nvml_started = true;
	if (!nvml_started || !l)
		return NULL;
	format_uuid(l->device[index].uuid, "GPU-", text);
	if (REAL(nvmlDeviceGetHandleByUUID)(text, &device) == NVML_SUCCESS)
		return device;
	format_uuid(l->device[index].uuid, "MIG-", text);
	return REAL(nvmlDeviceGetHandleByUUID)(text, &device) == NVML_SUCCESS ? device : NULL;
}

// nvml_device returns NULL if NVML or the device is not available.
nvmlDevice_t nvml_device(int index)
{
	driver_load();
	lock_acquire(&nvml_lock);
	if (!nvml_handles[index])
		nvml_handles[index] = find_nvml_device(index);
	nvmlDevice_t device = nvml_handles[index];
	lock_release(&nvml_lock);
	return device;
}

bool nvml_used(int index, uint64_t *bytes)
{
	nvmlMemory_t m;
	nvmlDevice_t device = nvml_device(index);
	if (!device || REAL(nvmlDeviceGetMemoryInfo)(device, &m) != NVML_SUCCESS)
		return false;
	*bytes = m.used;
	return true;
}

bool nvml_processes(int index, struct nvml_processes *p)
{
	nvmlDevice_t device = nvml_device(index);
	const unsigned max = sizeof p->list / sizeof p->list[0];
	p->count = max;
	nvmlReturn_t r = device ? REAL(nvmlDeviceGetComputeRunningProcesses_v3)(device, &p->count, p->list) : NVML_ERROR_FUNCTION_NOT_FOUND;
	if (device && r == NVML_ERROR_FUNCTION_NOT_FOUND) {
		p->count = max;
		r = REAL(nvmlDeviceGetComputeRunningProcesses_v2)(device, &p->count, p->list);
	}
	if (r != NVML_SUCCESS)
		p->count = 0;
	return r == NVML_SUCCESS;
}

const nvmlProcessInfo_t *nvml_find_process(const struct nvml_processes *p, unsigned pid)
{
	for (unsigned i = 0; i < p->count; i++)
		if (p->list[i].pid == pid)
			return &p->list[i];
	return NULL;
}

static void nvml_after_fork(void) { atomic_store(&nvml_lock.word, 0); }
AFTER_FORK(nvml_after_fork)
