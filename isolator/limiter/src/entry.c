// The ways by which a program gets at the driver's functions at run time.
#include "limiter.h"
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

// The loader takes LD_PRELOAD before /etc/ld.so.preload. A library that is
// asked before the limiter, and has what it has, would be called in its place:
// such a program does not start.
__attribute__((constructor)) static void be_first(void)
{
	const char *symbol, *object = comes_before(&symbol);
	if (!object)
		return;
	complain("%s is loaded before the limiter of this container and has a %s of its own, so that no share of a GPU would hold: take it out of LD_PRELOAD", object, symbol);
	_exit(126);
}

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

// A version of a hooked function that is newer than the table is refused: it
// would go uncounted. The name that comes back has nobody, for dlerror's sake.
static const char *unknown(const char *name)
{
	complain("refuse %s: the driver has a version of it that this limiter does not know", name);
	return "cu_version_that_the_limiter_does_not_know";
}

// Both end in a jump, not a call: the C library finds out from the return
// address who asks, and RTLD_NEXT means what is behind that one.
EXPORT void *dlsym(void *handle, const char *name)
{
	symbol_lookup *lookup = (symbol_lookup *)known(&libc_dlsym, "dlsym");
	void *hook = hook_named(name);
	if (hook && lookup(handle, name))
		return hook;
	if (!hook && hook_family(name) && lookup(handle, name))
		name = unknown(name);
	return lookup(handle, name);
}

EXPORT void *dlvsym(void *handle, const char *name, const char *version)
{
	version_lookup *lookup = (version_lookup *)known(&libc_dlvsym, "dlvsym");
	void *hook = hook_named(name);
	if (hook && lookup(handle, name, version))
		return hook;
	if (!hook && hook_family(name) && lookup(handle, name, version))
		name = unknown(name);
	return lookup(handle, name, version);
}

// The driver answers with the very addresses that it exports, whichever
// version and stream variant was asked for, so that the address says which
// function it is.
static CUresult instead(const char *name, void **function)
{
	void *hook = function && *function ? hook_instead(*function) : NULL;
	if (hook) {
		*function = hook;
		return CUDA_SUCCESS;
	}
	if (!function || !*function || !hook_family(name))
		return CUDA_SUCCESS;
	unknown(name);
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
