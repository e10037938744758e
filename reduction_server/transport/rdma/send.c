/*
 * Posts a lane's frames as messages: gathered into chains, one doorbell for each.
 *
 * A small frame is copied into a bounce buffer and written into a receive buffer. The payload of a
 * large one that has a remote buffer is written there from where it is, before its header into a
 * receive buffer. Only the write of a header tells the other end: fabrics may spread plain writes
 * over their paths, and keep those with immediate data in one. So are small ones from and to memory
 * of devices. A large one without a remote buffer goes through receive buffers piece by piece.
 */
#include "reduction_server/transport/rdma/rdma.h"

#include <arpa/inet.h>
#include <assert.h>
#include <stdio.h>
#include <string.h>

#define CHAIN_MAX 64 /* work requests */

struct chain {
	struct ibv_send_wr requests[CHAIN_MAX];
	struct ibv_sge pieces[CHAIN_MAX];
	unsigned length;
};

/* ---- what is done ---- */

static struct rdma_posted *posted_at(const struct rdma_lane *lane, uint32_t index)
{
	return &lane->posted[index % lane->depth];
}

/* Whether number a comes before b; both count round. */
static bool before(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) < 0;
}

/* The other end has it, or the device is finished with it. */
static bool posted_has_gone(const struct rdma_lane *lane, const struct rdma_posted *posted)
{
	return posted->copied || before(posted->number, lane->tx_taken) ||
	       !before(lane->completed, posted->requests_end);
}

bool smd_rdma_settle(struct rdma_lane *lane)
{
	bool closing = lane->closed; /* and nothing closes it again */
	struct rdma_posted *posted;

	while (lane->posted_settled != lane->posted_end &&
		posted_has_gone(lane, posted_at(lane, lane->posted_settled))) {
		struct smd_send *send;

		posted = posted_at(lane, lane->posted_settled++);
		send = posted->send;
		posted->send = NULL;
		if (send) {
			send->done(send, 0);
		}
		if (lane->closed != closing) {
			return false;
		}
	}
	for (; lane->posted_begin != lane->posted_settled; lane->posted_begin++) {
		posted = posted_at(lane, lane->posted_begin);
		if (before(lane->completed, posted->requests_end)) {
			break;
		}
		if (posted->region) {
			smd_rdma_region_put(posted->region);
		}
	}
	return smd_rdma_settle_closed(lane);
}

void smd_rdma_count_sent(struct rdma_lane *lane, uint32_t request)
{
	/* The highest bit tells sends from receives, and is not part of the count. */
	uint32_t passed = (request - lane->completed) & ~RDMA_WR_RECEIVE;

	if (passed <= lane->requests - lane->completed) {
		lane->completed += passed;
	}
	while (lane->nbatches && !before(lane->completed, lane->batches[0])) {
		lane->nbatches--;
		memmove(lane->batches, lane->batches + 1, lane->nbatches * sizeof(*lane->batches));
	}
}

static bool lane_has_more(const struct rdma_lane *lane)
{
	return !TAILQ_EMPTY(&lane->tx) || !STAILQ_EMPTY(&lane->closing);
}

void smd_rdma_sent(struct rdma_lane *lane, uint32_t request)
{
	smd_rdma_count_sent(lane, request);
	if (smd_rdma_settle(lane) && (lane_has_more(lane) || smd_rdma_owes_taken(lane))) {
		smd_rdma_device_wake(lane->device, &lane->pair);
	}
}

/* ---- what is to be posted ---- */

/*
 * There may be room for requests and no place in the ring: what is complete keeps its own until
 * smd_rdma_settle() lets it go, which calls done() before, and that may send. What waits for a
 * place is posted after that: a completion was the reason, so smd_rdma_sent() wakes the lane.
 */
static bool lane_has_place(const struct rdma_lane *lane)
{
	return lane->posted_end - lane->posted_begin < lane->depth;
}

static bool lane_has_room(
	const struct rdma_lane *lane, const struct chain *chain, uint32_t requests)
{
	return lane->requests - lane->completed + chain->length + requests <= lane->depth &&
	       chain->length + requests <= CHAIN_MAX;
}

