/* Makes the lanes of a mesh, and hands what comes on them to its user. */
#include "worker/libsummand/mesh.h"

#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/transport/address.h"
#include "reduction_server/wire/handshake.h"
#include "worker/libsummand/config.h"

#define MAKING_S   5  /* to make all lanes, and to say who one is */
#define TCP_LEAST_MS 5000u /* for some tries of TCP */
#define TOLD_S     20 /* to hear where all listen */
#define GUESTS_MAX 32 /* that have not shown who they are, at once */

static const struct smd_transport_ops *mesh_transport(void)
{
	return smd_transport_find("tcp");
}

/* ---- what is said ---- */

static void say(struct smd_lane *lane, enum smd_mesh_step step, const struct smd_mesh_words *words)
{
	struct smd_frame frame = {.kind = SMD_FRAME_MESH, .window = step};
	uint8_t payload[SMD_CONTROL_MAX];
	size_t length = step == SMD_MESH_CALLS     ? smd_mesh_words_call(words, payload)
			: step == SMD_MESH_ANSWERS ? smd_mesh_words_answer(words, payload)
						   : smd_mesh_words_prove(words, payload);

	/* Without memory for it the lane is not made in time. */
	(void)smd_lane_send_control(lane, &frame, payload, length);
}

static int expect(const struct smd_frame *frame, enum smd_mesh_step step, struct smd_error *error)
{
	return frame->kind == SMD_FRAME_MESH && frame->window == step
		       ? 0
		       : smd_error_set(error, EPROTO, "%s: MESH %d must come first, got %u",
				 smd_frame_kind_name(frame->kind), step, frame->window);
}

/* Whether the other end has proved what it must; `caller`: that is who connects. */
static int check_proof(const struct smd_mesh *mesh, const struct smd_mesh_words *words, bool caller,
	const struct smd_mesh_place *place, struct smd_error *error)
{
	struct smd_proof proof;

	if (smd_mesh_words_proof(words, caller, mesh->config->token, place->secret, &proof)) {
		return smd_error_set(error, ENOMEM, "MESH: out of memory");
	}
	return smd_proof_equals(&proof, &words->proof)
		       ? 0
		       : smd_error_set(error, EACCES,
				 "MESH: rank %u must prove that it has the job's token",
				 caller ? words->caller : words->callee);
}

static uint16_t own_flags(const struct smd_mesh *mesh)
{
	return mesh->config->zeros_skipped ? SMD_MESH_ZEROS : 0;
}

/* The lane is what both ends want: the one says so in its answer, the other in its call. */
static int settle(const struct smd_mesh *mesh, struct smd_lane *lane,
	const struct smd_mesh_words *words, struct smd_error *error)
{
	if (words->caller_flags & words->callee_flags & SMD_MESH_ZEROS &&
		smd_lane_skip_zeros(lane, mesh->user->largest, true)) {
		return smd_error_set(error, ENOMEM, "MESH: out of memory");
	}
	return 0;
}

/* ---- its end, as long as it is not made ---- */

static void conclude(struct smd_mesh *mesh, bool all)
{
	if (mesh->concluded) {
		return;
	}
	mesh->concluded = true;
	if (mesh->late) {
		evtimer_del(mesh->late);
	}
	mesh->user->on_made(mesh, all);
}

static void give_up(struct smd_mesh *mesh, const char *why)
{
	if (!mesh->concluded) {
		smd_error_set(&mesh->why, ETIMEDOUT, "%s", why);
		conclude(mesh, false);
	}
}

static void mesh_on_late(evutil_socket_t fd, short what, void *arg)
{
	struct smd_mesh *mesh = arg;
	char text[160] = "";

	(void)fd;
	(void)what;
	if (mesh->id == 0) {
		snprintf(
			text, sizeof(text), "rank 0 must say where all listen within %d s", TOLD_S);
	}
	for (unsigned r = 0; r < mesh->nranks && !text[0]; r++) {
		const struct smd_mesh_peer *peer = &mesh->peers[r];

		if (r != mesh->rank && !peer->made) {
			snprintf(text, sizeof(text),
				"rank %u must be connected with rank %u within %d s%s%s",
				mesh->rank, r, MAKING_S, peer->why[0] ? ": " : "", peer->why);
		}
	}
	give_up(mesh, text);
}

/* ---- lanes ---- */

static void close_lane(struct smd_mesh *mesh, struct smd_lane **lane)
{
	struct smd_lane *closing = *lane;

	*lane = NULL;
	if (closing) {
		smd_lane_counts_add(&mesh->ended, &closing->counts);
		smd_lane_close(closing);
	}
}

