/* The CUDA driver, as far as NCCL asks the runtime for its functions, and kernels. */
#ifndef SMD_NCCL_SIM_DRIVER_H
#define SMD_NCCL_SIM_DRIVER_H

#include "graph.h"

/* Null where it has none of this name. */
void *smd_driver_function(const char *name);

/* A kernel, and its arguments one by one. */
smd_work smd_driver_kernel(const void *kernel, void **arguments);

#endif
