/* Says MEET and MEETS, takes them, and makes this rank's mesh. */
#include "worker/libsummand/meeting.h"

#include <errno.h>
#include <string.h>

#include "reduction_server/base/boot.h"
#include "reduction_server/base/bytes.h"
#include "reduction_server/base/clock.h"
#include "reduction_server/base/hash.h"
#include "reduction_server/base/log.h"
#include "reduction_server/transport/address.h"
#include "worker/libsummand/epoch_carrier.h"
#include "worker/libsummand/epoch_message.h"
#include "worker/libsummand/exchange.h"
#include "worker/libsummand/exchange_choice.h"
#include "worker/libsummand/exchange_watch.h"

#define LANES_MAX 64 /* of a process, to other ranks */
#define ANSWER_S  10 /* for all ranks to say that they have met, or cannot */

/* A place as the numbers of a message: address, port and machine, secret. */
#define PLACE_NUMBERS (2 + 1 + SMD_NONCE_SIZE / 8)
_Static_assert(1u << (SMD_EXCHANGE_SIZES - 1) == SMD_EXCHANGE_BYTES_MAX,
	"what is tried is what may be had");
_Static_assert(PLACE_NUMBERS > 1, "one number says whether a rank has all lanes");
_Static_assert(SMD_MESH_RANKS_MAX *PLACE_NUMBERS <= SMD_STREAMS_MAX, "one message tells of all");

/* ---- places ---- */

static void place_encode(const struct smd_mesh_place *place, uint64_t numbers[PLACE_NUMBERS])
{
	numbers[0] = smd_get64(place->address);
	numbers[1] = smd_get64(place->address + 8);
	numbers[2] = place->port | place->machine << 16;
	for (unsigned i = 0; i < SMD_NONCE_SIZE / 8; i++) {
		numbers[3 + i] = smd_get64(place->secret + 8 * i);
	}
}

static void place_decode(const uint64_t numbers[PLACE_NUMBERS], struct smd_mesh_place *out)
{
	smd_put64(out->address, numbers[0]);
	smd_put64(out->address + 8, numbers[1]);
	out->port = (uint16_t)numbers[2];
	out->machine = numbers[2] >> 16;
	for (unsigned i = 0; i < SMD_NONCE_SIZE / 8; i++) {
		smd_put64(out->secret + 8 * i, numbers[3 + i]);
	}
}

static uint64_t own_machine(void)
{
	char boot[SMD_BOOT_ID_SIZE];

	return smd_boot_id(boot)
		       ? 0
		       : smd_hash(SMD_HASH_SEED, boot, strlen(boot)) >> (64 - SMD_MACHINE_BITS);
}

/* That of the lanes to servers: one that other hosts reach, if there is one. */
static bool own_address(const struct smd_context *context, uint8_t out[16])
{
	bool found = false;

	for (unsigned i = 0; i < context->remotes.count; i++) {
		const struct smd_lane *lane = context->remotes.each[i]->lane;
		uint8_t address[16];

		if (lane && smd_lane_local_address(lane, address) &&
			(!found || smd_address_bytes_stay_here(out))) {
			memcpy(out, address, sizeof(address));
			found = true;
		}
	}
	return found;
}

static bool has_tcp(const struct smd_config *config)
{
	bool has = false;

	for (unsigned i = 0; i < config->ntransports; i++) {
		has |= strcmp(config->transports[i]->name, "tcp") == 0;
	}
	return has;
}

/* Why this rank has no mesh; NULL: it may. */
static const char *why_not(const struct smd_comm *comm)
{
	const struct smd_context *context = comm->context;
	const struct smd_config *config = &context->config;

	if (comm->nranks > SMD_MESH_RANKS_MAX) {
		return "there are more than 16";
	}
	if (config->exchange == SMD_EXCHANGE_OFF) {
		return "SUMMAND_EXCHANGE is off";
	}
	if (config->poll) { /* all others would wait for its calls where it is the hub */
		return "SUMMAND_PROGRESS is poll";
	}
	if (config->encrypt) {
		return "lanes are encrypted";
	}
	if (!has_tcp(config) || !context->streams) {
		return "lanes are not TCP's";
	}
	if (context->staging.ops || !context->exchanges) {
		return "memory may be a device's";
	}
	return context->mesh_lanes + comm->nranks - 1u > LANES_MAX
		       ? "this process has 64 lanes to other ranks"
		       : NULL;
}

