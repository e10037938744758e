/*
 * Node 0 collects a ballot from every other node and answers each with the verdict; the others send
 * one and wait for the answer.
 */
#include "worker/nccl_plugin/collnet/agreement.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/transport/address.h"
#include "worker/nccl_plugin/abi/nccl_abi.h"
#include "worker/nccl_plugin/collnet/ballot.h"
#include "worker/nccl_plugin/collnet/caller.h"
#include "worker/nccl_plugin/collnet/capacity.h"
#include "worker/nccl_plugin/collnet/tuner.h"

#define HANDLE_MAGIC  0x31434e53u   /* "SNC1" */
#define STRANGERS_MAX 64            /* that may be connected besides the nodes, */
#define STRANGER_NS   2000000000ull /* and say nothing for so long */
#define RETRY_MS      50
#define GLANCE_MS     200

struct handle {
	uint32_t magic;
	uint8_t nonce[SMD_BALLOT_NONCE];
	uint32_t address_length;
	uint8_t address[sizeof(struct sockaddr_in6)];
};
_Static_assert(sizeof(struct handle) <= NCCL_HANDLE_BYTES, "a handle is carried by NCCL");

struct smd_agreement_place {
	const struct smd_nccl_device *device;
	int fd;
	uint8_t nonce[SMD_BALLOT_NONCE];
};

struct smd_agreement {
	struct smd_agreement_place *place; /* this node's; where all meet is node 0's */
	struct handle handle;
	struct smd_agreement_side side;
	char group[SMD_AGREEMENT_GROUP_MAX];
	unsigned phase;
	struct smd_caller *nodes; /* [nnodes]; on node 0 those of the others, else [0] */
	struct pollfd *polled;    /* [nnodes + STRANGERS_MAX] */
	bool *voted;              /* [nnodes], in this phase */
	struct smd_caller strangers[STRANGERS_MAX];
	bool full;                 /* nobody can be accepted any more */
	struct smd_ballot verdict; /* so far */
};

/* ---- where to meet ---- */

int smd_agreement_listen(const struct smd_nccl_device *device, void *handle,
	struct smd_agreement_place **out, struct smd_error *error)
{
	struct smd_agreement_place *place = calloc(1, sizeof(*place));
	struct handle own = {.magic = HANDLE_MAGIC};
	socklen_t length = sizeof(struct sockaddr_storage);
	struct sockaddr_storage bound;
	int ret;

