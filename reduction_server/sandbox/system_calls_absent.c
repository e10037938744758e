/* Limits nothing, where the build is without libseccomp or has a sanitizer. */
#include "reduction_server/sandbox/system_calls.h"

#include <errno.h>

int smd_system_calls_limit(bool devices, struct smd_error *error)
{
	(void)devices;
	return smd_error_set(error, ENOTSUP, "%s", SMD_SYSTEM_CALLS_WHY);
}
