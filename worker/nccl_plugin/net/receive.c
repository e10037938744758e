/*
 * A receiver: posts its receives, with remote buffers for them where the lane has some, and takes
 * the stripes of messages right into their buffers.
 */
#include "worker/nccl_plugin/net/receive.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "worker/nccl_plugin/abi/argument.h"
#include "worker/nccl_plugin/abi/log.h"
#include "worker/nccl_plugin/device/gdr.h"

/* ---- posting ---- */

static int receive_make_room(struct smd_net_receive *receive, unsigned advertisements)
{
	struct smd_advertisement **room;

	if (advertisements <= receive->room) {
		return 0;
	}
	room = realloc(
		receive->advertisements, advertisements * sizeof(struct smd_advertisement *));
	if (!room) {
		return -ENOMEM;
	}
	receive->advertisements = room;
	receive->room = advertisements;
	return 0;
}

static int post_frame(struct smd_net_comm *comm, const struct smd_net_receive *receive,
	enum smd_frame_kind kind, const void *payload, size_t length)
{
	struct smd_frame frame = {
		.kind = (uint8_t)kind,
		.window = (uint16_t)receive->number,
		.ordinal = receive->ordinal,
	};

	return smd_lane_send_control(comm->lanes[0].lane, &frame, payload, length);
}

/* Advertises every piece of every receive; what does not fit into POST goes before it. */
static int receive_advertise(
	struct smd_net_comm *comm, struct smd_net_receive *receive, void **mhandles)
{
	unsigned advertised = 0;

	for (unsigned i = 0; i < receive->n; i++) {
		struct smd_net_entry *entry = &receive->entries[i];
		const struct smd_net_memory *memory = mhandles ? mhandles[i] : NULL;

		for (unsigned j = 0; j < entry->pieces; j++, advertised++) {
			size_t at = (size_t)j * SMD_NET_PIECE;
			size_t left = entry->size - at;

			if (advertised && advertised % SMD_REMOTE_BUFFERS_MAX == 0 &&
				post_frame(comm, receive, SMD_FRAME_BUFFERS, NULL, 0)) {
				return -ENOMEM;
			}
			receive->advertisements[entry->first + j] =
				smd_lane_advertise(comm->lanes[0].lane, entry->data + at,
					(uint32_t)(left < SMD_NET_PIECE ? left : SMD_NET_PIECE),
					smd_net_extent(memory));
			if (entry->device && !receive->advertisements[entry->first + j]) {
				return -ENOTSUP;
			}
		}
	}
	return 0;
}

static int receive_post(struct smd_net_comm *comm, struct smd_net_receive *receive, void **mhandles)
{
	struct smd_net_post post = {.n = receive->n};
	uint8_t payload[SMD_CONTROL_MAX];
	size_t length;
	int ret = 0;

	for (unsigned i = 0; i < receive->n; i++) {
		post.receives[i].size = receive->entries[i].size;
		post.receives[i].tag = receive->entries[i].tag;
		post.receives[i].device = receive->entries[i].device;
	}
	length = smd_net_post_encode(&post, payload);
	if (smd_lane_can_advertise(comm->lanes[0].lane)) {
		ret = receive_advertise(comm, receive, mhandles);
	}
	return ret ? ret : post_frame(comm, receive, SMD_FRAME_POST, payload, length);
}

static void receive_fill(struct smd_net_receive *receive, int n, void **data, const size_t *sizes,
	const int *tags, void **mhandles, bool remote_buffers)
{
	unsigned advertisements = 0;

	receive->n = (unsigned)n;
	receive->missing = (unsigned)n;
	receive->refused = NCCL_SUCCESS;
	for (int i = 0; i < n; i++) {
		receive->entries[i] = (struct smd_net_entry){
			.data = data[i],
			.size = sizes[i],
			.tag = (uint32_t)tags[i],
			.device = mhandles && smd_net_is_device(mhandles[i]),
			.first = advertisements,
			.pieces = remote_buffers ? smd_net_pieces(sizes[i]) : 0,
		};
		advertisements += receive->entries[i].pieces;
	}
}

static int check_sizes(int n, const size_t *sizes)
{
	if (n < 1 || n > SMD_NET_RECVS_MAX) {
		smd_nccl_log_warn("net: there must be 1 to %d receives at once, got %d",
			SMD_NET_RECVS_MAX, n);
		return NCCL_INVALID_USAGE;
	}
	for (int i = 0; i < n; i++) {
		if (sizes[i] > SMD_NET_BYTES_MAX) {
			smd_nccl_log_warn("net: a receive must have at most %zu bytes, got %zu",
				SMD_NET_BYTES_MAX, sizes[i]);
			return NCCL_INVALID_USAGE;
		}
	}
	return NCCL_SUCCESS;
}

