// The driver's libraries and their functions. This file does not depend on hooks: hooks
// call the driver through it.
#include "limiter.h"
#include <dlfcn.h>

void *real[HOOKS];

static const char *const library_name[LIBRARIES] = {"libcuda.so.1", "libnvidia-ml.so.1"};
static struct lock load_lock;
static _Atomic bool loaded;
static void *library[LIBRARIES];
static void *(*libc_dlsym)(void *, const char *);

static CUresult cuda_absent(void) { return CUDA_ERROR_NOT_FOUND; }
static nvmlReturn_t nvml_absent(void) { return NVML_ERROR_FUNCTION_NOT_FOUND; }

// The handles are never closed: a program that unloads libcuda leaves it loaded.
static void load_libraries(void)
{
	void *(*open)(const char *, int) = (void *(*)(const char *, int))libc_symbol("dlopen");
	libc_dlsym = (void *(*)(void *, const char *))libc_symbol("dlsym");
	for (int i = 0; open && libc_dlsym && i < LIBRARIES; i++)
		library[i] = open(library_name[i], RTLD_LAZY | RTLD_LOCAL);
	for (int i = 0; i < HOOKS; i++) {
		void *handle = library[function_names[i].library];
		real[i] = handle ? libc_dlsym(handle, function_names[i].name) : NULL;
		if (!real[i])
			real[i] = function_names[i].library == LIBRARY_cuda ? (void *)cuda_absent : (void *)nvml_absent;
	}
	register_fork_handlers();
}

void driver_load(void)
{
	if (atomic_load_explicit(&loaded, memory_order_acquire))
		return;
	lock_acquire(&load_lock);
	if (!atomic_load_explicit(&loaded, memory_order_relaxed)) {
		load_libraries();
		atomic_store_explicit(&loaded, true, memory_order_release);
	}
	lock_release(&load_lock);
}

void *driver_symbol(const char *name)
{
	driver_load();
	return library[LIBRARY_cuda] ? libc_dlsym(library[LIBRARY_cuda], name) : NULL;
}

int driver_function(const void *address)
{
	driver_load();
	if (address == (void *)cuda_absent || address == (void *)nvml_absent)
		return -1;
	for (int i = 0; i < HOOKS; i++)
		if (function_names[i].hooked && real[i] == address)
			return i;
	return -1;
}

static void driver_after_fork(void) { atomic_store(&load_lock.word, 0); }
AFTER_FORK(driver_after_fork)