static struct ibv_send_wr *chain_add(struct chain *chain, struct rdma_lane *lane, const void *bytes,
	uint32_t length, uint32_t key)
{
	struct ibv_send_wr *request = &chain->requests[chain->length];
	struct ibv_sge *piece = &chain->pieces[chain->length];

	*piece = (struct ibv_sge){(uintptr_t)bytes, length, key};
	*request = (struct ibv_send_wr){
		.wr_id = smd_rdma_wr_id(
			&lane->pair, (lane->requests + chain->length + 1) & ~RDMA_WR_RECEIVE),
		.sg_list = piece,
		.num_sge = length ? 1 : 0,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = length <= lane->inline_bytes ? IBV_SEND_INLINE : 0,
	};
	if (chain->length) {
		chain->requests[chain->length - 1].next = request;
	}
	chain->length++;
	return request;
}

/* One that moves no bytes. */
static struct ibv_send_wr *chain_add_local(struct chain *chain, struct rdma_lane *lane)
{
	struct ibv_send_wr *request = chain_add(chain, lane, NULL, 0, 0);

	request->send_flags = 0;
	return request;
}

static void request_tells(struct ibv_send_wr *request, uint32_t immediate)
{
	request->opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	request->imm_data = htonl(immediate);
}

/* Small payloads are copied, unless a processor cannot touch them here, or, as so small a remote
 * buffer says, there. */
static bool lane_may_write_direct(const struct rdma_lane *lane, const struct smd_send *send)
{
	return send->length && send->remote_buffer.length >= send->length &&
	       send->length <= lane->device->limits.message_bytes &&
	       (send->length > SMD_RDMA_EAGER || send->remote_buffer.length <= SMD_RDMA_EAGER ||
		       smd_rdma_memory_has_device(
			       lane->device->memory, send->payload, send->length));
}

/* The region that the payload can be written from, if it goes to its remote buffer. */
static struct smd_rdma_region *lane_direct_region(
	struct rdma_lane *lane, const struct smd_send *send)
{
	struct smd_rdma_region *region;

	if (!lane_may_write_direct(lane, send) ||
		smd_rdma_memory_find(lane->device->memory, send->payload, send->length,
			send->extent.base, send->extent.length, SMD_RDMA_READ, &region)) {
		return NULL;
	}
	if (region->slot) {
		memcpy(region->slot, send->payload, send->length);
	}
	return region;
}

/* Header and remote buffers of the frame that begins, whose windows are bound before it goes;
 * returns where the payload may follow. */
static uint8_t *bounce_begin(
	struct rdma_lane *lane, struct chain *chain, const struct smd_send *send, uint8_t *at)
{
	memcpy(at, send->header, SMD_FRAME_SIZE);
	at += SMD_FRAME_SIZE;
	for (uint32_t i = 0; i < send->nadvertised; i++, at += SMD_RDMA_REMOTE_BUFFER_SIZE) {
		const struct rdma_remote *remote =
			&lane->remotes[(send->first_advertised + i) % lane->remotes_room];

		if (remote->advertisement) {
			smd_rdma_window_bind(remote->advertisement, chain_add_local(chain, lane));
		}
		smd_rdma_remote_buffer_encode(&remote->buffer, at);
	}
	if (send->nadvertised) {
		lane->remotes_begin = send->first_advertised + send->nadvertised;
	}
	return at;
}

/* The message that was made there goes into the other end's next receive buffer, and tells it; or
 * that is done by giving back the key of a window, which leaves no room for its number. */
static void lane_add_write(struct rdma_lane *lane, struct chain *chain, const uint8_t *bounce,
	uint32_t length, const uint32_t *returned)
{
	uint32_t index = lane->tx_next % lane->other.receive_buffers;
	struct ibv_send_wr *request = chain_add(chain, lane, bounce, length, lane->region->lkey);

	request->wr.rdma.remote_addr = lane->other.address + index * (uint64_t)SMD_RDMA_BUFFER_SIZE;
	request->wr.rdma.rkey = lane->other.key;
	if (returned) {
		request = chain_add_local(chain, lane);
		request->opcode = IBV_WR_SEND_WITH_INV;
		request->invalidate_rkey = *returned;
	} else {
		request_tells(request, lane->tx_next & SMD_RDMA_COUNT_MASK);
	}
}

/* With the first message of the frame that its window is for, whether that is used or not; NULL:
 * there is none. */
static const uint32_t *lane_returns(const struct rdma_lane *lane, const struct smd_send *send)
{
	return lane->other.windows && send->remote_buffer.length ? &send->remote_buffer.key : NULL;
}

