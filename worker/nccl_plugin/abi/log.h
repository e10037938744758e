/*
 * What the plugin has to say goes through NCCL's logger, with its levels and subsystems; so does
 * what libsummand and the transports say inside of it.
 */
#ifndef SMD_NCCL_PLUGIN_ABI_LOG_H
#define SMD_NCCL_PLUGIN_ABI_LOG_H

#include "worker/nccl_plugin/abi/nccl_abi.h"

/* Every init() brings it; it is the same one each time. NULL: silence. */
void smd_nccl_log_open(nccl_logger *log);

/* A line of NCCL_DEBUG=INFO, for those whose NCCL_DEBUG_SUBSYS has one of `subsystems`. */
#define smd_nccl_log_info(subsystems, ...)                                                         \
	smd_nccl_log_write(NCCL_LOG_INFO, subsystems, __VA_ARGS__)
/* A line of NCCL_DEBUG=WARN: somebody must look at it. */
#define smd_nccl_log_warn(...)                                                                     \
	smd_nccl_log_write(NCCL_LOG_WARN, (unsigned long)NCCL_SUB_ALL, __VA_ARGS__)

void smd_nccl_log_write(enum nccl_log_level level, unsigned long subsystems, const char *format,
	...) __attribute__((format(printf, 3, 4)));

#endif
