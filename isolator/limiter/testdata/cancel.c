// Repeatedly cancels a thread that allocates and frees without pause, and then
// allocates: every lock of the thread must be free.
#include "../src/cuda.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static void *library;
static CUcontext context;
#define DRIVER(name, ...) ((CUresult (*)(__VA_ARGS__))dlsym(library, name))

static void *work(void *arg)
{
	CUdeviceptr p;
	(void)arg;
	DRIVER("cuCtxSetCurrent", CUcontext)(context);
	for (;; pthread_testcancel())
		if (DRIVER("cuMemAlloc_v2", CUdeviceptr *, size_t)(&p, 4096) == 0)
			DRIVER("cuMemFree_v2", CUdeviceptr)(p);
	return NULL;
}

int main(void)
{
	CUdeviceptr p;
	library = dlopen("libcuda.so.1", RTLD_LAZY);
	alarm(20); // a deadlock ends the test
	if (!library || DRIVER("cuInit", unsigned)(0) || DRIVER("cuCtxCreate_v2", CUcontext *, unsigned, CUdevice)(&context, 0, 0))
		return 1;
	for (int i = 0; i < 20; i++) {
		pthread_t t;
		pthread_create(&t, NULL, work, NULL);
		usleep(3000);
		pthread_cancel(t);
		pthread_join(t, NULL);
	}
	return DRIVER("cuMemAlloc_v2", CUdeviceptr *, size_t)(&p, 4096);
}
