/*
 * Which NCCL has loaded the plugin, where the version of a table does not tell.
 */
#ifndef SMD_NCCL_PLUGIN_ABI_VERSION_H
#define SMD_NCCL_PLUGIN_ABI_VERSION_H

#include <stdbool.h>

#include "worker/nccl_plugin/abi/nccl_abi.h"

/* As ncclGetVersion() has it, 22304 for 2.23.4, asked of the library or the program that the logger
 * is part of; 0 where that shows no such function: a program does only if it was linked so
 * (-rdynamic). */
int smd_nccl_version(nccl_logger *log);

/* Whether that library is AMD's RCCL. */
bool smd_nccl_is_rccl(nccl_logger *log);

#endif
