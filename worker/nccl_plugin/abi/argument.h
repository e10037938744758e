/* What NCCL must pass to a call. */
#ifndef SMD_NCCL_PLUGIN_ABI_ARGUMENT_H
#define SMD_NCCL_PLUGIN_ABI_ARGUMENT_H

#include <stdbool.h>

/* Whether an argument is NULL, which a warning then says. The call is refused with
 * NCCL_INVALID_ARGUMENT. */
bool smd_nccl_lacks(const char *call, const char *what, const void *argument);

/* The same of the first two that a call has: a comm or a request, and where its result goes. */
bool smd_nccl_lacks_any(const char *call, const char *what, const void *argument,
	const char *out_what, const void *out);

#endif
