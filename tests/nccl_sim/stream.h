/* A stream of the simulated GPU: a thread that does its work in order. */
#ifndef SMD_NCCL_SIM_STREAM_H
#define SMD_NCCL_SIM_STREAM_H

#include <cuda_runtime_api.h>
#include <functional>

void smd_stream_add(cudaStream_t stream, std::function<void()> work);

#endif
