// Stream-ordered allocations. They come from a pool, or from a graph if the
// stream is being captured.
#include "limiter.h"

typedef CUresult free_call(CUdeviceptr, CUstream);

// free_and_trim frees the allocation and trims the pool. It waits for all work in
// the stream, so the caller holds no lock.
static CUresult free_and_trim(CUdeviceptr p, CUmemoryPool handle, CUstream s, free_call *undo)
{
	undo(p, s);
	REAL(cuStreamSynchronize)(s);
	REAL(cuMemPoolTrimTo)(handle, 0);
	pools_update_charges();
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult allocate_in_graph(CUdeviceptr *out, size_t size, CUmemoryPool handle, int device, CUstream s, pool_allocator *call)
{
	CUgraph graph = NULL;
	int status;
	if (REAL(cuStreamGetCaptureInfo_v2)(s, &status, NULL, &graph, NULL, NULL) != CUDA_SUCCESS)
		graph = NULL;
	CUresult r = graph_reserve(graph, device, size);
	if (r != CUDA_SUCCESS)
		return r;
	r = call(out, size, handle, s);
	if (r != CUDA_SUCCESS)
		graph_unreserve(graph, device, size);
	return r;
}

static CUresult allocate_ordered(CUdeviceptr *out, size_t size, CUmemoryPool handle, int device, CUstream s, pool_allocator *call, free_call *undo)
{
	int capturing = 0;
	bool exceeds_limit = false;
	if (device < 0)
		return charge_device(&(struct charge){0}, device, size);
	if (REAL(cuStreamIsCapturing)(s, &capturing) == CUDA_SUCCESS && capturing)
		return allocate_in_graph(out, size, handle, device, s, call);
	CUresult r = pool_allocate(handle, device, out, size, s, call, &exceeds_limit);
	return exceeds_limit ? free_and_trim(*out, handle, s, undo) : r;
}

static CUresult default_pool(CUmemoryPool *handle, int *index, CUstream s)
{
	CUdevice device;
	CUresult r = device_of_stream(s, &device);
	if (r == CUDA_SUCCESS)
		*index = device_index(device);
	return r == CUDA_SUCCESS ? REAL(cuDeviceGetMemPool)(handle, device) : r;
}

#define STREAM_ORDERED(variant, default_stream)                                                                                               \
	static CUresult call_default##variant(CUdeviceptr *p, size_t n, CUmemoryPool h, CUstream s)                                           \
	{                                                                                                                                     \
		(void)h;                                                                                                                      \
		return REAL(cuMemAllocAsync##variant)(p, n, s);                                                                               \
	}                                                                                                                                     \
	static CUresult call_pool##variant(CUdeviceptr *p, size_t n, CUmemoryPool h, CUstream s)                                              \
	{                                                                                                                                     \
		return REAL(cuMemAllocFromPoolAsync##variant)(p, n, h, s);                                                                    \
	}                                                                                                                                     \
	static CUresult call_free##variant(CUdeviceptr p, CUstream s) { return REAL(cuMemFreeAsync##variant)(p, s); }                         \
	CUresult cuMemAllocAsync##variant(CUdeviceptr *p, size_t n, CUstream s)                                                               \
	{                                                                                                                                     \
		CUmemoryPool h;                                                                                                               \
		int device;                                                                                                                   \
		CUresult r = default_pool(&h, &device, s);                                                                                    \
		return r == CUDA_SUCCESS ? allocate_ordered(p, n, h, device, s ? s : default_stream, call_default##variant, call_free##variant) : r; \
	}                                                                                                                                     \
	CUresult cuMemAllocFromPoolAsync##variant(CUdeviceptr *p, size_t n, CUmemoryPool h, CUstream s)                                       \
	{                                                                                                                                     \
		return allocate_ordered(p, n, h, pool_device(h), s ? s : default_stream, call_pool##variant, call_free##variant);                    \
	}                                                                                                                                     \
	CUresult cuStreamSynchronize##variant(CUstream s)                                                                                     \
	{                                                                                                                                     \
		CUresult r = REAL(cuStreamSynchronize##variant)(s);                                                                           \
		pools_synchronized((uintptr_t)(s ? s : default_stream) + 1);                                                                  \
		return r;                                                                                                                     \
	}

// In the _ptsz functions stream 0 is the per-thread default stream; its handle
// is 2.
STREAM_ORDERED(, NULL)
STREAM_ORDERED(_ptsz, (CUstream)2)

// cuMemAlloc memory may also be freed in stream order. The memory returns to
// the device only at the next synchronization, but the driver orders later
// allocations.
static CUresult free_ordered(CUdeviceptr p, CUstream s, free_call *call)
{
	struct allocation h;
	bool known = allocation_remove(ALLOCATED_MEMORY, p, &h);
	CUresult r = call(p, s);
	if (known && r == CUDA_SUCCESS) {
		REAL(cuStreamSynchronize)(s);
		usage_release(h.device, h.bytes);
	} else if (known) {
		allocation_add(h);
	}
	pools_mark_freed_in((uintptr_t)s + 1);
	return r;
}

CUresult cuMemFreeAsync(CUdeviceptr p, CUstream s) { return free_ordered(p, s, call_free); }
CUresult cuMemFreeAsync_ptsz(CUdeviceptr p, CUstream s) { return free_ordered(p, s ? s : (CUstream)2, call_free_ptsz); }

CUresult cuEventSynchronize(CUevent e)
{
	CUresult r = REAL(cuEventSynchronize)(e);
	pools_synchronized(0);
	return r;
}

CUresult cuCtxSynchronize(void)
{
	CUresult r = REAL(cuCtxSynchronize)();
	pools_synchronized(ALL_STREAMS);
	return r;
}

CUresult cuCtxSynchronize_v2(CUcontext c)
{
	CUresult r = REAL(cuCtxSynchronize_v2)(c);
	pools_synchronized(0);
	return r;
}
