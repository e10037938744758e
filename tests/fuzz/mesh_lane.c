/*
 * Any bytes at all as what other ranks say on the lanes of a mesh, to a rank that has begun some
 * exchanges, and one operation by servers, and not yet another one. A lane goes on or ends with a
 * reason, and the communicator goes on or fails with one; all that is under way can be ended.
 *
 * The bytes are records: the rank that says it (1 byte), a frame's header, and of MESH its payload.
 * Elements are not in the bytes: those that come are all alike. All bytes are taken for each of the
 * words, too, that are said before there is a lane.
 */
#include <errno.h>
#include <event2/event.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/dtype.h"
#include "tests/fuzz/input.h"
#include "worker/libsummand/exchange.h"

enum { RANKS = 3, RANK = 1, OPERATIONS = 8, FIRST = 12 /* its hub is not that of the last ones */ };

/* ---- the words before ---- */

static void take_words(const uint8_t *bytes, size_t length)
{
	int (*const takes[])(const uint8_t *payload, size_t length, struct smd_mesh_words *out,
		struct smd_error *error) = {
		smd_mesh_words_take_call, smd_mesh_words_take_answer, smd_mesh_words_take_proof};
	uint8_t *exact = input_exact(bytes, length);

	for (size_t i = 0; i < sizeof(takes) / sizeof(takes[0]); i++) {
		struct smd_mesh_words words;
		struct smd_error error = {""};

		check_outcome(takes[i](exact, length, &words, &error), &error);
	}
	free(exact);
}

/* ---- lanes, which take all and say nothing ---- */

struct sink {
	struct smd_lane lane;
	struct smd_send *kept; /* the last one is on its way until the next one, */
	bool closed;
};

static void sink_settle(struct sink *sink, int err)
{
	struct smd_send *send = sink->kept;

	sink->kept = NULL;
	if (send) {
		send->done(send, err);
	}
}

static void sink_send(struct smd_lane *lane, struct smd_send *send)
{
	struct sink *sink = (struct sink *)lane;

	must_hold(!sink->closed);
	sink_settle(sink, 0);
	sink->kept = send;
}

static void sink_close(struct smd_lane *lane)
{
	struct sink *sink = (struct sink *)lane;

	must_hold(!sink->closed);
	sink->closed = true;
	sink_settle(sink, -ECANCELED);
}

static const struct smd_transport_ops sink_ops = {
	.name = "sink", .send = sink_send, .close = sink_close};

/* ---- the rank ---- */

static struct smd_context context;
static struct smd_comm comm;
static struct smd_epoch epoch;
static struct sink sinks[RANKS];
static struct smd_request operations[OPERATIONS];

static bool settles(struct smd_request *operation)
{
	(void)operation;
	return true;
}

static void nothing(struct smd_task *task)
{
	(void)task; /* the test sees that the communicator has failed */
}

static void tells_nobody(struct smd_comm *own)
{
	(void)own;
}

static void make_comm(struct event_base *base)
{
	memset(&context, 0, sizeof(context));
	memset(&comm, 0, sizeof(comm));
	pthread_mutex_init(&context.progress.lock, NULL);
	pthread_cond_init(&context.progress.idle, NULL);
	pthread_cond_init(&context.progress.changed, NULL);
	STAILQ_INIT(&context.progress.tasks);
	context.progress.base = base;
	context.progress.in_flight = OPERATIONS;
	context.deal.chunk_bytes = SMD_PIECE_BYTES_MAX;
	snprintf(context.config.replica, sizeof(context.config.replica), "rank-1");
	comm.context = &context;
	comm.state = SMD_COMM_ACTIVE;
	comm.nranks = RANKS;
	comm.rank = RANK;
	comm.end = SMD_COMM_NO_END;
	comm.settle = settles;
	comm.end_pieces = smd_exchange_end;
	comm.fault.run = nothing;
	TAILQ_INIT(&comm.operations);
	epoch.exchanged = SMD_EXCHANGE_BYTES_MAX;
}

static void make_mesh(void)
{
	struct smd_exchanges *exchanges = smd_exchanges_get(&comm);
	struct smd_mesh *mesh = calloc(1, sizeof(*mesh));

	must_hold(exchanges && mesh);
	exchanges->mesh = mesh;
	exchanges->has_lanes = true;
	exchanges->lost = tells_nobody;
	context.mesh_lanes = RANKS - 1;
	mesh->user = &smd_exchange_mesh_user;
	mesh->owner = exchanges;
	mesh->nranks = RANKS;
	mesh->rank = RANK;
	mesh->peers = calloc(RANKS, sizeof(*mesh->peers));
	must_hold(mesh->peers != NULL);
	for (unsigned r = 0; r < RANKS; r++) {
		sinks[r] = (struct sink){.lane.ops = &sink_ops};
		mesh->peers[r] = (struct smd_mesh_peer){
			.mesh = mesh, .rank = (uint16_t)r, .made = true, .name = "peer"};
		mesh->peers[r].lane = r == RANK ? NULL : &sinks[r].lane;
	}
}

