// The table of hooked functions: names, the limiter's functions, the driver's.
#include "limiter.h"
#include <dlfcn.h>
#include <string.h>

void *real[HOOKS];

enum { LIB_cuda, LIB_nvml, LIBS };
static const char *const library_name[LIBS] = {"libcuda.so.1", "libnvidia-ml.so.1"};

static const struct {
	const char *name;
	int library;
	void *hook; // NULL: only called
} table[HOOKS] = {
#define HOOK(lib, symbol) {#symbol, LIB_##lib, (void *)symbol},
#define USE(lib, symbol) {#symbol, LIB_##lib, NULL},
#include "hooks.def"
#undef HOOK
#undef USE
};

static struct lock table_lock;
static _Atomic bool ready;
static void *library[LIBS];
static void *(*libc_dlsym)(void *, const char *);

static CUresult cuda_absent(void) { return CUDA_ERROR_NOT_FOUND; }
static nvmlReturn_t nvml_absent(void) { return NVML_ERROR_FUNCTION_NOT_FOUND; }

// The handles are never closed: whoever unloads libcuda leaves it with us.
static void resolve(void)
{
	void *(*open)(const char *, int) = (void *(*)(const char *, int))libc_symbol("dlopen");
	libc_dlsym = (void *(*)(void *, const char *))libc_symbol("dlsym");
	for (int i = 0; open && libc_dlsym && i < LIBS; i++)
		library[i] = open(library_name[i], RTLD_LAZY | RTLD_LOCAL);
	for (int i = 0; i < HOOKS; i++) {
		void *handle = library[table[i].library];
		real[i] = handle ? libc_dlsym(handle, table[i].name) : NULL;
		if (!real[i])
			real[i] = table[i].library == LIB_cuda ? (void *)cuda_absent : (void *)nvml_absent;
	}
	fork_watch();
}

void table_ready(void)
{
	if (atomic_load_explicit(&ready, memory_order_acquire))
		return;
	lock_take(&table_lock);
	if (!atomic_load_explicit(&ready, memory_order_relaxed)) {
		resolve();
		atomic_store_explicit(&ready, true, memory_order_release);
	}
	lock_drop(&table_lock);
}

void *driver_symbol(const char *name)
{
	table_ready();
	return library[LIB_cuda] ? libc_dlsym(library[LIB_cuda], name) : NULL;
}

void *hook_named(const char *name)
{
	if (!name || (strncmp(name, "cu", 2) != 0 && strncmp(name, "nvmlD", 5) != 0))
		return NULL;
	for (int i = 0; i < HOOKS; i++)
		if (table[i].hook && strcmp(table[i].name, name) == 0)
			return table[i].hook;
	return NULL;
}

const char *hook_name(int index) { return table[index].hook ? table[index].name : NULL; }

void *hook_instead(const void *function)
{
	table_ready();
	for (int i = 0; i < HOOKS; i++)
		if (table[i].hook && real[i] == function && function != (void *)cuda_absent && function != (void *)nvml_absent)
			return table[i].hook;
	return NULL;
}

// stem is the length of a name without version and stream variant.
static size_t stem(const char *name)
{
	size_t n = strlen(name);
	if (n > 5 && (strcmp(name + n - 5, "_ptsz") == 0 || strcmp(name + n - 5, "_ptds") == 0))
		n -= 5;
	if (n > 3 && name[n - 3] == '_' && name[n - 2] == 'v' && name[n - 1] >= '0' && name[n - 1] <= '9')
		n -= 3;
	return n;
}

// Newer versions of what only waits or only ties together go by unhooked: they
// take no memory.
bool hook_family(const char *name)
{
	if (!name || strncmp(name, "cu", 2) != 0 || strstr(name, "Synchronize") || strncmp(name, "cuMulticast", 11) == 0)
		return false;
	size_t n = stem(name);
	for (int i = 0; i < HOOKS; i++)
		if (table[i].hook && stem(table[i].name) == n && strncmp(table[i].name, name, n) == 0)
			return true;
	return false;
}

void table_after_fork(void) { atomic_store(&table_lock.word, 0); }
