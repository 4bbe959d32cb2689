// The layout of the usage file. usage_file.go describes the same layout, and a
// test compares the two. All numbers are little-endian, as on every machine
// that NVIDIA's driver supports.
#pragma once
#include <stdint.h>

#define USAGE_MAGIC 0x32534b4f4f42474dull // "MGBOOKS2"
#define MAX_DEVICES 16
#define MAX_SLOTS 128
#define SLOTS_OFFSET 4096

struct usage_header {
	uint64_t magic;
	uint64_t nonce; // of the limits file; the usage file of another container is refused
	uint32_t devices, slots;
	uint64_t host_lock_missed; // 1: a process did not get the host's lock; until one gets it, each tries once and does not wait
	uint64_t reserved[4];
};

// One device, as the container's processes share it.
struct device_record {
	uint8_t uuid[16];
	uint64_t limit;         // bytes, for readers only; the limits file is authoritative
	int64_t credit_ns;      // device time that launches may use before they wait; negative: they wait
	uint64_t measured_ns;     // time of the last measurement, monotonic
	uint64_t accounted_us;  // end of the last charged interval, wall clock of the driver's samples
	uint64_t accounted_ns;  // when that interval was charged, monotonic
	uint64_t throttled_ns;  // total time that launches have waited, all processes
	uint64_t context_bytes; // measured size of a context
	uint64_t refusals;      // allocations refused
	uint64_t no_samples;         // consecutive measurements without data; after many, launches no longer wait
	uint64_t checksum;         // checksum of all other fields
	uint64_t reserved[4];
};

// One process. A slot never crosses a page, so a write is complete even if the
// writer is killed.
struct process_slot {
	uint32_t pid;      // in the process's own PID namespace; 0: the slot is free
	uint32_t nvml_pid; // in NVML's PID namespace; 0: not known
	uint64_t started;  // start time in clock ticks since boot, from /proc
	uint64_t pid_ns;   // inode of the PID namespace; 0: not known
	uint64_t checksum;    // checksum of all other fields
	uint64_t used[MAX_DEVICES];
	uint64_t reserved[12];
};

struct usage_file {
	struct usage_header header;
	struct device_record device[MAX_DEVICES];
	uint8_t pad[SLOTS_OFFSET - sizeof(struct usage_header) - MAX_DEVICES * sizeof(struct device_record)];
	struct process_slot slot[MAX_SLOTS];
};

_Static_assert(sizeof(struct usage_header) == 64, "header");
_Static_assert(sizeof(struct device_record) == 128, "device");
_Static_assert(sizeof(struct process_slot) == 256, "slot");
_Static_assert(sizeof(struct usage_file) == SLOTS_OFFSET + MAX_SLOTS * 256, "usage_file");

// Locks on the file are locks on bytes far beyond its end. The kernel releases
// them when the process ends, for whatever reason.
#define LOCK_OFFSET (1ll << 40)
enum { LOCK_WHOLE_FILE, LOCK_FIRST_SLOT = 16 };
