// The usage file records how much of each device every process of the container
// uses. All processes of the container share it. Every change is one read and
// one write of the file under its lock. The file is mapped, but never read
// through the mapping: a process that truncates it would crash the readers.
#define _GNU_SOURCE
#include "limiter.h"
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef F_OFD_SETLK
#define F_OFD_SETLK 37
#define F_OFD_SETLKW 38
#endif

static struct lock mutex;   // file locks belong to the open file, so threads need a lock of their own
static int file = -1, own_slot = -1;
static struct stat opened_stat; // identity of the usage file
static void *lock_mapping;       // a mapping that keeps the open file and its locks if the program closes the descriptor
static struct process_slot self; // this process's slot; the copy in the file is for other processes
static struct usage_file content;
static _Atomic bool error_printed;

static bool set_file_lock(int fd, short type, int what, int how)
{
	struct flock l = {.l_type = type, .l_whence = SEEK_SET, .l_start = LOCK_OFFSET + what, .l_len = 1};
	int r;
	while ((r = fcntl(fd, how, &l)) != 0 && errno == EINTR)
		;
	return r == 0;
}

static bool read_usage_file(const struct limits *l)
{
	if (pread(file, &content, sizeof content, 0) != (ssize_t)sizeof content)
		return false;
	const struct usage_header *h = &content.header;
	if (h->magic != USAGE_MAGIC || h->nonce != l->nonce || h->slots != MAX_SLOTS || h->devices != (uint32_t)l->devices)
		return false;
	for (int i = 0; i < l->devices; i++) {
		const struct device_record *d = &content.device[i];
		if (memcmp(d->uuid, l->device[i].uuid, 16) != 0 || d->checksum != device_checksum(d, l->nonce))
			return false;
	}
	return true;
}

static bool write_slot(int i)
{
	return pwrite(file, &content.slot[i], sizeof content.slot[i], (off_t)(offsetof(struct usage_file, slot) + sizeof content.slot[0] * (size_t)i)) == (ssize_t)sizeof content.slot[i];
}

// write_own_slot writes this process's slot to the file.
static bool write_own_slot(void)
{
	self.checksum = slot_checksum(&self, content.header.nonce);
	content.slot[own_slot] = self;
	return write_slot(own_slot);
}

// fstat is a newer symbol of the C library than old images have.
static bool file_stat(int fd, struct stat *st) { return syscall(SYS_fstat, fd, st) == 0; }

static bool is_usage_file(void)
{
	struct stat now;
	return file_stat(file, &now) && now.st_ino == opened_stat.st_ino && now.st_dev == opened_stat.st_dev;
}

// open_file moves the descriptor away from the low numbers that programs rely
// on. A high descriptor is also closed after the driver's when the process
// ends.
static bool open_file(void)
{
	int low = open(usage_path, O_RDWR | O_CLOEXEC);
	if (low < 0)
		return false;
	file = fcntl(low, F_DUPFD_CLOEXEC, 500);
	if (file < 0)
		file = low;
	else
		close(low);
	return file_stat(file, &opened_stat);
}

enum { PAGE = 4096 };

static void unmap_file(void)
{
	if (lock_mapping)
		munmap(lock_mapping, PAGE);
	lock_mapping = NULL;
}

// map_file maps the file so that the open file, and with it the locks, stays
// until the process ends or executes another program, even if the program
// closes the descriptor. A forked child does not inherit the mapping.
static void map_file(void)
{
	void *at = mmap(NULL, PAGE, PROT_NONE, MAP_SHARED, file, 0);
	if (at == MAP_FAILED)
		return;
	lock_mapping = at;
	if (madvise(at, PAGE, MADV_DONTFORK) != 0)
		unmap_file();
}

static bool clear_dead_slots(void)
{
	bool cleared = false;
	for (int i = 0; i < MAX_SLOTS; i++) {
		if (i == own_slot || content.slot[i].pid == 0 || !is_slot_dead(file, i, &content.slot[i]))
			continue;
		memset(&content.slot[i], 0, sizeof content.slot[i]);
		cleared = write_slot(i) || cleared;
	}
	return cleared;
}

