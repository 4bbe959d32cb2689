// The ways by which a program gets at the driver's functions at run time.
#include "limiter.h"
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

typedef void *symbol_lookup(void *, const char *);
typedef void *version_lookup(void *, const char *, const char *);

static void *_Atomic libc_dlsym, *_Atomic libc_dlvsym;

static void *known(void *_Atomic *cell, const char *name)
{
	void *f = atomic_load_explicit(cell, memory_order_relaxed);
	if (!f) {
		f = libc_symbol(name);
		atomic_store_explicit(cell, f, memory_order_relaxed);
	}
	return f;
}

// Both end in a jump, not a call: the C library finds out from the return
// address who asks, and RTLD_NEXT means what is behind that one.
EXPORT void *dlsym(void *handle, const char *name)
{
	symbol_lookup *lookup = (symbol_lookup *)known(&libc_dlsym, "dlsym");
	void *hook = hook_named(name);
	if (hook && lookup(handle, name))
		return hook;
	return lookup(handle, name);
}

EXPORT void *dlvsym(void *handle, const char *name, const char *version)
{
	version_lookup *lookup = (version_lookup *)known(&libc_dlvsym, "dlvsym");
	void *hook = hook_named(name);
	if (hook && lookup(handle, name, version))
		return hook;
	return lookup(handle, name, version);
}

// The driver answers with the very addresses that it exports, whichever
// version and stream variant was asked for, so that the address says which
// function it is. A version of a hooked function that is newer than the table
// is refused: it would go uncounted.
static CUresult instead(const char *name, void **function)
{
	void *hook = function && *function ? hook_instead(*function) : NULL;
	if (hook) {
		*function = hook;
		return CUDA_SUCCESS;
	}
	if (!function || !*function || !hook_family(name))
		return CUDA_SUCCESS;
	complain("refuse %s: the driver has a version of it that this limiter does not know", name);
	*function = NULL;
	return CUDA_ERROR_NOT_FOUND;
}

EXPORT CUresult cuGetProcAddress(const char *name, void **function, int version, uint64_t flags)
{
	CUresult r = REAL(cuGetProcAddress)(name, function, version, flags);
	return r == CUDA_SUCCESS ? instead(name, function) : r;
}

EXPORT CUresult cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status)
{
	CUresult r = REAL(cuGetProcAddress_v2)(name, function, version, flags, status);
	if (r != CUDA_SUCCESS)
		return r;
	r = instead(name, function);
	if (r != CUDA_SUCCESS && status)
		*status = 1; // symbol not found
	return r;
}
