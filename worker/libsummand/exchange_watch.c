/* Names who is late, asks who may not agree, and has servers do what a lost lane is needed for. */
#include "worker/libsummand/exchange_watch.h"

#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <string.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/log.h"
#include "reduction_server/wire/cursor.h"
#include "worker/libsummand/epoch.h"

#define LOOK_NS 500000000u
#define ASK_NS  SMD_SECOND_NS       /* after so long, and so long before each word of who is late */
#define WORD_NS (2 * SMD_SECOND_NS) /* for a server's word of what has happened to a rank */
#define HAND_NS (20 * SMD_SECOND_NS) /* for servers to take over what is left */

/* `open` of MESH 5: what has been begun as the operation. */
enum { NOTHING, AN_EXCHANGE, SOMETHING_ELSE };

/* ---- who is late ---- */

/* "rank 1 (worker-1), rank 2 (worker-2)"; how many. */
static unsigned name_missing(const struct smd_exchange_piece *piece, char *text, size_t size)
{
	const struct smd_comm *comm = piece->operation->comm;
	unsigned n = 0;
	size_t used = 0;

	text[0] = '\0';
	for (unsigned r = 0; r < comm->nranks && used < size; r++) {
		if (smd_exchange_needs(piece, r)) {
			used += (size_t)snprintf(text + used, size - used, "%srank %u (%.24s)",
				n ? ", " : "", r, comm->exchanges->mesh->peers[r].name);
			n++;
		}
	}
	return n;
}

/* As the shards' word of it (LATE). */
static void tell_late(struct smd_exchange_piece *piece)
{
	struct smd_comm *comm = piece->operation->comm;
	struct smd_exchanges *exchanges = comm->exchanges;
	char ranks[SMD_ERROR_TEXT_MAX / 2];
	char text[SMD_ERROR_TEXT_MAX];
	unsigned n = 1;

	if (piece->hub == comm->rank) {
		n = name_missing(piece, ranks, sizeof(ranks));
	} else if (exchanges->late[0]) {
		n = exchanges->nlate;
		snprintf(ranks, sizeof(ranks), "%s", exchanges->late);
	} else {
		return; /* the hub has all, or has not answered: it is silent, and servers find that
			 */
	}
	snprintf(text, sizeof(text), "%s %s %llu s late for operation %llu of group %.60s", ranks,
		n == 1 ? "is" : "are",
		(unsigned long long)((smd_clock_ns() - piece->begun_ns) / SMD_SECOND_NS),
		(unsigned long long)piece->operation->sequence, comm->group);
	smd_log(SMD_LOG_WARN, "libsummand", "%s", text);
	smd_progress_lock(&comm->context->progress);
	snprintf(comm->waiting_for, sizeof(comm->waiting_for), "%s", text);
	snprintf(comm->late, sizeof(comm->late), "%s", text);
	smd_progress_unlock(&comm->context->progress);
}

/* ---- what others have begun ---- */

/* Those that it needs, and that have said nothing for so long. */
static void ask(const struct smd_exchange_piece *piece, uint64_t quiet_ns)
{
	const struct smd_comm *comm = piece->operation->comm;
	uint64_t now = smd_clock_ns();

	comm->exchanges->late[0] = '\0';
	for (unsigned r = 0; r < comm->nranks; r++) {
		struct smd_lane *lane =
			r == comm->rank ? NULL : comm->exchanges->mesh->peers[r].lane;
		struct smd_frame frame = {.kind = SMD_FRAME_MESH,
			.window = SMD_MESH_ASKS,
			.rank = comm->rank,
			.operation = piece->operation->sequence,
			.offset = piece->first};

		if (lane && smd_exchange_needs(piece, r) && now - lane->heard_ns >= quiet_ns) {
			(void)smd_lane_send_control(lane, &frame, NULL, 0);
		}
	}
}

static void answer(struct smd_mesh_peer *peer, const struct smd_frame *asked)
{
	struct smd_comm *comm = smd_exchanges_of(peer)->comm;
	const struct smd_request *operation = smd_exchange_operation(comm, asked->operation);
	const struct smd_exchange_piece *piece =
		smd_exchange_find(comm->exchanges, asked->operation, asked->offset);
	struct smd_frame frame = {.operation = asked->operation};
	uint8_t payload[SMD_CONTROL_MAX];
	struct smd_writer writer = {.start = payload, .size = sizeof(payload)};
	char ranks[SMD_ERROR_TEXT_MAX / 2] = "";

	if (operation) {
		smd_operation_shape(operation, operation->first_chunk, &frame);
		frame.open = !operation->laid    ? NOTHING
			     : operation->pieces ? AN_EXCHANGE
						 : SOMETHING_ELSE;
	}
	if (piece && piece->hub == comm->rank) {
		frame.chunk = name_missing(piece, ranks, sizeof(ranks));
	}
	frame.kind = SMD_FRAME_MESH;
	frame.window = SMD_MESH_TELLS;
	frame.rank = comm->rank;
	smd_writer_put_string(&writer, ranks);
	(void)smd_lane_send_control(peer->lane, &frame, payload, writer.used);
}

