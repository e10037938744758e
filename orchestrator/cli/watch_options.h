/* Options by which others watch a job that is run here. */
#ifndef SMD_CLI_WATCH_OPTIONS_H
#define SMD_CLI_WATCH_OPTIONS_H

#include "reduction_server/base/error.h"

/* Setters of const char **: where metrics are read, and a file for the trace, which must be one that
 * can be written. */
int smd_watch_set_metrics(void *target, const char *value, struct smd_error *error);
int smd_watch_set_trace(void *target, const char *value, struct smd_error *error);

#endif
