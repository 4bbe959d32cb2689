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
_Atomic int launch_gate = 1;

static const uint64_t poll_every = 50 * 1000000ull, look_every = 10 * 1000000ull, nap = 2 * 1000000ull;
static const uint64_t idle_after_us = 1200 * 1000; // maximum delay before NVML reports use
static const int64_t most_credit = 1500 * 1000000ll, most_debt = -60 * 1000000000ll;
static const uint64_t blind_after = 40; // after this many measurements without data launches no longer wait

// This process's copy of each device's credit, refreshed every look_every.
static struct pace {
	_Atomic int64_t credit_ns;
	_Atomic uint64_t looked_ns;
	_Atomic uint64_t waited_ns; // not yet added to the usage file
	_Atomic bool busy;          // a thread is refreshing
	struct books_device own;    // used if there is no usage file
} pace[BOOKS_DEVICES];

struct use { bool known, blind; uint64_t newest_us; unsigned ours, others; };

static bool is_ours(const uint32_t *pids, int n, unsigned pid)
{
	for (int i = 0; i < n; i++)
		if (pids[i] == pid)
			return true;
	return false;
}

// sampled adds up the use since since_us, split into the container's n
// processes and others. n < 0 means that not all PIDs are known: all use of the
// device is charged to this container.
static nvmlReturn_t sampled(struct use *u, nvmlDevice_t d, uint64_t since_us, const uint32_t *pids, int n)
{
	nvmlProcessUtilizationSample_t few[64], *sample = few, *many = NULL;
	unsigned count = sizeof few / sizeof few[0];
	nvmlReturn_t r = REAL(nvmlDeviceGetProcessUtilization)(d, sample, &count, since_us);
	for (int try = 0; try < 3 && r == NVML_ERROR_INSUFFICIENT_SIZE && count <= 1 << 20; try++) {
		count += 64; // more samples may arrive before the next call
		free(many);
		sample = many = malloc(count * sizeof *many);
		r = many ? REAL(nvmlDeviceGetProcessUtilization)(d, sample, &count, since_us) : r;
	}
	for (unsigned i = 0; r == NVML_SUCCESS && i < count; i++) {
		if (sample[i].timeStamp <= since_us)
			continue;
		*(n < 0 || is_ours(pids, n, sample[i].pid) ? &u->ours : &u->others) += sample[i].smUtil;
		u->newest_us = sample[i].timeStamp > u->newest_us ? sample[i].timeStamp : u->newest_us;
	}
	free(many);
	return r;
}

// measure returns the use since since_us. If a device has no figures per
// process, its total counts for this container. If it has none at all, as with
// MIG or without NVML, the result is blind.
static struct use measure(int device, uint64_t since_us, const uint32_t *pids, int n)
{
	struct use u = {0};
	nvmlUtilization_t rates;
	uint64_t wall = clock_wall_us();
	nvmlDevice_t d = nvml_device(device);
	if (since_us > wall + idle_after_us) { // the clock was set back, or the usage file was modified
		u.known = true;
		u.newest_us = wall;
		return u;
	}
	nvmlReturn_t r = d ? sampled(&u, d, since_us, pids, n) : NVML_ERROR_FUNCTION_NOT_FOUND;
	if (r != NVML_SUCCESS && r != NVML_ERROR_NOT_FOUND) {
		u.blind = !d || REAL(nvmlDeviceGetUtilizationRates)(d, &rates) != NVML_SUCCESS;
		u.ours = u.blind ? 0 : rates.gpu;
		u.newest_us = wall;
	}
	u.known = u.newest_us > since_us;
	if (!u.known && wall > since_us + idle_after_us) {
		u.known = true; // nothing ran
		u.newest_us = wall - idle_after_us / 2;
	}
	return u;
}

// passed returns the measured interval in microseconds. The driver stamps
// samples with the wall clock, which may be set meanwhile, so the interval is
// bounded by the monotonic clock.
static uint64_t passed(const struct books_device *b, const struct use *u, uint64_t now)
{
	uint64_t us = u->newest_us - b->accounted_us, most = (now - b->accounted_ns) / 1000 + idle_after_us;
	return us < most ? us : most;
}

