/*
 * A sender: matches its sends with the receives that the other end has posted, and puts them on the
 * lanes in stripes, each lane taking the next one when it is through with those before.
 */
#include "worker/nccl_plugin/net/send.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "worker/nccl_plugin/abi/argument.h"
#include "worker/nccl_plugin/abi/log.h"

/* A lane has no more than this waiting, beyond what its socket holds. */
#define QUEUE_BYTES        (256u << 10)
#define QUEUE_BYTES_DIRECT (2 * SMD_NET_PIECE) /* where the card has to be kept busy */
/* Nor do sockets get more in one turn: what waits there for long has left the caches when it is
 * read. */
#define BURST_BYTES  (256u << 10)
#define STRIPE_LEAST (64u << 10)
#define STRIPE_MOST  (1u << 20)

/* ---- stripes ---- */

static void send_sent(struct smd_net_send *send)
{
	if (send->all && send->flying == 0) {
		send->slot->unsent--;
		smd_net_request_end(&send->request, send->too_long ? NCCL_INVALID_USAGE : 0);
	}
}

static void stripe_done(struct smd_send *lane_send, int err)
{
	struct smd_net_stripe *stripe = lane_send->owner;
	struct smd_net_send *send = stripe->owner;

	stripe->lane->queued -= lane_send->length;
	stripe->lane = NULL;
	send->flying--;
	if (err == 0) { /* otherwise the connection is over */
		send_sent(send);
	}
}

static struct smd_net_stripe *find_free(struct smd_net_send *send)
{
	for (unsigned i = 0; i < SMD_NET_STRIPES; i++) {
		if (!send->stripes[i].lane) {
			return &send->stripes[i];
		}
	}
	return NULL;
}

static const struct smd_remote_buffer *send_remote_buffers(const struct smd_net_send *send)
{
	const struct smd_net_slot *slot = send->slot;
	unsigned first = 0;

	for (unsigned i = 0; i < send->entry; i++) {
		first += smd_net_pieces(slot->post.receives[i].size);
	}
	return slot->nremote_buffers ? slot->remote_buffers + first : NULL;
}

static size_t stripe_bytes(const struct smd_net_comm *comm, const struct smd_net_send *send)
{
	size_t left = send->size - send->begun;
	size_t most = SMD_NET_PIECE;

	if (comm->nlanes > 1) {
		most = (send->size / comm->nlanes + 4095) & ~(size_t)4095;
		most = most < STRIPE_LEAST ? STRIPE_LEAST : most;
		most = most > STRIPE_MOST ? STRIPE_MOST : most;
	}
	return left < most ? left : most;
}

/*
 * The buffer that those bytes are to be written to; none: they are copied. So small ones are, but
 * not from memory of a GPU nor to it: then the buffer is no larger than they are, which says so to
 * the lane.
 */
static struct smd_remote_buffer stripe_remote_buffer(const struct smd_net_send *send, size_t bytes)
{
	const struct smd_remote_buffer *buffers = send_remote_buffers(send);
	bool device = send->device || send->slot->post.receives[send->entry].device;
	struct smd_remote_buffer buffer = {.length = 0};

	if (buffers && bytes && (device || bytes > SMD_DIRECT_ABOVE)) {
		buffer = buffers[send->begun / SMD_NET_PIECE];
	}
	if (device && buffer.length > bytes) {
		buffer.length = (uint32_t)bytes;
	}
	return buffer;
}

/* Nothing else reads memory of a GPU. */
static void send_refuse(struct smd_net_send *send, struct smd_net_stripe *stripe)
{
	stripe->lane = NULL;
	smd_net_comm_fail(send->request.comm, NCCL_SYSTEM_ERROR,
		"%s: memory of a GPU must be sent to a buffer, and there is none",
		send->request.comm->peer);
}

