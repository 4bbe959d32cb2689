// Memory that graphs allocate as they run. The driver takes it at the first
// launch and keeps it for the device's graphs until it is trimmed; it is
// charged when the node is made, which is when it can still be refused.
#include "limiter.h"

static struct lock graph_lock;
static uint64_t charged[BOOKS_DEVICES];

CUresult graph_memory(int device, uint64_t bytes)
{
	struct charge c;
	CUresult r = charge_on(&c, device, bytes);
	if (r != CUDA_SUCCESS)
		return r;
	lock_take(&graph_lock);
	charged[device] += bytes;
	lock_drop(&graph_lock);
	return CUDA_SUCCESS;
}

static void give_back(int device, uint64_t keep)
{
	lock_take(&graph_lock);
	if (charged[device] > keep) {
		books_release(device, charged[device] - keep);
		charged[device] = keep;
	}
	lock_drop(&graph_lock);
}

CUresult cuGraphAddMemAllocNode(CUgraphNode *n, CUgraph g, const CUgraphNode *d, size_t count, CUDA_MEM_ALLOC_NODE_PARAMS *p)
{
	int device = p ? device_index(p->poolProps.location.id) : -1;
	CUresult r = p ? graph_memory(device, p->bytesize) : CUDA_SUCCESS;
	return r == CUDA_SUCCESS ? REAL(cuGraphAddMemAllocNode)(n, g, d, count, p) : r;
}

static CUresult any_node(const CUgraphNodeParams *p)
{
	if (!p || p->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC)
		return CUDA_SUCCESS;
	return graph_memory(device_index(p->alloc.poolProps.location.id), p->alloc.bytesize);
}

CUresult cuGraphAddNode(CUgraphNode *n, CUgraph g, const CUgraphNode *d, size_t count, CUgraphNodeParams *p)
{
	CUresult r = any_node(p);
	return r == CUDA_SUCCESS ? REAL(cuGraphAddNode)(n, g, d, count, p) : r;
}

CUresult cuGraphAddNode_v2(CUgraphNode *n, CUgraph g, const CUgraphNode *d, const void *edges, size_t count, CUgraphNodeParams *p)
{
	CUresult r = any_node(p);
	return r == CUDA_SUCCESS ? REAL(cuGraphAddNode_v2)(n, g, d, edges, count, p) : r;
}

CUresult cuDeviceGraphMemTrim(CUdevice device)
{
	uint64_t keep;
	CUresult r = REAL(cuDeviceGraphMemTrim)(device);
	int index = device_index(device);
	if (r == CUDA_SUCCESS && index >= 0 && REAL(cuDeviceGetGraphMemAttribute)(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &keep) == CUDA_SUCCESS)
		give_back(index, keep);
	return r;
}

void graphs_after_fork(void)
{
	for (int i = 0; i < BOOKS_DEVICES; i++)
		charged[i] = 0;
	atomic_store(&graph_lock.word, 0);
}