/* Small ones and some of two or three pieces; the last one but one goes by servers, and the last
 * one has not been begun. */
static void begin(unsigned i)
{
	static const size_t counts[OPERATIONS] = {1, 70000, 100, 3, 140000, 5, 10, 10};
	struct smd_request *operation = &operations[i];

	*operation = (struct smd_request){.comm = &comm,
		.count = counts[i],
		.collective = SMD_COLLECTIVE_ALLREDUCE,
		.dtype = i == 3 ? SMD_INT8 : SMD_FLOAT32,
		.op = i == 2 ? SMD_MAX : SMD_SUM,
		.sequence = FIRST + i,
		.laid = i < OPERATIONS - 1,
		.nchunks = i >= OPERATIONS - 2,
		.path = &smd_path_host};
	operation->element_bytes = smd_dtype_bytes(operation->dtype);
	operation->bytes = operation->count * operation->element_bytes;
	operation->recv = calloc(operation->count, operation->element_bytes);
	operation->send = operation->recv;
	must_hold(operation->recv != NULL);
	TAILQ_INSERT_TAIL(&comm.operations, operation, link);
	comm.in_flight++;
	comm.next_operation = operation->sequence + 1;
	if (i < OPERATIONS - 2) {
		must_hold(smd_exchange_takes(operation, &epoch));
		must_hold(smd_exchange_lay(operation) == 0);
	} else if (operation->laid) {
		smd_exchange_refuse(operation);
	}
}

/* As when it has failed; then no operation is left. */
static void end(void)
{
	comm.state = SMD_COMM_FAILED;
	smd_exchanges_close(&comm);
	for (unsigned i = 0; i < OPERATIONS; i++) {
		if (!operations[i].finished) {
			smd_operation_check(&operations[i]);
		}
		must_hold(operations[i].finished && operations[i].sends_pending == 0);
		free(operations[i].recv);
	}
	must_hold(TAILQ_EMPTY(&comm.operations) && TAILQ_EMPTY(&comm.exchanges->list));
	must_hold(comm.exchanges->begun == 0 && comm.exchanges->begun_bytes == 0);
	smd_exchanges_free(&comm);
}

/* ---- what is said ---- */

/* As a mesh does. */
static void lose(struct smd_mesh_peer *peer)
{
	struct smd_lane *lane = peer->lane;

	peer->lane = NULL;
	peer->lost = true;
	smd_lane_close(lane);
	peer->mesh->user->on_lost(peer);
}

/* One record; 0: it is not whole. Otherwise its length. */
static size_t say(const uint8_t *bytes, size_t length)
{
	struct smd_mesh_peer *peer;
	struct smd_error error = {""};
	struct smd_frame frame;
	size_t said = 0;
	void *payload;
	int ret;

	if (length < 1 + SMD_FRAME_SIZE || smd_frame_decode(bytes + 1, &frame, NULL)) {
		return 0;
	}
	peer = &comm.exchanges->mesh->peers[bytes[0] % 2 ? 0 : RANKS - 1];
	if (frame.kind == SMD_FRAME_MESH) {
		said = frame.length;
		if (said > sizeof(peer->control) || said > length - 1 - SMD_FRAME_SIZE) {
			return 0; /* a mesh has seen to that */
		}
	}
	if (!peer->lane) {
		return 1 + SMD_FRAME_SIZE + said;
	}
	payload = peer->control;
	ret = peer->mesh->user->on_header(peer, &frame, &payload, &error);
	if (ret == 0 && said) {
		memcpy(payload, bytes + 1 + SMD_FRAME_SIZE, said);
	} else if (ret == 0) {
		memset(payload, 1, frame.length);
	}
	ret = ret ? ret : peer->mesh->user->on_frame(peer, &frame, payload, &error);
	check_outcome(ret, &error);
	if (ret) {
		lose(peer);
	}
	return 1 + SMD_FRAME_SIZE + said;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	static struct event_base *base;
	size_t said = 1;

	base = base ? base : event_base_new();
	must_hold(base != NULL);
	setenv("SUMMAND_LOG", "error", 1);
	take_words(bytes, length);
	make_comm(base);
	make_mesh();
	for (unsigned i = 0; i < OPERATIONS; i++) {
		begin(i);
	}
	smd_exchanges_go(&comm);
	while (said && comm.fault_err == 0) {
		said = say(bytes, length);
		bytes += said;
		length -= said;
	}
	must_hold((comm.fault_err == 0) == (comm.fault_error.text[0] == '\0'));
	end();
	return 0;
}
