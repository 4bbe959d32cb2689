// Looks up functions of libcuda.so.1, whose names are the arguments, with
// cuGetProcAddress, and prints which function it returns from which version on.
// Then it calls those that the limiter hooks, without a device, and prints their
// results. The output is the same with the limiter and without it.
#include "../src/limiter.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char **names;
static int count;
static struct found { void *address; const char *name; } *functions;

static int by_address(const void *a, const void *b)
{
	const struct found *x = a, *y = b;
	return x->address < y->address ? -1 : x->address > y->address ? 1 : strcmp(x->name, y->name);
}

// name_of returns the name of a function that the library exports, or what else the lookup left.
static const char *name_of(void *address, void *untouched)
{
	if (!address || address == untouched)
		return address ? "untouched" : "NULL";
	int low = 0, high = count;
	while (low < high) {
		int middle = (low + high) / 2;
		if (functions[middle].address < address)
			low = middle + 1;
		else
			high = middle;
	}
	return low < count && functions[low].address == address ? functions[low].name : "a function that is not exported";
}

// look_up prints the answers for a name, one line for each version that changes them.
static void look_up(void *library, const char *name, uint64_t flags, int form)
{
	static const int versions[] = {1000, 2000, 2010, 2020, 2030, 3000, 3010, 3020, 4000, 4010, 5000, 6000, 6050, 7000, 7050, 8000, 9000, 9020, 10000,
	                               10020, 11000, 11010, 11020, 11030, 11040, 11060, 11080, 12000, 12020, 12030, 12040, 12080, 13000, 99000};
	static CUresult (*first)(const char *, void **, int, uint64_t);
	static CUresult (*second)(const char *, void **, int, uint64_t, int *);
	if (!first) {
		first = (CUresult (*)(const char *, void **, int, uint64_t))dlsym(library, "cuGetProcAddress");
		second = (CUresult (*)(const char *, void **, int, uint64_t, int *))dlsym(library, "cuGetProcAddress_v2");
	}
	if (form == 2 && !second)
		return;
	char before[256] = "", now[256];
	for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++) {
		void *untouched = &untouched, *f = untouched;
		int status = -1;
		CUresult r = form == 1 ? first(name, &f, versions[i], flags) : second(name, &f, versions[i], flags, &status);
		snprintf(now, sizeof now, "%d, status %d, %s", r, status, name_of(f, untouched));
		if (strcmp(now, before) != 0)
			printf("%s, form %d, flags %u, version %d: %s\n", name, form, (unsigned)flags, versions[i], now);
		strcpy(before, now);
	}
}

int main(int argc, char **argv)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	names = argv + 1, count = argc - 1;
	functions = calloc((size_t)count, sizeof *functions);
	for (int i = 0; i < count; i++)
		functions[i] = (struct found){dlsym(library, names[i]), names[i]};
	qsort(functions, (size_t)count, sizeof *functions, by_address);
	for (int i = 0; i < count; i++) {
		char stem[128];
		snprintf(stem, sizeof stem, "%s", names[i]);
		char *suffix = strstr(stem, "_v");
		if (suffix)
			*suffix = 0;
		for (uint64_t flags = 0; flags < 5; flags++)
			for (int form = 1; form <= 2; form++) {
				look_up(library, names[i], flags, form);
				if (suffix)
					look_up(library, stem, flags, form);
			}
	}
	static const char *const hooked[] = {
#define HOOK(lib, name) #name,
#define USE(lib, name)
#include "../src/hooks.def"
	};
	for (size_t i = 0; i < sizeof hooked / sizeof hooked[0]; i++) {
		static uint64_t zeros[10][64];
		CUresult (*call)(void *, ...) = strncmp(hooked[i], "cuGetProc", 9) == 0 ? NULL : (CUresult (*)(void *, ...))dlsym(library, hooked[i]);
		if (!call)
			continue;
		// Each argument is a pointer to zeros; a list that is not one is empty.
		printf("%s without a device: ", hooked[i]);
		fflush(stdout);
		printf("%d\n", call(zeros[0], strncmp(hooked[i], "cuMemMapArrayAsync", 18) == 0 ? NULL : (void *)zeros[1], zeros[2], zeros[3], zeros[4], zeros[5], zeros[6], zeros[7], zeros[8], zeros[9]));
	}
	return 0;
}
