/* Makes epochs, and finds what their chunks are of. */
#include "worker/libsummand/epoch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool in(uint64_t targets, const struct smd_flow *flow)
{
	return targets >> flow->target & 1;
}

static unsigned target_of(const struct smd_comm *comm, unsigned remote)
{
	return (unsigned)(comm->context->remotes.each[remote]->target - comm->context->targets);
}

static unsigned list_one(const struct smd_context *context, unsigned t, unsigned s, uint64_t dead,
	unsigned *out, unsigned n)
{
	const struct smd_target *target = &context->targets[t];

	if (dead >> t & 1 || !target->known || s >= target->nremotes) {
		return n;
	}
	if (out) {
		out[n] = target->remotes[s]->index;
	}
	return n + 1;
}

/* As in the first epoch, which its caller's thread makes: what has changed since is not its to see.
 */
static unsigned list_first(const struct smd_context *context, unsigned *out)
{
	for (unsigned i = 0; out && i < context->ninitial; i++) {
		out[i] = i;
	}
	return context->ninitial;
}

/* Those that were added, or absent at first, have come in any order here, and may in another one at
 * other ranks. */
unsigned smd_epoch_list_there(const struct smd_comm *comm, uint64_t dead, unsigned *out)
{
	const struct smd_context *context = comm->context;
	unsigned n = 0;

	if (comm->now == &comm->base && dead == comm->base.dead) {
		return list_first(context, out);
	}
	for (unsigned s = 0; s < SMD_SHARDS_MAX; s++) {
		for (unsigned t = 0; t < context->config.ninitial; t++) {
			n = list_one(context, t, s, dead, out, n);
		}
	}
	for (unsigned t = context->config.ninitial; t < context->ntargets; t++) {
		for (unsigned s = 0; s < context->targets[t].nremotes; s++) {
			n = list_one(context, t, s, dead, out, n);
		}
	}
	return n;
}

uint64_t smd_epoch_serving(const struct smd_epoch *epoch)
{
	uint64_t serving = 0;

	for (unsigned k = 0; k < epoch->nserving; k++) {
		serving |= 1ull << epoch->flows[epoch->remotes[k]].target;
	}
	return serving;
}

/* ---- making ---- */

static int epoch_make(struct smd_comm *comm, struct smd_epoch *epoch)
{
	unsigned n = epoch->nremotes;

	epoch->comm = comm;
	smd_lead_begin(&epoch->lead);
	epoch->flows = calloc(n, sizeof(*epoch->flows));
	epoch->sends = calloc(n, SMD_FLOW_WINDOW_MAX * sizeof(*epoch->sends));
	epoch->remote_buffers = calloc(n, SMD_FLOW_WINDOW_MAX * sizeof(*epoch->remote_buffers));
	epoch->advertisements = calloc(n, SMD_FLOW_WINDOW_MAX * sizeof(*epoch->advertisements));
	epoch->remotes = calloc(n, sizeof(*epoch->remotes));
	epoch->weights = calloc(n, sizeof(*epoch->weights));
	if (!epoch->flows || !epoch->sends || !epoch->remote_buffers || !epoch->advertisements ||
		!epoch->remotes || !epoch->weights) {
		return -ENOMEM;
	}
	for (unsigned i = 0; i < n; i++) {
		struct smd_flow *flow = &epoch->flows[i];

		flow->epoch = epoch;
		flow->comm = comm;
		flow->target = target_of(comm, i);
		flow->sends = &epoch->sends[i * SMD_FLOW_WINDOW_MAX];
		flow->remote_buffers = &epoch->remote_buffers[i * SMD_FLOW_WINDOW_MAX];
		flow->advertisements = &epoch->advertisements[i * SMD_FLOW_WINDOW_MAX];
	}
	return 0;
}

uint32_t smd_epoch_declared_weight(const struct smd_epoch *epoch, const struct smd_remote *remote)
{
	const struct smd_context *context = epoch->comm->context;
	uint64_t serving = smd_epoch_serving(epoch);
	uint64_t present = 0;
	uint64_t declared = 0;
	uint64_t weight;

	for (unsigned s = 0; s < epoch->nremotes; s++) {
		if (serving >> epoch->flows[s].target & 1) {
			present += epoch->weights[s];
			declared += context->remotes.each[s]->welcome.weight;
		}
	}
	weight = (uint64_t)((double)remote->welcome.weight * (double)present /
			    (double)(declared ? declared : 1));
	return weight < 1 ? 1 : weight > INT32_MAX ? INT32_MAX : (uint32_t)weight;
}

/* Which of those that are there have a share: all, if none has a weight, because those that are
 * being drained, or were left out, must go on where no other one is left. */
