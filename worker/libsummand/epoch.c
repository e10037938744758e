/* Makes epochs, and finds what their chunks are of. */
#include "worker/libsummand/epoch.h"

#include <errno.h>
#include <stdlib.h>

static bool in(uint64_t targets, const struct smd_flow *flow)
{
	return targets >> flow->target & 1;
}

static unsigned count_remotes(const struct smd_comm *comm)
{
	return comm->context->remotes.count;
}

/* ---- making ---- */

int smd_epoch_make(struct smd_comm *comm, struct smd_epoch *epoch)
{
	unsigned n = count_remotes(comm);

	epoch->comm = comm;
	epoch->flows = calloc(n, sizeof(*epoch->flows));
	epoch->remotes = calloc(n, sizeof(*epoch->remotes));
	if (!epoch->flows || !epoch->remotes) {
		return -ENOMEM;
	}
	for (unsigned i = 0; i < n; i++) {
		struct smd_remote *remote = comm->context->remotes.each[i];
		struct smd_flow *flow = &epoch->flows[i];

		flow->epoch = epoch;
		flow->comm = comm;
		flow->target = (unsigned)(remote->target - comm->context->targets);
		flow->serves = !in(epoch->dead, flow);
		if (flow->serves) {
			flow->place = epoch->nserving;
			epoch->remotes[epoch->nserving++] = i;
		}
	}
	return 0;
}

void smd_epoch_free(struct smd_epoch *epoch)
{
	smd_deal_destroy(&epoch->own_deal);
	free(epoch->flows);
	free(epoch->remotes);
	free(epoch->items);
}

int smd_epochs_create(struct smd_comm *comm)
{
	comm->base.deal = &comm->context->deal;
	comm->now = &comm->base;
	return smd_epoch_make(comm, &comm->base);
}

void smd_epochs_destroy(struct smd_comm *comm)
{
	struct smd_epoch *epoch = comm->base.next;

	while (epoch) {
		struct smd_epoch *next = epoch->next;

		smd_epoch_free(epoch);
		free(epoch);
		epoch = next;
	}
	smd_epoch_free(&comm->base);
}

/* ---- streams of lost servers ---- */

void smd_epochs_each_stream(
	const struct smd_comm *comm, uint64_t targets, smd_each_stream *call, void *arg)
{
	for (const struct smd_epoch *epoch = &comm->base; epoch; epoch = epoch->next) {
		for (unsigned i = 0; i < count_remotes(comm); i++) {
			struct smd_flow *flow = &epoch->flows[i];

			if (flow->serves && in(targets, flow)) {
				call(arg, flow);
			}
		}
	}
}

static void count_one(void *arg, struct smd_flow *flow)
{
	(void)flow;
	++*(unsigned *)arg;
}

unsigned smd_epochs_count_streams(const struct smd_comm *comm, uint64_t targets)
{
	unsigned n = 0;

	smd_epochs_each_stream(comm, targets, count_one, &n);
	return n;
}

static void take_done(void *arg, struct smd_flow *flow)
{
	uint64_t **done = arg;

	*(*done)++ = flow->done;
}

void smd_epochs_count_done(const struct smd_comm *comm, uint64_t targets, uint64_t *done)
{
	smd_epochs_each_stream(comm, targets, take_done, &done);
}

/* ---- what is dealt to it ---- */

void smd_epochs_forget(const struct smd_request *operation)
{
	for (struct smd_epoch *epoch = operation->home->next; epoch; epoch = epoch->next) {
		for (uint64_t g = 0; g < epoch->nitems; g++) {
			if (epoch->items[g].operation == operation) {
				epoch->items[g].operation = NULL;
			}
		}
	}
}

bool smd_epoch_find(struct smd_epoch *epoch, uint64_t number, struct smd_request **operation,
	uint64_t *chunk, struct smd_item **item)
{
	*item = NULL;
	*operation = NULL;
	*chunk = number;
	if (number < epoch->nitems) {
		*item = &epoch->items[number];
		*operation = (*item)->operation;
		*chunk = (*item)->chunk;
		return true;
	}
	TAILQ_FOREACH (*operation, &epoch->comm->operations, link) {
		if ((*operation)->home == epoch &&
			number - (*operation)->first_chunk < (*operation)->nchunks) {
			return true;
		}
	}
	return false;
}