static bool claim_slot(int i)
{
	if (!set_file_lock(file, F_WRLCK, LOCK_FIRST_SLOT + i, F_OFD_SETLK))
		return false;
	own_slot = i;
	return write_own_slot();
}

// claim_free_slot prefers the slot that this process had before exec: its old content
// is obsolete.
static bool claim_free_slot(void)
{
	for (int i = 0; i < MAX_SLOTS; i++) {
		const struct process_slot *s = &content.slot[i];
		if (s->pid == self.pid && s->started == self.started && s->pid_ns == self.pid_ns && claim_slot(i))
			return true;
	}
	for (int pass = 0; pass < 2; pass++) {
		for (int i = 0; i < MAX_SLOTS; i++)
			if (content.slot[i].pid == 0 && claim_slot(i))
				return true;
		clear_dead_slots();
	}
	print_error("the usage file has slots for %d processes: this one gets no GPU memory", MAX_SLOTS);
	return false;
}

static bool open_and_claim(const struct limits *l)
{
	if (file >= 0 && is_usage_file()) {
		set_file_lock(file, F_UNLCK, LOCK_WHOLE_FILE, F_OFD_SETLK); // the mapping keeps the other locks
		close(file);
	}
	file = own_slot = -1;
	if (!open_file() || !set_file_lock(file, F_WRLCK, LOCK_WHOLE_FILE, F_OFD_SETLKW) || !read_usage_file(l))
		return false;
	unmap_file(); // the mapping of the previous file; no process checks the slot's lock until this one has a slot
	map_file();
	identify_self(&self);
	return claim_free_slot();
}

// lock_open_file returns false if the program closed the file; the caller then
// opens it again. If the descriptor now refers to another file, it must not be
// closed or written.
static bool lock_open_file(const struct limits *l)
{
	return own_slot >= 0 && is_usage_file() && set_file_lock(file, F_WRLCK, LOCK_WHOLE_FILE, F_OFD_SETLKW) && read_usage_file(l);
}

static void unlock_file(void)
{
	if (file >= 0 && is_usage_file())
		set_file_lock(file, F_UNLCK, LOCK_WHOLE_FILE, F_OFD_SETLK);
	else if (file >= 0)
		unmap_file(); // the descriptor is closed: only unmapping releases the lock
	lock_release(&mutex);
}

static bool fail_unlocked(void)
{
	unlock_file();
	if (!atomic_exchange(&error_printed, true))
		print_error("%s is missing or damaged: no GPU memory can be allocated", usage_path);
	return false;
}

static bool is_slot_empty(int i)
{
	static const struct process_slot empty;
	return i < MAX_SLOTS && i != own_slot && memcmp(&content.slot[i], &empty, sizeof empty) == 0;
}

// are_slots_valid reports whether each slot is what its owner wrote or its owner is dead,
// and whether each empty slot has no owner.
static bool are_slots_valid(void)
{
	for (int i = 0; i < MAX_SLOTS; i++) {
		struct process_slot *s = &content.slot[i];
		int n = 0;
		while (is_slot_empty(i + n))
			n++;
		if (n > 0) {
			if (is_any_slot_locked(file, i, n))
				return false;
			i += n - 1;
			continue;
		}
		if (i == own_slot || (s->pid != 0 && s->checksum == slot_checksum(s, content.header.nonce)))
			continue;
		if (s->pid == 0 || !is_slot_dead(file, i, s))
			return false;
		memset(s, 0, sizeof *s);
		write_slot(i);
	}
	return true;
}

bool usage_lock(struct usage_file **b)
{
	const struct limits *l = limits_get();
	if (!l)
		return false;
	lock_acquire(&mutex);
	if (!(lock_open_file(l) || open_and_claim(l)) || !are_slots_valid())
		return fail_unlocked();
	*b = &content;
	return true;
}

