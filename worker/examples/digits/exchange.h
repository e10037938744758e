/*
 * The exchange: sums arrays over all ranks through libsummand.
 *
 * This is all that a training program needs to do to be distributed: start a sum as soon as an
 * array is ready, go on computing, and finish before the sums are used. Alone, a rank's arrays are
 * the sums already, and no server is needed.
 */
#ifndef DIGITS_EXCHANGE_H
#define DIGITS_EXCHANGE_H

#include <stddef.h>
#include <stdint.h>

#include "reduction_server/base/error.h"
#include "worker/summand.h"

#define DIGITS_EXCHANGE_MAX 16

struct digits_exchange {
	int nranks;
	smd_context *context; /* NULL when alone */
	smd_comm *comm;
	smd_request *requests[DIGITS_EXCHANGE_MAX]; /* in flight */
	int nrequests;
	uint64_t bytes; /* summed so far */
	double seconds; /* with at least one sum in flight */
	double started; /* when the first of those in flight was */
};

/* Meets the other ranks at the reduction servers. */
int digits_exchange_open(
	int nranks, int rank, struct digits_exchange *out, struct smd_error *error);

/* Leaves the others; waits for what is still in flight. */
void digits_exchange_close(struct digits_exchange *exchange);

/* Starts to replace `values` by their sums; hands off them until the exchange is finished. */
int digits_exchange_start(struct digits_exchange *exchange, void *values, size_t count,
	enum smd_dtype dtype, struct smd_error *error);

/* Waits for everything that was started. */
int digits_exchange_finish(struct digits_exchange *exchange, struct smd_error *error);

/* Returns when all ranks have come this far. */
int digits_exchange_meet(struct digits_exchange *exchange, struct smd_error *error);

#endif