static int comm_receive(struct smd_net_comm *comm, int n, void **data, const size_t *sizes,
	const int *tags, void **mhandles, void **request)
{
	struct smd_net_receive *receive = NULL;
	const struct smd_net_entry *last;
	int ret;

	if (comm->result) {
		return smd_net_comm_tell(comm);
	}
	if (!comm->lanes[0].lane) { /* has ended; what comes on the others is read first */
		smd_net_comm_progress(comm);
		return comm->result ? smd_net_comm_tell(comm) : NCCL_SUCCESS;
	}
	for (unsigned i = 0; i < NCCL_NET_REQUESTS && !receive; i++) {
		receive = comm->receives[i].request.busy ? NULL : &comm->receives[i];
	}
	if (!receive) {
		return NCCL_SUCCESS; /* not now */
	}
	receive_fill(receive, n, data, sizes, tags, mhandles,
		smd_lane_can_advertise(comm->lanes[0].lane));
	last = &receive->entries[n - 1];
	smd_net_request_begin(&receive->request, comm);
	receive->ordinal = comm->ordinal++;
	ret = receive_make_room(receive, last->first + last->pieces);
	ret = ret ? ret : receive_post(comm, receive, mhandles);
	if (ret) {
		smd_net_comm_fail(comm, NCCL_SYSTEM_ERROR, "%s: %s", comm->peer,
			ret == -ENOTSUP ? "GPU memory of a receive must be registered, and its "
					  "network card must take it"
					: strerror(-ret));
		return NCCL_SYSTEM_ERROR;
	}
	*request = receive;
	return NCCL_SUCCESS;
}

int smd_net_receive(void *handle, int n, void **data, const size_t *sizes, const int *tags,
	void **mhandles, void **request)
{
	struct smd_net_comm *comm = handle;
	int ret;

	if (smd_nccl_lacks_any("irecv", "comm", handle, "request", request) ||
		smd_nccl_lacks_any("irecv", "data", data, "sizes", sizes) ||
		smd_nccl_lacks("irecv", "tags", tags)) {
		return NCCL_INVALID_ARGUMENT;
	}
	*request = NULL;
	ret = check_sizes(n, sizes);
	if (ret) {
		return ret;
	}
	pthread_mutex_lock(&comm->lock);
	ret = comm_receive(comm, n, data, sizes, tags, mhandles, request);
	pthread_mutex_unlock(&comm->lock);
	return ret;
}

int smd_net_flush(void *comm, int n, void **data, const int *sizes, void **mhandles, void **request)
{
	bool device = false;

	(void)comm;
	(void)data;
	(void)sizes;
	if (smd_nccl_lacks("iflush", "request", request)) {
		return NCCL_INVALID_ARGUMENT;
	}
	for (int i = 0; mhandles && i < n; i++) {
		device = device || smd_net_is_device(mhandles[i]);
	}
	/* Nothing to wait for: memory of the host has it, and a GPU's after this. */
	*request = NULL;
	return device ? smd_gdr_flush() : NCCL_SUCCESS;
}

/* ---- taking ---- */

/* The advertised buffer that the frame's payload may have been written to. */
static struct smd_advertisement **entry_advertisement(struct smd_net_receive *receive,
	const struct smd_net_entry *entry, const struct smd_frame *frame)
{
	uint64_t piece = frame->offset / SMD_NET_PIECE;

	return piece < entry->pieces && frame->length
		       ? &receive->advertisements[entry->first + piece]
		       : NULL;
}

static struct smd_net_receive *find_receive(
	struct smd_net_comm *comm, const struct smd_frame *frame, struct smd_error *error)
{
	struct smd_net_receive *receive =
		frame->window < NCCL_NET_REQUESTS ? &comm->receives[frame->window] : NULL;

	if (!receive || !receive->request.busy || receive->request.done ||
		receive->ordinal != frame->ordinal || frame->rank >= receive->n ||
		receive->entries[frame->rank].complete) {
		smd_error_set(error, EPROTO,
			"DATA: must be for a posted receive, got slot %u, ordinal %llu, entry %u",
			frame->window, (unsigned long long)frame->ordinal, frame->rank);
		return NULL;
	}
	return receive;
}

