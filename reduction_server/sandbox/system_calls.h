/*
 * Limits a process to the system calls of a reduction server: any other ends it with SIGSYS, and
 * with a line on standard error that names the call.
 */
#ifndef SMD_SANDBOX_SYSTEM_CALLS_H
#define SMD_SANDBOX_SYSTEM_CALLS_H

#include <stdbool.h>

#include "reduction_server/base/error.h"

/*
 * All threads, those that run already too, and for good. With `devices`, what the libraries of RDMA
 * call is allowed as well. -ENOTSUP with a reason: nothing is limited, because the build or the
 * kernel is without.
 */
int smd_system_calls_limit(bool devices, struct smd_error *error);

#endif
