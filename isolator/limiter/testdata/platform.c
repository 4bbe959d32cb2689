// Replaces src/platform.c in tests: files in the test's folder, and the fake
// driver's simulated clock.
#include "../src/limiter.h"
#include <time.h>

// Without TEST_DIR the paths are names that the tests replace in each copy of the
// library: see copyWithPaths. shared_path is any file that all containers of a test share.
#ifdef TEST_DIR
const char limits_path[] = TEST_DIR "/limits";
const char usage_path[] = TEST_DIR "/books";
const char shared_path[] = "/tmp";
#else
const char limits_path[256] = "path of the limits";
const char usage_path[256] = "path of the usage file";
const char shared_path[256] = "path of a shared file";
#endif

#ifndef TEST_MOUNTED
#define TEST_MOUNTED false
#endif
const bool limits_must_be_mounted = TEST_MOUNTED;
const int host_lock_tries = 600; // three seconds

#ifndef TEST_CLOCK_REAL
#define TEST_CLOCK_REAL 0
#endif

static uint64_t simulated(void)
{
	if (TEST_CLOCK_REAL)
		return 0;
	uint64_t (*now)(void) = (uint64_t (*)(void))driver_symbol("standin_now");
	return now ? now() : 0;
}

static uint64_t now_ns(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

uint64_t clock_now_ns(void)
{
	uint64_t ns = simulated();
	return ns ? ns : now_ns(CLOCK_MONOTONIC);
}

// Simulated microseconds since the epoch start at one second.
uint64_t clock_wall_us(void)
{
	uint64_t ns = simulated();
	return ns ? ns / 1000 : now_ns(CLOCK_REALTIME) / 1000;
}

void clock_sleep_ns(uint64_t ns)
{
	if (simulated())
		((void (*)(uint64_t))driver_symbol("standin_sleep"))(ns);
	else
		nanosleep(&(struct timespec){0, (long)ns}, NULL);
}
