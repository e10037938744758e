/*
 * A run of all-reduces on one proxy, as many in flight as its slots allow. What is in flight is
 * tested in an order that changes, and every result is checked.
 */
#ifndef TESTS_NCCL_PROXY_STREAM_H
#define TESTS_NCCL_PROXY_STREAM_H

#include "tests/nccl_proxy/proxy.h"

#define STREAM_SLOTS_MAX 200

struct stream {
	struct proxy *proxy;
	unsigned total;
	/* Chooses type, reduction, count and seed of all-reduce `index`; all ranks alike. */
	void (*choose)(const struct stream *stream, unsigned index, struct proxy_op *op);
	unsigned started;
	unsigned finished;
	bool put_off;  /* the next one is filled, and could not begin */
	uint64_t dice; /* of the order of tests; differs from rank to rank */
	struct proxy_op ops[STREAM_SLOTS_MAX];
};

/* Starts all that can be started now. */
void stream_start(struct stream *stream);
/* Then tests each that is in flight once. False: all are done. */
bool stream_progress(struct stream *stream);
void stream_finish(struct stream *stream);

#endif