static void tell_why(const struct smd_comm *comm, const char *why)
{
	smd_log(SMD_LOG_INFO, "libsummand",
		"group %s: small operations do not go from rank to rank: %s", comm->group, why);
}

/* ---- a rank ---- */

static void meeting_made(struct smd_comm *comm, bool all);
static void meeting_lost(struct smd_comm *comm);
static void meeting_needed(struct smd_comm *comm, unsigned rank);

static bool make_mesh(struct smd_exchanges *exchanges)
{
	struct smd_comm *comm = exchanges->comm;
	struct smd_context *context = comm->context;
	struct smd_error error = {""};
	const char *why = why_not(comm);
	uint8_t address[16];

	if (!why && !own_address(context, address)) {
		why = "the own address is not known";
	}
	if (!why) {
		exchanges->made = meeting_made;
		exchanges->lost = meeting_lost;
		exchanges->needed = meeting_needed;
		exchanges->mesh = smd_mesh_create(context->progress.base, &context->config, address,
			comm->nranks, comm->rank, &smd_exchange_mesh_user, exchanges, &error);
		why = exchanges->mesh ? NULL : error.text;
	}
	if (why) {
		tell_why(comm, why);
		return false;
	}
	exchanges->mesh->place.machine = own_machine();
	exchanges->has_lanes = true;
	context->mesh_lanes += comm->nranks - 1u;
	return true;
}

static void say_meets(struct smd_exchanges *exchanges, const uint64_t *numbers, unsigned n)
{
	struct smd_epoch_message message = {.kind = SMD_EPOCH_MEETS,
		.epoch = exchanges->comm->now->index,
		.id = exchanges->meeting.id,
		.nstreams = (uint16_t)n};

	memcpy(message.streams, numbers, n * sizeof(*numbers));
	smd_epoch_say(exchanges->comm, &message);
}

/* It comes through every server. */
static int take_meet(
	struct smd_comm *comm, const struct smd_epoch_message *message, struct smd_error *error)
{
	struct smd_exchanges *exchanges = smd_exchanges_get(comm);
	struct smd_meeting *meeting = exchanges ? &exchanges->meeting : NULL;
	uint64_t numbers[PLACE_NUMBERS];

	if (!meeting) {
		return 0; /* rank 0 asks for nothing before all have answered */
	}
	if (message->nstreams && message->nstreams != comm->nranks * PLACE_NUMBERS) {
		return smd_error_set(error, EPROTO,
			"AGREE: MEET must tell of %u ranks, got %u numbers", comm->nranks,
			message->nstreams);
	}
	if (meeting->id == 0 && !message->nstreams && message->id) {
		meeting->id = message->id;
		if (make_mesh(exchanges)) {
			place_encode(&exchanges->mesh->place, numbers);
		}
		say_meets(exchanges, numbers, exchanges->mesh ? PLACE_NUMBERS : 0);
	} else if (message->nstreams && meeting->id == message->id && !meeting->listed &&
		   exchanges->has_lanes) {
		meeting->listed = true;
		for (unsigned r = 0; r < comm->nranks; r++) {
			place_decode(
				message->streams + (size_t)r * PLACE_NUMBERS, &meeting->places[r]);
		}
		smd_mesh_connect(exchanges->mesh, meeting->id, meeting->places);
	}
	return 0;
}

/* ---- rank 0 ---- */