/* The message must be as long as its other stripes have said, and the stripe in it. */
static int entry_check(
	struct smd_net_entry *entry, const struct smd_frame *frame, struct smd_error *error)
{
	if (entry->known && entry->total != frame->count) {
		return smd_error_set(error, EPROTO, "DATA: the message has %zu bytes, got %llu",
			entry->total, (unsigned long long)frame->count);
	}
	if (frame->count > entry->size) {
		return frame->length == 0 ? 0
					  : smd_error_set(error, EPROTO,
						    "DATA: must be empty, got %u bytes of a "
						    "message that does not fit",
						    frame->length);
	}
	if (frame->offset > frame->count || frame->length > frame->count - frame->offset ||
		frame->length > frame->count - entry->claimed ||
		(frame->length == 0 && frame->count)) {
		return smd_error_set(error, EPROTO,
			"DATA: %llu bytes are missing of %llu, got %u at %llu",
			(unsigned long long)(frame->count - entry->claimed),
			(unsigned long long)frame->count, frame->length,
			(unsigned long long)frame->offset);
	}
	entry->known = true;
	entry->total = frame->count;
	entry->claimed += frame->length;
	return 0;
}

int smd_net_receiver_on_header(struct smd_net_lane *lane, const struct smd_frame *frame,
	void **payload, struct smd_error *error)
{
	struct smd_net_receive *receive;
	struct smd_net_entry *entry;
	struct smd_advertisement **advertisement;
	int ret;

	if (frame->kind != SMD_FRAME_DATA) {
		return smd_error_set(error, EPROTO, "%s: must not be sent to a receiver",
			smd_frame_kind_name(frame->kind));
	}
	receive = find_receive(lane->comm, frame, error);
	if (!receive) {
		return -EPROTO;
	}
	entry = &receive->entries[frame->rank];
	ret = entry_check(entry, frame, error);
	if (ret) {
		return ret;
	}
	advertisement = entry_advertisement(receive, entry, frame);
	if (lane->lane->direct &&
		(!advertisement || !*advertisement || frame->offset % SMD_NET_PIECE ||
			frame->length > SMD_NET_PIECE)) {
		return smd_error_set(error, EPROTO,
			"DATA: %u bytes at %llu must not be in a remote buffer: none was "
			"advertised",
			frame->length, (unsigned long long)frame->offset);
	}
	if (entry->device && frame->length && !lane->lane->direct) {
		return smd_error_set(error, EPROTO,
			"DATA: %u bytes at %llu must be in the advertised buffer: it is memory of "
			"a GPU",
			frame->length, (unsigned long long)frame->offset);
	}
	lane->receive = receive;
	*payload = frame->length ? entry->data + frame->offset : lane->control;
	return 0;
}

static void entry_complete(
	struct smd_net_lane *lane, struct smd_net_receive *receive, struct smd_net_entry *entry)
{
	for (unsigned i = 0; i < entry->pieces; i++) {
		smd_lane_revoke(lane->lane, receive->advertisements[entry->first + i]);
		receive->advertisements[entry->first + i] = NULL;
	}
	entry->complete = true;
	if (--receive->missing == 0) {
		smd_net_request_end(&receive->request, receive->refused);
	}
}

int smd_net_receiver_on_frame(
	struct smd_net_lane *lane, const struct smd_frame *frame, struct smd_error *error)
{
	struct smd_net_receive *receive = lane->receive;
	struct smd_net_entry *entry = &receive->entries[frame->rank];
	struct smd_advertisement **advertisement = entry_advertisement(receive, entry, frame);

	(void)error;
	lane->receive = NULL;
	if (frame->count > entry->size) {
		smd_nccl_log_warn("net: a message from %s must fit its receive of %zu bytes (tag "
				  "%u), got %llu",
			lane->comm->peer, entry->size, entry->tag,
			(unsigned long long)frame->count);
		receive->refused = NCCL_INVALID_USAGE;
		entry_complete(lane, receive, entry);
		return 0;
	}
	if (advertisement && *advertisement && lane->lane->direct) {
		smd_lane_claim(lane->lane, *advertisement, frame->length);
		*advertisement = NULL;
	} else if (advertisement && *advertisement) {
		smd_lane_revoke(lane->lane, *advertisement);
		*advertisement = NULL;
	}
	entry->got += frame->length;
	if (entry->got == entry->total) {
		entry_complete(lane, receive, entry);
	}
	return 0;
}
