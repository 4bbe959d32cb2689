// The core share, by debt and credit of device time. What the container's
// processes used of a device is measured by NVML; each measured interval adds
// the share of its length to the credit and takes off what was used. Launches
// wait while the credit is negative. Errors do not pile up: whatever ran too
// long is paid back, so that the share holds over time, kernels of any length,
// any number of SMs.
//
// There is no controlling thread: whoever launches or waits and finds the last
// measurement old takes it again, one in the container at a time.
#include "limiter.h"
#include <stdlib.h>

// Closed until the limits are known, so that the first launch reads them.
_Atomic int launch_gate = 1;

static const uint64_t poll_every = 50 * 1000000ull, look_every = 10 * 1000000ull, nap = 2 * 1000000ull;
static const uint64_t idle_after_us = 1200 * 1000; // NVML shows use at the latest after this
static const int64_t most_credit = 1500 * 1000000ll, most_debt = -60 * 1000000000ll;
static const uint64_t blind_after = 40; // looks that showed nothing: then launches no longer wait

// What this process knows of each device, looked up every look_every.
static struct pace {
	_Atomic int64_t credit_ns;
	_Atomic uint64_t looked_ns;
	_Atomic uint64_t waited_ns; // not yet in the books
	_Atomic bool busy;          // a thread is looking
	struct books_device own;    // stands in for the books where there are none
} pace[BOOKS_DEVICES];

struct use { bool known, blind; uint64_t newest_us; unsigned ours, others; };

static bool is_ours(const uint32_t *pids, int n, unsigned pid)
{
	for (int i = 0; i < n; i++)
		if (pids[i] == pid)
			return true;
	return false;
}

// sampled adds up what was seen since of n processes; a container of whose
// processes not all are known by NVML's numbers is charged with all that the
// device did.
static nvmlReturn_t sampled(struct use *u, nvmlDevice_t d, uint64_t since_us, const uint32_t *pids, int n)
{
	nvmlProcessUtilizationSample_t few[64], *sample = few, *many = NULL;
	unsigned count = sizeof few / sizeof few[0];
	nvmlReturn_t r = REAL(nvmlDeviceGetProcessUtilization)(d, sample, &count, since_us);
	for (int try = 0; try < 3 && r == NVML_ERROR_INSUFFICIENT_SIZE && count <= 1 << 20; try++) {
		count += 64; // more may come until the next call
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

// measure asks for what was seen since. Where a device has no figures of
// processes its own count, all of them for this container; where it has none at
// all, as with MIG or without NVML, the look was blind.
static struct use measure(int device, uint64_t since_us, const uint32_t *pids, int n)
{
	struct use u = {0};
	nvmlUtilization_t rates;
	uint64_t wall = clock_wall_us();
	nvmlDevice_t d = nvml_device(device);
	if (since_us > wall + idle_after_us) { // the clock was set back, or a hand was in the books
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

// passed is how long the use was measured for. The driver stamps it with the
// time of day, which may be set meanwhile; so much more than in truth went by
// it cannot have been.
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
		// A percent of a microsecond is ten nanoseconds.
		int64_t credit = b->credit_ns + percent * 10 * (int64_t)(us < 60000000 ? us : 60000000);
		int64_t top = most_credit / 100 * (int64_t)l->cores;
		if (l->burst && u->others == 0 && credit < 0)
			credit = 0; // nobody else wanted the device
		b->credit_ns = credit > top ? top : credit < most_debt ? most_debt : credit;
	}
	b->accounted_us = u->newest_us;
	b->accounted_ns = now;
}

// credit is what launches go by. Without figures there is no share to keep, and
// waiting for some would be for ever.
static int64_t credit(const struct books_device *b)
{
	if (b->blind < blind_after)
		return b->credit_ns;
	COMPLAIN_ONCE("NVML shows no use of this device: its core share is not kept, launches do not wait");
	return 0;
}

// pids_of lists the container's processes by NVML's numbers; -1: some are not
// known.
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

// look takes over what the books say, and measures when it is due.
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

// limited opens the gate for good where there is nothing to limit.
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

// A launch on several devices waits for each that is limited.
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