/* It is the chain's last so far. */
static struct rdma_posted *lane_add_posted(
	struct rdma_lane *lane, const struct chain *chain, struct smd_rdma_region *region)
{
	struct rdma_posted *posted = posted_at(lane, lane->posted_end++);

	*posted = (struct rdma_posted){
		.number = lane->tx_next++,
		.requests_end = lane->requests + chain->length,
		.copied = !region,
		.region = region,
	};
	lane->rx_told = lane->rx_next;
	return posted;
}

/*
 * Makes the next message of the first queued frame. False: there is no room for it now.
 */
static bool lane_add_message(struct rdma_lane *lane, struct chain *chain)
{
	struct smd_send *send = TAILQ_FIRST(&lane->tx);
	uint8_t *bounce =
		lane->memory + (lane->receive_buffers + lane->tx_next % lane->receive_buffers) *
				       (size_t)SMD_RDMA_BUFFER_SIZE;
	uint8_t *at = bounce + SMD_RDMA_PREFIX_SIZE;
	struct smd_rdma_prefix prefix = {.taken = lane->rx_next, .begins = send->sent == 0};
	struct smd_rdma_region *region = NULL;
	struct rdma_posted *posted;
	const uint32_t *returned = prefix.begins ? lane_returns(lane, send) : NULL;
	const uint32_t binds = prefix.begins && lane->device->windows ? send->nadvertised : 0;
	struct ibv_send_wr *request;
	uint32_t piece = 0;

	if (lane->tx_next - lane->tx_taken >= lane->window || !lane_has_place(lane) ||
		!lane_has_room(lane, chain, binds + 2 + (returned != NULL))) {
		return false;
	}
	if (prefix.begins) {
		at = bounce_begin(lane, chain, send, at);
		send->sent = SMD_FRAME_SIZE;
		prefix.remote_buffers = (uint8_t)send->nadvertised;
		region = lane_direct_region(lane, send);
		prefix.direct = region != NULL;
	}
	if (!region) {
		uint32_t left = SMD_FRAME_SIZE + send->length - send->sent;
		uint32_t room = (uint32_t)(bounce + SMD_RDMA_BUFFER_SIZE - at);

		piece = left < room ? left : room;
		if (piece) {
			memcpy(at, (const uint8_t *)send->payload + (send->sent - SMD_FRAME_SIZE),
				piece);
		}
		at += piece;
	}
	prefix.length = (uint32_t)(at - bounce);
	smd_rdma_prefix_encode(&prefix, bounce);
	if (region) {
		piece = send->length;
		request = chain_add(chain, lane, smd_rdma_region_at(region, send->payload), piece,
			region->keys.lkey);
		request->send_flags = 0; /* inline, the processor would read it */
		request->wr.rdma.remote_addr = send->remote_buffer.address;
		request->wr.rdma.rkey = send->remote_buffer.key;
	}
	lane_add_write(lane, chain, bounce, prefix.length, returned);
	send->sent += piece;
	posted = lane_add_posted(lane, chain, region);
	if (send->sent == SMD_FRAME_SIZE + send->length) {
		posted->send = send;
		smd_rdma_leave_queue(lane, send);
	}
	return true;
}

/* Nothing has gone for long that could have said how many receive buffers are empty again. */
static void lane_add_taken(struct rdma_lane *lane, struct chain *chain)
{
	struct ibv_send_wr *request;

	if (!smd_rdma_owes_taken(lane) || !lane_has_room(lane, chain, 1)) {
		return;
	}
	request = chain_add(chain, lane, NULL, 0, 0);
	request->wr.rdma.remote_addr = lane->other.address;
	request->wr.rdma.rkey = lane->other.key;
	request_tells(request, SMD_RDMA_TAKEN_ONLY | (lane->rx_next & SMD_RDMA_COUNT_MASK));
	lane->rx_told = lane->rx_next;
}

/* What was withdrawn: behind what was posted before, as what binds its window may be. */
static void lane_add_closings(struct rdma_lane *lane, struct chain *chain)
{
	struct rdma_advertisement *first;

	while ((first = STAILQ_FIRST(&lane->closing)) && lane_has_room(lane, chain, 1)) {
		STAILQ_REMOVE_HEAD(&lane->closing, closing_link);
		if (first->bound) { /* else its key has come back meanwhile */
			smd_rdma_window_close(first, chain_add_local(chain, lane));
		}
		first->closed_at = lane->requests + chain->length;
		STAILQ_INSERT_TAIL(&lane->closed_windows, first, closing_link);
	}
}

