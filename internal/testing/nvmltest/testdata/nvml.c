/*
 * A fake NVIDIA management library with the functions that this project and
 * Mesos's own isolator call. state.h describes its state.
 * DRIVER_390 and DRIVER_470 omit functions that drivers of that version lack.
 */
#include "state.h"
#include <time.h>

struct pci_info {
	char bus_id_legacy[16];
	unsigned domain, bus, device, device_id, subsystem_id;
	char bus_id[32];
};

struct memory {
	unsigned long long total, free, used;
};

struct process {
	unsigned pid;
	unsigned long long bytes;
};

struct field_value {
	unsigned field, scope;
	long long timestamp, latency;
	unsigned type, ret;
	unsigned long long number;
};

struct event_data {
	struct device *device;
	unsigned long long type, data;
	unsigned gi, ci;
};

struct event_set {
	unsigned long long types[MAX_DEVICES];
};

int nvmlInit_v2(void)
{
	pthread_mutex_lock(&mutex);
	const char *name = getenv("MESOS_GPU_NVML_STANDIN");
	if (!name || copy(path, sizeof path, name) != SUCCESS)
		return leave(DRIVER_NOT_LOADED);
	int ret = refresh();
	struct rule *fail = matching(state.fails, state.nfails, "nvmlInit_v2", -1);
	if (ret == SUCCESS && fail)
		ret = fail->ret;
	if (ret == SUCCESS && users == 0)
		memset(given_up, 0, sizeof given_up);
	if (ret == SUCCESS && users++ == 0)
		for (int i = 0; i < state.nevents; i++)
			delivered = state.events[i].number;
	return leave(ret);
}

int nvmlShutdown(void)
{
	int ret = enter("nvmlShutdown", -1);
	if (users > 0)
		users--;
	return leave(ret);
}

const char *nvmlErrorString(int ret)
{
	switch (ret) {
	case SUCCESS: return "Success";
	case UNINITIALIZED: return "Uninitialized";
	case INVALID_ARGUMENT: return "Invalid Argument";
	case NOT_SUPPORTED: return "Not Supported";
	case DRIVER_NOT_LOADED: return "Driver Not Loaded";
	case GPU_IS_LOST: return "GPU is lost";
	case IN_USE: return "In use by another client";
	case INSUFFICIENT_RESOURCES: return "Insufficient Resources";
	default: return "Stand-in error";
	}
}

int nvmlSystemGetDriverVersion(char *version, unsigned size)
{
	int ret = enter("nvmlSystemGetDriverVersion", -1);
	return leave(ret ? ret : copy(version, size, state.driver));
}

#ifndef WITHOUT_CUDA
int nvmlSystemGetCudaDriverVersion(int *version)
{
	int ret = enter("nvmlSystemGetCudaDriverVersion", -1);
	*version = state.cuda;
	return leave(ret);
}
#endif

int nvmlDeviceGetCount_v2(unsigned *count)
{
	int ret = enter("nvmlDeviceGetCount_v2", -1);
	*count = (unsigned)state.gpus;
	return leave(ret);
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct device **d)
{
	*d = &state.devices[index < MAX_DEVICES ? index : MAX_DEVICES - 1];
	int ret = enter_device("nvmlDeviceGetHandleByIndex_v2", *d);
	return leave(ret == SUCCESS && (*d)->parent >= 0 ? INVALID_ARGUMENT : ret);
}

int nvmlDeviceGetHandleByUUID(const char *uuid, struct device **d)
{
	int ret = enter("nvmlDeviceGetHandleByUUID", -1);
	*d = NULL;
	for (int i = 0; i < state.count; i++)
		if (strcmp(state.devices[i].uuid, uuid) == 0)
			*d = &state.devices[i];
	return leave(ret ? ret : *d ? SUCCESS : NOT_FOUND);
}

/* The first version's names, which Mesos's own isolator looks up. */
int nvmlDeviceGetCount(unsigned *count)
{
	return nvmlDeviceGetCount_v2(count);
}

int nvmlDeviceGetHandleByIndex(unsigned index, struct device **d)
{
	return nvmlDeviceGetHandleByIndex_v2(index, d);
}

int nvmlDeviceGetUUID(struct device *d, char *uuid, unsigned size)
{
	int ret = enter_device("nvmlDeviceGetUUID", d);
	return leave(ret ? ret : copy(uuid, size, d->uuid));
}

int nvmlDeviceGetName(struct device *d, char *name, unsigned size)
{
	int ret = enter_device("nvmlDeviceGetName", d);
	return leave(ret ? ret : copy(name, size, d->name));
}

int nvmlDeviceGetMinorNumber(struct device *d, unsigned *minor)
{
	int ret = enter_device("nvmlDeviceGetMinorNumber", d);
	*minor = d->minor;
	return leave(ret);
}

