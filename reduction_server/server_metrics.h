/* The metrics of a reduction server, under their names (specs/guide/metrics.md). */
#ifndef SMD_SERVER_METRICS_H
#define SMD_SERVER_METRICS_H

#include "reduction_server/metrics/text.h"

/* `server` is a struct smd_server. From any thread. */
void smd_server_metrics_write(void *server, struct smd_metrics_text *text);

#endif
