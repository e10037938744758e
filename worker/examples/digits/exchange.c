/* Sums arrays over all ranks with libsummand's non-blocking all-reduce. */
#include "worker/examples/digits/exchange.h"

#include <errno.h>

#include "reduction_server/base/clock.h"

#define GROUP "digits"

int digits_exchange_open(int nranks, int rank, struct digits_exchange *out, struct smd_error *error)
{
	struct digits_exchange exchange = {.nranks = nranks};
	int err;

	if (nranks == 1) {
		*out = exchange;
		return 0;
	}
	err = smd_context_create(NULL, &exchange.context);
	if (err) {
		return smd_error_set(error, -err, "%s", smd_error_message());
	}
	err = smd_comm_create(exchange.context, GROUP, nranks, rank, &exchange.comm);
	if (err) {
		smd_error_set(error, -err, "%s", smd_error_message());
		smd_context_destroy(exchange.context);
		return err;
	}
	*out = exchange;
	return 0;
}

void digits_exchange_close(struct digits_exchange *exchange)
{
	if (exchange->context) {
		digits_exchange_finish(exchange, NULL);
		smd_comm_destroy(exchange->comm);
		smd_context_destroy(exchange->context);
	}
	*exchange = (struct digits_exchange){0};
}

int digits_exchange_start(struct digits_exchange *exchange, void *values, size_t count,
	enum smd_dtype dtype, struct smd_error *error)
{
	int err;

	if (!exchange->context) {
		return 0;
	}
	if (exchange->nrequests == DIGITS_EXCHANGE_MAX) {
		return smd_error_set(error, ENOSPC, "exchange: must have at most %d sums in flight",
			DIGITS_EXCHANGE_MAX);
	}
	if (exchange->nrequests == 0) {
		exchange->started = smd_clock_seconds();
	}
	err = smd_allreduce_start(exchange->comm, values, values, count, dtype, SMD_SUM,
		&exchange->requests[exchange->nrequests]);
	if (err) {
		return smd_error_set(error, -err, "%s", smd_error_message());
	}
	exchange->nrequests++;
	exchange->bytes += count * smd_dtype_size(dtype);
	return 0;
}

int digits_exchange_finish(struct digits_exchange *exchange, struct smd_error *error)
{
	int first = 0;

	if (exchange->nrequests == 0) {
		return 0;
	}
	/* All of them, even after a failure: the library owns the arrays until then. */
	for (int i = 0; i < exchange->nrequests; i++) {
		int err = smd_request_wait(exchange->requests[i]);

		if (err && !first) {
			first = smd_error_set(error, -err, "%s", smd_error_message());
		}
	}
	exchange->nrequests = 0;
	exchange->seconds += smd_clock_seconds() - exchange->started;
	return first;
}

int digits_exchange_meet(struct digits_exchange *exchange, struct smd_error *error)
{
	int err = exchange->context ? smd_barrier(exchange->comm) : 0;

	return err ? smd_error_set(error, -err, "%s", smd_error_message()) : 0;
}
