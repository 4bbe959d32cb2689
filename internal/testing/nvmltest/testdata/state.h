/*
 * The state of the fake library. It is read at nvmlInit from the text file that
 * MESOS_GPU_NVML_STANDIN names, and again whenever that file changes, so that a
 * test can heat, fill, hang or lose a device while a program uses it. A device's
 * INDEX is its order of appearance; `gpu` lines precede `mig` lines.
 *
 *   driver VERSION
 *   cuda MAJOR MINOR
 *   gpu UUID MEMORY_MIB MINOR_NUMBER DOMAIN:BUS:DEVICE.0 PRODUCT NAME
 *   mig UUID MEMORY_MIB GPU_INDEX GPU_INSTANCE COMPUTE_INSTANCE NAME
 *   value INDEX NAME NUMBER         (in NVML's units; a value without a line is not supported)
 *   link INDEX REMOTE_INDEX         (one NVLink; -1: to an NVSwitch; -2: inactive)
 *   path INDEX INDEX LEVEL          (nvmlGpuTopologyLevel_t)
 *   process INDEX PID BYTES compute|graphics
 *   event NUMBER INDEX TYPE DATA GPU_INSTANCE COMPUTE_INSTANCE    (delivered once, in order of NUMBER)
 *   lost INDEX
 *   stuck INDEX                     (lost, and once observed so, lost until the last nvmlShutdown)
 *   hang FUNCTION INDEX             (while the line exists)
 *   fail FUNCTION INDEX RETURN      (INDEX -1: any device)
 *   profile GPU_INDEX ID SLICES MAX MEMORY_MIB SIZE STARTS NAME    (MIG profile; STARTS is comma-separated)
 *   busy GPU_INDEX START            (the GPU instance at START has processes)
 *
 * GPU instances are stored in a file of the same name with the suffix ".instances",
 * so that they outlive the process. Each one with a compute instance is a MIG device:
 *
 *   gi GPU_INDEX GPU_INSTANCE PROFILE_ID START HAS_COMPUTE_INSTANCE
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6,
	TOO_SMALL = 7, DRIVER_NOT_LOADED = 9, TIMEOUT = 10, GPU_IS_LOST = 15, IN_USE = 19, INSUFFICIENT_RESOURCES = 23,
};
enum { MAX_DEVICES = 128, MAX_FAILS = 16, MAX_LINKS = 18, MAX_VALUES = 32, MAX_PROCESSES = 64, MAX_EVENTS = 64, MAX_PROFILES = 64, MAX_INSTANCES = 64 };
enum { TO_SWITCH = -1, INACTIVE = -2, UNKNOWN_PATH = 255 };

struct device {
	char uuid[96], name[96];
	unsigned long long mib;
	unsigned minor, domain, bus, device;
	int parent, gi, ci; /* parent -1: a whole GPU */
	int lost, stuck;
	int links[MAX_LINKS], nlinks;
	struct { char name[32]; unsigned long long number; } values[MAX_VALUES];
	int nvalues;
};

struct rule {
	char function[64];
	int index, ret;
};

struct event {
	unsigned long long number, type, data;
	int index;
	unsigned gi, ci;
};

struct profile {
	int gpu, starts[16], nstarts;
	unsigned id, slices, max, size;
	unsigned long long mib;
	char name[64];
};

struct instance {
	int gpu, gi, id, start, ci; /* ci: 1 if it has a compute instance */
};

static struct {
	char driver[80];
	int cuda;
	struct device devices[MAX_DEVICES];
	int count, gpus;
	unsigned char paths[MAX_DEVICES][MAX_DEVICES];
	struct { int index; unsigned pid; unsigned long long bytes; int graphics; } processes[MAX_PROCESSES];
	int nprocesses;
	struct event events[MAX_EVENTS];
	int nevents;
	struct rule fails[MAX_FAILS], hangs[MAX_FAILS];
	int nfails, nhangs;
	struct profile profiles[MAX_PROFILES];
	struct instance instances[MAX_INSTANCES];
	struct { int gpu, start; } busy[MAX_INSTANCES];
	int nprofiles, ninstances, nbusy;
} state;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int users;
static char path[4096];
static struct stat seen, seen_instances;
static unsigned long long delivered; /* number of the last delivered event */
static int given_up[MAX_DEVICES];

