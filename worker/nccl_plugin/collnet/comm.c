/* Makes and ends CollNet communicators. */
#include "worker/nccl_plugin/collnet/comm.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/libsummand/group.h"
#include "worker/nccl_plugin/abi/loss.h"

struct smd_coll *smd_coll_create(unsigned nnodes, unsigned node)
{
	struct smd_coll *coll = calloc(1, sizeof(*coll));

	if (!coll) {
		return NULL;
	}
	coll->nnodes = nnodes;
	coll->node = node;
	pthread_mutex_init(&coll->lock, NULL);
	for (unsigned i = 0; i < SMD_COLLNET_REQUESTS; i++) {
		coll->requests[i].coll = coll;
	}
	return coll;
}

void smd_coll_destroy(struct smd_coll *coll)
{
	smd_loss_close(coll);
	smd_coll_clear(coll);
	smd_loops_leave(&coll->loops);
	smd_capacity_put(coll->capacity);
	pthread_mutex_destroy(&coll->lock);
	free(coll);
}

/* ---- requests ---- */

struct smd_coll_request *smd_coll_take(struct smd_coll *coll)
{
	for (unsigned i = 0; i < SMD_COLLNET_REQUESTS; i++) {
		struct smd_coll_request *request = &coll->requests[coll->next];

		coll->next = (coll->next + 1) % SMD_COLLNET_REQUESTS;
		if (!request->used) {
			*request = (struct smd_coll_request){.coll = coll, .used = true};
			return request;
		}
	}
	return NULL;
}

void smd_coll_give(struct smd_coll_request *request)
{
	if (request->parts != &request->only) {
		free(request->parts);
	}
	free(request->between);
	free(request->scatter);
	*request = (struct smd_coll_request){.coll = request->coll};
}

int smd_coll_wait(struct smd_coll_request *request)
{
	int err = 0;

	for (unsigned i = 0; i < request->nparts; i++) {
		int ret = smd_request_wait(request->parts[i]);

		err = err ? err : ret;
	}
	return err;
}

void smd_coll_scatter(struct smd_coll_request *request)
{
	const uint8_t *from = request->between;

	for (unsigned i = 0; i < request->nscatter; i++) {
		memcpy(request->scatter[i].address, from, request->scatter[i].size);
		from += request->scatter[i].size;
	}
	request->nscatter = 0;
}

/* Addresses would not tell: NCCL gives memory back late, when other memory may be at them. */
static bool request_uses(const struct smd_coll_request *request, const void *registration)
{
	if (!request->used) {
		return false;
	}
	if (!registration || request->send == registration || request->recv == registration) {
		return true;
	}
	for (unsigned i = 0; i < request->nscatter; i++) {
		if (request->scatter[i].mhandle == registration) {
			return true;
		}
	}
	return false;
}

static bool request_is_open(const struct smd_coll_request *request)
{
	for (unsigned i = 0; request->used && i < request->nparts; i++) {
		if (!smd_request_test(request->parts[i])) {
			return true;
		}
	}
	return false;
}

/* All ranks hear this. */
static void coll_give_up(struct smd_coll *coll)
{
	char text[SMD_ERROR_TEXT_MAX];

	snprintf(text, sizeof(text), "node %u (%s) gave CollNet up with operations in flight",
		coll->node, coll->loops.each[0].comm->context->config.replica);
	smd_loops_fail(&coll->loops, -ECANCELED, text);
	coll->err = coll->err ? coll->err : -ECANCELED; /* the first one is the cause */
}

bool smd_coll_abandon(struct smd_coll *coll, const void *registration)
{
	bool uses = false;

	for (unsigned i = 0; i < SMD_COLLNET_REQUESTS && !uses; i++) {
		uses = request_uses(&coll->requests[i], registration) &&
		       request_is_open(&coll->requests[i]);
	}
	if (uses) {
		coll_give_up(coll);
	}
	/* Operations of a failed communicator end soon, all of them. Who waited for them would free
	 * them, which the thread that tests them does. */
	for (unsigned i = 0; i < SMD_COLLNET_REQUESTS && uses; i++) {
		while (request_is_open(&coll->requests[i])) {
			sched_yield();
		}
	}
	/* What came and test() has not seen yet cannot be put there later. */
	for (unsigned i = 0; registration && i < SMD_COLLNET_REQUESTS; i++) {
		if (request_uses(&coll->requests[i], registration)) {
			smd_coll_scatter(&coll->requests[i]);
		}
	}
	return uses;
}

void smd_coll_clear(struct smd_coll *coll)
{
	smd_coll_abandon(coll, NULL);
	for (unsigned i = 0; i < SMD_COLLNET_REQUESTS; i++) {
		if (coll->requests[i].used) {
			(void)smd_coll_wait(&coll->requests[i]); /* done, or failed with the rest */
			smd_coll_give(&coll->requests[i]);
		}
	}
}
