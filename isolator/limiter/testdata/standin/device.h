// The fake devices: a file that all processes map, with its own record of
// memory that the limiter never sees, and a clock that advances only while all
// participants of the simulation wait.
#pragma once
#include "../../src/cuda.h"
#include <pthread.h>
#include <stdbool.h>

enum { DEVICES = 2, PROCESSES = 256, BUCKETS = 1024, PARTICIPANTS = 4, REALTIME = 99 };
#define BUCKET_NS 10000000ull
#define CONTEXT_BYTES (64ull << 20)
#define GREEN_BYTES (16ull << 20) // a green context, without the primary one
#define MODULE_BYTES (4ull << 20)
#define POOL_CHUNK (32ull << 20)
#define EPOCH_US 1000000ull

struct process {
	int pid;
	unsigned nvml_pid;
	uint64_t used[DEVICES], busy_ns;
	struct { uint64_t at; uint32_t ns; } bucket[BUCKETS];
};

struct machine {
	pthread_mutex_t mutex;
	pthread_cond_t moved;
	struct { uint64_t total, used, most, busy_until; } device[DEVICES];
	unsigned participants, joined, waiting;
	bool real; // the device works in real time; participants is then REALTIME
	uint64_t now_ns, wake[PARTICIPANTS];
	unsigned nvml_offset; // NVML reports PIDs plus this offset
	unsigned calls;       // launches that reached the device
	struct process process[PROCESSES];
};

struct machine *machine(void);
void machine_lock(void);
void machine_unlock(void);
struct process *self(void); // the caller holds the lock
bool device_take(int device, uint64_t bytes);
void device_give(int device, uint64_t bytes);
void device_run(uint64_t ns);
void device_tick(void); // the caller holds the lock
bool device_captures(uint64_t ns);
void uuid_of(int device, uint8_t uuid[16]);