static int read_device(const char *line, struct device *d)
{
	d->parent = -1;
	if (sscanf(line, "gpu %95s %llu %u %x:%x:%x.0 %95[^\n]", d->uuid, &d->mib, &d->minor, &d->domain, &d->bus, &d->device, d->name) == 7)
		return 1;
	return sscanf(line, "mig %95s %llu %d %d %d %95[^\n]", d->uuid, &d->mib, &d->parent, &d->gi, &d->ci, d->name) == 6;
}

static int read_profile(const char *line, struct profile *p)
{
	char starts[64];
	memset(p, 0, sizeof *p);
	if (sscanf(line, "profile %d %u %u %u %llu %u %63s %63s", &p->gpu, &p->id, &p->slices, &p->max, &p->mib, &p->size, starts, p->name) != 8)
		return 0;
	char *rest = starts;
	for (char *s; (s = strsep(&rest, ",")) && p->nstarts < 16;)
		p->starts[p->nstarts++] = atoi(s);
	return 1;
}

static void read_line(const char *line)
{
	struct device d;
	struct rule r;
	struct event e;
	char word[32];
	int major, minor, i, j;
	unsigned pid;
	unsigned long long number;
	memset(&d, 0, sizeof d);
	if (sscanf(line, "driver %79s", state.driver) == 1)
		return;
	if (sscanf(line, "cuda %d %d", &major, &minor) == 2)
		state.cuda = 1000 * major + 10 * minor;
	else if (state.count < MAX_DEVICES && read_device(line, &d)) {
		state.devices[state.count++] = d;
		state.gpus += d.parent < 0;
	} else if (state.nfails < MAX_FAILS && sscanf(line, "fail %63s %d %d", r.function, &r.index, &r.ret) == 3)
		state.fails[state.nfails++] = r;
	else if (state.nhangs < MAX_FAILS && sscanf(line, "hang %63s %d", r.function, &r.index) == 2)
		state.hangs[state.nhangs++] = r;
	else if (sscanf(line, "path %d %d %d", &i, &j, &major) == 3)
		state.paths[i][j] = state.paths[j][i] = (unsigned char)major;
	else if (sscanf(line, "link %d %d", &i, &j) == 2 && state.devices[i].nlinks < MAX_LINKS)
		state.devices[i].links[state.devices[i].nlinks++] = j;
	else if (sscanf(line, "lost %d", &i) == 1)
		state.devices[i].lost = 1;
	else if (sscanf(line, "stuck %d", &i) == 1)
		state.devices[i].stuck = 1;
	else if (sscanf(line, "value %d %31s %llu", &i, word, &number) == 3 && state.devices[i].nvalues < MAX_VALUES) {
		strcpy(state.devices[i].values[state.devices[i].nvalues].name, word);
		state.devices[i].values[state.devices[i].nvalues++].number = number;
	} else if (state.nprocesses < MAX_PROCESSES && sscanf(line, "process %d %u %llu %31s", &i, &pid, &number, word) == 4) {
		state.processes[state.nprocesses].index = i;
		state.processes[state.nprocesses].pid = pid;
		state.processes[state.nprocesses].bytes = number;
		state.processes[state.nprocesses++].graphics = strcmp(word, "graphics") == 0;
	} else if (state.nevents < MAX_EVENTS &&
		   sscanf(line, "event %llu %d %llu %llu %u %u", &e.number, &e.index, &e.type, &e.data, &e.gi, &e.ci) == 6)
		state.events[state.nevents++] = e;
	else if (state.nprofiles < MAX_PROFILES && read_profile(line, &state.profiles[state.nprofiles]))
		state.nprofiles++;
	else if (state.nbusy < MAX_INSTANCES && sscanf(line, "busy %d %d", &i, &j) == 2) {
		state.busy[state.nbusy].gpu = i;
		state.busy[state.nbusy++].start = j;
	}
}

static int copy(char *to, unsigned size, const char *from);

static struct profile *profile_of(int gpu, int id)
{
	for (int i = 0; i < state.nprofiles; i++)
		if (state.profiles[i].gpu == gpu && (int)state.profiles[i].id == id)
			return &state.profiles[i];
	return NULL;
}