int nvmlDeviceGetMemoryInfo(struct device *d, struct memory *m)
{
	int ret = enter_device("nvmlDeviceGetMemoryInfo", d);
	if (ret != SUCCESS)
		return leave(ret);
	m->total = d->mib << 20;
	m->used = 0;
	value(d, "mem_used_bytes", &m->used);
	m->free = m->total - m->used;
	return leave(SUCCESS);
}

#ifndef DRIVER_390
int nvmlDeviceGetCudaComputeCapability(struct device *d, int *major, int *minor)
{
	unsigned long long number = 0;
	int ret = enter_device("nvmlDeviceGetCudaComputeCapability", d);
	if (ret == SUCCESS)
		ret = value(d, "arch", &number);
	*major = (int)(number / 10);
	*minor = (int)(number % 10);
	return leave(ret);
}
#endif

static void fill_pci(struct pci_info *pci, unsigned domain, unsigned bus, unsigned device)
{
	memset(pci, 0, sizeof *pci);
	pci->domain = domain;
	pci->bus = bus;
	pci->device = device;
	snprintf(pci->bus_id, sizeof pci->bus_id, "%08X:%02X:%02X.0", domain, bus, device);
}

int nvmlDeviceGetPciInfo_v3(struct device *d, struct pci_info *pci)
{
	int ret = enter_device("nvmlDeviceGetPciInfo_v3", d);
	fill_pci(pci, d->domain, d->bus, d->device);
	return leave(ret);
}

