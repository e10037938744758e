/*
 * Calls of CUDA 12 that NCCL up to 2.26 makes, and CUDA 13 has in another form: with the data of
 * edges, which that NCCL has none of, or for a version.
 */
#ifndef SMD_NCCL_SIM_CUDA12_H
#define SMD_NCCL_SIM_CUDA12_H

#ifdef __cplusplus
#include <cuda_runtime.h>

static inline cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream,
	cudaStreamCaptureStatus *status, unsigned long long *id = nullptr,
	cudaGraph_t *graph = nullptr, const cudaGraphNode_t **nodes = nullptr,
	size_t *count = nullptr)
{
	return cudaStreamGetCaptureInfo(stream, status, id, graph, nodes, nullptr, count);
}

static inline cudaError_t cudaStreamGetCaptureInfo_v3(cudaStream_t stream,
	cudaStreamCaptureStatus *status, unsigned long long *id = nullptr,
	cudaGraph_t *graph = nullptr, const cudaGraphNode_t **nodes = nullptr,
	const cudaGraphEdgeData **edges = nullptr, size_t *count = nullptr)
{
	return cudaStreamGetCaptureInfo(stream, status, id, graph, nodes, edges, count);
}

static inline cudaError_t cudaGraphAddDependencies_v2(cudaGraph_t graph,
	const cudaGraphNode_t *from, const cudaGraphNode_t *to, const cudaGraphEdgeData *edges,
	size_t count)
{
	return cudaGraphAddDependencies(graph, from, to, edges, count);
}

static inline cudaError_t cudaStreamUpdateCaptureDependencies_v2(cudaStream_t stream,
	cudaGraphNode_t *nodes, const cudaGraphEdgeData *edges, size_t count, unsigned flags)
{
	return cudaStreamUpdateCaptureDependencies(stream, nodes, edges, count, flags);
}

static inline cudaError_t smd_add_dependencies(cudaGraph_t graph, const cudaGraphNode_t *from,
	const cudaGraphNode_t *to, size_t count)
{
	return cudaGraphAddDependencies(graph, from, to, nullptr, count);
}

static inline cudaError_t smd_update_dependencies(
	cudaStream_t stream, cudaGraphNode_t *nodes, size_t count, unsigned flags)
{
	return cudaStreamUpdateCaptureDependencies(stream, nodes, nullptr, count, flags);
}

static inline cudaError_t smd_driver_entry_point(const char *name, void **function,
	unsigned long long flags, cudaDriverEntryPointQueryResult *found = nullptr)
{
	return cudaGetDriverEntryPointByVersion(name, function, 12040, flags, found);
}

/* Not by overloading: a 0 is a number and a pointer. */
#define cudaGraphAddDependencies            smd_add_dependencies
#define cudaStreamUpdateCaptureDependencies smd_update_dependencies
#define cudaGetDriverEntryPoint             smd_driver_entry_point
#endif

#endif