static void stop_listening(struct smd_mesh *mesh)
{
	struct smd_mesh_guest *guest;

	if (mesh->listener) {
		smd_listener_close(mesh->listener);
		mesh->listener = NULL;
	}
	while ((guest = LIST_FIRST(&mesh->guests)) != NULL) {
		LIST_REMOVE(guest, link);
		close_lane(mesh, &guest->lane);
		free(guest);
	}
	mesh->nguests = 0;
}

static void peer_made(struct smd_mesh_peer *peer)
{
	struct smd_mesh *mesh = peer->mesh;

	peer->made = true;
	/* Its process may call nothing for long, and reads nothing then. */
	smd_lane_keepalive_only(peer->lane, mesh->config->heartbeat_ms > TCP_LEAST_MS
						    ? mesh->config->heartbeat_ms
						    : TCP_LEAST_MS);
	if (--mesh->missing == 0) {
		stop_listening(mesh);
		conclude(mesh, true);
	}
}

static int peer_on_header(
	void *owner, const struct smd_frame *frame, void **payload, struct smd_error *error)
{
	struct smd_mesh_peer *peer = owner;

	*payload = peer->control;
	return peer->made ? peer->mesh->user->on_header(peer, frame, payload, error)
			  : expect(frame, SMD_MESH_ANSWERS, error);
}

static void peer_on_open(void *owner)
{
	struct smd_mesh_peer *peer = owner;

	say(peer->lane, SMD_MESH_CALLS, &peer->words);
}

/* Of a lane that this rank has connected. */
static int peer_take_answer(
	struct smd_mesh_peer *peer, const struct smd_frame *frame, struct smd_error *error)
{
	struct smd_mesh *mesh = peer->mesh;
	struct smd_mesh_words *words = &peer->words;
	int ret = smd_mesh_words_take_answer(peer->control, frame->length, words, error);

	ret = ret ? ret : check_proof(mesh, words, false, &peer->place, error);
	if (ret == 0 && smd_mesh_words_proof(words, true, mesh->config->token, peer->place.secret,
				&words->proof)) {
		ret = smd_error_set(error, ENOMEM, "MESH: out of memory");
	}
	ret = ret ? ret : settle(mesh, peer->lane, words, error);
	if (ret == 0) {
		snprintf(peer->name, sizeof(peer->name), "%s", words->callee_name);
		say(peer->lane, SMD_MESH_PROVES, words);
		peer_made(peer);
	}
	return ret;
}

static int peer_on_frame(
	void *owner, const struct smd_frame *frame, void *payload, struct smd_error *error)
{
	struct smd_mesh_peer *peer = owner;

	return peer->made ? peer->mesh->user->on_frame(peer, frame, payload, error)
			  : peer_take_answer(peer, frame, error);
}

static void peer_on_closed(void *owner, int err, const char *reason)
{
	struct smd_mesh_peer *peer = owner;
	char why[SMD_ERROR_TEXT_MAX];

	(void)err;
	snprintf(peer->why, sizeof(peer->why), "%s", reason);
	peer->lost = peer->made;
	peer->lost_ns = smd_clock_ns();
	close_lane(peer->mesh, &peer->lane);
	if (peer->lost) {
		peer->mesh->user->on_lost(peer);
		return;
	}
	snprintf(why, sizeof(why), "rank %u cannot be connected with rank %u: %s", peer->mesh->rank,
		peer->rank, peer->why);
	give_up(peer->mesh, why);
}

static const struct smd_lane_callbacks peer_callbacks = {
	.on_open = peer_on_open,
	.on_header = peer_on_header,
	.on_frame = peer_on_frame,
	.on_closed = peer_on_closed,
};

/* ---- who connects ---- */

static void guest_free(struct smd_mesh_guest *guest)
{
	LIST_REMOVE(guest, link);
	guest->mesh->nguests--;
	free(guest);
}

static void dismiss(struct smd_mesh_guest *guest)
{
	close_lane(guest->mesh, &guest->lane);
	guest_free(guest);
}

static int guest_on_header(
	void *owner, const struct smd_frame *frame, void **payload, struct smd_error *error)
{
	struct smd_mesh_guest *guest = owner;

	*payload = guest->control;
	if (guest->called && !guest->answered) {
		return smd_error_set(error, EPROTO, "MESH: must wait for an answer");
	}
	return expect(frame, guest->answered ? SMD_MESH_PROVES : SMD_MESH_CALLS, error);
}