/* Defines a function that returns one value of a device. */
#define REPORTS(function, name, type)                                \
	int function(struct device *d, type *out)                    \
	{                                                            \
		unsigned long long number = 0;                       \
		int ret = enter_device(#function, d);                \
		if (ret == SUCCESS)                                  \
			ret = value(d, name, &number);               \
		*out = (type)number;                                 \
		return leave(ret);                                   \
	}

REPORTS(nvmlDeviceGetPersistenceMode, "persistence", unsigned)
REPORTS(nvmlDeviceGetBrand, "brand", unsigned)
REPORTS(nvmlDeviceGetPowerUsage, "power_watts", unsigned)
REPORTS(nvmlDeviceGetEnforcedPowerLimit, "power_limit_watts", unsigned)
REPORTS(nvmlDeviceGetTotalEnergyConsumption, "energy_joules", unsigned long long)
REPORTS(nvmlDeviceGetCurrentClocksThrottleReasons, "throttle_bits", unsigned long long)

/* Defines a function that returns one of two values, selected by kind. */
#define TELLS_EITHER(function, zero, first, second, type)                                         \
	int function(struct device *d, unsigned kind, type *out)                                  \
	{                                                                                         \
		unsigned long long number = 0;                                                    \
		int ret = enter_device(#function, d);                                             \
		if (ret == SUCCESS)                                                               \
			ret = value(d, kind == (zero) ? (first) : (second), &number);             \
		*out = (type)number;                                                              \
		return leave(ret);                                                                \
	}

TELLS_EITHER(nvmlDeviceGetClockInfo, 1, "sm_clock_hertz", "mem_clock_hertz", unsigned)
TELLS_EITHER(nvmlDeviceGetTemperature, 0, "celsius", "", unsigned)
TELLS_EITHER(nvmlDeviceGetPcieThroughput, 0, "pcie_tx_bytes_per_second", "pcie_rx_bytes_per_second", unsigned)

int nvmlDeviceGetTotalEccErrors(struct device *d, unsigned kind, unsigned counter, unsigned long long *count)
{
	int ret = enter_device("nvmlDeviceGetTotalEccErrors", d);
	if (ret == SUCCESS)
		ret = counter == 0 ? value(d, kind == 0 ? "ecc_corrected" : "ecc_uncorrected", count) : INVALID_ARGUMENT;
	return leave(ret);
}

int nvmlDeviceGetUtilizationRates(struct device *d, unsigned rates[2])
{
	unsigned long long gpu = 0, memory = 0;
	int ret = enter_device("nvmlDeviceGetUtilizationRates", d);
	if (ret == SUCCESS)
		ret = value(d, "duty_ratio", &gpu);
	if (ret == SUCCESS)
		value(d, "mem_duty_ratio", &memory);
	rates[0] = (unsigned)gpu;
	rates[1] = (unsigned)memory;
	return leave(ret);
}

int nvmlDeviceGetNvLinkState(struct device *d, unsigned link, unsigned *active)
{
	int ret = enter_device("nvmlDeviceGetNvLinkState", d);
	if (ret == SUCCESS && d->nlinks == 0)
		ret = NOT_SUPPORTED;
	if (ret == SUCCESS && link >= (unsigned)d->nlinks)
		ret = INVALID_ARGUMENT;
	if (ret == SUCCESS)
		*active = d->links[link] != INACTIVE;
	return leave(ret);
}

/* The NVSwitches have the PCI addresses from 0000:c4:00.0, one per link number. */
static int remote_pci(const char *function, struct device *d, unsigned link, struct pci_info *pci)
{
	int ret = enter_device(function, d);
	if (ret == SUCCESS && (link >= (unsigned)d->nlinks || d->links[link] == INACTIVE))
		ret = INVALID_ARGUMENT;
	if (ret != SUCCESS)
		return leave(ret);
	if (d->links[link] == TO_SWITCH) {
		fill_pci(pci, 0, 0xc4 + link, 0);
		return leave(SUCCESS);
	}
	struct device *remote = &state.devices[d->links[link]];
	fill_pci(pci, remote->domain, remote->bus, remote->device);
	return leave(SUCCESS);
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(struct device *d, unsigned link, struct pci_info *pci)
{
	return remote_pci("nvmlDeviceGetNvLinkRemotePciInfo_v2", d, link, pci);
}

int nvmlDeviceGetTopologyCommonAncestor(struct device *a, struct device *b, unsigned *level)
{
	int ret = enter_device("nvmlDeviceGetTopologyCommonAncestor", a);
	*level = state.paths[a - state.devices][b - state.devices];
	return leave(ret == SUCCESS && *level == UNKNOWN_PATH ? NOT_SUPPORTED : ret);
}

static int processes(const char *function, struct device *d, int graphics, unsigned *count, char *out, size_t stride)
{
	unsigned found = 0;
	int ret = enter_device(function, d);
	for (int i = 0; ret == SUCCESS && i < state.nprocesses; i++) {
		if (&state.devices[state.processes[i].index] != d || state.processes[i].graphics != graphics)
			continue;
		if (found < *count) {
			struct process *p = (struct process *)(out + found * stride);
			p->pid = state.processes[i].pid;
			p->bytes = state.processes[i].bytes;
		}
		found++;
	}
	if (ret == SUCCESS && found > *count)
		ret = TOO_SMALL;
	*count = found;
	return leave(ret);
}

int nvmlDeviceGetComputeRunningProcesses(struct device *d, unsigned *count, struct process *out)
{
	return processes("nvmlDeviceGetComputeRunningProcesses", d, 0, count, (char *)out, sizeof *out);
}

int nvmlDeviceGetGraphicsRunningProcesses(struct device *d, unsigned *count, struct process *out)
{
	return processes("nvmlDeviceGetGraphicsRunningProcesses", d, 1, count, (char *)out, sizeof *out);
}

int nvmlDeviceGetSupportedEventTypes(struct device *d, unsigned long long *types)
{
	int ret = enter_device("nvmlDeviceGetSupportedEventTypes", d);
	*types = 1 | 2 | 8;
	return leave(ret);
}

int nvmlEventSetCreate(struct event_set **set)
{
	int ret = enter("nvmlEventSetCreate", -1);
	if (ret == SUCCESS)
		*set = calloc(1, sizeof **set);
	return leave(ret);
}

int nvmlEventSetFree(struct event_set *set)
{
	free(set);
	return SUCCESS;
}

int nvmlDeviceRegisterEvents(struct device *d, unsigned long long types, struct event_set *set)
{
	int ret = enter_device("nvmlDeviceRegisterEvents", d);
	if (ret == SUCCESS)
		set->types[d - state.devices] |= types;
	return leave(ret);
}

static int next_event(struct event_set *set, struct event_data *out)
{
	for (int i = 0; i < state.nevents; i++) {
		struct event *e = &state.events[i];
		if (e->number <= delivered)
			continue;
		delivered = e->number;
		if (e->index >= 0 && !(set->types[e->index] & e->type))
			continue;
		out->device = e->index >= 0 ? &state.devices[e->index] : NULL;
		out->type = e->type;
		out->data = e->data;
		out->gi = e->gi;
		out->ci = e->ci;
		return SUCCESS;
	}
	return TIMEOUT;
}

static int wait_event(const char *function, struct event_set *set, struct event_data *out, unsigned milliseconds)
{
	for (;; milliseconds--) {
		int ret = enter(function, -1);
		if (ret == SUCCESS)
			ret = next_event(set, out);
		leave(ret);
		if (ret != TIMEOUT || milliseconds == 0)
			return ret;
		usleep(1000);
	}
}

int nvmlEventSetWait(struct event_set *set, struct event_data *out, unsigned milliseconds)
{
	return wait_event("nvmlEventSetWait", set, out, milliseconds);
}

#ifndef DRIVER_390

int nvmlEventSetWait_v2(struct event_set *set, struct event_data *out, unsigned milliseconds)
{
	return wait_event("nvmlEventSetWait_v2", set, out, milliseconds);
}

#ifndef DRIVER_470
REPORTS(nvmlDeviceGetCurrentClocksEventReasons, "throttle_bits", unsigned long long)
#endif

int nvmlDeviceGetNvLinkRemoteDeviceType(struct device *d, unsigned link, unsigned *type)
{
	int ret = enter_device("nvmlDeviceGetNvLinkRemoteDeviceType", d);
	if (ret == SUCCESS && link >= (unsigned)d->nlinks)
		ret = INVALID_ARGUMENT;
	if (ret == SUCCESS)
		*type = d->links[link] == TO_SWITCH ? 2 : 0;
	return leave(ret);
}

struct process_v3 {
	struct process process;
	unsigned gi, ci;
};

int nvmlDeviceGetComputeRunningProcesses_v3(struct device *d, unsigned *count, struct process_v3 *out)
{
	return processes("nvmlDeviceGetComputeRunningProcesses_v3", d, 0, count, (char *)out, sizeof *out);
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(struct device *d, unsigned *count, struct process_v3 *out)
{
	return processes("nvmlDeviceGetGraphicsRunningProcesses_v3", d, 1, count, (char *)out, sizeof *out);
}

int nvmlDeviceGetRemappedRows(struct device *d, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed)
{
	unsigned long long number = 0, failures = 0;
	int ret = enter_device("nvmlDeviceGetRemappedRows", d);
	if (ret == SUCCESS)
		ret = value(d, "rows_pending", &number);
	if (ret == SUCCESS)
		value(d, "rows_failed", &failures);
	*corrected = *uncorrected = 0;
	*pending = (unsigned)number;
	*failed = (unsigned)failures;
	return leave(ret);
}

struct fabric_info {
	unsigned char cluster[16];
	int status;
	unsigned clique;
	unsigned char state;
};

#ifndef DRIVER_470
int nvmlDeviceGetGpuFabricInfo(struct device *d, struct fabric_info *out)
{
	unsigned long long number = 0, status = 0;
	int ret = enter_device("nvmlDeviceGetGpuFabricInfo", d);
	if (ret == SUCCESS)
		ret = value(d, "fabric_state", &number);
	if (ret == SUCCESS)
		value(d, "fabric_status", &status);
	out->state = (unsigned char)number;
	out->status = (int)status;
	return leave(ret);
}
#endif

int nvmlDeviceGetFieldValues(struct device *d, int count, struct field_value *values)
{
	int ret = enter_device("nvmlDeviceGetFieldValues", d);
	for (int i = 0; ret == SUCCESS && i < count; i++) {
		const char *name = values[i].field == 138 ? "nvlink_tx_bytes" : values[i].field == 139 ? "nvlink_rx_bytes" : "";
		unsigned scope = ~0u;
		if (values[i].field == 230) {
			name = "recovery_action";
			scope = 0;
		}
		values[i].type = 3;
		values[i].ret = values[i].scope == scope ? (unsigned)value(d, name, &values[i].number) : INVALID_ARGUMENT;
	}
	return leave(ret);
}

int nvmlDeviceGetMigMode(struct device *d, unsigned *current, unsigned *pending)
{
	unsigned long long mode = 0;
	int ret = enter_device("nvmlDeviceGetMigMode", d);
	if (ret == SUCCESS)
		ret = value(d, "mig", &mode);
	*current = *pending = (unsigned)mode;
	return leave(ret);
}

int nvmlDeviceGetMaxMigDeviceCount(struct device *d, unsigned *count)
{
	int ret = enter_device("nvmlDeviceGetMaxMigDeviceCount", d);
	*count = 7;
	return leave(ret);
}

/* Slot 0 stays empty while there are free slots, as after a destroyed slice. */
int nvmlDeviceGetMigDeviceHandleByIndex(struct device *d, unsigned index, struct device **slice)
{
	struct device *slices[MAX_DEVICES];
	unsigned n = 0;
	int ret = enter_device("nvmlDeviceGetMigDeviceHandleByIndex", d);
	for (int i = state.gpus; i < state.count; i++)
		if (&state.devices[state.devices[i].parent] == d)
			slices[n++] = &state.devices[i];
	unsigned empty = n < 7;
	if (ret == SUCCESS && (index < empty || index - empty >= n))
		ret = NOT_FOUND;
	if (ret == SUCCESS)
		*slice = slices[index - empty];
	return leave(ret);
}

int nvmlDeviceGetGpuInstanceId(struct device *d, unsigned *id)
{
	int ret = enter_device("nvmlDeviceGetGpuInstanceId", d);
	*id = (unsigned)d->gi;
	return leave(ret);
}

int nvmlDeviceGetComputeInstanceId(struct device *d, unsigned *id)
{
	int ret = enter_device("nvmlDeviceGetComputeInstanceId", d);
	*id = (unsigned)d->ci;
	return leave(ret);
}

#endif

#ifndef DRIVER_390
#include "instances.h"
#endif
