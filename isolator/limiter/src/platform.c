// Paths of the mounted files, the wait for the host's lock, and the clocks. The tests build the limiter with
// testdata/platform.c instead.
#include "limiter.h"
#include <time.h>

const char limits_path[] = "/run/mesos-gpu/limits";
const char usage_path[] = "/run/mesos-gpu/books";
const char shared_path[] = "/run/mesos-gpu/libmesosgpu.so";
const bool limits_must_be_mounted = true;
const int host_lock_tries = 2000; // ten seconds: many contexts may be created in turn when a host starts its tasks

static uint64_t now_ns(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

uint64_t clock_now_ns(void) { return now_ns(CLOCK_MONOTONIC); }
uint64_t clock_wall_us(void) { return now_ns(CLOCK_REALTIME) / 1000; }

void clock_sleep_ns(uint64_t ns)
{
	struct timespec t = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
	nanosleep(&t, NULL);
}
