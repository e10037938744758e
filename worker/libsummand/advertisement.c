/* Advertises places of results, and undoes what was written there of one that will not come. */
#include "worker/libsummand/advertisement.h"

#include <errno.h>

#include "worker/libsummand/epoch.h"
#include "worker/libsummand/undo.h"

static struct smd_advertisement **flow_advertisement(struct smd_flow *flow, uint64_t ordinal)
{
	return &flow->advertisements[ordinal % SMD_FLOW_WINDOW_MAX];
}

static struct smd_flow_send *flow_sent(struct smd_flow *flow, uint64_t ordinal)
{
	return &flow->sends[ordinal % SMD_FLOW_WINDOW_MAX];
}

static struct smd_undos *undos_of(const struct smd_flow *flow)
{
	return &flow->comm->context->undos;
}

/* NULL: the card cannot write it, or is not to. */
static void *flow_place(
	struct smd_flow *flow, struct smd_request *operation, void *memory, size_t bytes)
{
	if (!smd_lane_can_advertise(flow->remote->lane)) {
		return NULL;
	}
	if (operation->path->place) {
		return operation->path->place(flow, operation, memory, bytes);
	}
	return bytes > SMD_DIRECT_ABOVE ? memory : NULL;
}

/* The result will not be written there, or what it is written over is not lost. */
static bool flow_can_undo(
	struct smd_flow *flow, const struct smd_request *operation, void *memory, size_t bytes)
{
	struct smd_undo **undo = &flow_sent(flow, flow->next)->undo;

	if (!smd_operation_overwrites(operation) || operation->path->restore) {
		return true;
	}
	*undo = smd_undo_keep(undos_of(flow), memory, bytes);
	return *undo != NULL;
}

static void flow_drop_undo(struct smd_flow *flow, uint64_t ordinal)
{
	struct smd_flow_send *send = flow_sent(flow, ordinal);

	if (send->undo) {
		smd_undo_drop(undos_of(flow), send->undo);
		send->undo = NULL;
	}
}

/* The card writes there no more. */
static void flow_drop_place(struct smd_flow *flow, uint64_t ordinal)
{
	struct smd_flow_send *send = flow_sent(flow, ordinal);

	if (send->place) {
		smd_staging_free_place(&flow->comm->context->staging, send->place);
		send->place = NULL;
	}
}

/* The card has written the result there: it is the path's now, to be received. */
static void flow_take_place(struct smd_flow *flow, uint64_t ordinal)
{
	struct smd_flow_send *send = flow_sent(flow, ordinal);

	if (send->place) {
		smd_staging_keep_place(&flow->comm->context->staging);
		flow->rx_stage = send->place;
		send->place = NULL;
	}
}

void smd_flow_advertise(struct smd_flow *flow, struct smd_request *operation, uint64_t chunk)
{
	struct smd_advertisement **advertisement = flow_advertisement(flow, flow->next);
	size_t bytes = smd_operation_received_bytes(operation, chunk);
	uint8_t *memory = operation->recv + smd_operation_chunk_offset(operation, chunk);
	void *place = flow_place(flow, operation, memory, bytes);
	struct smd_extent extent = {.length = 0};

	if (!place || (place == memory && !flow_can_undo(flow, operation, memory, bytes))) {
		return;
	}
	if (place == memory) {
		extent = smd_operation_extent(operation, operation->recv);
	}
	*advertisement =
		smd_lane_advertise(flow->remote->lane, place, (uint32_t)bytes, extent);
	if (!*advertisement || (*advertisement)->beside) {
		flow_drop_undo(flow, flow->next);
	}
	if (!*advertisement) {
		flow_drop_place(flow, flow->next);
	}
}

