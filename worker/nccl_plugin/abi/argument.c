/* Says which argument of a call is NULL. */
#include "worker/nccl_plugin/abi/argument.h"

#include "worker/nccl_plugin/abi/log.h"

bool smd_nccl_lacks(const char *call, const char *what, const void *argument)
{
	if (!argument) {
		smd_nccl_log_warn("%s: the %s must not be NULL", call, what);
	}
	return !argument;
}

bool smd_nccl_lacks_any(const char *call, const char *what, const void *argument,
	const char *out_what, const void *out)
{
	return smd_nccl_lacks(call, what, argument) || smd_nccl_lacks(call, out_what, out);
}
