#define _GNU_SOURCE
#include "device.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static struct machine *mapped;
static __thread int participant = -1;

struct machine *machine(void)
{
	if (mapped)
		return mapped;
	int fd = open(getenv("STANDIN_DEVICE"), O_RDWR | O_CLOEXEC);
	void *at = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED) {
		perror("stand-in: map STANDIN_DEVICE");
		abort();
	}
	close(fd);
	return mapped = at;
}

void machine_lock(void)
{
	if (pthread_mutex_lock(&machine()->mutex) == EOWNERDEAD)
		pthread_mutex_consistent(&mapped->mutex);
}

void machine_unlock(void) { pthread_mutex_unlock(&mapped->mutex); }

// standin_make creates the device file.
__attribute__((visibility("default"))) int standin_make(const char *path, uint64_t total, unsigned participants, unsigned nvml_offset)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0666);
	if (fd < 0 || ftruncate(fd, sizeof(struct machine)) != 0)
		return 1;
	struct machine *m = mmap(NULL, sizeof *m, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	pthread_mutexattr_t a;
	pthread_condattr_t c;
	pthread_mutexattr_init(&a);
	pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&m->mutex, &a);
	pthread_condattr_init(&c);
	pthread_condattr_setpshared(&c, PTHREAD_PROCESS_SHARED);
	pthread_cond_init(&m->moved, &c);
	for (int i = 0; i < DEVICES; i++)
		m->device[i].total = total;
	m->real = participants == REALTIME;
	m->participants = m->real ? 0 : participants;
	m->nvml_offset = nvml_offset;
	return 0;
}

