// Declarations shared by the limiter's source files.
#pragma once
#include "usage_file.h"
#include "cuda.h"
#include <stdatomic.h>
#include <stdbool.h>

// ---- function_names.c, driver.c: the driver's functions

enum hook {
#define HOOK(lib, name) H_##name,
#define USE(lib, name) H_##name,
#include "hooks.def"
#undef HOOK
#undef USE
	HOOKS,
};

enum library { LIBRARY_cuda, LIBRARY_nvml, LIBRARIES };
struct function_name {
	const char *name;
	enum library library;
	bool hooked; // false: the limiter only calls it
};
extern const struct function_name function_names[HOOKS];

extern void *real[HOOKS]; // set once, before any call through it
void driver_load(void);
int driver_function(const void *address); // index of the hooked function there, or -1
void *driver_symbol(const char *name);    // for the tests' clock

// REAL is the driver's function, or one that returns an error if the driver has
// none.
#define REAL(name) (driver_load(), (__typeof__(&name))real[H_##name])

// ---- symbols.c: the C library's own dlsym, dlvsym and dlopen

void *libc_symbol(const char *name);
const char *find_preceding_object(const char **symbol); // the object before the limiter that defines a hooked symbol, or NULL

// ---- lock.c

struct lock { _Atomic int word; };
void lock_acquire(struct lock *);
void lock_release(struct lock *);
void disable_cancellation(bool begin); // disables pthread_cancel until the matching call with false
void cancellation_after_fork(void);

// ---- host.c

int host_lock(bool exclusive, bool wait);
void host_unlock(int);

// ---- platform.c: file paths, the wait for the host's lock, and clocks

extern const char limits_path[], usage_path[];
extern const char shared_path[]; // a file that all containers of the host share
extern const bool limits_must_be_mounted; // reject a limits file that the task could have written
extern const int host_lock_tries; // of 5 ms each
uint64_t clock_now_ns(void);
uint64_t clock_wall_us(void);
void clock_sleep_ns(uint64_t);

// ---- limits.c

struct device_limit {
	uint8_t uuid[16];
	uint64_t memory;          // bytes
	unsigned cores;           // percent; 100: no limit
	bool burst, oversubscribe;
};
struct limits {
	uint64_t nonce;
	int devices;
	struct device_limit device[MAX_DEVICES];
};
const struct limits *limits_get(void); // NULL: missing or invalid
int limits_find(const uint8_t uuid[16]);
bool uuid_parse(const char *text, uint8_t uuid[16]);
void print_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define PRINT_ERROR_ONCE(...) do { static _Atomic bool printed; if (!atomic_exchange(&printed, true)) print_error(__VA_ARGS__); } while (0)

// ---- usage_file.c, slots.c

bool usage_reserve(int device, uint64_t bytes); // false: over the limit, or no usage file
void usage_charge(int device, uint64_t bytes);  // for memory that the driver has already allocated
void usage_release(int device, uint64_t bytes);
bool usage_total(int device, uint64_t *used);
bool usage_lock(struct usage_file **);          // locks the usage file and returns its content; false: not available
void usage_write_device(int device);            // between usage_lock and usage_unlock
void usage_unlock(void);
void usage_set_host_lock_missed(bool);
void usage_set_nvml_pid(unsigned pid);
unsigned usage_nvml_pid(void); // 0: not known
uint64_t usage_own_bytes(int device); // charged to this process
uint64_t slot_checksum(const struct process_slot *, uint64_t nonce);
uint64_t device_checksum(const struct device_record *, uint64_t nonce);
bool is_any_slot_locked(int fd, int from, int n); // true: a living process owns one of them
bool is_slot_dead(int fd, int slot, const struct process_slot *);
void identify_self(struct process_slot *);

// ---- allocations.c: allocations that this process holds

