// Makes the fake driver list the devices of which the container has shares, in the
// order of MESOS_GPU_SHARE. A real driver lists the devices that it can open.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void __wrap_uuid_of(int device, uint8_t uuid[16])
{
	const char *at = getenv("MESOS_GPU_SHARE");
	memset(uuid, 0xff, 16);
	for (int i = 0; at && i < device; i++)
		at = (at = strchr(at, ';')) ? at + 1 : NULL;
	if (!at || strncmp(at, "GPU-", 4) != 0)
		return;
	at += 4;
	for (int i = 0; i < 16; i++) {
		at += *at == '-';
		if (sscanf(at, "%2hhx", &uuid[i]) != 1)
			return;
		at += 2;
	}
}