/* Once this rank knows which mesh it is of. */
static int guest_answer(struct smd_mesh_guest *guest, struct smd_error *error)
{
	struct smd_mesh *mesh = guest->mesh;
	struct smd_mesh_words *words = &guest->words;
	int ret;

	if (words->id != mesh->id || words->caller <= mesh->rank || words->caller >= mesh->nranks ||
		mesh->peers[words->caller].made) {
		return smd_error_set(error, EPROTO,
			"MESH: must be of mesh %llx and of a rank above %u that has no lane, got "
			"rank %u",
			(unsigned long long)mesh->id, mesh->rank, words->caller);
	}
	words->callee = mesh->rank;
	words->callee_flags = own_flags(mesh);
	snprintf(words->callee_name, sizeof(words->callee_name), "%s", mesh->config->replica);
	ret = smd_nonce_draw(words->callee_nonce);
	ret = ret ? ret
		  : smd_mesh_words_proof(
			    words, false, mesh->config->token, mesh->place.secret, &words->proof);
	if (ret == 0) {
		guest->answered = true;
		say(guest->lane, SMD_MESH_ANSWERS, words);
	}
	return ret;
}

static int guest_take_call(
	struct smd_mesh_guest *guest, const struct smd_frame *frame, struct smd_error *error)
{
	int ret = smd_mesh_words_take_call(guest->control, frame->length, &guest->words, error);

	guest->called = ret == 0;
	return ret || guest->mesh->id == 0 ? ret : guest_answer(guest, error);
}

/* It is that rank. */
static int guest_take_proof(
	struct smd_mesh_guest *guest, const struct smd_frame *frame, struct smd_error *error)
{
	struct smd_mesh *mesh = guest->mesh;
	struct smd_mesh_peer *peer = &mesh->peers[guest->words.caller];
	int ret = smd_mesh_words_take_proof(guest->control, frame->length, &guest->words, error);

	ret = ret ? ret : check_proof(mesh, &guest->words, true, &mesh->place, error);
	if (ret == 0 && peer->made) {
		ret = smd_error_set(error, EPROTO, "MESH: rank %u has a lane already", peer->rank);
	}
	ret = ret ? ret : settle(mesh, guest->lane, &guest->words, error);
	if (ret) {
		return ret;
	}
	peer->lane = guest->lane;
	snprintf(peer->name, sizeof(peer->name), "%s", guest->words.caller_name);
	smd_lane_set_owner(peer->lane, &peer_callbacks, peer);
	guest_free(guest);
	peer_made(peer);
	return 0;
}

static int guest_on_frame(
	void *owner, const struct smd_frame *frame, void *payload, struct smd_error *error)
{
	struct smd_mesh_guest *guest = owner;

	(void)payload;
	return guest->answered ? guest_take_proof(guest, frame, error)
			       : guest_take_call(guest, frame, error);
}

static void guest_on_closed(void *owner, int err, const char *reason)
{
	struct smd_mesh_guest *guest = owner;

	(void)err;
	(void)reason;
	dismiss(guest);
}

static const struct smd_lane_callbacks guest_callbacks = {
	.on_header = guest_on_header,
	.on_frame = guest_on_frame,
	.on_closed = guest_on_closed,
};

/* Whoever has said nothing for long leaves; and where all places are taken, who came first. */
static void make_room(struct smd_mesh *mesh)
{
	uint64_t now = smd_clock_ns();
	struct smd_mesh_guest *guest = LIST_FIRST(&mesh->guests);

	while (guest) { /* the oldest is the last */
		struct smd_mesh_guest *next = LIST_NEXT(guest, link);

		if (now - guest->since_ns > MAKING_S * SMD_SECOND_NS ||
			(!next && mesh->nguests == GUESTS_MAX)) {
			dismiss(guest);
		}
		guest = next;
	}
}

static void mesh_on_accept(void *owner, struct smd_lane *lane, int shard)
{
	struct smd_mesh *mesh = owner;
	struct smd_mesh_guest *guest;

	(void)shard;
	make_room(mesh);
	guest = calloc(1, sizeof(*guest));
	if (!guest) {
		smd_lane_close(lane);
		return;
	}
	guest->mesh = mesh;
	guest->lane = lane;
	guest->since_ns = smd_clock_ns();
	if (smd_lane_attach(lane, mesh->base, &guest_callbacks, guest)) {
		smd_lane_close(lane);
		free(guest);
		return;
	}
	LIST_INSERT_HEAD(&mesh->guests, guest, link);
	mesh->nguests++;
}

/* ---- its life ---- */

static int mesh_listen(struct smd_mesh *mesh, struct smd_error *error)
{
	const struct smd_transport_ops *tcp = mesh_transport();
	char address[SMD_ADDRESS_TEXT_MAX];
	char bound[128];
	int ret;

	smd_address_print_bytes(mesh->place.address, 0, address);
	ret = tcp->listen(mesh->base, address, mesh_on_accept, mesh, &mesh->listener, bound, error);
	if (ret == 0) {
		mesh->place.port = (uint16_t)strtoul(strrchr(bound, ':') + 1, NULL, 10);
	}
	return ret;
}

