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
	CUgraph handle;
	CUgraphExec exec;
	uint64_t bytes[MAX_DEVICES];
};
static struct graph *graphs;
static struct lock graph_lock;
static uint64_t node_bytes[MAX_DEVICES], charged_bytes[MAX_DEVICES];
static const CUgraph unknown_graph = (CUgraph)-1; // never destroyed

static uint64_t read_reserved(int device)
{
	uint64_t bytes;
	return REAL(cuDeviceGetGraphMemAttribute)(device_ordinal(device), CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &bytes) == CUDA_SUCCESS ? bytes : 0;
}

// update_charge adjusts the charge to what is due. It returns false if that exceeds
// the limit. Memory that the driver has already reserved is always charged.
static bool update_charge(int device)
{
	uint64_t reserved = read_reserved(device), due = node_bytes[device] > reserved ? node_bytes[device] : reserved;
	if (due < charged_bytes[device])
		usage_release(device, charged_bytes[device] - due);
	else if (due > charged_bytes[device] && due == reserved)
		usage_charge(device, due - charged_bytes[device]);
	else if (due > charged_bytes[device] && charge_device(&(struct charge){0}, device, due - charged_bytes[device]) != CUDA_SUCCESS)
		return false;
	charged_bytes[device] = due;
	return true;
}

static struct graph *find_or_add_graph(CUgraph g)
{
	struct graph *at = graphs;
	g = g ? g : unknown_graph;
	while (at && at->handle != g)
		at = at->next;
	if (!at && (at = calloc(1, sizeof *at))) {
		*at = (struct graph){.next = graphs, .handle = g};
		graphs = at;
	}
	return at;
}

CUresult graph_reserve(CUgraph graph, int device, uint64_t bytes)
{
	CUresult r = CUDA_ERROR_OUT_OF_MEMORY;
	if (device < 0)
		return charge_device(&(struct charge){0}, device, bytes);
	lock_acquire(&graph_lock);
	struct graph *g = find_or_add_graph(graph);
	node_bytes[device] += bytes;
	if (g && node_bytes[device] >= bytes && update_charge(device)) {
		g->bytes[device] += bytes;
		r = CUDA_SUCCESS;
	} else {
		node_bytes[device] -= bytes;
	}
	lock_release(&graph_lock);
	return r;
}

// graph_unreserve reverts graph_reserve for a node that could not be added.
void graph_unreserve(CUgraph graph, int device, uint64_t bytes)
{
	lock_acquire(&graph_lock);
	struct graph *g = find_or_add_graph(graph);
	if (g && g->bytes[device] >= bytes) {
		g->bytes[device] -= bytes;
		node_bytes[device] -= bytes;
		update_charge(device);
	}
	lock_release(&graph_lock);
}

CUresult cuGraphAddMemAllocNode(CUgraphNode *n, CUgraph g, const CUgraphNode *d, size_t count, CUDA_MEM_ALLOC_NODE_PARAMS *p)
{
	int device = p ? device_index(p->poolProps.location.id) : -1;
	CUresult r = p ? graph_reserve(g, device, p->bytesize) : CUDA_SUCCESS;
	if (r != CUDA_SUCCESS)
		return r;
	r = REAL(cuGraphAddMemAllocNode)(n, g, d, count, p);
	if (r != CUDA_SUCCESS && device >= 0)
		graph_unreserve(g, device, p->bytesize);
	return r;
}

static bool allocates(const CUgraphNodeParams *p) { return p && p->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC; }

static CUresult reserve_node(CUgraph g, const CUgraphNodeParams *p)
{
	return allocates(p) ? graph_reserve(g, device_index(p->alloc.poolProps.location.id), p->alloc.bytesize) : CUDA_SUCCESS;
}

// finish_node reverts reserve_node if the driver has refused the node.
static CUresult finish_node(CUresult r, CUgraph g, const CUgraphNodeParams *p)
{
	if (r != CUDA_SUCCESS && allocates(p))
		graph_unreserve(g, device_index(p->alloc.poolProps.location.id), p->alloc.bytesize);
	return r;
}