static void send_stripe(
	struct smd_net_send *send, struct smd_net_stripe *stripe, struct smd_net_lane *lane)
{
	struct smd_frame frame = {
		.kind = SMD_FRAME_DATA,
		.window = (uint16_t)send->slot->number,
		.rank = (uint16_t)send->entry,
		.ordinal = send->slot->ordinal,
		.count = send->size,
		.offset = send->begun,
	};
	size_t bytes = send->too_long ? 0 : stripe_bytes(lane->comm, send);

	stripe->owner = send;
	stripe->lane = lane;
	stripe->send = (struct smd_send){
		.payload = send->data + send->begun,
		.length = (uint32_t)bytes,
		.done = stripe_done,
		.owner = stripe,
		.extent = send->extent,
	};
	stripe->send.remote_buffer = stripe_remote_buffer(send, bytes);
	if (send->device && bytes &&
		(stripe->send.remote_buffer.length < bytes ||
			!smd_lane_can_dma(lane->lane, stripe->send.payload, (uint32_t)bytes))) {
		send_refuse(send, stripe);
		return;
	}
	send->begun += bytes;
	send->all = send->too_long || send->begun == send->size;
	send->flying++;
	lane->queued += bytes;
	smd_lane_send(lane->lane, &frame, &stripe->send);
}

/* The next lane that may take more; NULL: none may. */
static struct smd_net_lane *find_lane(struct smd_net_comm *comm)
{
	for (unsigned i = 0; i < comm->nlanes; i++) {
		struct smd_net_lane *lane = &comm->lanes[comm->next_lane];
		size_t limit = lane->lane && smd_lane_can_advertise(lane->lane) ? QUEUE_BYTES_DIRECT
										: QUEUE_BYTES;

		comm->next_lane = (comm->next_lane + 1) % comm->nlanes;
		if (lane->lane && lane->queued < limit) {
			return lane;
		}
	}
	return NULL;
}

static size_t comm_burst(const struct smd_net_comm *comm)
{
	const struct smd_lane *lane = comm->lanes[0].lane;

	return lane && smd_lane_can_advertise(lane) ? SIZE_MAX : comm->nlanes * (size_t)BURST_BYTES;
}

void smd_net_pump(struct smd_net_comm *comm)
{
	struct smd_net_send *send = TAILQ_FIRST(&comm->active);
	size_t most = comm_burst(comm);
	size_t begun = 0;

	while (send && !comm->result && begun < most) {
		struct smd_net_send *next = TAILQ_NEXT(send, link);
		struct smd_net_stripe *stripe = find_free(send);
		struct smd_net_lane *lane = stripe ? find_lane(comm) : NULL;

		if (stripe && !lane) {
			return;
		}
		if (stripe) {
			bool last = send->too_long ||
				    stripe_bytes(comm, send) == send->size - send->begun;

			if (last) { /* it may be done, and forgotten, before this returns */
				TAILQ_REMOVE(&comm->active, send, link);
			}
			begun += stripe_bytes(comm, send);
			send_stripe(send, stripe, lane);
			if (!last) {
				continue;
			}
		}
		send = next;
	}
}

/* ---- matching ---- */

static void slot_match(struct smd_net_slot *slot, unsigned entry, struct smd_net_send *send)
{
	struct smd_net_comm *comm = send->request.comm;

	send->slot = slot;
	send->entry = entry;
	slot->matched[entry] = true;
	if (--slot->unmatched == 0) {
		TAILQ_REMOVE(&comm->posted, slot, link);
	}
	if (send->size > slot->post.receives[entry].size) {
		send->too_long = true; /* the other end is told, and no more */
		smd_nccl_log_warn("net: a send to %s must fit its receive of %zu bytes (tag %u), "
				  "got %zu",
			comm->peer, (size_t)slot->post.receives[entry].size, send->tag, send->size);
	}
	TAILQ_INSERT_TAIL(&comm->active, send, link);
}

/* The first receive of the tag: which of its group's. NULL: none is posted. */
static struct smd_net_slot *find_posted(struct smd_net_comm *comm, uint32_t tag, unsigned *entry)
{
	struct smd_net_slot *slot;

