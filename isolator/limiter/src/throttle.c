// The core share is a credit of device time. NVML measures how much of a device
// the container's processes used. Each measured interval adds its share of the
// interval to the credit and subtracts the use. Launches wait while the credit
// is negative. Errors do not accumulate: excess use is paid back, so the share
// holds over time for kernels of any length and any number of SMs.
//
// There is no controller thread. A thread that launches or waits measures again
// if the last measurement is too old; one thread in the container does so at a
// time.
#include "limiter.h"
#include <stdlib.h>

// Nonzero until the limits are known, so that the first launch reads them.
_Atomic int launches_limited = 1;

static const uint64_t measure_interval = 50 * 1000000ull, refresh_interval = 10 * 1000000ull, poll_interval = 2 * 1000000ull;
static const uint64_t idle_after_us = 1200 * 1000; // maximum delay before NVML reports use
static const int64_t max_credit = 1500 * 1000000ll, max_debt = -60 * 1000000000ll;
static const uint64_t no_samples_after = 40; // after this many measurements without data launches no longer wait

// This process's copy of each device's credit, refreshed every refresh_interval.
static struct core_budget {
	_Atomic int64_t credit_ns;
	_Atomic uint64_t refreshed_ns;
	_Atomic uint64_t waited_ns; // not yet added to the usage file
	_Atomic bool refreshing;    // a thread is refreshing
	struct device_record local_record; // used if there is no usage file
} core_budgets[MAX_DEVICES];

struct measured_use { bool known, no_samples; uint64_t newest_us; unsigned own_percent, other_percent; };

static bool contains_pid(const uint32_t *pids, int n, unsigned pid)
{
	for (int i = 0; i < n; i++)
		if (pids[i] == pid)
			return true;
	return false;
}

// add_samples adds up the use since since_us, split into the container's n
// processes and others. n < 0 means that not all PIDs are known: all use of the
// device is charged to this container.
static nvmlReturn_t add_samples(struct measured_use *u, nvmlDevice_t d, uint64_t since_us, const uint32_t *pids, int n)
{
	nvmlProcessUtilizationSample_t first_samples[64], *sample = first_samples, *all_samples = NULL;
	unsigned count = sizeof first_samples / sizeof first_samples[0];
	nvmlReturn_t r = REAL(nvmlDeviceGetProcessUtilization)(d, sample, &count, since_us);
	for (int try = 0; try < 3 && r == NVML_ERROR_INSUFFICIENT_SIZE && count <= 1 << 20; try++) {
		count += 64; // more samples may arrive before the next call
		free(all_samples);
		sample = all_samples = malloc(count * sizeof *all_samples);
		r = all_samples ? REAL(nvmlDeviceGetProcessUtilization)(d, sample, &count, since_us) : r;
	}
	for (unsigned i = 0; r == NVML_SUCCESS && i < count; i++) {
		if (sample[i].timeStamp <= since_us)
			continue;
		*(n < 0 || contains_pid(pids, n, sample[i].pid) ? &u->own_percent : &u->other_percent) += sample[i].smUtil;
		u->newest_us = sample[i].timeStamp > u->newest_us ? sample[i].timeStamp : u->newest_us;
	}
	free(all_samples);
	return r;
}

// measure_use returns the use since since_us. If a device has no figures per
// process, its total counts for this container. If it has none at all, as with
// MIG or without NVML, the result has no_samples set.
static struct measured_use measure_use(int device, uint64_t since_us, const uint32_t *pids, int n)
{
	struct measured_use u = {0};
	nvmlUtilization_t rates;
	uint64_t wall = clock_wall_us();
	nvmlDevice_t d = nvml_device(device);
	if (since_us > wall + idle_after_us) { // the clock was set back, or the usage file was modified
		u.known = true;
		u.newest_us = wall;
		return u;
	}
	nvmlReturn_t r = d ? add_samples(&u, d, since_us, pids, n) : NVML_ERROR_FUNCTION_NOT_FOUND;
	if (r != NVML_SUCCESS && r != NVML_ERROR_NOT_FOUND) {
		u.no_samples = !d || REAL(nvmlDeviceGetUtilizationRates)(d, &rates) != NVML_SUCCESS;
		u.own_percent = u.no_samples ? 0 : rates.gpu;
		u.newest_us = wall;
	}
	u.known = u.newest_us > since_us;
	if (!u.known && wall > since_us + idle_after_us) {
		u.known = true; // nothing ran
		u.newest_us = wall - idle_after_us / 2;
	}
	return u;
}

// elapsed_us returns the measured interval in microseconds. The driver stamps
// samples with the wall clock, which may be set meanwhile, so the interval is
// bounded by the monotonic clock.
static uint64_t elapsed_us(const struct device_record *b, const struct measured_use *u, uint64_t now)
{
	uint64_t us = u->newest_us - b->accounted_us, max_us = (now - b->accounted_ns) / 1000 + idle_after_us;
	return us < max_us ? us : max_us;
}

