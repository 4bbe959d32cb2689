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
static int file = -1, mine = -1;
static struct stat opened; // identity of the usage file
static void *anchor;       // a mapping that keeps the open file and its locks if the program closes the descriptor
static struct books_slot self; // this process's slot; the copy in the file is for other processes
static struct books books;
static _Atomic bool complained;

static bool file_lock(int fd, short type, int what, int how)
{
	struct flock l = {.l_type = type, .l_whence = SEEK_SET, .l_start = BOOKS_LOCK_AT + what, .l_len = 1};
	int r;
	while ((r = fcntl(fd, how, &l)) != 0 && errno == EINTR)
		;
	return r == 0;
}

static bool books_read(const struct limits *l)
{
	if (pread(file, &books, sizeof books, 0) != (ssize_t)sizeof books)
		return false;
	const struct books_header *h = &books.header;
	if (h->magic != BOOKS_MAGIC || h->nonce != l->nonce || h->slots != BOOKS_SLOTS || h->devices != (uint32_t)l->devices)
		return false;
	for (int i = 0; i < l->devices; i++) {
		const struct books_device *d = &books.device[i];
		if (memcmp(d->uuid, l->device[i].uuid, 16) != 0 || d->check != device_check(d, l->nonce))
			return false;
	}
	return true;
}

static bool write_slot(int i)
{
	return pwrite(file, &books.slot[i], sizeof books.slot[i], (off_t)(offsetof(struct books, slot) + sizeof books.slot[0] * (size_t)i)) == (ssize_t)sizeof books.slot[i];
}

// publish writes this process's slot to the file.
static bool publish(void)
{
	self.check = slot_check(&self, books.header.nonce);
	books.slot[mine] = self;
	return write_slot(mine);
}

// fstat is a newer symbol of the C library than old images have.
static bool file_stat(int fd, struct stat *st) { return syscall(SYS_fstat, fd, st) == 0; }

static bool still_books(void)
{
	struct stat now;
	return file_stat(file, &now) && now.st_ino == opened.st_ino && now.st_dev == opened.st_dev;
}

// open_file moves the descriptor away from the low numbers that programs rely
// on. A high descriptor is also closed after the driver's when the process
// ends.
static bool open_file(void)
{
	int low = open(books_path, O_RDWR | O_CLOEXEC);
	if (low < 0)
		return false;
	file = fcntl(low, F_DUPFD_CLOEXEC, 500);
	if (file < 0)
		file = low;
	else
		close(low);
	return file_stat(file, &opened);
}

enum { PAGE = 4096 };

static void let_go(void)
{
	if (anchor)
		munmap(anchor, PAGE);
	anchor = NULL;
}

// hold_on maps the file so that the open file, and with it the locks, stays
// until the process ends or executes another program, even if the program
// closes the descriptor. A forked child does not inherit the mapping.
static void hold_on(void)
{
	void *at = mmap(NULL, PAGE, PROT_NONE, MAP_SHARED, file, 0);
	if (at == MAP_FAILED)
		return;
	anchor = at;
	if (madvise(at, PAGE, MADV_DONTFORK) != 0)
		let_go();
}

static bool reap(void)
{
	bool some = false;
	for (int i = 0; i < BOOKS_SLOTS; i++) {
		if (i == mine || books.slot[i].pid == 0 || !slot_dead(file, i, &books.slot[i]))
			continue;
		memset(&books.slot[i], 0, sizeof books.slot[i]);
		some = write_slot(i) || some;
	}
	return some;
}

static bool try_slot(int i)
{
	if (!file_lock(file, F_WRLCK, BOOKS_LOCK_SLOT + i, F_OFD_SETLK))
		return false;
	mine = i;
	return publish();
}

// find_slot prefers the slot that this process had before exec: its old content
// is obsolete.
static bool find_slot(void)
{
	for (int i = 0; i < BOOKS_SLOTS; i++) {
		const struct books_slot *s = &books.slot[i];
		if (s->pid == self.pid && s->started == self.started && s->pid_ns == self.pid_ns && try_slot(i))
			return true;
	}
	for (int pass = 0; pass < 2; pass++) {
		for (int i = 0; i < BOOKS_SLOTS; i++)
			if (books.slot[i].pid == 0 && try_slot(i))
				return true;
		reap();
	}
	complain("the books have room for %d processes: this one gets no GPU memory", BOOKS_SLOTS);
	return false;
}

static bool attach(const struct limits *l)
{
	if (file >= 0 && still_books()) {
		file_lock(file, F_UNLCK, BOOKS_LOCK_ALL, F_OFD_SETLK); // the anchor keeps the other locks
		close(file);
	}
	file = mine = -1;
	if (!open_file() || !file_lock(file, F_WRLCK, BOOKS_LOCK_ALL, F_OFD_SETLKW) || !books_read(l))
		return false;
	let_go(); // the mapping of the previous file; no process checks the slot's lock until this one has a slot
	hold_on();
	self_identify(&self);
	return find_slot();
}

