/*
 * A request to change the number of reduction servers of a job that runs: a file in the job's
 * directory. The runner takes it away, and answers in state.json.
 */
#ifndef SMD_STORE_SCALE_REQUEST_H
#define SMD_STORE_SCALE_REQUEST_H

#include "reduction_server/base/error.h"

#define SMD_SCALE_REQUEST     "scale.json" /* {"request": ID, "replicas": N} */
#define SMD_SCALE_REQUEST_MAX 4096
#define SMD_SCALE_ID_SIZE     17

/* Leaves a request in the directory, which appears whole or not at all, and fills in its id. 0, or
 * -errno with a text. */
int smd_scale_request_send(const char *directory, int replicas, char id[SMD_SCALE_ID_SIZE],
	struct smd_error *error);

/* Takes back what nobody has taken. */
void smd_scale_request_withdraw(const char *directory);

#endif