	if (!place) {
		return smd_error_set(error, ENOMEM, "out of memory");
	}
	place->device = device;
	place->fd =
		socket(device->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (place->fd < 0 ||
		bind(place->fd, (const struct sockaddr *)&device->address,
			device->address_length) != 0 ||
		listen(place->fd, SOMAXCONN) != 0 ||
		getsockname(place->fd, (struct sockaddr *)&bound, &length) != 0 ||
		getrandom(place->nonce, sizeof(place->nonce), 0) != sizeof(place->nonce)) {
		ret = smd_error_set(error, errno, "%s: cannot listen: %m", device->name);
		smd_agreement_unlisten(place);
		return ret;
	}
	memcpy(own.nonce, place->nonce, sizeof(own.nonce));
	own.address_length = length;
	memcpy(own.address, &bound, length);
	memset(handle, 0, NCCL_HANDLE_BYTES);
	memcpy(handle, &own, sizeof(own));
	*out = place;
	return 0;
}

const struct smd_nccl_device *smd_agreement_device(const struct smd_agreement_place *place)
{
	return place->device;
}

void smd_agreement_unlisten(struct smd_agreement_place *place)
{
	if (place->fd >= 0) {
		close(place->fd);
	}
	free(place);
}

/* ---- the two sides ---- */

static int agreement_allocate(struct smd_agreement *agreement)
{
	unsigned n = agreement->side.nnodes;

	agreement->nodes = calloc(n, sizeof(*agreement->nodes));
	agreement->polled = calloc(n + STRANGERS_MAX, sizeof(*agreement->polled));
	agreement->voted = calloc(n, sizeof(*agreement->voted));
	if (!agreement->nodes || !agreement->polled || !agreement->voted) {
		return -ENOMEM;
	}
	for (unsigned i = 0; i < n; i++) {
		agreement->nodes[i].fd = -1;
	}
	for (unsigned i = 0; i < STRANGERS_MAX; i++) {
		agreement->strangers[i].fd = -1;
	}
	return 0;
}

int smd_agreement_begin(struct smd_agreement_place *place, const void *handle,
	const struct smd_agreement_side *side, struct smd_agreement **out, struct smd_error *error)
{
	struct smd_agreement *agreement = calloc(1, sizeof(*agreement));
	char *at;

	if (!agreement) {
		return smd_error_set(error, ENOMEM, "out of memory");
	}
	agreement->place = place;
	agreement->side = *side;
	memcpy(&agreement->handle, handle, sizeof(agreement->handle));
	if (agreement->handle.magic != HANDLE_MAGIC ||
		agreement->handle.address_length > sizeof(agreement->handle.address)) {
		free(agreement);
		return smd_error_set(error, EPROTO,
			"node 0 must use the same plugin (%s), and its handle is of another",
			SUMMAND_VERSION);
	}
	smd_nccl_device_lead(place->device, agreement->handle.address);
	if (agreement_allocate(agreement)) {
		smd_agreement_end(agreement);
		return smd_error_set(error, ENOMEM, "out of memory");
	}
	at = agreement->group + snprintf(agreement->group, sizeof(agreement->group), "nccl-");
	for (unsigned i = 0; i < SMD_BALLOT_NONCE; i++) {
		at += sprintf(at, "%02x", agreement->handle.nonce[i]);
	}
	*out = agreement;
	return 0;
}

const char *smd_agreement_group(const struct smd_agreement *agreement)
{
	return agreement->group;
}

void smd_agreement_end(struct smd_agreement *agreement)
{
	for (unsigned i = 0; agreement->nodes && i < agreement->side.nnodes; i++) {
		smd_caller_close(&agreement->nodes[i]);
	}
	for (unsigned i = 0; agreement->polled && i < STRANGERS_MAX; i++) {
		smd_caller_close(&agreement->strangers[i]);
	}
	free(agreement->nodes);
	free(agreement->polled);
	free(agreement->voted);
	free(agreement);
}

static int left_ms(uint64_t deadline_ns)
{
	uint64_t now = smd_clock_ns();

	return now >= deadline_ns ? 0 : (int)((deadline_ns - now) / 1000000) + 1;
}

static void ballot_fill(struct smd_ballot *ballot, const struct smd_agreement *agreement, int own,
	const struct smd_error *own_error, const struct smd_agreement_terms *terms)
{
	memset(ballot, 0, sizeof(*ballot));
	memcpy(ballot->nonce, agreement->handle.nonce, sizeof(ballot->nonce));
	ballot->phase = agreement->phase;
	ballot->node = agreement->side.node;
	ballot->err = own;
	ballot->loops = terms->loops;
	ballot->server_mbps = terms->server_mbps;
	ballot->pool = agreement->side.pool;
	snprintf(ballot->name, sizeof(ballot->name), "%s", agreement->side.name);
	snprintf(ballot->text, sizeof(ballot->text), "%s",
		own ? own_error->text : agreement->side.servers);
}

/* ---- node 0 ---- */

/* The first reason counts. */
static void verdict_no(struct smd_agreement *agreement, int err, unsigned node, const char *name,
	const char *reason)
{
	struct smd_ballot *verdict = &agreement->verdict;

	if (verdict->err) {
		return;
	}
	verdict->err = err;
	if (name) {
		snprintf(verdict->text, sizeof(verdict->text), "node %u (%s): %s", node, name,
			reason);
	} else {
		snprintf(verdict->text, sizeof(verdict->text), "node %u: %s", node, reason);
	}
}

/* Who does not know what servers carry, since it has not reached all, takes what the others know;
 * but where it is settled that nobody knows, nobody does. */
static void node_counts_servers(struct smd_agreement *agreement, const struct smd_ballot *vote)
{
	struct smd_ballot *verdict = &agreement->verdict;
	char text[SMD_BALLOT_TEXT_BYTES];

	if (vote->server_mbps == SMD_CAPACITY_NONE || verdict->server_mbps == SMD_CAPACITY_NONE) {
		verdict->server_mbps = SMD_CAPACITY_NONE;
	} else if (vote->server_mbps && verdict->server_mbps &&
		   vote->server_mbps != verdict->server_mbps) {
		snprintf(text, sizeof(text),
			"its reduction servers must carry the others' %u Mbit/s, got "
			"%u; " SMD_TUNER_LINKS " may say it instead",
			verdict->server_mbps, vote->server_mbps);
		verdict_no(agreement, -EINVAL, vote->node, vote->name, text);
	} else if (vote->server_mbps) {
		verdict->server_mbps = vote->server_mbps;
	}
}

static void node_votes(struct smd_agreement *agreement, const struct smd_ballot *vote)
{
	char text[SMD_BALLOT_TEXT_BYTES];

	agreement->voted[vote->node] = true;
	if (vote->loops < agreement->verdict.loops) {
		agreement->verdict.loops = vote->loops;
	}
	if (vote->err) {
		verdict_no(agreement, vote->err, vote->node, vote->name, vote->text);
	} else if (vote->pool != agreement->side.pool) {
		snprintf(text, sizeof(text),
			"its reduction servers and settings must be node 0's, %.120s, got %.120s",
			agreement->side.servers, vote->text);
		verdict_no(agreement, -EINVAL, vote->node, vote->name, text);
	} else {
		node_counts_servers(agreement, vote);
	}
}

static void node_is_lost(struct smd_agreement *agreement, unsigned node)
{
	smd_caller_close(&agreement->nodes[node]);
	agreement->voted[node] = true;
	verdict_no(agreement, -ECONNRESET, node, NULL, "it was lost while nodes agreed");
}

/* A stranger's ballot makes it a node, or is its end. */
static void stranger_speaks(struct smd_agreement *agreement, struct smd_caller *stranger)
{
	struct smd_error error = {""};
	struct smd_ballot vote;

	if (smd_ballot_decode(stranger->bytes, &vote, &error) ||
		memcmp(vote.nonce, agreement->handle.nonce, sizeof(vote.nonce)) != 0 ||
		vote.phase != agreement->phase || vote.node == 0 ||
		vote.node >= agreement->side.nnodes || agreement->nodes[vote.node].fd >= 0 ||
		agreement->voted[vote.node]) {
		smd_caller_close(stranger);
		return;
	}
	agreement->nodes[vote.node].fd = stranger->fd;
	stranger->fd = -1;
	node_votes(agreement, &vote);
}

static void node_speaks(struct smd_agreement *agreement, unsigned node)
{
	struct smd_error error = {""};
	struct smd_ballot vote;

	if (smd_ballot_decode(agreement->nodes[node].bytes, &vote, &error) || vote.node != node ||
		vote.phase != agreement->phase || agreement->voted[node]) {
		node_is_lost(agreement, node);
		return;
	}
	node_votes(agreement, &vote);
}

/* More of them wait in the kernel until there is room. */
static struct smd_caller *free_stranger(struct smd_agreement *agreement)
{
	for (unsigned i = 0; i < STRANGERS_MAX; i++) {
		struct smd_caller *stranger = &agreement->strangers[i];

		if (stranger->fd >= 0 && smd_clock_ns() - stranger->since_ns > STRANGER_NS) {
			smd_caller_close(stranger);
		}
		if (stranger->fd < 0) {
			return stranger;
		}
	}
	return NULL;
}

/* As NCCL does it for the process that all ranks come to at first. */
static bool raise_limit(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= files.rlim_max) {
		return false;
	}
	files.rlim_cur = files.rlim_max;
	return setrlimit(RLIMIT_NOFILE, &files) == 0;
}