static void list_places(struct smd_exchanges *exchanges)
{
	struct smd_comm *comm = exchanges->comm;
	struct smd_meeting *meeting = &exchanges->meeting;
	struct smd_epoch_message message = {.kind = SMD_EPOCH_MEET,
		.epoch = comm->now->index,
		.id = meeting->id,
		.nstreams = (uint16_t)(comm->nranks * PLACE_NUMBERS)};

	meeting->listed = true;
	for (unsigned r = 0; r < comm->nranks; r++) {
		place_encode(&meeting->places[r], message.streams + (size_t)r * PLACE_NUMBERS);
	}
	smd_epoch_say(comm, &message);
	smd_mesh_connect(exchanges->mesh, meeting->id, meeting->places);
}

static uint32_t all_ranks(const struct smd_comm *comm)
{
	return (uint32_t)((1u << comm->nranks) - 1);
}

static void fail(struct smd_exchanges *exchanges, unsigned rank)
{
	struct smd_meeting *meeting = &exchanges->meeting;

	if (!meeting->failed && meeting->ready) {
		smd_log(SMD_LOG_INFO, "libsummand",
			"group %s: no more operations go from rank to rank: rank %u has lost a "
			"connection",
			exchanges->comm->group, rank);
	} else if (!meeting->failed && rank) {
		smd_log(SMD_LOG_INFO, "libsummand",
			"group %s: small operations do not go from rank to rank: rank %u cannot, "
			"as its log says (SUMMAND_LOG=info)",
			exchanges->comm->group, rank);
	}
	meeting->failed = true;
	smd_seat_clear(&exchanges->comm->seat);
	if (!meeting->ready) { /* else what is under way may need no lane that has ended */
		smd_exchanges_close_mesh(exchanges);
	}
}

static void note_made(struct smd_exchanges *exchanges, unsigned rank)
{
	struct smd_meeting *meeting = &exchanges->meeting;

	meeting->meets |= 1u << rank;
	if (meeting->meets == all_ranks(exchanges->comm) && !meeting->ready && !meeting->failed) {
		meeting->ready = true;
		smd_log(SMD_LOG_DEBUG, "libsummand", "group %s: all ranks have met",
			exchanges->comm->group);
	}
}

static void take_meets(struct smd_exchanges *exchanges, const struct smd_epoch_message *message)
{
	struct smd_meeting *meeting = &exchanges->meeting;
	unsigned rank = message->rank;

	if (message->nstreams == PLACE_NUMBERS) {
		if (meeting->placed >> rank & 1) {
			return;
		}
		place_decode(message->streams, &meeting->places[rank]);
		meeting->placed |= 1u << rank;
		if (meeting->placed == all_ranks(exchanges->comm)) {
			list_places(exchanges);
		}
	} else if (message->nstreams == 1 && message->streams[0]) {
		note_made(exchanges, rank);
	} else {
		fail(exchanges, rank);
	}
}

/* It has been begun: whether there may still be a mesh. Words are lost with the last server. */
static bool goes_on(struct smd_exchanges *exchanges)
{
	struct smd_meeting *meeting = &exchanges->meeting;

	if (meeting->ready) {
		return smd_meeting_holds(exchanges->comm);
	}
	if (!meeting->failed && smd_clock_ns() - meeting->asked_ns > ANSWER_S * SMD_SECOND_NS) {
		tell_why(exchanges->comm, "not all ranks have answered within 10 s");
		fail(exchanges, 0);
	}
	return !meeting->failed;
}

bool smd_meeting_begin(struct smd_comm *comm)
{
	struct smd_exchanges *exchanges = smd_exchanges_get(comm);
	struct smd_epoch_message message = {.kind = SMD_EPOCH_MEET, .epoch = comm->now->index};

	if (!exchanges || exchanges->meeting.id || exchanges->meeting.failed) {
		return exchanges && goes_on(exchanges);
	}
	if (!make_mesh(exchanges) || smd_epoch_draw_id(comm, &message.id)) {
		fail(exchanges, 0);
		return false;
	}
	exchanges->meeting.id = message.id;
	exchanges->meeting.asked_ns = smd_clock_ns();
	exchanges->meeting.places[0] = exchanges->mesh->place;
	exchanges->meeting.placed = 1;
	smd_epoch_say(comm, &message);
	return true;
}

