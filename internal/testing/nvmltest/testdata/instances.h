/*
 * GPU instances and their compute instances, by NVIDIA's rules: an instance has
 * one of the placements of its profile; instances do not overlap; a GPU has a
 * maximum number of instances of each profile; an instance in use cannot be
 * destroyed. A GPU instance has one compute instance, which uses all of it.
 */

struct profile_info {
	unsigned id, p2p, slices, instances, multiprocessors, copy_engines, decoders, encoders, jpegs, ofas;
	unsigned long long mib;
};

struct profile_info_v2 {
	unsigned version, id, p2p, slices, instances, multiprocessors, copy_engines, decoders, encoders, jpegs, ofas;
	unsigned long long mib;
	char name[96];
};

struct placement {
	unsigned start, size;
};

struct instance_info {
	struct device *device;
	unsigned id, profile;
	struct placement placement;
};

struct compute_profile_info {
	unsigned id, slices, instances, rest[6];
};

/* The targets of GPU instance and compute instance handles. */
static char instance_handles[MAX_DEVICES][16], compute_handles[MAX_DEVICES][16];

static struct instance *instance_of(char (*handles)[16], const char *handle)
{
	long at = handle - &handles[0][0];
	for (int i = 0; i < state.ninstances; i++)
		if (state.instances[i].gpu == at / 16 && state.instances[i].gi == at % 16)
			return &state.instances[i];
	return NULL;
}

static int enter_instance(const char *function, char (*handles)[16], const char *handle, struct instance **n)
{
	int ret = enter(function, (int)((handle - &handles[0][0]) / 16));
	if (ret == SUCCESS && !(*n = instance_of(handles, handle)))
		ret = NOT_FOUND;
	return ret;
}

/* Saves a change for this process and others; it takes effect immediately. */
static int write_instances(void)
{
	char name[4200], next[4210];
	snprintf(name, sizeof name, "%s.instances", path);
	snprintf(next, sizeof next, "%s.next", name);
	FILE *f = fopen(next, "w");
	if (!f)
		return INSUFFICIENT_RESOURCES;
	for (int i = 0; i < state.ninstances; i++)
		fprintf(f, "gi %d %d %d %d %d\n", state.instances[i].gpu, state.instances[i].gi, state.instances[i].id, state.instances[i].start, state.instances[i].ci);
	fclose(f);
	rename(next, name);
	return refresh();
}

__attribute__((unused)) static struct profile *profile_at(struct device *d, unsigned index)
{
	for (int i = 0; i < state.nprofiles; i++)
		if (state.profiles[i].gpu == d - state.devices && index-- == 0)
			return &state.profiles[i];
	return NULL;
}

#ifndef DRIVER_470
int nvmlDeviceGetGpuInstanceProfileInfoV(struct device *d, unsigned index, struct profile_info_v2 *out)
{
	int ret = enter_device("nvmlDeviceGetGpuInstanceProfileInfoV", d);
	struct profile *p = profile_at(d, index);
	if (ret == SUCCESS && !p)
		ret = NOT_SUPPORTED;
	if (ret == SUCCESS && out->version != (2u << 24 | sizeof *out))
		ret = INVALID_ARGUMENT;
	if (ret == SUCCESS) {
		out->id = p->id;
		out->slices = p->slices;
		out->instances = p->max;
		out->mib = p->mib;
		snprintf(out->name, sizeof out->name, "MIG %s", p->name);
	}
	return leave(ret);
}
#endif

int nvmlDeviceGetGpuInstancePossiblePlacements_v2(struct device *d, unsigned id, struct placement *out, unsigned *count)
{
	int ret = enter_device("nvmlDeviceGetGpuInstancePossiblePlacements_v2", d);
	struct profile *p = profile_of((int)(d - state.devices), (int)id);
	if (ret == SUCCESS && !p)
		ret = NOT_SUPPORTED;
	if (ret == SUCCESS && out && *count < (unsigned)p->nstarts)
		ret = TOO_SMALL;
	for (int i = 0; ret == SUCCESS && out && i < p->nstarts; i++)
		out[i] = (struct placement){ (unsigned)p->starts[i], p->size };
	if (ret == SUCCESS)
		*count = (unsigned)p->nstarts;
	return leave(ret);
}

/* Returns whether the profile can be placed there. */
static int room(int gpu, struct profile *p, const struct placement *at)
{
	unsigned same = 0;
	int known = 0;
	for (int i = 0; i < p->nstarts; i++)
		known |= (unsigned)p->starts[i] == at->start && p->size == at->size;
	if (!known)
		return INVALID_ARGUMENT;
	for (int i = 0; i < state.ninstances; i++) {
		struct instance *n = &state.instances[i];
		struct profile *q = profile_of(gpu, n->id);
		if (n->gpu != gpu)
			continue;
		same += q == p;
		if (at->start < (unsigned)n->start + q->size && (unsigned)n->start < at->start + at->size)
			return INSUFFICIENT_RESOURCES;
	}
	return same < p->max && state.ninstances < MAX_INSTANCES ? SUCCESS : INSUFFICIENT_RESOURCES;
}