/* Without descriptors no other node comes, however long one waits. */
static void cannot_accept(struct smd_agreement *agreement, int err)
{
	char text[SMD_BALLOT_TEXT_BYTES];

	if ((err != EMFILE && err != ENFILE) || (err == EMFILE && raise_limit())) {
		return;
	}
	agreement->full = true;
	snprintf(text, sizeof(text),
		"it has no descriptors left to hear %u other nodes: its limit (ulimit -Hn) must be "
		"larger",
		agreement->side.nnodes - 1);
	verdict_no(agreement, -err, 0, agreement->side.name, text);
}

static void take_strangers(struct smd_agreement *agreement)
{
	struct smd_caller *stranger;

	while ((stranger = free_stranger(agreement)) != NULL) {
		stranger->fd =
			accept4(agreement->place->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (stranger->fd < 0) {
			cannot_accept(agreement, errno);
			return;
		}
		stranger->since_ns = smd_clock_ns();
	}
}

static bool all_voted(const struct smd_agreement *agreement)
{
	for (unsigned i = 1; i < agreement->side.nnodes; i++) {
		if (!agreement->voted[i]) {
			return false;
		}
	}
	return true;
}

static unsigned fill_polled(struct smd_agreement *agreement)
{
	bool room = free_stranger(agreement) != NULL;
	unsigned n = 0;

	agreement->polled[n++] =
		(struct pollfd){.fd = room ? agreement->place->fd : -1, .events = POLLIN};
	for (unsigned i = 1; i < agreement->side.nnodes; i++) {
		agreement->polled[n++] =
			(struct pollfd){.fd = agreement->nodes[i].fd, .events = POLLIN};
	}
	for (unsigned i = 0; i < STRANGERS_MAX; i++) {
		agreement->polled[n++] =
			(struct pollfd){.fd = agreement->strangers[i].fd, .events = POLLIN};
	}
	return n;
}

static void hear(struct smd_agreement *agreement)
{
	for (unsigned i = 1; i < agreement->side.nnodes; i++) {
		if (agreement->polled[i].revents) {
			int ret = smd_caller_read(&agreement->nodes[i]);

			if (ret < 0) {
				node_is_lost(agreement, i);
			} else if (ret > 0) {
				node_speaks(agreement, i);
			}
		}
	}
	for (unsigned i = 0; i < STRANGERS_MAX; i++) {
		if (agreement->polled[agreement->side.nnodes + i].revents) {
			int ret = smd_caller_read(&agreement->strangers[i]);

			if (ret < 0) {
				smd_caller_close(&agreement->strangers[i]);
			} else if (ret > 0) {
				stranger_speaks(agreement, &agreement->strangers[i]);
			}
		}
	}
	take_strangers(agreement); /* last: who was polled has its place no longer */
}

static void name_the_silent(struct smd_agreement *agreement)
{
	for (unsigned i = 1; i < agreement->side.nnodes; i++) {
		if (!agreement->voted[i]) {
			verdict_no(agreement, -ETIMEDOUT, i, NULL, "it has not come in time");
		}
	}
}

static void preside(struct smd_agreement *agreement, uint64_t deadline_ns)
{
	int ms = 1;

	/* A last time when it is too late: votes may have been in time. */
	while (!all_voted(agreement) && !agreement->full && ms > 0) {
		unsigned n = fill_polled(agreement);
		int ready;

		ms = left_ms(deadline_ns);
		ready = poll(agreement->polled, n, ms < GLANCE_MS ? ms : GLANCE_MS);

		if (ready > 0) {
			hear(agreement);
		} else if (ready < 0 && errno == EINVAL) {
			cannot_accept(agreement, EMFILE); /* poll() has the same limit */
		}
	}
	name_the_silent(agreement);
	for (unsigned i = 1; i < agreement->side.nnodes; i++) {
		if (agreement->nodes[i].fd >= 0) {
			smd_caller_write(&agreement->nodes[i], &agreement->verdict);
		}
	}
}

/* ---- the others ---- */

static int dial(struct smd_agreement *agreement, uint64_t deadline_ns, struct smd_error *error)
{
	const struct sockaddr *address = (const struct sockaddr *)agreement->handle.address;
	char name[128] = "";
	int err = ETIMEDOUT;
	int ms;

	smd_address_print(address, agreement->handle.address_length, name);
	while ((ms = left_ms(deadline_ns)) > 0) {
		int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		struct pollfd polled = {.fd = fd, .events = POLLOUT};
		socklen_t length = sizeof(err);

		if (fd < 0) {
			return smd_error_set(error, errno, "no socket to reach node 0: %m");
		}
		if (connect(fd, address, agreement->handle.address_length) == 0) {
			err = 0;
		} else if (errno != EINPROGRESS) {
			err = errno;
		} else if (poll(&polled, 1, ms) <= 0) {
			err = ETIMEDOUT;
		} else {
			getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &length);
		}
		if (err == 0) {
			agreement->nodes[0].fd = fd;
			return 0;
		}
		close(fd);
		poll(NULL, 0, RETRY_MS);
	}
	return smd_error_set(error, err, "node 0 at %s cannot be reached: %s", name, strerror(err));
}

