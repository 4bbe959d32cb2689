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

static const uint64_t poll_every = 50 * 1000000ull, look_every = 10 * 1000000ull, nap = 2 * 1000000ull;
static const uint64_t idle_after_us = 1200 * 1000; // NVML shows use at the latest after this
static const int64_t most_credit = 1500 * 1000000ll, most_debt = -60 * 1000000000ll;

// What this process knows of each device, looked up every look_every.
static struct pace {
	_Atomic int64_t credit_ns;
	_Atomic uint64_t looked_ns;
	_Atomic uint64_t waited_ns; // not yet in the books
	_Atomic bool busy;          // a thread is looking
	struct books_device own;    // stands in for the books where there are none
} pace[BOOKS_DEVICES];

struct use { bool known; uint64_t newest_us; unsigned ours, others; };

static bool is_ours(const uint32_t *pids, int n, unsigned pid)
{
	for (int i = 0; i < n; i++)
		if (pids[i] == pid)
			return true;
	return false;
}

// measure asks for what was seen since; a container of whose processes not all
// are known by NVML's numbers is charged with all that the device did.
static struct use measure(int device, uint64_t since_us, const uint32_t *pids, int n)
{
	nvmlProcessUtilizationSample_t sample[256];
	unsigned count = sizeof sample / sizeof sample[0];
	struct use u = {0};
	nvmlDevice_t d = nvml_device(device);
	nvmlReturn_t r = d ? REAL(nvmlDeviceGetProcessUtilization)(d, sample, &count, since_us) : NVML_ERROR_FUNCTION_NOT_FOUND;
	if (r == NVML_SUCCESS) {
		for (unsigned i = 0; i < count; i++) {
			if (sample[i].timeStamp <= since_us)
				continue;
			*(n < 0 || is_ours(pids, n, sample[i].pid) ? &u.ours : &u.others) += sample[i].smUtil;
			u.newest_us = sample[i].timeStamp > u.newest_us ? sample[i].timeStamp : u.newest_us;
		}
	} else if (r != NVML_ERROR_NOT_FOUND) { // no such figures on this device, as with MIG
		nvmlUtilization_t rates;
		u.newest_us = clock_wall_us();
		u.ours = d && REAL(nvmlDeviceGetUtilizationRates)(d, &rates) == NVML_SUCCESS ? rates.gpu : 100;
	}
	u.known = u.newest_us > since_us;
	if (!u.known && clock_wall_us() > since_us + idle_after_us) {
		u.known = true; // nothing ran
		u.newest_us = clock_wall_us() - idle_after_us / 2;
	}
	return u;
}

static void account(struct books_device *b, const struct device_limit *l, const struct use *u)
{
	if (!u->known)
		return;
	if (b->accounted_us != 0 && u->newest_us > b->accounted_us) {
		uint64_t us = u->newest_us - b->accounted_us;
		int64_t percent = (int64_t)l->cores - (u->ours < 100 ? u->ours : 100);
		// A percent of a microsecond is ten nanoseconds.
		int64_t credit = b->credit_ns + percent * 10 * (int64_t)(us < 60000000 ? us : 60000000);
		int64_t top = most_credit / 100 * (int64_t)l->cores;
		if (l->burst && u->others == 0 && credit < 0)
			credit = 0; // nobody else wanted the device
		b->credit_ns = credit > top ? top : credit < most_debt ? most_debt : credit;
	}
	b->accounted_us = u->newest_us;
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
		account(record, l, &u);
		if (shared)
			books_write_device(device);
	}
	atomic_store(&p->credit_ns, record->credit_ns);
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
			look(device, now);
			atomic_store(&p->busy, false);
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
	table_ready();
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

void throttle_after_fork(void)
{
	for (int i = 0; i < BOOKS_DEVICES; i++) {
		atomic_store(&pace[i].busy, false);
		atomic_store(&pace[i].waited_ns, 0);
	}
}
