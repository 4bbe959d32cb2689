// Identifies processes and detects dead ones.
#define _GNU_SOURCE
#include "limiter.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef F_OFD_GETLK
#define F_OFD_GETLK 36
#endif

static uint64_t mix_hash(uint64_t h, uint64_t v)
{
	h = (h ^ v) * 0xff51afd7ed558ccdull;
	return h ^ h >> 32;
}

// slot_checksum is a checksum against accidental writes. It is not a secret and
// does not resist forgery.
uint64_t slot_checksum(const struct process_slot *s, uint64_t nonce)
{
	uint64_t h = mix_hash(nonce, (uint64_t)s->pid << 32 | s->nvml_pid);
	h = mix_hash(mix_hash(h, s->started), s->pid_ns);
	for (int i = 0; i < MAX_DEVICES; i++)
		h = mix_hash(h, s->used[i]);
	return h;
}

uint64_t device_checksum(const struct device_record *d, uint64_t nonce)
{
	uint64_t h = mix_hash(mix_hash(nonce, d->limit), (uint64_t)d->credit_ns);
	h = mix_hash(mix_hash(mix_hash(h, d->measured_ns), d->accounted_us), d->accounted_ns);
	return mix_hash(mix_hash(mix_hash(mix_hash(h, d->throttled_ns), d->context_bytes), d->refusals), d->no_samples);
}

static ssize_t read_text(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	ssize_t n = read(fd, text, size - 1);
	close(fd);
	text[n > 0 ? n : 0] = 0;
	return n;
}

// The fields of /proc/PID/stat after the process name, which may contain any
// character.
struct stat_line { char state; unsigned long flags, threads; unsigned long long started; };

static bool read_stat(const char *path, struct stat_line *s)
{
	char text[1024];
	if (read_text(path, text, sizeof text) <= 0)
		return false;
	char *after = strrchr(text, ')');
	return after && sscanf(after + 1, " %c %*d %*d %*d %*d %*d %lu %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %lu %*d %llu",
	                       &s->state, &s->flags, &s->threads, &s->started) == 4;
}

void identify_self(struct process_slot *s)
{
	char link[64];
	struct stat_line stat;
	ssize_t n = readlink("/proc/self/ns/pid", link, sizeof link - 1);
	s->pid = (uint32_t)getpid();
	s->started = s->pid_ns = 0;
	if (n <= 5 || !read_stat("/proc/self/stat", &stat))
		return; // without /proc only the lock shows which processes live
	link[n] = 0;
	s->pid_ns = strtoull(link + 5, NULL, 10);
	s->started = stat.started;
}

bool is_any_slot_locked(int fd, int from, int n)
{
	struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = LOCK_OFFSET + LOCK_FIRST_SLOT + from, .l_len = n};
	return fcntl(fd, F_OFD_GETLK, &l) != 0 || l.l_type != F_UNLCK;
}

// is_slot_dead reports whether the process of a slot has ended. The kernel
// releases its lock when it ends, in any PID namespace. If /proc shows the
// process, it must also have closed its files, so that the driver has its
// memory back. A living process without the lock has executed another program.
bool is_slot_dead(int fd, int slot, const struct process_slot *s)
{
	if (is_any_slot_locked(fd, slot, 1))
		return false;
	struct process_slot self;
	identify_self(&self);
	if (self.pid_ns == 0 || s->pid_ns != self.pid_ns)
		return true;
	char path[32];
	struct stat_line stat;
	snprintf(path, sizeof path, "/proc/%u/stat", s->pid);
	if (!read_stat(path, &stat) || stat.started != s->started)
		return true;
	const unsigned long exiting = 4; // PF_EXITING
	bool ended = (stat.state == 'Z' || stat.state == 'X') && stat.threads <= 1;
	return ended || !(stat.flags & exiting);
}