static bool dead(int pid)
{
	char path[32], text[512], *after;
	snprintf(path, sizeof path, "/proc/%d/stat", pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return true;
	ssize_t n = read(fd, text, sizeof text - 1);
	close(fd);
	text[n > 0 ? n : 0] = 0;
	return n <= 0 || !(after = strrchr(text, ')')) || after[2] == 'Z' || after[2] == 'X';
}

// A process may be killed at any instruction, also in this function. Only one
// word, written by its owner alone, counts, and the sum is computed again each
// time.
static void bury(void)
{
	for (int i = 0; i < PROCESSES; i++)
		if (mapped->process[i].pid && dead(mapped->process[i].pid))
			mapped->process[i].pid = 0;
}

struct process *self(void)
{
	int pid = getpid();
	for (int i = 0; i < PROCESSES; i++)
		if (mapped->process[i].pid == pid)
			return &mapped->process[i];
	bury();
	for (int i = 0; i < PROCESSES; i++)
		if (mapped->process[i].pid == 0) {
			memset(&mapped->process[i], 0, sizeof mapped->process[i]);
			mapped->process[i].nvml_pid = (unsigned)pid + mapped->nvml_offset;
			mapped->process[i].pid = pid;
			return &mapped->process[i];
		}
	abort();
}

static uint64_t add_up(int device)
{
	uint64_t used = 0;
	for (int i = 0; i < PROCESSES; i++)
		used += mapped->process[i].pid ? mapped->process[i].used[device] : 0;
	return mapped->device[device].used = used;
}

bool device_take(int device, uint64_t bytes)
{
	machine_lock();
	struct process *us = self();
	if (add_up(device) + bytes > mapped->device[device].most)
		bury(); // a new maximum must not include dead processes
	uint64_t used = add_up(device) + bytes;
	bool ok = used <= mapped->device[device].total;
	if (ok) {
		us->used[device] += bytes;
		mapped->device[device].used = used;
		if (used > mapped->device[device].most)
			mapped->device[device].most = used;
	}
	machine_unlock();
	return ok;
}

void device_give(int device, uint64_t bytes)
{
	machine_lock();
	self()->used[device] -= bytes;
	add_up(device);
	machine_unlock();
}

void uuid_of(int device, uint8_t uuid[16])
{
	for (int i = 0; i < 16; i++)
		uuid[i] = (uint8_t)(i + 1);
	uuid[15] = (uint8_t)(0xa0 + device);
}

// wait_until advances the clock once all participants wait.
static void wait_until(uint64_t when)
{
	struct machine *m = mapped;
	if (participant < 0) {
		m->now_ns = when > m->now_ns ? when : m->now_ns;
		return;
	}
	m->wake[participant] = when;
	while (m->now_ns < when) {
		uint64_t next = UINT64_MAX;
		unsigned waiting = 0;
		for (unsigned i = 0; i < m->participants; i++)
			if (m->wake[i] > m->now_ns) {
				waiting++;
				next = m->wake[i] < next ? m->wake[i] : next;
			}
		if (waiting == m->participants) {
			m->now_ns = next;
			pthread_cond_broadcast(&m->moved);
		} else {
			pthread_cond_wait(&m->moved, &m->mutex);
		}
	}
	m->wake[participant] = 0;
}

#define EXPORT __attribute__((visibility("default")))

EXPORT void standin_join(void)
{
	machine_lock();
	participant = (int)mapped->joined++;
	while (mapped->joined < mapped->participants)
		pthread_cond_wait(&mapped->moved, &mapped->mutex);
	pthread_cond_broadcast(&mapped->moved);
	machine_unlock();
}

EXPORT void standin_leave(void)
{
	machine_lock();
	mapped->wake[participant] = UINT64_MAX;
	participant = -1;
	pthread_cond_broadcast(&mapped->moved);
	machine_unlock();
}

EXPORT uint64_t standin_now(void)
{
	machine_lock();
	uint64_t now = mapped->participants ? mapped->now_ns + 1000000000 : 0;
	machine_unlock();
	return now;
}

EXPORT void standin_sleep(uint64_t ns)
{
	machine_lock();
	wait_until(mapped->now_ns + ns);
	machine_unlock();
}

EXPORT uint64_t standin_busy(void)
{
	machine_lock();
	uint64_t ns = self()->busy_ns;
	machine_unlock();
	return ns;
}

static void spread(struct process *p, uint64_t from, uint64_t to)
{
	while (from < to) {
		uint64_t at = from / BUCKET_NS, end = (at + 1) * BUCKET_NS < to ? (at + 1) * BUCKET_NS : to;
		if (p->bucket[at % BUCKETS].at != at)
			p->bucket[at % BUCKETS].ns = 0;
		p->bucket[at % BUCKETS].at = at;
		p->bucket[at % BUCKETS].ns += (uint32_t)(end - from);
		from = end;
	}
}

// device_tick sets the clock of a real-time device to the time of day, so that
// NVML's timestamps are correct.
void device_tick(void)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	if (mapped->real)
		mapped->now_ns = (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec - EPOCH_US * 1000;
}

// device_run queues work on device 0, which executes it in order. A process has
// at most four pieces queued, or one in real time.
void device_run(uint64_t ns)
{
	static __thread uint64_t ends[4];
	static __thread unsigned next;
	machine_lock();
	mapped->calls++;
	if (mapped->participants == 0 && !mapped->real) {
		machine_unlock();
		return;
	}
	device_tick();
	uint64_t start = mapped->device[0].busy_until > mapped->now_ns ? mapped->device[0].busy_until : mapped->now_ns;
	struct process *p = self();
	mapped->device[0].busy_until = start + ns;
	p->busy_ns += ns;
	spread(p, start, start + ns);
	if (mapped->real) {
		uint64_t left = start + ns - mapped->now_ns;
		machine_unlock();
		nanosleep(&(struct timespec){(time_t)(left / 1000000000), (long)(left % 1000000000)}, NULL);
		return;
	}
	ends[next % 4] = start + ns;
	if (ends[++next % 4] > mapped->now_ns)
		wait_until(ends[next % 4]);
	machine_unlock();
}