static void epoch_choose(struct smd_epoch *epoch, const uint32_t *weights)
{
	const struct smd_comm *comm = epoch->comm;
	unsigned n = smd_epoch_list_there(comm, epoch->dead, epoch->remotes);
	bool none = true;

	for (unsigned k = 0; k < n; k++) {
		unsigned i = epoch->remotes[k];

		epoch->weights[i] = weights ? weights[k] : epoch->weights[i];
		none &= epoch->weights[i] == 0;
	}
	epoch->nserving = 0;
	for (unsigned k = 0; k < n; k++) {
		unsigned i = epoch->remotes[k];
		struct smd_flow *flow = &epoch->flows[i];

		if (none) { /* what is lost may be told otherwise by now, and not to all ranks */
			epoch->weights[i] = comm->context->remotes.each[i]->welcome.weight;
		}
		if (epoch->weights[i]) {
			flow->serves = true;
			flow->place = epoch->nserving;
			epoch->remotes[epoch->nserving++] = i;
		}
	}
}

static void epoch_destroy(struct smd_epoch *epoch)
{
	smd_deal_destroy(&epoch->own_deal);
	free(epoch->flows);
	free(epoch->sends);
	free(epoch->remote_buffers);
	free(epoch->advertisements);
	free(epoch->remotes);
	free(epoch->weights);
	free(epoch->items);
}

void smd_epoch_free(struct smd_epoch *epoch)
{
	epoch_destroy(epoch);
	free(epoch);
}

static int epoch_make_deal(struct smd_epoch *epoch)
{
	const struct smd_context *context = epoch->comm->context;
	struct smd_deal_shard *shards = calloc(epoch->nserving, sizeof(*shards));
	int ret;

	if (!shards) {
		return -ENOMEM;
	}
	for (unsigned i = 0; i < epoch->nserving; i++) {
		unsigned at = epoch->remotes[i];
		const struct smd_welcome *welcome = &context->remotes.each[at]->welcome;

		shards[i] = (struct smd_deal_shard){
			welcome->server_id, welcome->shard, epoch->weights[at]};
	}
	ret = smd_deal_create(&epoch->own_deal, shards, epoch->nserving, context->deal.chunk_bytes);
	epoch->own_deal.pipelined = context->deal.pipelined;
	epoch->own_deal.scale = epoch->scale;
	epoch->hash = smd_deal_hash(shards, epoch->nserving, context->deal.chunk_bytes);
	epoch->hash = smd_deal_hash_add(epoch->hash, (uint64_t)epoch->scale);
	epoch->deal = &epoch->own_deal;
	free(shards);
	return ret;
}

struct smd_epoch *smd_epoch_create(
	struct smd_comm *comm, uint64_t id, const struct smd_epoch_table *table)
{
	struct smd_epoch *epoch = calloc(1, sizeof(*epoch));

	if (!epoch) {
		return NULL;
	}
	epoch->index = comm->now->index + 1;
	epoch->id = id;
	epoch->dead = table->dead;
	epoch->scale = table->scale;
	epoch->exchanged = table->exchanged;
	epoch->ends_exchanges = table->ends_exchanges;
	epoch->nremotes = comm->context->remotes.count;
	if (epoch_make(comm, epoch)) {
		goto free_epoch;
	}
	epoch->rescues = table->rescues;
	if (!table->rescues) {
		memcpy(epoch->weights, comm->now->weights,
			comm->now->nremotes * sizeof(*epoch->weights));
	}
	epoch_choose(epoch, table->weights);
	if (epoch_make_deal(epoch)) {
		goto free_epoch;
	}
	return epoch;

free_epoch:
	smd_epoch_free(epoch);
	return NULL;
}

void smd_epochs_append(struct smd_epoch *epoch)
{
	epoch->comm->now->next = epoch;
	epoch->comm->now = epoch;
}

int smd_epochs_create(struct smd_comm *comm)
{
	comm->base.deal = &comm->context->deal;
	comm->base.nremotes = comm->context->ninitial;
	comm->base.dead = ~smd_context_initial(comm->context);
	comm->now = &comm->base;
	if (epoch_make(comm, &comm->base)) {
		return -ENOMEM;
	}
	for (unsigned i = 0; i < comm->base.nremotes; i++) {
		comm->base.weights[i] = comm->context->shards[i].weight;
	}
	epoch_choose(&comm->base, NULL);
	return 0;
}

void smd_epochs_destroy(struct smd_comm *comm)
{
	struct smd_epoch *epoch = comm->base.next;

	while (epoch) {
		struct smd_epoch *next = epoch->next;

		smd_epoch_free(epoch);
		epoch = next;
	}
	epoch_destroy(&comm->base);
}

/* ---- what the log says of one ---- */

static size_t describe_share(char *out, size_t room, unsigned share, unsigned length)
{
	unsigned tenths = (1000 * share + length / 2) / length;
	int n = snprintf(out, room, " %u.%u", tenths / 10, tenths % 10);

	return n < 0 || (size_t)n >= room ? 0 : (size_t)n;
}

