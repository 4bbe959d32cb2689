// Memory that graphs allocate while they run. The driver allocates it at the
// first launch and keeps it for the device's graphs until it is trimmed. The
// charge is the larger of two figures: the sum of the allocation nodes of all
// graphs that exist, and what the driver has reserved. Nodes are charged when
// they are added, because only then can they be refused.
#include "limiter.h"
#include <stdlib.h>

// A graph with allocation nodes and its executable graph. The driver allows one
// executable at a time; each may outlive the other.
struct graph {
	struct graph *next;
	CUgraph made;
	CUgraphExec exec;
	uint64_t bytes[BOOKS_DEVICES];
};
static struct graph *graphs;
static struct lock graph_lock;
static uint64_t nodes[BOOKS_DEVICES], charged[BOOKS_DEVICES];
static const CUgraph unknown = (CUgraph)-1; // never destroyed

static uint64_t kept(int device)
{
	uint64_t bytes;
	return REAL(cuDeviceGetGraphMemAttribute)(device_ordinal(device), CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &bytes) == CUDA_SUCCESS ? bytes : 0;
}

// settle adjusts the charge to what is due. It returns false if that exceeds
// the limit. Memory that the driver has already reserved is always charged.
static bool settle(int device)
{
	uint64_t reserved = kept(device), due = nodes[device] > reserved ? nodes[device] : reserved;
	if (due < charged[device])
		books_release(device, charged[device] - due);
	else if (due > charged[device] && due == reserved)
		books_charge(device, due - charged[device]);
	else if (due > charged[device] && charge_on(&(struct charge){0}, device, due - charged[device]) != CUDA_SUCCESS)
		return false;
	charged[device] = due;
	return true;
}

static struct graph *of(CUgraph g)
{
	struct graph *at = graphs;
	g = g ? g : unknown;
	while (at && at->made != g)
		at = at->next;
	if (!at && (at = calloc(1, sizeof *at))) {
		*at = (struct graph){.next = graphs, .made = g};
		graphs = at;
	}
	return at;
}

CUresult graph_memory(CUgraph graph, int device, uint64_t bytes)
{
	CUresult r = CUDA_ERROR_OUT_OF_MEMORY;
	if (device < 0)
		return charge_on(&(struct charge){0}, device, bytes);
	lock_take(&graph_lock);
	struct graph *g = of(graph);
	nodes[device] += bytes;
	if (g && nodes[device] >= bytes && settle(device)) {
		g->bytes[device] += bytes;
		r = CUDA_SUCCESS;
	} else {
		nodes[device] -= bytes;
	}
	lock_drop(&graph_lock);
	return r;
}

// graph_memory_back reverts graph_memory for a node that could not be added.
void graph_memory_back(CUgraph graph, int device, uint64_t bytes)
{
	lock_take(&graph_lock);
	struct graph *g = of(graph);
	if (g && g->bytes[device] >= bytes) {
		g->bytes[device] -= bytes;
		nodes[device] -= bytes;
		settle(device);
	}
	lock_drop(&graph_lock);
}

CUresult cuGraphAddMemAllocNode(CUgraphNode *n, CUgraph g, const CUgraphNode *d, size_t count, CUDA_MEM_ALLOC_NODE_PARAMS *p)
{
	int device = p ? device_index(p->poolProps.location.id) : -1;
	CUresult r = p ? graph_memory(g, device, p->bytesize) : CUDA_SUCCESS;
	if (r != CUDA_SUCCESS)
		return r;
	r = REAL(cuGraphAddMemAllocNode)(n, g, d, count, p);
	if (r != CUDA_SUCCESS && device >= 0)
		graph_memory_back(g, device, p->bytesize);
	return r;
}

static CUresult any_node(CUgraph g, const CUgraphNodeParams *p)
{
	if (!p || p->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC)
		return CUDA_SUCCESS;
	return graph_memory(g, device_index(p->alloc.poolProps.location.id), p->alloc.bytesize);
}

