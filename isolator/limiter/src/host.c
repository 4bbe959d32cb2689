// A lock shared by all containers of the host. It is taken on the library,
// which is mounted into each container: flock does not need write permission.
#define _GNU_SOURCE
#include "limiter.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

static const struct timespec retry_interval = {0, 5000000};

// host_lock returns the descriptor for host_unlock, or -1 if the lock is not
// available. Any process of any container can keep the lock and must not block
// the others: with wait they retry host_lock_tries times, else they try once.
// Then they continue without the lock, with less accurate measurements.
int host_lock(bool exclusive, bool wait)
{
	disable_cancellation(true);
	int fd = open(shared_path, O_RDONLY | O_CLOEXEC);
	for (int i = 0; fd >= 0 && i < (wait ? host_lock_tries : 1); i++) {
		if (flock(fd, (exclusive ? LOCK_EX : LOCK_SH) | LOCK_NB) == 0)
			return fd;
		if (errno != EWOULDBLOCK && errno != EINTR)
			break;
		nanosleep(&retry_interval, NULL);
	}
	if (fd >= 0)
		close(fd);
	return -1;
}

// A child that the driver forked meanwhile shares the open file, so closing the
// descriptor alone would not release the lock.
void host_unlock(int fd)
{
	if (fd >= 0) {
		flock(fd, LOCK_UN);
		close(fd);
	}
	disable_cancellation(false);
}