static int take_answer(struct smd_mesh_peer *peer, const struct smd_frame *frame,
	const uint8_t *payload, struct smd_error *error)
{
	struct smd_exchanges *exchanges = smd_exchanges_of(peer);
	const struct smd_request *operation =
		smd_exchange_operation(exchanges->comm, frame->operation);
	struct smd_reader reader = {.at = payload, .left = frame->length};
	char ranks[SMD_ERROR_TEXT_MAX / 2];

	smd_reader_get_string(&reader, ranks, sizeof(ranks));
	if (reader.failed || reader.left) {
		return smd_error_set(error, EPROTO, "MESH: the answer must name ranks");
	}
	if (!operation || !operation->pieces) {
		return 0; /* it is over */
	}
	if (frame->open == NOTHING && exchanges->comm->end != SMD_COMM_NO_END) {
		/* The communicator has ended before all had begun it. */
		smd_comm_fault(exchanges->comm, exchanges->comm->err, exchanges->comm->error.text);
		return 0;
	}
	if (frame->open == SOMETHING_ELSE) {
		smd_exchange_disagrees(exchanges->comm, peer, frame, operation);
	} else if (frame->open == AN_EXCHANGE && ranks[0]) {
		exchanges->nlate = (unsigned)frame->chunk;
		snprintf(exchanges->late, sizeof(exchanges->late), "%s", ranks);
	} else if (frame->open == NOTHING) {
		exchanges->nlate = 1;
		snprintf(exchanges->late, sizeof(exchanges->late), "rank %u (%.24s)", peer->rank,
			peer->name);
	}
	return 0;
}

int smd_exchange_watch_take(struct smd_mesh_peer *peer, const struct smd_frame *frame,
	const uint8_t *payload, struct smd_error *error)
{
	if (frame->window == SMD_MESH_TELLS) {
		return take_answer(peer, frame, payload, error);
	}
	if (frame->window == SMD_MESH_LEAVES && frame->length == 0) {
		peer->leaves = true;
		return 0;
	}
	if (frame->window != SMD_MESH_ASKS || frame->length) {
		return smd_error_set(
			error, EPROTO, "MESH: must ask or tell, got %u", frame->window);
	}
	answer(peer, frame);
	return 0;
}

/* ---- what cannot be done ---- */

/* Whether the piece needs a lane that has ended; a server would have said by now if its rank had.
 */
static bool is_cut(const struct smd_exchange_piece *piece, uint64_t now, unsigned *rank)
{
	const struct smd_exchanges *exchanges = piece->operation->comm->exchanges;

	for (unsigned r = 0; r < exchanges->comm->nranks; r++) {
		const struct smd_mesh_peer *peer = &exchanges->mesh->peers[r];

		if (smd_exchange_needs(piece, r) && !peer->lane && now - peer->lost_ns > WORD_NS) {
			*rank = r;
			return true;
		}
	}
	return false;
}

static void hand_on(struct smd_exchanges *exchanges, unsigned rank)
{
	struct smd_comm *comm = exchanges->comm;
	const struct smd_mesh_peer *peer = &exchanges->mesh->peers[rank];
	char text[SMD_ERROR_TEXT_MAX];

	if (peer->leaves) {
		snprintf(text, sizeof(text), "group %.80s: rank %u (%.60s) has left", comm->group,
			rank, peer->name);
		smd_comm_fault(comm, -ECONNRESET, text);
		return;
	}
	if (!exchanges->meeting.told) {
		smd_error_set(&exchanges->why, ECONNRESET,
			"the connection between rank %u (%.60s) and rank %u (%.60s) has ended (%s)",
			comm->rank, comm->context->config.replica, rank, peer->name, peer->why);
		smd_log(SMD_LOG_WARN, "libsummand",
			"group %s: %s: reduction servers do what is left of its operations",
			comm->group, exchanges->why.text);
		exchanges->meeting.told = true;
		smd_exchange_watch_needed(exchanges);
	}
	exchanges->needed(comm, rank); /* until it is heard: a server may be lost meanwhile */
}