static void lane_post_batch(struct rdma_lane *lane, struct chain *chain)
{
	int ret;

	if (chain->length == 0) {
		return;
	}
	chain->requests[chain->length - 1].send_flags |= IBV_SEND_SIGNALED;
	lane->requests += chain->length;
	if (lane->nbatches == RDMA_BATCHES) { /* the last two count as one */
		lane->nbatches--;
	}
	lane->batches[lane->nbatches++] = lane->requests;
	lane->lane.counts.requests += chain->length;
	lane->lane.counts.doorbells++;
	for (unsigned i = 0; i < chain->length; i++) {
		lane->lane.counts.bytes_sent += chain->pieces[i].length;
	}
	ret = smd_verbs_post_send(lane->pair.qp, chain->requests);
	if (ret) {
		char text[128];

		snprintf(text, sizeof(text), "cannot post to the queue pair: %s", strerror(-ret));
		smd_rdma_lane_fail(lane, ret, text);
	}
}

int smd_rdma_post_receives(struct rdma_lane *lane)
{
	struct ibv_recv_wr requests[RDMA_RECEIVES];
	uint32_t n = lane->rx_owed;

	if (n == 0) {
		return 0;
	}
	for (uint32_t i = 0; i < n; i++) {
		requests[i] = (struct ibv_recv_wr){
			.wr_id = smd_rdma_wr_id(&lane->pair, RDMA_WR_RECEIVE),
			.next = i + 1 < n ? &requests[i + 1] : NULL,
		};
	}
	lane->rx_owed = 0;
	return smd_verbs_post_receive(lane->pair.qp, requests);
}

bool smd_rdma_post(struct rdma_lane *lane)
{
	struct chain chain;
	int ret;

	if (lane->state != RDMA_LANE_OPEN || lane->err) {
		return true;
	}
	ret = smd_rdma_post_receives(lane); /* before the other end is told of them */
	if (ret) {
		smd_rdma_lane_fail(lane, ret, "cannot post receives to the queue pair");
		return true;
	}
	if (lane->nbatches == RDMA_BATCHES && !smd_rdma_fills_batch(lane) && !lane->closed) {
		return smd_rdma_settle(lane); /* a completion comes, and is the occasion */
	}
	do {
		chain.length = 0;
		while (!TAILQ_EMPTY(&lane->tx) && lane_add_message(lane, &chain)) {
		}
		lane_add_taken(lane, &chain);
		lane_add_closings(lane, &chain);
		lane_post_batch(lane, &chain);
	} while (chain.length && !lane->err && lane_has_more(lane));
	lane->tx_hurries &= !TAILQ_EMPTY(&lane->tx);
	return smd_rdma_settle(lane);
}

void smd_rdma_lane_open(struct rdma_lane *lane)
{
	lane->state = RDMA_LANE_OPEN;
	lane->window = lane->receive_buffers < lane->other.receive_buffers
			       ? lane->receive_buffers
			       : lane->other.receive_buffers;
	if (!TAILQ_EMPTY(&lane->tx)) {
		smd_rdma_device_wake(lane->device, &lane->pair);
	}
}

void smd_rdma_post_trial(struct rdma_lane *lane)
{
	struct chain chain = {.length = 0};
	uint8_t *bounce = lane->memory +
			  (lane->receive_buffers + lane->tx_next % lane->receive_buffers) *
				  (size_t)SMD_RDMA_BUFFER_SIZE;
	const struct smd_rdma_prefix prefix = {
		.length = SMD_RDMA_BUFFER_SIZE, .taken = lane->rx_next, .trial = true};

	smd_rdma_prefix_encode(&prefix, bounce);
	lane_add_write(lane, &chain, bounce, prefix.length, NULL);
	lane_add_posted(lane, &chain, NULL);
	lane_post_batch(lane, &chain);
}

void smd_rdma_probe(struct rdma_lane *lane)
{
	struct chain chain = {.length = 0};
	struct ibv_send_wr *request;

	if (lane->state != RDMA_LANE_OPEN || lane->err || lane->requests != lane->completed) {
		return;
	}
	request = chain_add(&chain, lane, NULL, 0, 0);
	request->wr.rdma.remote_addr = lane->other.address;
	request->wr.rdma.rkey = lane->other.key;
	lane_post_batch(lane, &chain);
}
