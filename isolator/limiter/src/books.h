// The layout of the books file. books.go has the same; a test holds one
// against the other. All numbers are little-endian, as on every machine that
// NVIDIA's driver for these programs runs on.
#pragma once
#include <stdint.h>

#define BOOKS_MAGIC 0x32534b4f4f42474dull // "MGBOOKS2"
#define BOOKS_DEVICES 16
#define BOOKS_SLOTS 128
#define BOOKS_SLOTS_AT 4096

struct books_header {
	uint64_t magic;
	uint64_t nonce; // the limits file's: books of another container are refused
	uint32_t devices, slots;
	uint64_t reserved[5];
};

// What the processes of the container share about one device.
struct books_device {
	uint8_t uuid[16];
	uint64_t limit;         // bytes, for readers; the limits file is what counts
	int64_t credit_ns;      // device time that may be used before launches wait
	uint64_t polled_ns;     // when somebody last measured, monotonic
	uint64_t accounted_us;  // up to when use has been charged, the driver's clock: it may be set
	uint64_t accounted_ns;  // when that was charged, monotonic
	uint64_t throttled_ns;  // time launches have waited, all processes together
	uint64_t context_bytes; // what a context was seen to take
	uint64_t refusals;      // allocations refused
	uint64_t blind;         // looks in a row that showed no use: many, and launches do not wait
	uint64_t check;         // over all else here
	uint64_t reserved[4];
};

// One process. A slot never crosses a page, so that a write is whole even if
// the writer is killed.
struct books_slot {
	uint32_t pid;      // in its own pid namespace; 0: the slot is free
	uint32_t nvml_pid; // as NVML numbers it; 0: not known
	uint64_t started;  // in clock ticks since boot, from /proc
	uint64_t pid_ns;   // inode of the pid namespace; 0: not known
	uint64_t check;    // over all else here
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

// Locks on the file are locks on bytes far behind its end: the kernel drops
// them with the process, however it ends.
#define BOOKS_LOCK_AT (1ll << 40)
enum { BOOKS_LOCK_ALL, BOOKS_LOCK_SLOT = 16 };
