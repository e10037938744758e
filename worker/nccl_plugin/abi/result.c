/* Says an -errno as a result of NCCL's. */
#include "worker/nccl_plugin/abi/result.h"

#include <errno.h>

#include "worker/nccl_plugin/abi/nccl_abi.h"

int smd_nccl_result(int err)
{
	switch (err) {
	case 0:
		return NCCL_SUCCESS;
	case -EINVAL:
		return NCCL_INVALID_USAGE;
	case -ECONNABORTED:
	case -ECONNRESET:
	case -ESHUTDOWN:
	case -ECONNREFUSED:
	case -ETIMEDOUT:
	case -EPROTO:
	case -EHOSTUNREACH:
	case -ENETUNREACH:
		return NCCL_REMOTE_ERROR;
	default:
		return NCCL_SYSTEM_ERROR;
	}
}
