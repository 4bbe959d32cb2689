// Prints the C layout of the usage file.
#include "../src/usage_file.h"
#include <stddef.h>
#include <stdio.h>

int main(void)
{
	printf("%zu %zu %zu %zu %zu\n", sizeof(struct usage_file), offsetof(struct usage_file, device), sizeof(struct device_record), offsetof(struct usage_file, slot), sizeof(struct process_slot));
#define D(f) printf("device." #f " %zu\n", offsetof(struct device_record, f))
	D(uuid), D(limit), D(throttled_ns), D(context_bytes), D(refusals), D(no_samples), D(checksum);
#define S(f) printf("slot." #f " %zu\n", offsetof(struct process_slot, f))
	S(pid), S(nvml_pid), S(started), S(pid_ns), S(checksum), S(used);
	printf("lock %lld %d\n", LOCK_OFFSET, LOCK_FIRST_SLOT);
	return 0;
}
