// Looks up functions of the driver that a program must not find: before libcuda
// is loaded, and in versions that the limiter does not know. It prints what the
// lookups return.
#define _GNU_SOURCE
#include "../src/cuda.h"
#include <dlfcn.h>
#include <stdio.h>

static void print_default(const char *when)
{
	static const char *const names[] = {"cuMemAlloc_v2", "nvmlDeviceGetMemoryInfo"};
	for (int i = 0; i < 2; i++) {
		void *all = dlsym(RTLD_DEFAULT, names[i]), *program = dlsym(dlopen(NULL, RTLD_NOW), names[i]);
		printf("%s: %s %s %s\n", when, names[i], all ? "found" : "not found", program ? "found" : "not found");
	}
}

int main(void)
{
	print_default("without libraries");
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
	dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_GLOBAL);
	print_default("with libraries");
	CUresult (*first)(const char *, void **, int, uint64_t) = dlsym(library, "cuGetProcAddress");
	CUresult (*second)(const char *, void **, int, uint64_t, int *) = dlsym(library, "cuGetProcAddress_v2");
	void *untouched = &untouched, *f = untouched, *g = untouched;
	int status = -1, r = first("cuMemAlloc", &f, 99000, 0), q = second("cuMemAlloc", &g, 99000, 0, &status);
	printf("first form: %d, %s\n", r, f == untouched ? "untouched" : "changed");
	printf("second form: %d, status %d, %s\n", q, status, g ? "not NULL" : "NULL");
	return 0;
}
