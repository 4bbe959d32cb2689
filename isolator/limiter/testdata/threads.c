// Threads of one process that use all functions concurrently, for the
// sanitizers. The limiter is linked in.
#define _GNU_SOURCE
#include "../src/cuda.h"
#include "../src/limiter.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static CUcontext context;
static _Atomic int failures;

static void *work(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg;
	CUdeviceptr address = (CUdeviceptr)arg << 32;
	((CUresult(*)(CUcontext))driver_symbol("cuCtxSetCurrent"))(context);
	for (int i = 0; i < 300; i++) {
		CUdeviceptr p = 0, q = 0;
		size_t free, total;
		CUmodule m;
		CUarray a;
		CUmemGenericAllocationHandle h, import;
		CUgraph g;
		CUgraphExec e;
		CUDA_MEM_ALLOC_NODE_PARAMS node = {.poolProps = {.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}}, .bytesize = 1000};
		CUDA_ARRAY_DESCRIPTOR d = {64, 64, 0x20, 4};
		CUmemAllocationProp prop = {.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
		if (cuMemAlloc_v2(&p, 1 + (size_t)rand_r(&seed) % 1000000) == 0)
			failures += cuMemFree_v2(p) != 0;
		if (cuMemAllocAsync(&q, 1000, NULL) == 0)
			failures += cuMemFreeAsync(q, NULL) != 0;
		if (cuModuleLoadData(&m, "") == 0)
			failures += cuModuleUnload(m) != 0;
		if (cuArrayCreate_v2(&a, &d) == 0)
			failures += cuArrayDestroy(a) != 0;
		if (cuMemCreate(&h, 4096, &prop, 0) == 0) {
			failures += cuMemImportFromShareableHandle(&import, (void *)h, 1) != 0 || cuMemRelease(import) != 0;
			failures += cuMemMap(address, 4096, 0, h, 0) != 0 || cuMemRelease(h) != 0 || cuMemUnmap(address, 4096) != 0;
		}
		failures += ((CUresult(*)(CUgraph *, unsigned))driver_symbol("cuGraphCreate"))(&g, 0) != 0;
		if (cuGraphAddMemAllocNode(NULL, g, NULL, 0, &node) == 0)
			failures += cuGraphInstantiateWithFlags(&e, g, 0) != 0 || cuGraphExecDestroy(e) != 0;
		failures += cuGraphDestroy(g) != 0;
		failures += cuMemGetInfo_v2(&free, &total) != 0 || free > total;
		failures += cuLaunchKernel((CUfunction)(uintptr_t)1000, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) != 0;
	}
	return NULL;
}

// A child forked while other threads hold locks must be able to use everything.
static int forked(void)
{
	int status;
	pid_t child = fork();
	if (child == 0) {
		CUcontext own;
		CUdeviceptr p;
		_exit(cuCtxCreate_v2(&own, 0, 0) || cuMemAlloc_v2(&p, 1000));
	}
	waitpid(child, &status, 0);
	return status;
}

int main(int argc, char **argv)
{
	pthread_t t[6];
	(void)argv;
	if (cuCtxCreate_v2(&context, 0, 0) != 0)
		return 2;
	for (uintptr_t i = 0; i < 6; i++)
		pthread_create(&t[i], NULL, work, (void *)(i + 1));
	for (int i = 0; argc > 1 && i < 20; i++)
		failures += forked() != 0;
	for (int i = 0; i < 6; i++)
		pthread_join(t[i], NULL);
	uint64_t used;
	failures += cuCtxSynchronize() != 0 || cuCtxDestroy_v2(context) != 0 || !usage_total(0, &used) || used != 0;
	printf("%d failures, %lu bytes left\n", failures, (unsigned long)used);
	return failures != 0;
}
