// The hooked functions, and the ways in which a program gets the driver's
// functions at run time: dlsym, dlvsym and cuGetProcAddress return the hooks.
#include "limiter.h"
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

static void *const hooks[HOOKS] = {
#define HOOK(lib, symbol) (void *)symbol,
#define USE(lib, symbol) NULL,
#include "hooks.def"
#undef HOOK
#undef USE
};

// hook_by_name returns the hook of a function, NULL if it is not hooked.
static void *hook_by_name(const char *name)
{
	if (!name || (strncmp(name, "cu", 2) != 0 && strncmp(name, "nvmlD", 5) != 0))
		return NULL;
	for (int i = 0; i < HOOKS; i++)
		if (hooks[i] && strcmp(function_names[i].name, name) == 0)
			return hooks[i];
	return NULL;
}

// hook_by_address returns the hook of the driver's function at the address.
static void *hook_by_address(const void *address)
{
	int i = driver_function(address);
	return i < 0 ? NULL : hooks[i];
}

// stem_length is the length of a name without version and stream variant.
static size_t stem_length(const char *name)
{
	size_t n = strlen(name);
	if (n > 5 && (strcmp(name + n - 5, "_ptsz") == 0 || strcmp(name + n - 5, "_ptds") == 0))
		n -= 5;
	if (n > 3 && name[n - 3] == '_' && name[n - 2] == 'v' && name[n - 1] >= '0' && name[n - 1] <= '9')
		n -= 3;
	return n;
}

// is_unknown_version reports whether another version of the function is hooked,
// so that this one must not be returned. Newer versions of functions that only
// synchronize, or only group devices, are allowed: they take no memory.
static bool is_unknown_version(const char *name)
{
	if (!name || strncmp(name, "cu", 2) != 0 || strstr(name, "Synchronize") || strncmp(name, "cuMulticast", 11) == 0)
		return false;
	size_t n = stem_length(name);
	for (int i = 0; i < HOOKS; i++)
		if (hooks[i] && stem_length(function_names[i].name) == n && strncmp(function_names[i].name, name, n) == 0)
			return true;
	return false;
}

// The loader loads LD_PRELOAD before /etc/ld.so.preload. A library that is
// searched before the limiter and defines one of its functions would be called
// in its place: such a program does not start.
__attribute__((constructor)) static void check_search_order(void)
{
	const char *symbol, *object = find_preceding_object(&symbol);
	if (!object)
		return;
	print_error("%s is loaded before the limiter of this container and has a %s of its own, so that no share of a GPU would hold: take it out of LD_PRELOAD", object, symbol);
	_exit(126);
}

typedef void *symbol_lookup(void *, const char *);
typedef void *version_lookup(void *, const char *, const char *);

static void *_Atomic libc_dlsym, *_Atomic libc_dlvsym;

EXPORT symbol_lookup dlsym;
EXPORT version_lookup dlvsym;

static void *cached_libc_symbol(void *_Atomic *cell, const char *name)
{
	void *f = atomic_load_explicit(cell, memory_order_relaxed);
	if (!f) {
		f = libc_symbol(name);
		atomic_store_explicit(cell, f, memory_order_relaxed);
	}
	return f;
}

// own_lookup returns the limiter's function for a name under which the C library
// hands out its own lookups, to programs or to its other parts. Programs get
// the limiter's instead: with the C library's they would find the driver's
// functions. The private ones take further arguments, which are not needed.
static void *own_lookup(const char *name)
{
	static const struct { const char *name; void *function; } lookups[] = {
		{"dlsym", (void *)dlsym}, {"__libc_dlsym", (void *)dlsym}, {"_dl_sym", (void *)dlsym},
		{"dlvsym", (void *)dlvsym}, {"__libc_dlvsym", (void *)dlvsym}, {"_dl_vsym", (void *)dlvsym},
	};
	if (!name || (name[0] != 'd' && name[0] != '_'))
		return NULL;
	for (size_t i = 0; i < sizeof lookups / sizeof lookups[0]; i++)
		if (strcmp(lookups[i].name, name) == 0)
			return lookups[i].function;
	return NULL;
}

// reject_version complains about a version of a hooked function that is newer
// than the table: it would not be counted. It returns a name that no library
// defines, so that the lookup fails and sets dlerror.
static const char *reject_version(const char *name)
{
	print_error("refuse %s: the driver has a version of it that this limiter does not know", name);
	return "cu_version_that_the_limiter_does_not_know";
}

// NOT_LOADED is a name that no library defines. A program that searches all of its
// objects finds the limiter's functions even if no other object has them, because
// libcuda is not loaded: the lookup must then fail as without the limiter.
#define NOT_LOADED "cu_function_of_a_driver_that_is_not_loaded"

// Both end in a jump, not a call: the C library identifies the caller by the
// return address, and RTLD_NEXT means the objects after that caller.
EXPORT void *dlsym(void *handle, const char *name)
{
	symbol_lookup *lookup = (symbol_lookup *)cached_libc_symbol(&libc_dlsym, "dlsym");
	void *hook = hook_by_name(name), *own = own_lookup(name), *found;
	if (hook && (found = lookup(handle, name)) && (found != hook || libc_symbol(name)))
		return hook;
	if (hook)
		return lookup(handle, found ? NOT_LOADED : name);
	if (own && (found = lookup(handle, name)) && found == libc_symbol(name))
		return own;
	if (is_unknown_version(name) && lookup(handle, name))
		name = reject_version(name);
	return lookup(handle, name);
}

EXPORT void *dlvsym(void *handle, const char *name, const char *version)
{
	version_lookup *lookup = (version_lookup *)cached_libc_symbol(&libc_dlvsym, "dlvsym");
	void *hook = hook_by_name(name), *own = own_lookup(name), *found;
	if (hook && (found = lookup(handle, name, version)) && (found != hook || libc_symbol(name)))
		return hook;
	if (hook)
		return lookup(handle, found ? NOT_LOADED : name, version);
	if (own && (found = lookup(handle, name, version)) && found == libc_symbol(name))
		return own;
	if (is_unknown_version(name) && lookup(handle, name, version))
		name = reject_version(name);
	return lookup(handle, name, version);
}

enum { SYMBOL_NOT_FOUND = 1 }; // a status of cuGetProcAddress_v2

// replace_with_hook replaces a function of the driver by its hook. The driver
// returns the addresses that it exports, whichever version and stream variant
// was requested, so the address identifies the function. It returns false for a
// version that must not be returned.
static bool replace_with_hook(const char *name, void **function)
{
	void *hook = function && *function ? hook_by_address(*function) : NULL;
	if (hook)
		*function = hook;
	if (hook || !function || !*function || !is_unknown_version(name))
		return true;
	reject_version(name);
	return false;
}

// For a function that the driver does not have, the first form returns an error
// and leaves the pointer as it was. The second one succeeds with a status and no
// pointer.
EXPORT CUresult cuGetProcAddress(const char *name, void **function, int version, uint64_t flags)
{
	void *before = function ? *function : NULL;
	CUresult r = REAL(cuGetProcAddress)(name, function, version, flags);
	if (r != CUDA_SUCCESS || replace_with_hook(name, function))
		return r;
	*function = before;
	return CUDA_ERROR_NOT_FOUND;
}

EXPORT CUresult cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status)
{
	CUresult r = REAL(cuGetProcAddress_v2)(name, function, version, flags, status);
	if (r != CUDA_SUCCESS || replace_with_hook(name, function))
		return r;
	*function = NULL;
	if (status)
		*status = SYMBOL_NOT_FOUND;
	return CUDA_SUCCESS;
}