static void update_credit(struct device_record *b, const struct device_limit *l, const struct measured_use *u, uint64_t now)
{
	b->no_samples = u->no_samples ? b->no_samples + 1 : 0;
	if (!u->known)
		return;
	if (b->accounted_us != 0 && u->newest_us > b->accounted_us && !u->no_samples) {
		uint64_t us = elapsed_us(b, u, now);
		int64_t percent = (int64_t)l->cores - (u->own_percent < 100 ? u->own_percent : 100);
		// One percent of a microsecond is ten nanoseconds.
		int64_t credit = b->credit_ns + percent * 10 * (int64_t)(us < 60000000 ? us : 60000000);
		int64_t max_credit_ns = max_credit / 100 * (int64_t)l->cores;
		if (l->burst && u->other_percent == 0 && credit < 0)
			credit = 0; // no other container used the device
		b->credit_ns = credit > max_credit_ns ? max_credit_ns : credit < max_debt ? max_debt : credit;
	}
	b->accounted_us = u->newest_us;
	b->accounted_ns = now;
}

// effective_credit returns the credit that launches wait for. Without measurements the
// share cannot be enforced and launches would wait forever, so it returns 0.
static int64_t effective_credit(const struct device_record *b)
{
	if (b->no_samples < no_samples_after)
		return b->credit_ns;
	PRINT_ERROR_ONCE("NVML shows no use of this device: its core share is not kept, launches do not wait");
	return 0;
}

// collect_pids collects NVML's PIDs of the container's processes. It returns -1 if
// some are not known.
static int collect_pids(const struct usage_file *b, int device, uint32_t pids[MAX_SLOTS])
{
	int n = 0;
	for (int i = 0; i < MAX_SLOTS; i++) {
		const struct process_slot *s = &b->slot[i];
		if (s->pid != 0 && s->nvml_pid == 0 && s->used[device] > 0)
			return -1;
		if (s->nvml_pid != 0)
			pids[n++] = s->nvml_pid;
	}
	return n;
}

// refresh_credit refreshes the credit from the usage file, and measures if the last
// measurement is too old.
static void refresh_credit(int device, uint64_t now)
{
	struct core_budget *p = &core_budgets[device];
	const struct device_limit *l = &limits_get()->device[device];
	uint32_t pids[MAX_SLOTS];
	int n = -1;
	struct usage_file *b;
	bool shared = usage_lock(&b);
	struct device_record *record = shared ? &b->device[device] : &p->local_record;
	uint64_t since = record->accounted_us;
	bool due = now - record->measured_ns >= measure_interval;
	if (shared)
		n = collect_pids(b, device, pids);
	record->throttled_ns += atomic_exchange(&p->waited_ns, 0);
	if (due)
		record->measured_ns = now;
	if (shared) {
		usage_write_device(device);
		usage_unlock();
	}
	struct measured_use u = {0};
	if (due)
		u = measure_use(device, since, pids, n);
	shared = usage_lock(&b);
	record = shared ? &b->device[device] : &p->local_record;
	if (due && record->accounted_us == since) {
		update_credit(record, l, &u, now);
		if (shared)
			usage_write_device(device);
	}
	atomic_store(&p->credit_ns, effective_credit(record));
	if (shared)
		usage_unlock();
	atomic_store(&p->refreshed_ns, now);
}

static void wait_for_credit(int device)
{
	struct core_budget *p = &core_budgets[device];
	uint64_t start = clock_now_ns(), now = start;
	for (;; now = clock_now_ns()) {
		if (now - atomic_load_explicit(&p->refreshed_ns, memory_order_relaxed) >= refresh_interval && !atomic_exchange(&p->refreshing, true)) {
			disable_cancellation(true);
			refresh_credit(device, now);
			atomic_store(&p->refreshing, false);
			disable_cancellation(false);
		}
		if (atomic_load_explicit(&p->credit_ns, memory_order_relaxed) >= 0)
			break;
		clock_sleep_ns(poll_interval);
	}
	if (now != start)
		atomic_fetch_add(&p->waited_ns, now - start);
}

// has_core_limit clears launches_limited permanently if no device has a core limit.
static bool has_core_limit(void)
{
	const struct limits *l = limits_get();
	driver_load();
	for (int i = 0; l && i < l->devices; i++)
		if (l->device[i].cores < 100)
			return true;
	atomic_store_explicit(&launches_limited, 0, memory_order_relaxed);
	return false;
}

void throttle_current(void)
{
	int device;
	if (has_core_limit() && device_current(&device, NULL) == CUDA_SUCCESS && device >= 0 && limits_get()->device[device].cores < 100)
		wait_for_credit(device);
}

// A launch on several devices waits for each device with a core limit.
void throttle_all(void)
{
	for (int i = 0; has_core_limit() && i < limits_get()->devices; i++)
		if (limits_get()->device[i].cores < 100)
			wait_for_credit(i);
}

static void throttle_after_fork(void)
{
	for (int i = 0; i < MAX_DEVICES; i++) {
		atomic_store(&core_budgets[i].refreshing, false);
		atomic_store(&core_budgets[i].waited_ns, 0);
	}
}
AFTER_FORK(throttle_after_fork)