void usage_unlock(void) { unlock_file(); }

void usage_write_device(int i)
{
	content.device[i].checksum = device_checksum(&content.device[i], content.header.nonce);
	ssize_t n = pwrite(file, &content.device[i], sizeof content.device[i], (off_t)(offsetof(struct usage_file, device) + sizeof content.device[0] * (size_t)i));
	(void)n; // a failed write is detected by the next read
}

void usage_set_host_lock_missed(bool missed)
{
	struct usage_file *b;
	if (!usage_lock(&b))
		return;
	b->header.host_lock_missed = missed;
	ssize_t n = pwrite(file, &b->header.host_lock_missed, sizeof b->header.host_lock_missed, (off_t)offsetof(struct usage_file, header.host_lock_missed));
	(void)n; // the next process waits again
	unlock_file();
}

static uint64_t sum_device(int device)
{
	uint64_t total = self.used[device];
	for (int i = 0; i < MAX_SLOTS; i++) {
		uint64_t used = i == own_slot ? 0 : content.slot[i].used[device];
		total = total > UINT64_MAX - used ? UINT64_MAX : total + used;
	}
	return total;
}

static bool fits_limit(int device, uint64_t bytes)
{
	uint64_t limit = limits_get()->device[device].memory, used = sum_device(device);
	return used <= limit && bytes <= limit - used;
}

bool usage_reserve(int device, uint64_t bytes)
{
	struct usage_file *b;
	if (!usage_lock(&b))
		return false;
	bool ok = fits_limit(device, bytes) || (clear_dead_slots() && fits_limit(device, bytes));
	if (ok) {
		self.used[device] += bytes;
		if (!write_own_slot()) {
			self.used[device] -= bytes;
			return fail_unlocked();
		}
	} else {
		b->device[device].refusals++;
		usage_write_device(device);
	}
	unlock_file();
	return ok;
}

// change_own_use updates this process's own figure even if the usage file is gone.
static void change_own_use(int device, uint64_t bytes, bool more)
{
	struct usage_file *b;
	bool taken = usage_lock(&b);
	if (!taken)
		lock_acquire(&mutex);
	uint64_t *used = &self.used[device];
	*used = more ? *used + bytes : *used - (bytes < *used ? bytes : *used);
	if (taken)
		write_own_slot();
	unlock_file();
}

void usage_charge(int device, uint64_t bytes) { change_own_use(device, bytes, true); }
void usage_release(int device, uint64_t bytes) { change_own_use(device, bytes, false); }

bool usage_total(int device, uint64_t *used)
{
	struct usage_file *b;
	if (!usage_lock(&b))
		return false;
	clear_dead_slots();
	*used = sum_device(device);
	unlock_file();
	return true;
}

void usage_set_nvml_pid(unsigned pid)
{
	struct usage_file *b;
	if (!usage_lock(&b))
		return;
	self.nvml_pid = pid;
	write_own_slot();
	unlock_file();
}

uint64_t usage_own_bytes(int device)
{
	lock_acquire(&mutex);
	uint64_t bytes = self.used[device];
	lock_release(&mutex);
	return bytes;
}

unsigned usage_nvml_pid(void)
{
	lock_acquire(&mutex);
	unsigned pid = self.nvml_pid;
	lock_release(&mutex);
	return pid;
}

static void lock_before_fork(void) { lock_acquire(&mutex); }
static void unlock_in_parent(void) { lock_release(&mutex); }
__attribute__((constructor)) static void register_usage_lock(void) { register_fork_lock(lock_before_fork, unlock_in_parent); }

// The child shares the parent's open file and therefore the parent's lock. It
// closes the file and takes a slot of its own at its first allocation.
static void usage_after_fork(void)
{
	if (file >= 0 && is_usage_file())
		close(file);
	file = own_slot = -1;
	lock_mapping = NULL;
	memset(&self, 0, sizeof self);
	atomic_store(&mutex.word, 0);
}

AFTER_FORK(usage_after_fork)
