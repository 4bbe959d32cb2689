// A library that is preloaded behind the limiter and looks, as allocators do,
// for the function behind its own.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int atoi(const char *s)
{
	int (*behind)(const char *) = (int (*)(const char *))dlsym(RTLD_NEXT, "atoi");
	return behind == atoi ? -1 : behind(s) + 1;
}
