// Reads the limits file once. If any part of it is invalid, the whole file is
// rejected and nothing can be allocated.
#include "limiter.h"
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

void print_error(const char *format, ...)
{
	char line[256] = "libmesosgpu: ";
	size_t n = strlen(line);
	va_list args;
	va_start(args, format);
	int more = vsnprintf(line + n, sizeof line - n - 1, format, args);
	va_end(args);
	n += (size_t)more < sizeof line - n - 1 ? (size_t)more : sizeof line - n - 2;
	line[n++] = '\n';
	ssize_t ignored = write(2, line, n);
	(void)ignored;
}

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// uuid_parse reads GPU-8-4-4-4-12 or MIG-8-4-4-4-12.
bool uuid_parse(const char *text, uint8_t uuid[16])
{
	if (strncmp(text, "GPU-", 4) != 0 && strncmp(text, "MIG-", 4) != 0)
		return false;
	text += 4;
	for (int i = 0; i < 16; i++) {
		if ((i == 4 || i == 6 || i == 8 || i == 10) && *text++ != '-')
			return false;
		int high = hex_value(text[0]), low = high < 0 ? -1 : hex_value(text[1]);
		if (low < 0)
			return false;
		uuid[i] = (uint8_t)(high << 4 | low);
		text += 2;
	}
	return *text == 0;
}

static bool parse_number(const char *text, int base, uint64_t *n)
{
	*n = 0;
	if (!*text)
		return false;
	for (; *text; text++) {
		int digit = hex_value(*text);
		if (digit < 0 || digit >= base || *n > (UINT64_MAX - (uint64_t)digit) / (uint64_t)base)
			return false;
		*n = *n * (uint64_t)base + (uint64_t)digit;
	}
	return true;
}

static bool parse_flags(char *text, struct device_limit *d)
{
	for (char *save, *f = strtok_r(text, ",", &save); f; f = strtok_r(NULL, ",", &save)) {
		if (strcmp(f, "burst") == 0)
			d->burst = true;
		else if (strcmp(f, "oversubscribe") == 0)
			d->oversubscribe = true;
		else
			return false;
	}
	return true;
}

// device reads the rest of a "device" line: UUID memory=N cores=N [flags=a,b].
static bool parse_device(char *save, struct limits *l)
{
	if (l->devices == MAX_DEVICES)
		return false;
	struct device_limit *d = &l->device[l->devices];
	char *uuid = strtok_r(NULL, " ", &save), *memory = strtok_r(NULL, " ", &save), *cores = strtok_r(NULL, " ", &save);
	char *flag = strtok_r(NULL, " ", &save);
	uint64_t percent;
	if (!uuid || !memory || !cores || !uuid_parse(uuid, d->uuid) || strncmp(memory, "memory=", 7) != 0 || strncmp(cores, "cores=", 6) != 0)
		return false;
	if (!parse_number(memory + 7, 10, &d->memory) || !parse_number(cores + 6, 10, &percent) || d->memory == 0 || percent < 1 || percent > 100)
		return false;
	if (flag && (strncmp(flag, "flags=", 6) != 0 || !parse_flags(flag + 6, d) || strtok_r(NULL, " ", &save)))
		return false;
	for (int i = 0; i < l->devices; i++)
		if (memcmp(l->device[i].uuid, d->uuid, 16) == 0)
			return false;
	d->cores = (unsigned)percent;
	l->devices++;
	return true;
}

static bool parse_limits(char *text, struct limits *l)
{
	char *lines, *line = strtok_r(text, "\n", &lines);
	if (!line || strcmp(line, "mesos-gpu-limits 1") != 0)
		return false;
	line = strtok_r(NULL, "\n", &lines);
	if (!line || strncmp(line, "books ", 6) != 0 || strlen(line) != 6 + 16 || !parse_number(line + 6, 16, &l->nonce))
		return false;
	while ((line = strtok_r(NULL, "\n", &lines))) {
		char *words, *word = strtok_r(line, " ", &words);
		if (!word || strcmp(word, "device") != 0 || !parse_device(words, l))
			return false;
	}
	return l->devices > 0;
}

// read_limits_file rejects a file that is not on a read-only mount where
// limits_must_be_mounted is set: a task without the right to mount cannot forge
// such a file.
static bool read_limits_file(char *text, size_t size)
{
	int fd = open(limits_path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	struct statvfs fs;
	ssize_t n = -1, more = 0;
	if (!limits_must_be_mounted || (fstatvfs(fd, &fs) == 0 && (fs.f_flag & ST_RDONLY))) {
		n = 0;
		while ((more = read(fd, text + n, size - (size_t)n)) > 0)
			n += more;
	}
	close(fd);
	if (n <= 0 || more < 0 || (size_t)n == size || memchr(text, 0, (size_t)n) || text[n - 1] != '\n')
		return false;
	text[n] = 0;
	return true;
}

static struct lock limits_lock;
static _Atomic int limits_state; // 0: not read, 1: valid, 2: invalid
static struct limits parsed_limits;

static int load_limits(void)
{
	char text[8192];
	if (read_limits_file(text, sizeof text) && parse_limits(text, &parsed_limits))
		return 1;
	print_error("%s is missing, writable or not understood: no GPU memory can be allocated", limits_path);
	return 2;
}

const struct limits *limits_get(void)
{
	int s = atomic_load_explicit(&limits_state, memory_order_acquire);
	if (s == 0) {
		lock_acquire(&limits_lock);
		s = atomic_load_explicit(&limits_state, memory_order_relaxed);
		if (s == 0) {
			s = load_limits();
			atomic_store_explicit(&limits_state, s, memory_order_release);
		}
		lock_release(&limits_lock);
	}
	return s == 1 ? &parsed_limits : NULL;
}

int limits_find(const uint8_t uuid[16])
{
	const struct limits *l = limits_get();
	for (int i = 0; l && i < l->devices; i++)
		if (memcmp(l->device[i].uuid, uuid, 16) == 0)
			return i;
	return -1;
}

static void limits_after_fork(void) { atomic_store(&limits_lock.word, 0); }
AFTER_FORK(limits_after_fork)