int nvmlDeviceCreateGpuInstanceWithPlacement(struct device *d, unsigned id, const struct placement *at, char **handle)
{
	int ret = enter_device("nvmlDeviceCreateGpuInstanceWithPlacement", d);
	int gpu = (int)(d - state.devices), gi = 1;
	struct profile *p = profile_of(gpu, (int)id);
	if (ret == SUCCESS)
		ret = p ? room(gpu, p, at) : NOT_SUPPORTED;
	if (ret != SUCCESS)
		return leave(ret);
	while (instance_of(instance_handles, &instance_handles[gpu][gi]))
		gi++;
	*handle = &instance_handles[gpu][gi];
	state.instances[state.ninstances++] = (struct instance){ gpu, gi, (int)id, (int)at->start, 0 };
	return leave(write_instances());
}

int nvmlDeviceGetGpuInstances(struct device *d, unsigned id, char **out, unsigned *count)
{
	int ret = enter_device("nvmlDeviceGetGpuInstances", d);
	unsigned found = 0;
	for (int i = 0; ret == SUCCESS && i < state.ninstances; i++)
		if (state.instances[i].gpu == d - state.devices && state.instances[i].id == (int)id)
			out[found++] = &instance_handles[state.instances[i].gpu][state.instances[i].gi];
	*count = found;
	return leave(ret);
}

int nvmlGpuInstanceGetInfo(const char *handle, struct instance_info *out)
{
	struct instance *n = NULL;
	int ret = enter_instance("nvmlGpuInstanceGetInfo", instance_handles, handle, &n);
	if (ret == SUCCESS)
		*out = (struct instance_info){
			&state.devices[n->gpu], (unsigned)n->gi, (unsigned)n->id, { (unsigned)n->start, profile_of(n->gpu, n->id)->size } };
	return leave(ret);
}

int nvmlGpuInstanceDestroy(const char *handle)
{
	struct instance *n = NULL;
	int ret = enter_instance("nvmlGpuInstanceDestroy", instance_handles, handle, &n);
	if (ret == SUCCESS && n->ci)
		ret = IN_USE;
	if (ret != SUCCESS)
		return leave(ret);
	*n = state.instances[--state.ninstances];
	return leave(write_instances());
}

/* Compute instance profiles, in order of their number of slices. */
int nvmlGpuInstanceGetComputeInstanceProfileInfo(const char *handle, unsigned index, unsigned engines, struct compute_profile_info *out)
{
	static const unsigned slices[] = { 1, 2, 3, 4, 7 };
	struct instance *n = NULL;
	int ret = enter_instance("nvmlGpuInstanceGetComputeInstanceProfileInfo", instance_handles, handle, &n);
	if (ret == SUCCESS && (index >= 5 || engines != 0 || slices[index] > profile_of(n->gpu, n->id)->slices))
		ret = NOT_SUPPORTED;
	if (ret == SUCCESS)
		*out = (struct compute_profile_info){ index, slices[index], profile_of(n->gpu, n->id)->slices / slices[index], { 0 } };
	return leave(ret);
}

int nvmlGpuInstanceCreateComputeInstance(const char *handle, unsigned id, char **out)
{
	struct instance *n = NULL;
	int ret = enter_instance("nvmlGpuInstanceCreateComputeInstance", instance_handles, handle, &n);
	if (ret == SUCCESS && n->ci)
		ret = INSUFFICIENT_RESOURCES;
	if (ret != SUCCESS)
		return leave(ret);
	n->ci = (int)id + 1;
	*out = &compute_handles[n->gpu][n->gi];
	return leave(write_instances());
}

int nvmlGpuInstanceGetComputeInstances(const char *handle, unsigned id, char **out, unsigned *count)
{
	struct instance *n = NULL;
	int ret = enter_instance("nvmlGpuInstanceGetComputeInstances", instance_handles, handle, &n);
	*count = 0;
	if (ret == SUCCESS && n->ci == (int)id + 1)
		out[(*count)++] = &compute_handles[n->gpu][n->gi];
	return leave(ret);
}

int nvmlComputeInstanceDestroy(const char *handle)
{
	struct instance *n = NULL;
	int ret = enter_instance("nvmlComputeInstanceDestroy", compute_handles, handle, &n);
	for (int i = 0; ret == SUCCESS && i < state.nbusy; i++)
		if (state.busy[i].gpu == n->gpu && state.busy[i].start == n->start)
			ret = IN_USE;
	if (ret != SUCCESS)
		return leave(ret);
	n->ci = 0;
	return leave(write_instances());
}