/* Adds a MIG device for each instance with a compute instance. */
static void read_instances(void)
{
	char name[4200], line[512], model[192];
	struct instance n;
	snprintf(name, sizeof name, "%s.instances", path);
	FILE *f = fopen(name, "r");
	while (f && fgets(line, sizeof line, f) && state.ninstances < MAX_INSTANCES && state.count < MAX_DEVICES) {
		if (sscanf(line, "gi %d %d %d %d %d", &n.gpu, &n.gi, &n.id, &n.start, &n.ci) != 5 || !profile_of(n.gpu, n.id))
			continue;
		state.instances[state.ninstances++] = n;
		if (!n.ci)
			continue;
		struct device *d = &state.devices[state.count++], *whole = &state.devices[n.gpu];
		struct profile *p = profile_of(n.gpu, n.id);
		memset(d, 0, sizeof *d);
		snprintf(d->uuid, sizeof d->uuid, "MIG-%08x-%04x-4000-8000-%012x", n.gpu + 1, n.gi, n.id << 8 | n.start);
		snprintf(model, sizeof model, "%s MIG %s", whole->name, p->name);
		copy(d->name, sizeof d->name, model);
		d->mib = p->mib;
		d->parent = n.gpu;
		d->gi = n.gi;
	}
	if (f)
		fclose(f);
}

static int same(const struct stat *a, const struct stat *b)
{
	return a->st_ino == b->st_ino && a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Reads the file again if it changed. If the file is gone, the state stays. */
static int refresh(void)
{
	char line[4200];
	struct stat now, instances;
	if (stat(path, &now) != 0)
		return DRIVER_NOT_LOADED;
	if (same(&now, &seen) && state.nprofiles == 0)
		return SUCCESS;
	snprintf(line, sizeof line, "%s.instances", path);
	if (stat(line, &instances) != 0)
		memset(&instances, 0, sizeof instances);
	if (same(&now, &seen) && same(&instances, &seen_instances))
		return SUCCESS;
	FILE *f = fopen(path, "r");
	if (!f)
		return DRIVER_NOT_LOADED;
	memset(&state, 0, sizeof state);
	memset(state.paths, UNKNOWN_PATH, sizeof state.paths);
	while (fgets(line, sizeof line, f))
		read_line(line);
	fclose(f);
	read_instances();
	seen = now;
	seen_instances = instances;
	return SUCCESS;
}

static struct rule *matching(struct rule *rules, int count, const char *function, int index)
{
	for (int i = 0; i < count; i++)
		if (strcmp(rules[i].function, function) == 0 && (rules[i].index < 0 || rules[i].index == index))
			return &rules[i];
	return NULL;
}

static int leave(int ret)
{
	pthread_mutex_unlock(&mutex);
	return ret;
}

/* Takes the lock, which leave releases. Returns how the call fails, or 0. */
static int enter(const char *function, int index)
{
	pthread_mutex_lock(&mutex);
	refresh();
	while (matching(state.hangs, state.nhangs, function, index)) {
		pthread_mutex_unlock(&mutex);
		usleep(1000);
		pthread_mutex_lock(&mutex);
		refresh();
	}
	if (users == 0)
		return UNINITIALIZED;
	struct rule *fail = matching(state.fails, state.nfails, function, index);
	return fail ? fail->ret : SUCCESS;
}

static int enter_device(const char *function, struct device *d)
{
	int index = (int)(d - state.devices);
	int ret = enter(function, index);
	if (ret != SUCCESS)
		return ret;
	if (index < 0 || index >= state.count)
		return INVALID_ARGUMENT;
	int whole = d->parent >= 0 ? d->parent : index;
	if (state.devices[whole].stuck)
		given_up[whole] = 1;
	return d->lost || state.devices[whole].lost || given_up[whole] ? GPU_IS_LOST : SUCCESS;
}

static int value(struct device *d, const char *name, unsigned long long *number)
{
	for (int i = 0; i < d->nvalues; i++)
		if (strcmp(d->values[i].name, name) == 0) {
			*number = d->values[i].number;
			return SUCCESS;
		}
	return NOT_SUPPORTED;
}

static int copy(char *to, unsigned size, const char *from)
{
	if (strlen(from) >= size)
		return TOO_SMALL;
	strcpy(to, from);
	return SUCCESS;
}
