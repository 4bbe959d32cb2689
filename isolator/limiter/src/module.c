// Modules and libraries: their code and globals use device memory. It is
// charged where NVML reports this process's own use, which other containers do
// not affect. Elsewhere it is not counted, because it could only be estimated.
#include "limiter.h"

static struct lock module_lock;

static bool read_own_use(int index, uint64_t *bytes)
{
	static struct nvml_processes p; // protected by module_lock
	struct process_slot self;
	identify_self(&self);
	if (!nvml_processes(index, &p))
		return false;
	for (unsigned i = 0; i < p.count; i++)
		if (p.list[i].pid == self.pid) {
			*bytes = p.list[i].usedGpuMemory;
			return true;
		}
	return false;
}

struct module_load { struct charge charge; bool known; uint64_t before; };

static void begin_load(struct module_load *l)
{
	l->charge = (struct charge){.device = -1};
	lock_acquire(&module_lock);
	if (device_current(&l->charge.device, &l->charge.context) != CUDA_SUCCESS)
		l->charge.device = -1;
	l->known = l->charge.device >= 0 && read_own_use(l->charge.device, &l->before);
}

static CUresult finish_load(struct module_load *l, CUresult r, uint64_t key, CUresult (*unload)(uint64_t))
{
	uint64_t after;
	const uint64_t max_module_bytes = 1ull << 30; // more than this is another thread's allocation
	if (r == CUDA_SUCCESS && l->known && read_own_use(l->charge.device, &after) && after > l->before && after - l->before < max_module_bytes) {
		if (charge_resize(&l->charge, after - l->before)) {
			charge_finish(&l->charge, r, ALLOCATED_MODULE, key);
		} else {
			unload(key);
			r = CUDA_ERROR_OUT_OF_MEMORY;
		}
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
