/* What the simulated GPU says of itself, to the runtime and to the driver alike. */
#ifndef SMD_NCCL_SIM_GPU_H
#define SMD_NCCL_SIM_GPU_H

/* Of the process's device among its node's, whose PCI buses are numbered from 1 on. */
int smd_gpu_number();

/* Attributes have the same numbers in both; what is not known is 0: the device cannot do it. */
int smd_gpu_attribute(int which);

#endif
