// A fake libnvidia-ml.so.1 for tests. It lists the devices in the reverse
// order, as NVML may.
#include "device.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NOT_SUPPORTED = 3 };

// STANDIN_NO_USE is set for a device without utilization samples, as in MIG
// mode. STANDIN_CROWD is the number of additional idle processes that it shows.
static bool no_use(void) { return getenv("STANDIN_NO_USE") != NULL; }

static int device_of(nvmlDevice_t d) { return DEVICES - (int)(uintptr_t)d; }

nvmlReturn_t nvmlInit_v2(void) { machine(); return 0; }
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t d, char *text, unsigned n)
{
	uint8_t u[16];
	uuid_of(device_of(d), u);
	snprintf(text, n, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9],
	         u[10], u[11], u[12], u[13], u[14], u[15]);
	return 0;
}
nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *d)
{
	char text[64];
	for (uintptr_t i = 1; i <= DEVICES; i++)
		if (nvmlDeviceGetUUID((nvmlDevice_t)i, text, sizeof text) == 0 && strcmp(text, uuid) == 0) {
			*d = (nvmlDevice_t)i;
			return 0;
		}
	return NVML_ERROR_NOT_FOUND;
}
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t d, nvmlMemory_t *m)
{
	machine_lock();
	*m = (nvmlMemory_t){.total = machine()->device[device_of(d)].total, .used = machine()->device[device_of(d)].used};
	m->free = m->total - m->used;
	machine_unlock();
	return 0;
}
// DRIVER is the version whose functions the library has, by default the newest.
#ifndef DRIVER
#define DRIVER 550
#endif
#if DRIVER < 510
#define nvmlDeviceGetComputeRunningProcesses_v3 nvmlDeviceGetComputeRunningProcesses_v2
#else
nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t d, nvmlMemory_v2_t *m)
{
	nvmlMemory_t one;
	nvmlDeviceGetMemoryInfo(d, &one);
	m->total = one.total, m->used = one.used, m->free = one.free, m->reserved = 0;
	return 0;
}
#endif
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t d, unsigned *n, nvmlProcessInfo_t *list)
{
	unsigned room = *n;
	*n = 0;
	machine_lock();
	for (int i = 0; i < PROCESSES && *n < room; i++) {
		const struct process *p = &machine()->process[i];
		if (p->pid && p->used[device_of(d)])
			list[(*n)++] = (nvmlProcessInfo_t){.pid = p->nvml_pid, .usedGpuMemory = p->used[device_of(d)]};
	}
	machine_unlock();
	return 0;
}

// Utilization is sampled every 100 ms of simulated time.
static uint64_t busy(const struct process *p, uint64_t from, uint64_t to)
{
	uint64_t ns = 0;
	for (uint64_t at = from / BUCKET_NS; at < to / BUCKET_NS; at++)
		if (p->bucket[at % BUCKETS].at == at)
			ns += p->bucket[at % BUCKETS].ns;
	return ns;
}
nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t d, nvmlProcessUtilizationSample_t *list, unsigned *n, unsigned long long since)
{
	unsigned room = *n, crowd = getenv("STANDIN_CROWD") ? (unsigned)atoi(getenv("STANDIN_CROWD")) : 0;
	*n = crowd;
	if (no_use())
		return NOT_SUPPORTED;
	if (room < crowd + PROCESSES / 8)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	*n = 0;
	machine_lock();
	device_tick();
	const struct machine *m = machine();
	uint64_t to = m->now_ns / 100000000 * 100000000, stamp = to / 1000 + EPOCH_US;
	uint64_t from = since > EPOCH_US ? (since - EPOCH_US) * 1000 : 0;
	from = to > from + 1000000000 ? to - 1000000000 : from;
	for (int i = 0; device_of(d) == 0 && stamp > since && to > from && i < PROCESSES && *n < room; i++) {
		const struct process *p = &m->process[i];
		uint64_t used = p->pid ? busy(p, from, to) : 0;
		if (used)
			list[(*n)++] = (nvmlProcessUtilizationSample_t){.pid = p->nvml_pid, .timeStamp = stamp, .smUtil = (unsigned)((used * 100 + (to - from) / 2) / (to - from))};
	}
	machine_unlock();
	for (unsigned i = 0; *n && i < crowd; i++)
		list[(*n)++] = (nvmlProcessUtilizationSample_t){.pid = 1, .timeStamp = stamp};
	return *n ? 0 : NVML_ERROR_NOT_FOUND;
}
nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t d, nvmlUtilization_t *u) { (void)d; *u = (nvmlUtilization_t){100, 0}; return no_use() ? NOT_SUPPORTED : 0; }
