/* The driver's memory and multicast objects, with which NCCL sets up NVLS. */
#ifndef SMD_NCCL_SIM_MULTICAST_H
#define SMD_NCCL_SIM_MULTICAST_H

#include <cuda.h>
#include <map>
#include <string>

/* By the names that NCCL asks for. */
extern const std::map<std::string, void *> smd_multicast_functions;

#endif