// still_open returns false if the program closed the file; the caller then
// opens it again. If the descriptor now refers to another file, it must not be
// closed or written.
static bool still_open(const struct limits *l)
{
	return mine >= 0 && still_books() && file_lock(file, F_WRLCK, BOOKS_LOCK_ALL, F_OFD_SETLKW) && books_read(l);
}

static void unlock(void)
{
	if (file >= 0 && still_books())
		file_lock(file, F_UNLCK, BOOKS_LOCK_ALL, F_OFD_SETLK);
	else if (file >= 0)
		let_go(); // the descriptor is closed: only unmapping releases the lock
	lock_drop(&mutex);
}

static bool refuse(void)
{
	unlock();
	if (!atomic_exchange(&complained, true))
		complain("%s is missing or damaged: no GPU memory can be allocated", books_path);
	return false;
}

static bool slot_empty(int i)
{
	static const struct books_slot empty;
	return i < BOOKS_SLOTS && i != mine && memcmp(&books.slot[i], &empty, sizeof empty) == 0;
}

// sound reports whether each slot is what its owner wrote or its owner is dead,
// and whether each empty slot has no owner.
static bool sound(void)
{
	for (int i = 0; i < BOOKS_SLOTS; i++) {
		struct books_slot *s = &books.slot[i];
		int n = 0;
		while (slot_empty(i + n))
			n++;
		if (n > 0) {
			if (slots_locked(file, i, n))
				return false;
			i += n - 1;
			continue;
		}
		if (i == mine || (s->pid != 0 && s->check == slot_check(s, books.header.nonce)))
			continue;
		if (s->pid == 0 || !slot_dead(file, i, s))
			return false;
		memset(s, 0, sizeof *s);
		write_slot(i);
	}
	return true;
}

bool books_take(struct books **b)
{
	const struct limits *l = limits_get();
	if (!l)
		return false;
	lock_take(&mutex);
	if (!(still_open(l) || attach(l)) || !sound())
		return refuse();
	*b = &books;
	return true;
}

void books_drop(void) { unlock(); }

void books_write_device(int i)
{
	books.device[i].check = device_check(&books.device[i], books.header.nonce);
	ssize_t n = pwrite(file, &books.device[i], sizeof books.device[i], (off_t)(offsetof(struct books, device) + sizeof books.device[0] * (size_t)i));
	(void)n; // a failed write is detected by the next read
}

static uint64_t sum(int device)
{
	uint64_t total = self.used[device];
	for (int i = 0; i < BOOKS_SLOTS; i++) {
		uint64_t used = i == mine ? 0 : books.slot[i].used[device];
		total = total > UINT64_MAX - used ? UINT64_MAX : total + used;
	}
	return total;
}

static bool fits(int device, uint64_t bytes)
{
	uint64_t limit = limits_get()->device[device].memory, used = sum(device);
	return used <= limit && bytes <= limit - used;
}

bool books_reserve(int device, uint64_t bytes)
{
	struct books *b;
	if (!books_take(&b))
		return false;
	bool ok = fits(device, bytes) || (reap() && fits(device, bytes));
	if (ok) {
		self.used[device] += bytes;
		if (!publish()) {
			self.used[device] -= bytes;
			return refuse();
		}
	} else {
		b->device[device].refusals++;
		books_write_device(device);
	}
	unlock();
	return ok;
}

// change updates this process's own figure even if the usage file is gone.
static void change(int device, uint64_t bytes, bool more)
{
	struct books *b;
	bool taken = books_take(&b);
	if (!taken)
		lock_take(&mutex);
	uint64_t *used = &self.used[device];
	*used = more ? *used + bytes : *used - (bytes < *used ? bytes : *used);
	if (taken)
		publish();
	unlock();
}

void books_charge(int device, uint64_t bytes) { change(device, bytes, true); }
void books_release(int device, uint64_t bytes) { change(device, bytes, false); }

bool books_used(int device, uint64_t *used)
{
	struct books *b;
	if (!books_take(&b))
		return false;
	reap();
	*used = sum(device);
	unlock();
	return true;
}

void books_set_nvml_pid(unsigned pid)
{
	struct books *b;
	if (!books_take(&b))
		return;
	self.nvml_pid = pid;
	publish();
	unlock();
}

unsigned books_nvml_pid(void)
{
	lock_take(&mutex);
	unsigned pid = self.nvml_pid;
	lock_drop(&mutex);
	return pid;
}

static void take_before_fork(void) { lock_take(&mutex); }
static void drop_in_parent(void) { lock_drop(&mutex); }
__attribute__((constructor)) static void register_lock(void) { register_fork_lock(take_before_fork, drop_in_parent); }

// The child shares the parent's open file and therefore the parent's lock. It
// closes the file and takes a slot of its own at its first allocation.
static void books_after_fork(void)
{
	if (file >= 0 && still_books())
		close(file);
	file = mine = -1;
	anchor = NULL;
	memset(&self, 0, sizeof self);
	atomic_store(&mutex.word, 0);
}

AFTER_FORK(books_after_fork)