	TAILQ_FOREACH (slot, &comm->posted, link) {
		for (unsigned i = 0; i < slot->post.n; i++) {
			if (!slot->matched[i] && slot->post.receives[i].tag == tag) {
				*entry = i;
				return slot;
			}
		}
	}
	return NULL;
}

/* With the first receive of its tag. False: none is posted. */
static bool send_match(struct smd_net_send *send)
{
	unsigned entry;
	struct smd_net_slot *slot = find_posted(send->request.comm, send->tag, &entry);

	if (slot) {
		slot_match(slot, entry, send);
	}
	return slot != NULL;
}

static void match_all(struct smd_net_comm *comm)
{
	struct smd_net_send *send = TAILQ_FIRST(&comm->unmatched);

	while (send && !TAILQ_EMPTY(&comm->posted)) {
		struct smd_net_send *next = TAILQ_NEXT(send, link);

		/* It goes from one list to the other by the same link. */
		TAILQ_REMOVE(&comm->unmatched, send, link);
		if (send_match(send)) {
			comm->nunmatched--;
		} else if (next) {
			TAILQ_INSERT_BEFORE(next, send, link);
		} else {
			TAILQ_INSERT_TAIL(&comm->unmatched, send, link);
		}
		send = next;
	}
}

/* A free one for a send of that tag, NULL: not now. */
static struct smd_net_send *find_send(struct smd_net_comm *comm, uint32_t tag)
{
	unsigned entry;

	if (comm->nunmatched == SMD_NET_UNMATCHED && !find_posted(comm, tag, &entry)) {
		return NULL;
	}
	for (unsigned i = 0; i < SMD_NET_SENDS; i++) {
		if (!comm->sends[i].request.busy) {
			return &comm->sends[i];
		}
	}
	return NULL;
}

static int comm_send(struct smd_net_comm *comm, void *data, size_t size, int tag,
	const struct smd_net_memory *memory, void **request)
{
	struct smd_net_send *send;

	if (comm->result) {
		return smd_net_comm_tell(comm);
	}
	send = find_send(comm, (uint32_t)tag);
	if (!send) {
		smd_net_comm_progress(comm); /* its receive may have been posted; so, next time */
		return comm->result ? smd_net_comm_tell(comm) : NCCL_SUCCESS;
	}
	smd_net_request_begin(&send->request, comm);
	send->data = data;
	send->size = size;
	send->tag = (uint32_t)tag;
	send->extent = smd_net_extent(memory);
	send->device = smd_net_is_device(memory);
	send->slot = NULL;
	send->begun = 0;
	send->all = false;
	send->too_long = false;
	send->flying = 0;
	if (send_match(send)) {
		smd_net_pump(comm);
	} else {
		TAILQ_INSERT_TAIL(&comm->unmatched, send, link);
		comm->nunmatched++;
	}
	*request = send;
	return NCCL_SUCCESS;
}

int smd_net_send(void *handle, void *data, size_t size, int tag, void *mhandle, void **request)
{
	struct smd_net_comm *comm = handle;
	int ret;

	if (smd_nccl_lacks_any("isend", "comm", handle, "request", request) ||
		(size && smd_nccl_lacks("isend", "data", data))) {
		return NCCL_INVALID_ARGUMENT;
	}
	*request = NULL;
	if (size > SMD_NET_BYTES_MAX) {
		smd_nccl_log_warn("net: a send must have at most %zu bytes, got %zu",
			SMD_NET_BYTES_MAX, size);
		return NCCL_INVALID_USAGE;
	}
	pthread_mutex_lock(&comm->lock);
	ret = comm_send(comm, data, size, tag, mhandle, request);
	pthread_mutex_unlock(&comm->lock);
	return ret;
}

/* ---- what the other end says ---- */

int smd_net_sender_on_header(
	struct smd_net_lane *lane, const struct smd_frame *frame, struct smd_error *error)
{
	const struct smd_net_slot *slots = lane->comm->slots;

