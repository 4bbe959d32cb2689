// A lock that all containers of a host share: it lies on the library, which is
// mounted into each of them, and can be locked though nobody can write it.
#define _GNU_SOURCE
#include "limiter.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

// A container that never lets go must not stop the others for good: they go on
// without after ten seconds, and find out less.
static const int tries = 2000;
static const struct timespec nap = {0, 5000000};

// host_lock answers what host_unlock wants; -1: it is not to be had.
int host_lock(bool alone)
{
	uncancelled(true);
	int fd = open(shared_path, O_RDONLY | O_CLOEXEC);
	for (int i = 0; fd >= 0 && i < tries; i++) {
		if (flock(fd, (alone ? LOCK_EX : LOCK_SH) | LOCK_NB) == 0)
			return fd;
		if (errno != EWOULDBLOCK && errno != EINTR)
			break;
		nanosleep(&nap, NULL);
	}
	if (fd >= 0)
		close(fd);
	return -1;
}

// A child that the driver has forked meanwhile has the open file too: closing
// ours would not drop the lock.
void host_unlock(int fd)
{
	if (fd >= 0) {
		flock(fd, LOCK_UN);
		close(fd);
	}
	uncancelled(false);
}