static int await_verdict(
	struct smd_agreement *agreement, uint64_t deadline_ns, struct smd_error *error)
{
	struct smd_caller *zero = &agreement->nodes[0];
	int ms;

	do { /* a last time when it is too late: the answer may have been in time */
		struct pollfd polled = {.fd = zero->fd, .events = POLLIN};
		int ret;

		ms = left_ms(deadline_ns);
		ret = poll(&polled, 1, ms) > 0 ? smd_caller_read(zero) : 0;

		if (ret < 0) {
			return smd_error_set(error, -ret, "node 0 was lost while nodes agreed");
		}
		if (ret > 0) {
			return smd_ballot_decode(zero->bytes, &agreement->verdict, error);
		}
	} while (ms > 0);
	return smd_error_set(error, ETIMEDOUT, "node 0 has not answered in time");
}

static int attend(struct smd_agreement *agreement, const struct smd_ballot *vote,
	uint64_t deadline_ns, uint64_t grace_ns, struct smd_error *error)
{
	int ret = agreement->nodes[0].fd < 0 ? dial(agreement, deadline_ns, error) : 0;

	if (ret == 0) {
		ret = smd_caller_write(&agreement->nodes[0], vote);
		if (ret) {
			smd_error_set(error, -ret, "node 0 was lost while nodes agreed");
		}
	}
	return ret ? ret : await_verdict(agreement, deadline_ns + grace_ns, error);
}

/* ---- both ---- */

int smd_agreement_vote(struct smd_agreement *agreement, int own, const struct smd_error *own_error,
	struct smd_agreement_terms *terms, uint64_t deadline_ns, uint64_t grace_ns,
	struct smd_error *error)
{
	struct smd_ballot vote;
	int ret;

	agreement->phase++;
	ballot_fill(&vote, agreement, own, own_error, terms);
	memset(agreement->voted, 0, agreement->side.nnodes * sizeof(*agreement->voted));
	if (agreement->side.node != 0) {
		ret = attend(agreement, &vote, deadline_ns, grace_ns, error);
		if (ret) {
			return ret;
		}
	} else {
		agreement->verdict = vote;
		agreement->verdict.err = 0;
		node_votes(agreement, &vote);
		preside(agreement, deadline_ns);
	}
	if (agreement->verdict.err) {
		smd_error_set(error, -agreement->verdict.err, "%s", agreement->verdict.text);
	}
	if (agreement->verdict.loops < terms->loops) {
		terms->loops = agreement->verdict.loops;
	}
	terms->server_mbps = agreement->verdict.server_mbps;
	return agreement->verdict.err;
}
