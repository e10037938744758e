/* The CUDA driver, as far as NCCL asks the runtime for its functions. */
#ifndef SMD_NCCL_SIM_DRIVER_H
#define SMD_NCCL_SIM_DRIVER_H

/* Null where it has none of this name. */
void *smd_driver_function(const char *name);

#endif