void smd_epoch_describe(const struct smd_epoch *epoch, char out[SMD_EPOCH_TEXT_MAX])
{
	unsigned shares[SMD_SERVERS_MAX] = {0};
	unsigned larger = epoch->scale > 0 ? 1u << epoch->scale : 1;
	unsigned smaller = epoch->scale < 0 ? 1u << -epoch->scale : 1;
	size_t end = (size_t)snprintf(out, SMD_EPOCH_TEXT_MAX, "servers' shares, %%:");
	size_t room = SMD_EPOCH_TEXT_MAX - 112; /* for what comes after them */

	for (unsigned k = 0; k < epoch->nserving; k++) {
		shares[epoch->flows[epoch->remotes[k]].target] += epoch->deal->share[k];
	}
	for (unsigned t = 0; t < epoch->comm->context->ntargets; t++) {
		end += describe_share(out + end, room - end, shares[t], epoch->deal->length);
	}
	end += (size_t)snprintf(out + end, SMD_EPOCH_TEXT_MAX - end,
		"; a shard has %u Mbit/s; chunks of %u/%u%s", epoch->deal->mean_mbps, larger,
		smaller, epoch->deal->pipelined ? ", pipelined" : "");
	if (epoch->exchanged) {
		snprintf(out + end, SMD_EPOCH_TEXT_MAX - end,
			"; up to %u bytes go from rank to rank", epoch->exchanged);
	}
}

/* ---- streams of lost servers ---- */

/* All of the first epoch's, those of spare servers too: a loss without streams is another thing
 * (knows_streams()). */
void smd_epochs_each_stream(
	const struct smd_comm *comm, uint64_t targets, smd_each_stream *call, void *arg)
{
	for (const struct smd_epoch *epoch = &comm->base; epoch; epoch = epoch->next) {
		bool first = epoch == &comm->base;

		for (unsigned k = 0; k < (first ? epoch->nremotes : epoch->nserving); k++) {
			struct smd_flow *flow = &epoch->flows[first ? k : epoch->remotes[k]];

			if (!flow->died && in(targets, flow)) {
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

/* ---- epochs that nothing is left to do in ---- */

/* Operations that have not begun will be dealt by it: by the last one that begins before them, and
 * a loss may begin at an earlier one than the change before it. */
static bool epoch_has_more(const struct smd_epoch *epoch)
{
	const struct smd_comm *comm = epoch->comm;
	uint64_t next = comm->next_operation; /* or one that is kept back */

	if ((comm->agreement.sealed || comm->agreement.ahead) && comm->agreement.promised < next) {
		next = comm->agreement.promised;
	}
	for (const struct smd_epoch *later = epoch->next; later; later = later->next) {
		if (later->first <= next) {
			return false;
		}
	}
	return true;
}

/* Not all that is dealt to it has come back, or more will be, or copies are kept for it. */
static bool epoch_is_needed(const struct smd_epoch *epoch)
{
	const struct smd_comm *comm = epoch->comm;

	if (epoch_has_more(epoch)) {
		return true;
	}
	for (unsigned i = 0; i < epoch->nserving; i++) {
		const struct smd_flow *flow = &epoch->flows[epoch->remotes[i]];

		if (!flow->dead && smd_deal_ordinals_before(epoch->deal, flow->place,
					   epoch->next_chunk) > flow->done) {
			return true;
		}
	}
	for (uint64_t k = comm->history.first; k < comm->history.next; k++) {
		if (smd_history_entry(&comm->history, k)->flow->epoch == epoch) {
			return true;
		}
	}
	return false;
}

/* What was dealt to it again is asked for there, too, until all ranks have it. */
static bool epoch_has_operations(const struct smd_epoch *epoch)
{
	const struct smd_request *operation;

	for (uint64_t g = 0; g < epoch->nitems; g++) {
		if (epoch->items[g].operation) {
			return true;
		}
	}
	TAILQ_FOREACH (operation, &epoch->comm->operations, link) {
		if (operation->home == epoch) {
			return true;
		}
	}
	return false;
}

static bool flow_carries(const struct smd_epoch *epoch, unsigned i)
{
	return i < epoch->nremotes && epoch->flows[i].joined && !epoch->flows[i].dead;
}

/* What ranks agree on comes to some server through this one's stream alone: one that has come back,
 * and that later ones deal nothing to, or whose streams there still form. */
static bool epoch_carries_alone(const struct smd_epoch *epoch)
{
	const struct smd_comm *comm = epoch->comm;

	for (unsigned i = 0; i < epoch->nremotes; i++) {
		bool others = flow_carries(&comm->base, i);

		for (const struct smd_epoch *later = epoch->next; later && !others;
			later = later->next) {
			others = flow_carries(later, i);
		}
		if (comm->context->remotes.each[i]->shard == 0 && flow_carries(epoch, i) &&
			!epoch->flows[i].over && !others) {
			return true;
		}
	}
	return false;
}

uint32_t smd_epochs_oldest(const struct smd_comm *comm)
{
	const struct smd_epoch *epoch = comm->base.next ? comm->base.next : &comm->base;

	while (epoch != comm->now && !epoch_is_needed(epoch) && !epoch_has_operations(epoch) &&
		!epoch_carries_alone(epoch)) {
		epoch = epoch->next;
	}
	return epoch->index;
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
	if (number >= epoch->next_chunk) { /* operations of ranks among themselves have no chunks */
		return false;
	}
	TAILQ_FOREACH (*operation, &epoch->comm->operations, link) {
		if ((*operation)->home == epoch &&
			number - (*operation)->first_chunk < (*operation)->nchunks) {
			return true;
		}
	}
	return false;
}