enum allocation_kind { ALLOCATED_MEMORY = 1, ALLOCATED_HANDLE, ALLOCATED_MAPPING, ALLOCATED_BINDING, ALLOCATED_ARRAY, ALLOCATED_MIPMAP, ALLOCATED_CONTEXT, ALLOCATED_MODULE, ALLOCATED_HEAP };
enum handle_use { HANDLE_REFERENCE, HANDLE_MAPPING, HANDLE_USES }; // a binding is a mapping, too
struct allocation {
	struct allocation *next;
	enum allocation_kind kind;
	int device;
	unsigned uses[HANDLE_USES]; // of an ALLOCATED_HANDLE, without those that are being dropped
	unsigned dropping;          // of an ALLOCATED_HANDLE: uses that are being dropped
	bool imported;              // of an ALLOCATED_HANDLE: bytes is the largest mapped size so far
	uint64_t key, bytes;
	CUcontext context;     // destroying it frees the allocation; NULL: none
	uint64_t handle, size; // of an ALLOCATED_MAPPING or ALLOCATED_BINDING: the handle, and the mapped size
	struct allocation *dropping_handle; // of these, while they are being unmapped: the handle's record
};
void allocation_add(struct allocation);
bool allocation_remove(enum allocation_kind, uint64_t key, struct allocation *);
bool allocation_find(enum allocation_kind, uint64_t key, struct allocation *);
bool allocation_update(enum allocation_kind, uint64_t key, void (*)(struct allocation *, uint64_t), uint64_t);
struct allocation *allocation_take(enum allocation_kind, uint64_t key); // NULL: none; the caller frees it or puts it back
void allocation_put(struct allocation *);
struct allocation *handle_begin_drop(uint64_t handle, enum handle_use);
bool handle_finish_drop(struct allocation *, enum handle_use, bool dropped, struct allocation *);
struct allocation *allocation_remove_context(CUcontext); // a linked list; the caller frees its nodes

// ---- device.c, nvml.c

int device_index(CUdevice);       // index in the limits; -1: not in them
CUresult device_error(CUdevice);
CUdevice device_ordinal(int index); // inverse of device_index, for devices already looked up
CUresult device_current(int *index, CUcontext *);
CUresult device_of_stream(CUstream, CUdevice *);
nvmlDevice_t nvml_device(int index);
bool nvml_used(int index, uint64_t *bytes);
struct nvml_processes { unsigned count; nvmlProcessInfo_t list[1024]; };
bool nvml_processes(int index, struct nvml_processes *);
const nvmlProcessInfo_t *nvml_find_process(const struct nvml_processes *p, unsigned pid); // NULL if it is not listed

// ---- charge.c: reserve, allocate, confirm

struct charge { int device; uint64_t bytes; CUcontext context; };
CUresult charge_current_device(struct charge *, uint64_t bytes);
CUresult charge_device(struct charge *, int device, uint64_t bytes);
bool charge_resize(struct charge *, uint64_t bytes); // false: it does not fit
CUresult charge_finish(struct charge *, CUresult, enum allocation_kind, uint64_t key);
CUresult free_allocation(enum allocation_kind, uint64_t key, CUresult (*)(uint64_t));
void release_context_memory(CUcontext);

// ---- pool.c: memory that pools have reserved; below charge.c

typedef CUresult pool_allocator(CUdeviceptr *, size_t, CUmemoryPool, CUstream);
CUresult pool_allocate(CUmemoryPool, int device, CUdeviceptr *, size_t, CUstream, pool_allocator *, bool *undo);
int pool_device(CUmemoryPool); // -1: not known
void pools_mark_freed(void);
bool pools_update_charges(void); // true: memory has returned
#define ALL_STREAMS UINTPTR_MAX
void pools_mark_freed_in(uintptr_t what); // a stream plus one, or ALL_STREAMS
void pools_synchronized(uintptr_t what); // same argument

// ---- graph.c: above charge.c; stream_alloc.c is above all three

CUresult graph_reserve(CUgraph, int device, uint64_t bytes);
void graph_unreserve(CUgraph, int device, uint64_t bytes);

// ---- throttle.c, fork.c

void throttle_current(void);
void throttle_all(void);
extern _Atomic int launches_limited; // 0: no device has a core limit
void register_fork_handlers(void);
void register_after_fork(void (*reset)(void));
void register_fork_lock(void (*acquire)(void), void (*release)(void)); // lock and unlock of the usage file
// AFTER_FORK registers a function that resets a file's state in a forked child.
#define AFTER_FORK(function) \
	__attribute__((constructor)) static void function##_register(void) { register_after_fork(function); }

#define HIDDEN_TLS __thread __attribute__((tls_model("initial-exec")))