/* A server has said that the communicator ends. What has been contributed before may still be on
 * its way, as long as who sends it answers. */
static bool give_up_ended(struct smd_exchange_piece *piece, uint64_t now)
{
	struct smd_comm *comm = piece->operation->comm;
	struct smd_exchanges *exchanges = comm->exchanges;

	if (comm->end == SMD_COMM_NO_END) {
		return false;
	}
	exchanges->ended_ns = exchanges->ended_ns ? exchanges->ended_ns : now;
	for (unsigned r = 0; r < comm->nranks; r++) {
		const struct smd_lane *lane = exchanges->mesh->peers[r].lane;

		if (smd_exchange_needs(piece, r) && lane && now - exchanges->ended_ns > WORD_NS &&
			now - lane->heard_ns > WORD_NS) {
			smd_comm_fault(comm, comm->err, comm->error.text);
			return true;
		}
	}
	/* Where a process has ended, a question would end what its kernel still sends. */
	ask(piece, ASK_NS);
	return false;
}

/* ---- looks ---- */

static struct smd_exchange_piece *find_oldest(const struct smd_exchanges *exchanges)
{
	struct smd_exchange_piece *piece;

	TAILQ_FOREACH (piece, &exchanges->list, link) {
		if (piece->begun && !piece->has_result) {
			return piece;
		}
	}
	return NULL;
}

static void look_at(struct smd_exchange_piece *piece, uint64_t now)
{
	uint64_t waited_ns = now - piece->begun_ns;
	uint64_t late_ns = (piece->told + 1) * SMD_LATE_MOST_S * SMD_SECOND_NS;
	unsigned rank;

	if (give_up_ended(piece, now)) {
		return;
	}
	if (is_cut(piece, now, &rank)) {
		hand_on(piece->operation->comm->exchanges, rank);
		return;
	}
	if (waited_ns >= ASK_NS && waited_ns < late_ns &&
		(!piece->asked || waited_ns + ASK_NS >= late_ns)) {
		piece->asked = true;
		ask(piece, 0);
	}
	if (waited_ns >= late_ns) {
		piece->told++;
		tell_late(piece);
	}
}

/* Rank 0 has servers take over; all wait for that. */
static void look_at_handing(struct smd_exchanges *exchanges, uint64_t now)
{
	struct smd_comm *comm = exchanges->comm;
	const struct smd_epoch_table table = {.dead = comm->now->dead,
		.scale = comm->now->scale,
		.soon = true,
		.ends_exchanges = true};
	char text[SMD_ERROR_TEXT_MAX];

	if (now - exchanges->needed_ns > HAND_NS) {
		snprintf(text, sizeof(text),
			"group %.80s: %.300s, and reduction servers have not taken over what was under way within %llu s",
			comm->group,
			exchanges->why.text[0] ? exchanges->why.text
					       : "a connection between two ranks has ended",
			(unsigned long long)(HAND_NS / SMD_SECOND_NS));
		smd_comm_fault(comm, -ECONNRESET, text);
	} else if (comm->rank == 0) {
		(void)comm->change(comm, &table);
	}
}

static void watch_again(struct smd_exchanges *exchanges)
{
	const struct timeval soon = {0, LOOK_NS / 1000};

	exchanges->watches = evtimer_add(exchanges->watch, &soon) == 0;
}

static bool is_handing(const struct smd_exchanges *exchanges)
{
	return exchanges->needed_ns && !exchanges->handed_on;
}

static void on_look(evutil_socket_t fd, short what, void *arg)
{
	struct smd_exchanges *exchanges = arg;
	struct smd_exchange_piece *oldest = exchanges->over ? NULL : find_oldest(exchanges);

	(void)fd;
	(void)what;
	exchanges->watches = false;
	if (oldest) {
		look_at(oldest, smd_clock_ns());
	}
	if (is_handing(exchanges)) {
		look_at_handing(exchanges, smd_clock_ns());
	}
	if ((exchanges->begun && !exchanges->over) || is_handing(exchanges)) {
		watch_again(exchanges);
	}
}

void smd_exchange_watch_needed(struct smd_exchanges *exchanges)
{
	exchanges->needed_ns = exchanges->needed_ns ? exchanges->needed_ns : smd_clock_ns();
	smd_exchange_watch_begin(exchanges);
}

void smd_exchange_watch_begin(struct smd_exchanges *exchanges)
{
	if (!exchanges->watch) {
		exchanges->watch =
			evtimer_new(exchanges->comm->context->progress.base, on_look, exchanges);
	}
	if (exchanges->watch && !exchanges->watches) {
		watch_again(exchanges);
	}
}
