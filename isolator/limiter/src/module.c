// Modules and libraries: their code and globals use device memory. It is
// charged where NVML reports this process's own use, which other containers do
// not affect. Elsewhere it is not counted, because it could only be estimated.
#include "limiter.h"

static struct lock module_lock;

// device_use is what NVML reports of a device's processes, and what is charged to this one.
struct device_use { struct nvml_processes processes; uint64_t charged; };

static bool read_use(int index, struct device_use *u)
{
	u->charged = usage_own_bytes(index);
	return nvml_processes(index, &u->processes);
}

// bytes_of returns the use of a process, 0 if NVML does not list it.
static uint64_t bytes_of(const struct device_use *u, unsigned pid)
{
	const nvmlProcessInfo_t *p = nvml_find_process(&u->processes, pid);
	return p ? p->usedGpuMemory : 0;
}

// own_nvml_pid returns this process's PID for NVML: the one that its first
// context had, or its own, or that of the only process whose use grew; 0 if it
// is not known.
static unsigned own_nvml_pid(const struct device_use *was, const struct device_use *is)
{
	struct process_slot self;
	unsigned known = usage_nvml_pid(), grown = 0, number = 0;
	if (known)
		return known;
	identify_self(&self);
	if (nvml_find_process(&is->processes, self.pid))
		return self.pid;
	for (unsigned i = 0; i < is->processes.count; i++)
		if (is->processes.list[i].usedGpuMemory > bytes_of(was, is->processes.list[i].pid)) {
			grown = is->processes.list[i].pid;
			number++;
		}
	return number == 1 ? grown : 0;
}

// module_bytes returns how much this process's use grew without what other
// threads have allocated, which is charged to them.
static uint64_t module_bytes(const struct device_use *was, const struct device_use *is)
{
	unsigned pid = own_nvml_pid(was, is);
	uint64_t before = bytes_of(was, pid), after = bytes_of(is, pid);
	uint64_t others = is->charged > was->charged ? is->charged - was->charged : 0;
	return pid && after > before && after - before > others ? after - before - others : 0;
}

struct module_load { struct charge charge; bool known; };

static struct device_use use_before, use_after; // protected by module_lock

static void begin_load(struct module_load *l)
{
	l->charge = (struct charge){.device = -1};
	lock_acquire(&module_lock);
	if (device_current(&l->charge.device, &l->charge.context) != CUDA_SUCCESS)
		l->charge.device = -1;
	l->known = l->charge.device >= 0 && read_use(l->charge.device, &use_before);
}

static CUresult finish_load(struct module_load *l, CUresult r, uint64_t key, CUresult (*unload)(uint64_t))
{
	uint64_t bytes = 0;
	if (r == CUDA_SUCCESS && l->known && read_use(l->charge.device, &use_after))
		bytes = module_bytes(&use_before, &use_after);
	if (bytes && charge_resize(&l->charge, bytes)) {
		charge_finish(&l->charge, r, ALLOCATED_MODULE, key);
	} else if (bytes) {
		unload(key);
		r = CUDA_ERROR_OUT_OF_MEMORY;
	}
	lock_release(&module_lock);
	return r;
}

static CUresult unload_module(uint64_t m) { return REAL(cuModuleUnload)((CUmodule)m); }
static CUresult unload_library(uint64_t l) { return REAL(cuLibraryUnload)((CUlibrary)l); }

#define LOAD(name, handle, unload, parameters, arguments)                     \
	CUresult name parameters                                              \
	{                                                                     \
		struct module_load l;                                                \
		begin_load(&l);                                                    \
		CUresult r = REAL(name) arguments;                            \
		return finish_load(&l, r, r == CUDA_SUCCESS ? (uint64_t)*handle : 0, unload); \
	}

LOAD(cuModuleLoad, m, unload_module, (CUmodule *m, const char *file), (m, file))
LOAD(cuModuleLoadData, m, unload_module, (CUmodule *m, const void *image), (m, image))
LOAD(cuModuleLoadDataEx, m, unload_module, (CUmodule *m, const void *image, unsigned n, int *o, void **v), (m, image, n, o, v))
LOAD(cuModuleLoadFatBinary, m, unload_module, (CUmodule *m, const void *image), (m, image))
LOAD(cuLibraryLoadData, m, unload_library, (CUlibrary *m, const void *code, int *jo, void **jv, unsigned jn, int *o, void **v, unsigned n), (m, code, jo, jv, jn, o, v, n))
LOAD(cuLibraryLoadFromFile, m, unload_library, (CUlibrary *m, const char *file, int *jo, void **jv, unsigned jn, int *o, void **v, unsigned n), (m, file, jo, jv, jn, o, v, n))

CUresult cuModuleUnload(CUmodule m) { return free_allocation(ALLOCATED_MODULE, (uint64_t)m, unload_module); }
CUresult cuLibraryUnload(CUlibrary l) { return free_allocation(ALLOCATED_MODULE, (uint64_t)l, unload_library); }

static void modules_after_fork(void) { atomic_store(&module_lock.word, 0); }
AFTER_FORK(modules_after_fork)