static void account(struct books_device *b, const struct device_limit *l, const struct use *u, uint64_t now)
{
	b->blind = u->blind ? b->blind + 1 : 0;
	if (!u->known)
		return;
	if (b->accounted_us != 0 && u->newest_us > b->accounted_us && !u->blind) {
		uint64_t us = passed(b, u, now);
		int64_t percent = (int64_t)l->cores - (u->ours < 100 ? u->ours : 100);
		// One percent of a microsecond is ten nanoseconds.
		int64_t credit = b->credit_ns + percent * 10 * (int64_t)(us < 60000000 ? us : 60000000);
		int64_t top = most_credit / 100 * (int64_t)l->cores;
		if (l->burst && u->others == 0 && credit < 0)
			credit = 0; // no other container used the device
		b->credit_ns = credit > top ? top : credit < most_debt ? most_debt : credit;
	}
	b->accounted_us = u->newest_us;
	b->accounted_ns = now;
}

// credit returns the credit that launches wait for. Without measurements the
// share cannot be enforced and launches would wait forever, so it returns 0.
static int64_t credit(const struct books_device *b)
{
	if (b->blind < blind_after)
		return b->credit_ns;
	COMPLAIN_ONCE("NVML shows no use of this device: its core share is not kept, launches do not wait");
	return 0;
}

// pids_of collects NVML's PIDs of the container's processes. It returns -1 if
// some are not known.
static int pids_of(const struct books *b, int device, uint32_t pids[BOOKS_SLOTS])
{
	int n = 0;
	for (int i = 0; i < BOOKS_SLOTS; i++) {
		const struct books_slot *s = &b->slot[i];
		if (s->pid != 0 && s->nvml_pid == 0 && s->used[device] > 0)
			return -1;
		if (s->nvml_pid != 0)
			pids[n++] = s->nvml_pid;
	}
	return n;
}

// look refreshes the credit from the usage file, and measures if the last
// measurement is too old.
static void look(int device, uint64_t now)
{
	struct pace *p = &pace[device];
	const struct device_limit *l = &limits_get()->device[device];
	uint32_t pids[BOOKS_SLOTS];
	int n = -1;
	struct books *b;
	bool shared = books_take(&b);
	struct books_device *record = shared ? &b->device[device] : &p->own;
	uint64_t since = record->accounted_us;
	bool due = now - record->polled_ns >= poll_every;
	if (shared)
		n = pids_of(b, device, pids);
	record->throttled_ns += atomic_exchange(&p->waited_ns, 0);
	if (due)
		record->polled_ns = now;
	if (shared) {
		books_write_device(device);
		books_drop();
	}
	struct use u = {0};
	if (due)
		u = measure(device, since, pids, n);
	shared = books_take(&b);
	record = shared ? &b->device[device] : &p->own;
	if (due && record->accounted_us == since) {
		account(record, l, &u, now);
		if (shared)
			books_write_device(device);
	}
	atomic_store(&p->credit_ns, credit(record));
	if (shared)
		books_drop();
	atomic_store(&p->looked_ns, now);
}

static void throttle(int device)
{
	struct pace *p = &pace[device];
	uint64_t began = clock_now_ns(), now = began;
	for (;; now = clock_now_ns()) {
		if (now - atomic_load_explicit(&p->looked_ns, memory_order_relaxed) >= look_every && !atomic_exchange(&p->busy, true)) {
			uncancelled(true);
			look(device, now);
			atomic_store(&p->busy, false);
			uncancelled(false);
		}
		if (atomic_load_explicit(&p->credit_ns, memory_order_relaxed) >= 0)
			break;
		clock_sleep_ns(nap);
	}
	if (now != began)
		atomic_fetch_add(&p->waited_ns, now - began);
}

// limited opens the gate permanently if no device has a core limit.
static bool limited(void)
{
	const struct limits *l = limits_get();
	driver_load();
	for (int i = 0; l && i < l->devices; i++)
		if (l->device[i].cores < 100)
			return true;
	atomic_store_explicit(&launch_gate, 0, memory_order_relaxed);
	return false;
}

void throttle_current(void)
{
	int device;
	if (limited() && device_current(&device, NULL) == CUDA_SUCCESS && device >= 0 && limits_get()->device[device].cores < 100)
		throttle(device);
}

// A launch on several devices waits for each device with a core limit.
void throttle_all(void)
{
	for (int i = 0; limited() && i < limits_get()->devices; i++)
		if (limits_get()->device[i].cores < 100)
			throttle(i);
}

static void throttle_after_fork(void)
{
	for (int i = 0; i < BOOKS_DEVICES; i++) {
		atomic_store(&pace[i].busy, false);
		atomic_store(&pace[i].waited_ns, 0);
	}
}
AFTER_FORK(throttle_after_fork)