CUresult cuGraphAddNode(CUgraphNode *n, CUgraph g, const CUgraphNode *d, size_t count, CUgraphNodeParams *p)
{
	CUresult r = reserve_node(g, p);
	return r == CUDA_SUCCESS ? finish_node(REAL(cuGraphAddNode)(n, g, d, count, p), g, p) : r;
}

CUresult cuGraphAddNode_v2(CUgraphNode *n, CUgraph g, const CUgraphNode *d, const void *edges, size_t count, CUgraphNodeParams *p)
{
	CUresult r = reserve_node(g, p);
	return r == CUDA_SUCCESS ? finish_node(REAL(cuGraphAddNode_v2)(n, g, d, edges, count, p), g, p) : r;
}

static CUresult record_executable(CUresult r, const CUgraphExec *exec, CUgraph g)
{
	lock_acquire(&graph_lock);
	for (struct graph *at = r == CUDA_SUCCESS ? graphs : NULL; at; at = at->next)
		if (at->handle == g)
			at->exec = *exec;
	lock_release(&graph_lock);
	return r;
}

#define INSTANTIATE(name, parameters, arguments) \
	CUresult name parameters { return record_executable(REAL(name) arguments, e, g); }

INSTANTIATE(cuGraphInstantiate, (CUgraphExec *e, CUgraph g, CUgraphNode *bad, char *log, size_t n), (e, g, bad, log, n))
INSTANTIATE(cuGraphInstantiate_v2, (CUgraphExec *e, CUgraph g, CUgraphNode *bad, char *log, size_t n), (e, g, bad, log, n))
INSTANTIATE(cuGraphInstantiateWithFlags, (CUgraphExec *e, CUgraph g, unsigned long long flags), (e, g, flags))
INSTANTIATE(cuGraphInstantiateWithParams, (CUgraphExec *e, CUgraph g, void *p), (e, g, p))
INSTANTIATE(cuGraphInstantiateWithParams_ptsz, (CUgraphExec *e, CUgraph g, void *p), (e, g, p))

// clear_handle drops the handle before the driver can reuse it.
static struct graph *clear_handle(CUgraph g, CUgraphExec e)
{
	lock_acquire(&graph_lock);
	struct graph *at = graphs;
	while (at && !(g ? at->handle == g : at->exec == e))
		at = at->next;
	if (at && g)
		at->handle = NULL;
	else if (at)
		at->exec = NULL;
	lock_release(&graph_lock);
	return at;
}

// free_if_unused removes g if neither handle is left. Another thread may have removed it
// already.
static void free_if_unused(struct graph *g)
{
	lock_acquire(&graph_lock);
	struct graph **at = &graphs;
	while (*at && *at != g)
		at = &(*at)->next;
	if (*at && !g->handle && !g->exec) {
		*at = g->next;
		for (int i = 0; i < MAX_DEVICES; i++)
			if (g->bytes[i]) {
				node_bytes[i] -= g->bytes[i];
				update_charge(i);
			}
		free(g);
	}
	lock_release(&graph_lock);
}

CUresult cuGraphDestroy(CUgraph g)
{
	struct graph *known = g ? clear_handle(g, NULL) : NULL;
	CUresult r = REAL(cuGraphDestroy)(g);
	free_if_unused(known);
	return r;
}

CUresult cuGraphExecDestroy(CUgraphExec e)
{
	struct graph *known = e ? clear_handle(NULL, e) : NULL;
	CUresult r = REAL(cuGraphExecDestroy)(e);
	free_if_unused(known);
	return r;
}

CUresult cuDeviceGraphMemTrim(CUdevice device)
{
	CUresult r = REAL(cuDeviceGraphMemTrim)(device);
	int index = device_index(device);
	lock_acquire(&graph_lock);
	if (r == CUDA_SUCCESS && index >= 0)
		update_charge(index);
	lock_release(&graph_lock);
	return r;
}

static void graphs_after_fork(void)
{
	graphs = NULL;
	for (int i = 0; i < MAX_DEVICES; i++)
		node_bytes[i] = charged_bytes[i] = 0;
	atomic_store(&graph_lock.word, 0);
}
AFTER_FORK(graphs_after_fork)