/* ---- all ---- */

/* Ranks of a machine sit in turns. */
static void sit_down(struct smd_comm *comm)
{
	const struct smd_mesh_place *places = comm->exchanges->meeting.places;
	const struct smd_config *config = &comm->context->config;
	unsigned index = 0;
	unsigned ranks = 0;

	for (unsigned r = 0; r < comm->nranks; r++) {
		bool here = places[r].machine && places[r].machine == places[comm->rank].machine;

		index += here && r < comm->rank;
		ranks += here;
	}
	if (config->spread) {
		smd_seat_choose(&comm->seat, index, ranks,
			smd_hash(SMD_HASH_SEED, config->job, strlen(config->job)));
	}
}

static void meeting_made(struct smd_comm *comm, bool all)
{
	struct smd_exchanges *exchanges = comm->exchanges;
	const uint64_t made = all;

	exchanges->meeting.made = all;
	if (all) {
		sit_down(comm);
	} else {
		tell_why(comm, exchanges->mesh->why.text);
		smd_exchanges_close_mesh(exchanges);
	}
	if (comm->rank) {
		say_meets(exchanges, &made, 1);
	} else if (all) {
		note_made(exchanges, 0);
	} else {
		fail(exchanges, 0);
	}
}

/* Rank 0 hears of it, and has all go by servers again. */
static void meeting_lost(struct smd_comm *comm)
{
	const uint64_t no = 0;

	if (comm->state != SMD_COMM_ACTIVE || comm->exchanges->meeting.failed) {
		return;
	}
	comm->exchanges->meeting.failed = true;
	smd_seat_clear(&comm->seat);
	if (comm->rank) {
		say_meets(comm->exchanges, &no, 1);
	}
}

static void meeting_needed(struct smd_comm *comm, unsigned rank)
{
	const uint64_t needed[] = {0, rank};

	if (comm->rank) {
		say_meets(comm->exchanges, needed, 2);
	}
}

/* Rank 0: so another one finds. */
static void take_needed(struct smd_exchanges *exchanges, const struct smd_epoch_message *message)
{
	if (!exchanges->needed_ns) {
		smd_error_set(&exchanges->why, ECONNRESET,
			"the connection between rank %u and rank %llu has ended", message->rank,
			(unsigned long long)message->streams[1]);
	}
	smd_exchange_watch_needed(exchanges);
}

bool smd_meeting_is_ready(const struct smd_comm *comm)
{
	return comm->exchanges && comm->exchanges->meeting.ready && smd_meeting_holds(comm);
}

bool smd_meeting_has_failed(const struct smd_comm *comm)
{
	return comm->exchanges && comm->exchanges->meeting.failed;
}

bool smd_meeting_holds(const struct smd_comm *comm)
{
	const struct smd_exchanges *exchanges = comm->exchanges;

	if (!exchanges || !exchanges->meeting.made || exchanges->meeting.failed) {
		return false;
	}
	for (unsigned r = 0; r < comm->nranks; r++) {
		if (r != comm->rank && !exchanges->mesh->peers[r].lane) {
			return false;
		}
	}
	return true;
}

int smd_meeting_take(
	struct smd_comm *comm, const struct smd_epoch_message *message, struct smd_error *error)
{
	struct smd_exchanges *exchanges = comm->exchanges;

	if (comm->state != SMD_COMM_ACTIVE) {
		return 0;
	}
	if (message->kind == SMD_EPOCH_MEET) {
		return take_meet(comm, message, error);
	}
	if (exchanges && exchanges->meeting.id == message->id && message->nstreams == 2) {
		take_needed(exchanges, message);
	} else if (exchanges && exchanges->meeting.id == message->id &&
		   !exchanges->meeting.failed) {
		take_meets(exchanges, message);
	}
	return 0;
}