struct smd_mesh *smd_mesh_create(struct event_base *base, const struct smd_config *config,
	const uint8_t address[16], uint16_t nranks, uint16_t rank, const struct smd_mesh_user *user,
	void *owner, struct smd_error *error)
{
	const struct timeval until_told = {TOLD_S, 0};
	struct smd_mesh *mesh = calloc(1, sizeof(*mesh));

	if (!mesh) {
		smd_error_set(error, ENOMEM, "out of memory");
		return NULL;
	}
	*mesh = (struct smd_mesh){.user = user,
		.owner = owner,
		.config = config,
		.base = base,
		.nranks = nranks,
		.rank = rank,
		.missing = nranks - 1u,
		.peers = calloc(nranks, sizeof(*mesh->peers))};
	LIST_INIT(&mesh->guests);
	memcpy(mesh->place.address, address, sizeof(mesh->place.address));
	mesh->late = evtimer_new(base, mesh_on_late, mesh);
	if (!mesh->peers || !mesh->late) {
		smd_error_set(error, ENOMEM, "out of memory");
		goto free_mesh;
	}
	for (unsigned r = 0; r < nranks; r++) {
		mesh->peers[r].mesh = mesh;
		mesh->peers[r].rank = (uint16_t)r;
	}
	if (smd_nonce_draw(mesh->place.secret)) {
		smd_error_set(error, EIO, "cannot get random numbers");
		goto free_mesh;
	}
	if (mesh_listen(mesh, error)) {
		goto free_mesh;
	}
	evtimer_add(mesh->late, &until_told);
	return mesh;

free_mesh:
	smd_mesh_free(mesh);
	return NULL;
}

static int peer_connect(struct smd_mesh_peer *peer, struct smd_error *error)
{
	struct smd_mesh *mesh = peer->mesh;
	char address[SMD_ADDRESS_TEXT_MAX];

	peer->words = (struct smd_mesh_words){.id = mesh->id,
		.caller = mesh->rank,
		.callee = peer->rank,
		.caller_flags = own_flags(mesh)};
	snprintf(peer->words.caller_name, sizeof(peer->words.caller_name), "%s",
		mesh->config->replica);
	if (smd_nonce_draw(peer->words.caller_nonce)) {
		return smd_error_set(error, EIO, "cannot get random numbers");
	}
	smd_address_print_bytes(peer->place.address, peer->place.port, address);
	return mesh_transport()->connect(
		mesh->base, address, NULL, 0, &peer_callbacks, peer, &peer->lane, error);
}

/* Ranks above may have heard of the places before this one. */
static void answer_guests(struct smd_mesh *mesh)
{
	struct smd_mesh_guest *guest = LIST_FIRST(&mesh->guests);

	while (guest) {
		struct smd_mesh_guest *next = LIST_NEXT(guest, link);

		if (guest->called && guest_answer(guest, NULL)) {
			dismiss(guest);
		}
		guest = next;
	}
}

void smd_mesh_connect(struct smd_mesh *mesh, uint64_t id, const struct smd_mesh_place *places)
{
	const struct timeval late = {MAKING_S, 0};
	struct smd_error error = {""};
	char why[SMD_ERROR_TEXT_MAX];

	if (mesh->concluded) { /* it is too late */
		return;
	}
	mesh->id = id;
	evtimer_add(mesh->late, &late);
	for (unsigned r = 0; r < mesh->nranks && !mesh->concluded; r++) {
		mesh->peers[r].place = places[r];
		if (r < mesh->rank && peer_connect(&mesh->peers[r], &error)) {
			snprintf(why, sizeof(why),
				"rank %u cannot be connected with rank %u: %.300s", mesh->rank, r,
				error.text);
			mesh->peers[r].lane = NULL;
			give_up(mesh, why);
		}
	}
	answer_guests(mesh);
}

void smd_mesh_close(struct smd_mesh *mesh)
{
	mesh->concluded = true;
	if (mesh->late) {
		event_free(mesh->late);
		mesh->late = NULL;
	}
	stop_listening(mesh);
	for (unsigned r = 0; r < mesh->nranks; r++) {
		struct smd_mesh_peer *peer = &mesh->peers[r];

		if (peer->lane && peer->made) {
			/* What has left must arrive, whatever the other end sends meanwhile. */
			peer->lane->parts = true;
		}
		close_lane(mesh, &peer->lane);
	}
}

void smd_mesh_count(const struct smd_mesh *mesh, struct smd_lane_counts *sum)
{
	smd_lane_counts_add(sum, &mesh->ended);
	for (unsigned r = 0; r < mesh->nranks; r++) {
		if (mesh->peers[r].lane) {
			smd_lane_counts_add(sum, &mesh->peers[r].lane->counts);
		}
	}
}

void smd_mesh_free(struct smd_mesh *mesh)
{
	if (mesh->late) {
		event_free(mesh->late);
	}
	if (mesh->listener) {
		smd_listener_close(mesh->listener);
	}
	free(mesh->peers);
	free(mesh);
}
