/*
 * The cluster: which part this process plays, as CLUSTER_SPEC tells it.
 *
 * Position decides the role: workerpool0 is the chief (rank 0), replica i of workerpool1 is rank
 * i + 1, workerpool3 evaluates. workerpool2 are the reduction servers, which libsummand finds by
 * itself. Without CLUSTER_SPEC a process is alone, and both trains and evaluates.
 */
#ifndef DIGITS_CLUSTER_H
#define DIGITS_CLUSTER_H

#include "reduction_server/base/error.h"

enum digits_role { DIGITS_ALONE, DIGITS_CHIEF, DIGITS_WORKER, DIGITS_EVALUATOR };

struct digits_cluster {
	enum digits_role role;
	int nranks;
	int rank; /* of a chief or a worker */
};

/* Reads the text of CLUSTER_SPEC, which may be NULL. */
int digits_cluster_read(const char *text, struct digits_cluster *out, struct smd_error *error);

#endif