CUresult cuGraphAddNode(CUgraphNode *n, CUgraph g, const CUgraphNode *d, size_t count, CUgraphNodeParams *p)
{
	CUresult r = any_node(g, p);
	return r == CUDA_SUCCESS ? REAL(cuGraphAddNode)(n, g, d, count, p) : r;
}

CUresult cuGraphAddNode_v2(CUgraphNode *n, CUgraph g, const CUgraphNode *d, const void *edges, size_t count, CUgraphNodeParams *p)
{
	CUresult r = any_node(g, p);
	return r == CUDA_SUCCESS ? REAL(cuGraphAddNode_v2)(n, g, d, edges, count, p) : r;
}

static CUresult instantiated(CUresult r, const CUgraphExec *exec, CUgraph g)
{
	lock_take(&graph_lock);
	for (struct graph *at = r == CUDA_SUCCESS ? graphs : NULL; at; at = at->next)
		if (at->made == g)
			at->exec = *exec;
	lock_drop(&graph_lock);
	return r;
}

#define INSTANTIATE(name, parameters, arguments) \
	CUresult name parameters { return instantiated(REAL(name) arguments, e, g); }

INSTANTIATE(cuGraphInstantiate, (CUgraphExec *e, CUgraph g, CUgraphNode *bad, char *log, size_t n), (e, g, bad, log, n))
INSTANTIATE(cuGraphInstantiate_v2, (CUgraphExec *e, CUgraph g, CUgraphNode *bad, char *log, size_t n), (e, g, bad, log, n))
INSTANTIATE(cuGraphInstantiateWithFlags, (CUgraphExec *e, CUgraph g, unsigned long long flags), (e, g, flags))
INSTANTIATE(cuGraphInstantiateWithParams, (CUgraphExec *e, CUgraph g, void *p), (e, g, p))
INSTANTIATE(cuGraphInstantiateWithParams_ptsz, (CUgraphExec *e, CUgraph g, void *p), (e, g, p))

// forget drops the handle before the driver can reuse it.
static struct graph *forget(CUgraph g, CUgraphExec e)
{
	lock_take(&graph_lock);
	struct graph *at = graphs;
	while (at && !(g ? at->made == g : at->exec == e))
		at = at->next;
	if (at && g)
		at->made = NULL;
	else if (at)
		at->exec = NULL;
	lock_drop(&graph_lock);
	return at;
}

// end removes g if neither handle is left. Another thread may have removed it
// already.
static void end(struct graph *g)
{
	lock_take(&graph_lock);
	struct graph **at = &graphs;
	while (*at && *at != g)
		at = &(*at)->next;
	if (*at && !g->made && !g->exec) {
		*at = g->next;
		for (int i = 0; i < BOOKS_DEVICES; i++)
			if (g->bytes[i]) {
				nodes[i] -= g->bytes[i];
				settle(i);
			}
		free(g);
	}
	lock_drop(&graph_lock);
}

CUresult cuGraphDestroy(CUgraph g)
{
	struct graph *known = g ? forget(g, NULL) : NULL;
	CUresult r = REAL(cuGraphDestroy)(g);
	end(known);
	return r;
}

CUresult cuGraphExecDestroy(CUgraphExec e)
{
	struct graph *known = e ? forget(NULL, e) : NULL;
	CUresult r = REAL(cuGraphExecDestroy)(e);
	end(known);
	return r;
}

CUresult cuDeviceGraphMemTrim(CUdevice device)
{
	CUresult r = REAL(cuDeviceGraphMemTrim)(device);
	int index = device_index(device);
	lock_take(&graph_lock);
	if (r == CUDA_SUCCESS && index >= 0)
		settle(index);
	lock_drop(&graph_lock);
	return r;
}

static void graphs_after_fork(void)
{
	graphs = NULL;
	for (int i = 0; i < BOOKS_DEVICES; i++)
		nodes[i] = charged[i] = 0;
	atomic_store(&graph_lock.word, 0);
}
AFTER_FORK(graphs_after_fork)
