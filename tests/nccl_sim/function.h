/* The kernels of NCCL that are played. */
#ifndef SMD_NCCL_SIM_FUNCTION_H
#define SMD_NCCL_SIM_FUNCTION_H

#include "arithmetic.h"

/* Of a number that the host code has put into a list of work. Any other one ends the process. */
const smd_function &smd_function_of(int number);

#endif
