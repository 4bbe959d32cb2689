// Prints the C layout of the usage file.
#include "../src/books.h"
#include <stddef.h>
#include <stdio.h>

int main(void)
{
	printf("%zu %zu %zu %zu %zu\n", sizeof(struct books), offsetof(struct books, device), sizeof(struct books_device), offsetof(struct books, slot), sizeof(struct books_slot));
#define D(f) printf("device." #f " %zu\n", offsetof(struct books_device, f))
	D(uuid), D(limit), D(throttled_ns), D(context_bytes), D(refusals), D(blind), D(check);
#define S(f) printf("slot." #f " %zu\n", offsetof(struct books_slot, f))
	S(pid), S(nvml_pid), S(started), S(pid_ns), S(check), S(used);
	printf("lock %lld %d\n", BOOKS_LOCK_AT, BOOKS_LOCK_SLOT);
	return 0;
}