/* It comes elsewhere, or is there. */
static void flow_revoke(struct smd_flow *flow, uint64_t ordinal)
{
	struct smd_advertisement **advertisement = flow_advertisement(flow, ordinal);

	if (*advertisement && flow->remote->lane) { /* else it is gone with that */
		smd_lane_revoke(flow->remote->lane, *advertisement);
		*advertisement = NULL;
	}
	flow_drop_undo(flow, ordinal);
	flow_drop_place(flow, ordinal);
}

int smd_flow_check_place(
	const struct smd_flow *flow, uint64_t ordinal, bool direct, struct smd_error *error)
{
	const struct smd_advertisement *advertisement =
		flow->advertisements[ordinal % SMD_FLOW_WINDOW_MAX];

	if (direct && !advertisement) {
		return smd_error_set(error, EPROTO,
			"RESULT: must not be written to a buffer that was not advertised, got "
			"ordinal %llu",
			(unsigned long long)ordinal);
	}
	if (advertisement && advertisement->held) {
		return smd_error_set(error, EPROTO,
			"RESULT: must give back the memory window of its place, got ordinal %llu "
			"without",
			(unsigned long long)ordinal);
	}
	return 0;
}

void smd_flow_claim(struct smd_flow *flow, uint64_t ordinal, uint32_t written)
{
	struct smd_advertisement **advertisement = flow_advertisement(flow, ordinal);

	if (written) {
		smd_lane_claim(flow->remote->lane, *advertisement, written);
		*advertisement = NULL;
		flow_take_place(flow, ordinal);
	}
	flow_revoke(flow, ordinal);
}

static void flow_drop_places(struct smd_flow *flow)
{
	for (uint64_t k = 0; k < SMD_FLOW_WINDOW_MAX; k++) {
		flow_drop_undo(flow, k);
		flow_drop_place(flow, k);
	}
}

static void flow_on_withdrawn(void *owner, void *memory)
{
	struct smd_flow *flow = owner;

	(void)memory;
	if (--flow->withdrawing == 0) {
		flow_drop_places(flow);
		flow->withdrawn(flow);
	}
}

void smd_flow_withdraw_all(struct smd_flow *flow, void (*withdrawn)(struct smd_flow *flow))
{
	flow->withdrawn = withdrawn;
	flow->withdrawing = 1; /* until all are counted */
	for (uint64_t k = 0; k < SMD_FLOW_WINDOW_MAX; k++) {
		struct smd_advertisement **advertisement = flow_advertisement(flow, k);

		if (*advertisement && flow->remote->lane) { /* else it is gone with that */
			flow->withdrawing++;
			smd_lane_withdraw(
				flow->remote->lane, *advertisement, NULL, flow_on_withdrawn, flow);
		}
		*advertisement = NULL;
	}
	flow_on_withdrawn(flow, NULL);
}

bool smd_flow_is_open(const struct smd_flow *flow)
{
	for (unsigned k = 0; k < SMD_FLOW_WINDOW_MAX; k++) {
		if (flow->advertisements[k]) {
			return true;
		}
	}
	return false;
}

/* The card may have begun to write the chunk's result over what was sent. */
static void flow_undo(struct smd_flow *flow, uint64_t ordinal)
{
	struct smd_flow_send *send = flow_sent(flow, ordinal);
	uint64_t chunk = smd_deal_chunk_of(flow->epoch->deal, flow->place, ordinal);
	struct smd_request *operation;
	struct smd_item *item;

	if (send->undo) {
		smd_undo_restore(undos_of(flow), send->undo);
		send->undo = NULL;
	} else if (smd_epoch_find(flow->epoch, chunk, &operation, &chunk, &item) && operation &&
		   operation->path->restore) {
		operation->path->restore(operation, chunk);
	}
}

void smd_flow_forget_advertisements(struct smd_flow *flow)
{
	for (uint64_t k = flow->done; k < flow->next; k++) {
		if (*flow_advertisement(flow, k)) {
			flow_undo(flow, k);
			flow_drop_place(flow, k);
			*flow_advertisement(flow, k) = NULL;
		}
	}
}