	if (lane->index != 0 ||
		(frame->kind != SMD_FRAME_BUFFERS && frame->kind != SMD_FRAME_POST)) {
		return smd_error_set(error, EPROTO, "%s: must not be sent to a sender%s",
			smd_frame_kind_name(frame->kind), lane->index ? " on this lane" : "");
	}
	if (frame->window >= NCCL_NET_REQUESTS) {
		return smd_error_set(error, EPROTO, "%s: slot must be below %d, got %u",
			smd_frame_kind_name(frame->kind), NCCL_NET_REQUESTS, frame->window);
	}
	if (slots[frame->window].unsent) {
		return smd_error_set(error, EPROTO,
			"%s: slot %u must be free, but %u of its messages are not sent",
			smd_frame_kind_name(frame->kind), frame->window,
			slots[frame->window].unsent);
	}
	return 0;
}

static int slot_add_buffers(
	struct smd_net_slot *slot, const struct smd_lane *lane, struct smd_error *error)
{
	const unsigned most = SMD_NET_RECVS_MAX * (SMD_NET_BYTES_MAX / SMD_NET_PIECE);

	if (slot->nremote_buffers + lane->nremote_buffers > most) {
		return smd_error_set(error, EPROTO,
			"remote buffers: there must be at most %u, got %u more than %u", most,
			lane->nremote_buffers, slot->nremote_buffers);
	}
	if (slot->nremote_buffers + lane->nremote_buffers > slot->room) {
		unsigned room = 2 * (slot->nremote_buffers + lane->nremote_buffers);
		struct smd_remote_buffer *buffers =
			realloc(slot->remote_buffers, room * sizeof(*buffers));

		if (!buffers) {
			return smd_error_set(error, ENOMEM, "out of memory");
		}
		slot->remote_buffers = buffers;
		slot->room = room;
	}
	if (lane->nremote_buffers) {
		memcpy(slot->remote_buffers + slot->nremote_buffers, lane->remote_buffers,
			lane->nremote_buffers * sizeof(*slot->remote_buffers));
	}
	slot->nremote_buffers += lane->nremote_buffers;
	return 0;
}

static int sender_on_post(struct smd_net_comm *comm, struct smd_net_slot *slot,
	const struct smd_frame *frame, struct smd_error *error)
{
	unsigned pieces = 0;

	if (frame->ordinal != comm->ordinal) {
		return smd_error_set(error, EPROTO, "POST: ordinal must be %llu, got %llu",
			(unsigned long long)comm->ordinal, (unsigned long long)frame->ordinal);
	}
	for (unsigned i = 0; i < slot->post.n; i++) {
		pieces += smd_net_pieces(slot->post.receives[i].size);
	}
	if (slot->nremote_buffers && slot->nremote_buffers != pieces) {
		return smd_error_set(error, EPROTO, "POST: there must be %u remote buffers, got %u",
			pieces, slot->nremote_buffers);
	}
	comm->ordinal++;
	slot->ordinal = frame->ordinal;
	slot->unmatched = slot->post.n;
	slot->unsent = slot->post.n;
	memset(slot->matched, 0, sizeof(slot->matched));
	TAILQ_INSERT_TAIL(&comm->posted, slot, link);
	match_all(comm);
	return 0;
}

int smd_net_sender_on_frame(
	struct smd_net_lane *lane, const struct smd_frame *frame, struct smd_error *error)
{
	struct smd_net_slot *slot = &lane->comm->slots[frame->window];
	int ret;

	if (slot->post.n) { /* the first frame for a new group */
		slot->post.n = 0;
		slot->nremote_buffers = 0;
	}
	ret = slot_add_buffers(slot, lane->lane, error);
	if (ret || frame->kind == SMD_FRAME_BUFFERS) {
		return ret;
	}
	ret = smd_net_post_decode(lane->control, frame->length, &slot->post, error);
	return ret ? ret : sender_on_post(lane->comm, slot, frame, error);
}
