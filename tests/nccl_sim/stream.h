/* A stream of the simulated GPU: a thread that does its work in order, or adds it to the graph that the stream is captured in. And
 * events, as graphs have them. */
#ifndef SMD_NCCL_SIM_STREAM_H
#define SMD_NCCL_SIM_STREAM_H

#include <cuda_runtime_api.h>
#include <functional>

void smd_stream_add(cudaStream_t stream, std::function<void()> work);

/* When they are called the turn of the event is taken, as where it is recorded or waited for in a stream: what they return may be
 * done later. */
std::function<std::function<void()>()> smd_event_record(cudaEvent_t event);
std::function<std::function<void()>()> smd_event_wait(cudaEvent_t event);

#endif
