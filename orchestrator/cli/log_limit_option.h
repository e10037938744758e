/*
 * --log-limit, which commands have that run jobs.
 */
#ifndef SMD_CLI_LOG_LIMIT_OPTION_H
#define SMD_CLI_LOG_LIMIT_OPTION_H

#include "reduction_server/base/error.h"

/* "none" or a size: the target is a uint64_t, 0 for none. 0 or -EINVAL with a text. */
int smd_log_limit_option_set(void *target, const char *value, struct smd_error *error);

#endif
