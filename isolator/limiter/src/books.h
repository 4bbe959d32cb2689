// The layout of the usage file. usage_file.go describes the same layout, and a
// test compares the two. All numbers are little-endian, as on every machine
// that NVIDIA's driver supports.
#pragma once
#include <stdint.h>

#define BOOKS_MAGIC 0x32534b4f4f42474dull // "MGBOOKS2"
#define BOOKS_DEVICES 16
#define BOOKS_SLOTS 128
#define BOOKS_SLOTS_AT 4096

struct books_header {
	uint64_t magic;
	uint64_t nonce; // of the limits file; the usage file of another container is refused
	uint32_t devices, slots;
	uint64_t reserved[5];
};

// One device, as the container's processes share it.
struct books_device {
	uint8_t uuid[16];
	uint64_t limit;         // bytes, for readers only; the limits file is authoritative
	int64_t credit_ns;      // device time that launches may use before they wait; negative: they wait
	uint64_t polled_ns;     // time of the last measurement, monotonic
	uint64_t accounted_us;  // end of the last charged interval, wall clock of the driver's samples
	uint64_t accounted_ns;  // when that interval was charged, monotonic
	uint64_t throttled_ns;  // total time that launches have waited, all processes
	uint64_t context_bytes; // measured size of a context
	uint64_t refusals;      // allocations refused
	uint64_t blind;         // consecutive measurements without data; after many, launches no longer wait
	uint64_t check;         // checksum of all other fields
	uint64_t reserved[4];
};

// One process. A slot never crosses a page, so a write is complete even if the
// writer is killed.
struct books_slot {
	uint32_t pid;      // in the process's own PID namespace; 0: the slot is free
	uint32_t nvml_pid; // in NVML's PID namespace; 0: not known
	uint64_t started;  // start time in clock ticks since boot, from /proc
	uint64_t pid_ns;   // inode of the PID namespace; 0: not known
	uint64_t check;    // checksum of all other fields
	uint64_t used[BOOKS_DEVICES];
	uint64_t reserved[12];
};

struct books {
	struct books_header header;
	struct books_device device[BOOKS_DEVICES];
	uint8_t pad[BOOKS_SLOTS_AT - sizeof(struct books_header) - BOOKS_DEVICES * sizeof(struct books_device)];
	struct books_slot slot[BOOKS_SLOTS];
};

_Static_assert(sizeof(struct books_header) == 64, "header");
_Static_assert(sizeof(struct books_device) == 128, "device");
_Static_assert(sizeof(struct books_slot) == 256, "slot");
_Static_assert(sizeof(struct books) == BOOKS_SLOTS_AT + BOOKS_SLOTS * 256, "books");

// Locks on the file are locks on bytes far beyond its end. The kernel releases
// them when the process ends, for whatever reason.
#define BOOKS_LOCK_AT (1ll << 40)
enum { BOOKS_LOCK_ALL, BOOKS_LOCK_SLOT = 16 };
