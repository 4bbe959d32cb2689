/*
 * A stand-in for NVIDIA's management library: the functions that this project
 * calls, answering from the text file that MESOS_GPU_NVML_STANDIN names.
 *
 *   driver VERSION
 *   cuda MAJOR MINOR
 *   gpu UUID MEMORY_MIB MINOR_NUMBER DOMAIN:BUS:DEVICE.0 PRODUCT NAME
 *   fail FUNCTION INDEX RETURN      (INDEX -1: whatever the device)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, TOO_SMALL = 7, DRIVER_NOT_LOADED = 9, GPU_IS_LOST = 15 };
enum { MAX_GPUS = 64, MAX_FAILS = 16 };

struct gpu {
	char uuid[96], name[96];
	unsigned long long mib;
	unsigned minor, domain, bus, device;
};

struct pci_info {
	char bus_id_legacy[16];
	unsigned domain, bus, device, device_id, subsystem_id;
	char bus_id[32];
};

struct memory {
	unsigned long long total, free, used;
};

static struct {
	int users;
	char driver[80];
	int cuda;
	struct gpu gpus[MAX_GPUS];
	unsigned count;
	struct { char function[64]; int index, ret; } fails[MAX_FAILS];
	int nfails;
} state;

static void read_line(const char *line)
{
	struct gpu g;
	int major, minor;
	memset(&g, 0, sizeof g);
	if (sscanf(line, "driver %79s", state.driver) == 1)
		return;
	if (sscanf(line, "cuda %d %d", &major, &minor) == 2) {
		state.cuda = 1000 * major + 10 * minor;
		return;
	}
	if (state.count < MAX_GPUS &&
	    sscanf(line, "gpu %95s %llu %u %x:%x:%x.0 %95[^\n]", g.uuid, &g.mib, &g.minor, &g.domain, &g.bus, &g.device, g.name) == 7)
		state.gpus[state.count++] = g;
	if (state.nfails < MAX_FAILS &&
	    sscanf(line, "fail %63s %d %d", state.fails[state.nfails].function, &state.fails[state.nfails].index,
		   &state.fails[state.nfails].ret) == 3)
		state.nfails++;
}

static int failure(const char *function, int index)
{
	for (int i = 0; i < state.nfails; i++)
		if (strcmp(state.fails[i].function, function) == 0 && (state.fails[i].index < 0 || state.fails[i].index == index))
			return state.fails[i].ret;
	return SUCCESS;
}

static int copy(char *to, unsigned size, const char *from)
{
	if (strlen(from) >= size)
		return TOO_SMALL;
	strcpy(to, from);
	return SUCCESS;
}

static int fail_device(const char *function, struct gpu *g)
{
	if (state.users == 0)
		return UNINITIALIZED;
	if (g < state.gpus || g >= state.gpus + state.count)
		return INVALID_ARGUMENT;
	return failure(function, (int)(g - state.gpus));
}

int nvmlInit_v2(void)
{
	char line[512];
	const char *path = getenv("MESOS_GPU_NVML_STANDIN");
	FILE *f = path ? fopen(path, "r") : NULL;
	if (!f)
		return DRIVER_NOT_LOADED;
	int users = state.users;
	memset(&state, 0, sizeof state);
	while (fgets(line, sizeof line, f))
		read_line(line);
	fclose(f);
	int ret = failure("nvmlInit_v2", -1);
	if (ret == SUCCESS)
		state.users = users + 1;
	return ret;
}

int nvmlShutdown(void)
{
	if (state.users == 0)
		return UNINITIALIZED;
	state.users--;
	return failure("nvmlShutdown", -1);
}

const char *nvmlErrorString(int ret)
{
	switch (ret) {
	case SUCCESS: return "Success";
	case UNINITIALIZED: return "Uninitialized";
	case DRIVER_NOT_LOADED: return "Driver Not Loaded";
	case GPU_IS_LOST: return "GPU is lost";
	default: return "Stand-in error";
	}
}

int nvmlSystemGetDriverVersion(char *version, unsigned size)
{
	int ret = failure("nvmlSystemGetDriverVersion", -1);
	return ret ? ret : copy(version, size, state.driver);
}

#ifndef WITHOUT_CUDA
int nvmlSystemGetCudaDriverVersion(int *version)
{
	*version = state.cuda;
	return failure("nvmlSystemGetCudaDriverVersion", -1);
}
#endif

int nvmlDeviceGetCount_v2(unsigned *count)
{
	*count = state.count;
	return failure("nvmlDeviceGetCount_v2", -1);
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct gpu **g)
{
	if (index >= state.count)
		return INVALID_ARGUMENT;
	*g = &state.gpus[index];
	return fail_device("nvmlDeviceGetHandleByIndex_v2", *g);
}

int nvmlDeviceGetUUID(struct gpu *g, char *uuid, unsigned size)
{
	int ret = fail_device("nvmlDeviceGetUUID", g);
	return ret ? ret : copy(uuid, size, g->uuid);
}

int nvmlDeviceGetName(struct gpu *g, char *name, unsigned size)
{
	int ret = fail_device("nvmlDeviceGetName", g);
	return ret ? ret : copy(name, size, g->name);
}

int nvmlDeviceGetMinorNumber(struct gpu *g, unsigned *minor)
{
	int ret = fail_device("nvmlDeviceGetMinorNumber", g);
	if (ret == SUCCESS)
		*minor = g->minor;
	return ret;
}

int nvmlDeviceGetMemoryInfo(struct gpu *g, struct memory *m)
{
	int ret = fail_device("nvmlDeviceGetMemoryInfo", g);
	if (ret == SUCCESS) {
		m->total = m->free = g->mib << 20;
		m->used = 0;
	}
	return ret;
}

int nvmlDeviceGetPciInfo_v3(struct gpu *g, struct pci_info *pci)
{
	int ret = fail_device("nvmlDeviceGetPciInfo_v3", g);
	if (ret != SUCCESS)
		return ret;
	memset(pci, 0, sizeof *pci);
	pci->domain = g->domain;
	pci->bus = g->bus;
	pci->device = g->device;
	snprintf(pci->bus_id, sizeof pci->bus_id, "%08X:%02X:%02X.0", g->domain, g->bus, g->device);
	return SUCCESS;
}

/* The names of the first version, which Mesos's own isolator looks up. */
int nvmlDeviceGetCount(unsigned *count)
{
	return nvmlDeviceGetCount_v2(count);
}

int nvmlDeviceGetHandleByIndex(unsigned index, struct gpu **g)
{
	return nvmlDeviceGetHandleByIndex_v2(index, g);
}
