/* Connects to one shard, and lets the lane rest while nobody uses it. */
#include "worker/libsummand/remote.h"

#include <errno.h>
#include <event2/event.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/log.h"
#include "worker/libsummand/remote_frame.h"
#include "worker/libsummand/remote_greeting.h"
#include "worker/libsummand/remote_loss.h"
#include "worker/libsummand/remote_pair.h"
#include "worker/libsummand/remote_transport.h"

/* One of several ways is left then: a packet may be lost, which TCP repeats after a second, and a
 * handshake waits for a server's processor. */
#define RAIL_S        2
#define RAIL_TLS_S    8
#define RETRY_MS      100
#define REMOTE_MEMORY (2 * (size_t)SMD_CHUNK_LIMIT) /* its sink, and what is beside */
static const struct smd_lane_callbacks remote_callbacks;
static void remote_on_closed(void *owner, int err, const char *reason);
static const char looking_up[] = "its name is still being looked up";
/* It does not say so itself: it cannot read what it is told. */
#define VERSION_HINT "; a server of wire version 1 does so, and this process speaks version 6"
_Static_assert(SMD_WIRE_VERSION == 6, "the hint names the versions");

/* ---- connecting ---- */

void smd_remote_give_up(struct smd_remote *remote)
{
	char what[SMD_ERROR_TEXT_MAX];

	if (remote->err == -ENODEV) {
		snprintf(what, sizeof(what), "cannot be reached: %.400s", remote->reason);
		smd_remote_fail(remote, -ENODEV, what);
		return;
	}
	snprintf(what, sizeof(what), "could not be reached within %u s: %s%.300s%s",
		remote->owner->connect_s,
		remote->greeted && remote->reason[0]
			? "it took the connection and ended it at HELLO: "
			: "",
		remote->reason[0] ? remote->reason
		: remote->greeted ? "it takes the connection and does not answer HELLO"
				  : "it does not answer",
		remote->greeted && remote->reason[0] ? VERSION_HINT : "");
	smd_remote_fail(remote, remote->err == -ECONNREFUSED ? -ECONNREFUSED : -ETIMEDOUT, what);
}

/* A server may come up a little later than its workers, so a refusal of the connection is not the
 * end. */
static void remote_try_later(struct smd_remote *remote, int err, const char *reason)
{
	const struct timeval delay = {0, RETRY_MS * 1000};
	bool never = err == -ENODEV && !remote->owner->found[remote->transport].had;

	remote->err = err;
	snprintf(remote->reason, sizeof(remote->reason), "%s", reason);
	remote->transport = 0;
	remote->tries++;
	remote->target->doubted = true;
	if (remote->target->reconnection.under_way) { /* which is tried once, and later again */
		smd_remote_fail_with(remote, err, reason);
	} else if (never) {
		smd_remote_give_up(remote);
	} else if (smd_clock_ns() + RETRY_MS * 1000000ull < remote->owner->deadline_ns) {
		evtimer_add(remote->retry, &delay);
	} /* else its owner gives it up in a moment, or goes on without it (smd_context_deadline()) */
}

/* What is known of the address is used where nothing better comes. */
static void target_on_lookup(void *arg, int err, const char *said)
{
	struct smd_target *target = arg;

	target->lookup = NULL;
	if (err == 0) {
		snprintf(target->found, sizeof(target->found), "%s", said);
	}
	target->doubted = false;
	for (unsigned i = 0; i < target->nremotes; i++) {
		struct smd_remote *remote = target->remotes[i];

		if (!remote || !remote->waits) {
			continue;
		}
		remote->waits = false;
		if (strcmp(remote->reason, looking_up) == 0) {
			remote->reason[0] = '\0';
		}
		if (target->found[0]) {
			event_active(remote->retry, EV_TIMEOUT, 1);
		} else if (!remote->owner->failed) {
			remote_try_later(remote, err, said);
		}
	}
}

/* Whether there is an address to connect to; else it is looked up, and then there is. */
static bool remote_has_address(struct smd_remote *remote)
{
	struct smd_target *target = remote->target;
	char address[SMD_ADDRESS_LONGEST];
	int ret;

	if (remote->owner->config->transports[remote->transport]->names ||
		(target->found[0] && !target->doubted)) {
		return true;
	}
	smd_origin_choose(&remote->owner->origin, target->address, address);
	if (smd_address_is_literal(address)) {
		snprintf(target->found, sizeof(target->found), "%.127s", address);
		target->doubted = false;
		return true;
	}
	if (!remote->reason[0]) {
		snprintf(remote->reason, sizeof(remote->reason), "%s", looking_up);
	}
	if (!target->lookup) {
		ret = smd_lookup_begin(remote->owner->progress, address, target_on_lookup, target,
			&target->lookup);
		if (ret) {
			remote_try_later(remote, ret, "cannot start a thread for its lookup");
			return false;
		}
	}
	remote->waits = true;
	return false;
}

void smd_target_end(struct smd_target *target)
{
	if (target->lookup) {
		smd_lookup_abandon(target->lookup);
	}
}

/* Where a server has several addresses and the caller has chosen no card, its shards take turns
 * among these. */
static void remote_take_rail(struct smd_remote *remote)
{
	const struct smd_target *target = remote->target;
	char address[SMD_ADDRESS_LONGEST];

	remote->rail[0] = '\0';
	if (!*remote->owner->origin.interface && strchr(target->address, '+') &&
		smd_origin_take_turn(
			target->address, target->number, remote->shard + remote->tries, address)) {
		snprintf(remote->rail, sizeof(remote->rail), "%.127s", address);
	}
}

static const char *remote_address(const struct smd_remote *remote)
{
	return remote->rail[0] ? remote->rail : remote->target->found;
}

/* What its lanes leave by; NULL: the system chooses. Told of each server's first. */
static const struct smd_origin *remote_origin(const struct smd_remote *remote)
{
	const struct smd_origin *origin = &remote->owner->origin;
	const char *address = remote->target->found;
	bool reaches = smd_origin_reaches(origin, address);

	if (remote->shard == 0 && *origin->interface && reaches) {
		smd_log(SMD_LOG_INFO, "libsummand", "lanes to %s leave by %s", address,
			origin->interface);
	} else if (remote->shard == 0 && *origin->interface) {
		smd_log(SMD_LOG_INFO, "libsummand",
			"lanes to %s leave by what the system chooses: it is on no network of %s",
			address, origin->interface);
	}
	return reaches ? origin : NULL;
}

/* How long a lane may take to connect before something else is tried; 0: that is its transport's to
 * say. One that says so in seconds leaves half of the time to the next, however little that is;
 * where a server is there again each has its own time (reconnection.c). */
static unsigned remote_patience_ms(const struct smd_remote *remote)
{
	const struct smd_transport_ops *ops = remote->lane->ops;

	if (ops->times_out) {
		return remote->target->reconnection.under_way ? 0 : remote->owner->connect_s * 500;
	}
	return ops->names || !remote->rail[0]   ? 0
	       : remote->owner->config->encrypt ? RAIL_TLS_S * 1000
						: RAIL_S * 1000;
}

static int remote_be_patient(struct smd_remote *remote)
{
	const unsigned ms = remote_patience_ms(remote);
	const struct timeval delay = {ms / 1000, ms % 1000 * 1000};

	return ms ? evtimer_add(remote->retry, &delay) : 0;
}

/* A firewall may drop what goes there, and TCP would say so after SMD_LANE_SILENT_MS. */
static void remote_leave_rail(struct smd_remote *remote)
{
	struct smd_target *target = remote->target;
	char reason[SMD_ADDRESS_TEXT_MAX + 32];

	snprintf(reason, sizeof(reason), "%s does not answer", remote->rail);
	smd_remote_drop_lane(remote);
	for (unsigned s = 0; target->reconnection.under_way && s < target->nremotes; s++) {
		/* That is tried once, and all of its lanes end. */
		target->remotes[s]->tries +=
			target->remotes[s]->lane && !target->remotes[s]->welcomed;
	}
	if (!remote->owner->failed) {
		remote_try_later(remote, -ETIMEDOUT, reason);
	}
}

static void remote_connect(evutil_socket_t fd, short what, void *arg)
{
	bool of_carrier; /* what failed was the carrier, which the next transport would use, too */
	struct smd_remote *remote = arg;
	const struct smd_config *config = remote->owner->config;
	const struct smd_transport_ops *ops;
	const struct smd_origin *origin = NULL;
	struct smd_error error = {""};
	const char *address;
	int ret;

	(void)fd;
	(void)what;
	if (remote->lane && remote->lane->ops->times_out) {
		remote_on_closed(
			remote, -ETIMEDOUT, "no answer within half of the time to connect");
		return;
	}
	if (remote->lane) {
		remote_leave_rail(remote);
		return;
	}
	remote->transport = smd_remote_first_transport(remote);
	if (!remote_has_address(remote) || !smd_remote_pair_begin(remote)) {
		return;
	}
	ops = smd_remote_connects_over(remote);
	address = remote->target->address;
	if (!ops->names) {
		remote_take_rail(remote);
		address = remote_address(remote);
		origin = remote_origin(remote);
	}
	ret = remote->pairs ? config->transports[remote->transport]->check(address, &error) : 0;
	of_carrier = ret == 0 && remote->pairs;
	if (ret == 0) {
		ret = ops->connect(remote->owner->progress->base, address, origin, remote->shard,
			remote->callbacks, remote, &remote->lane, &error);
	}
	if (ret == 0 && config->encrypt) {
		ret = smd_lane_encrypt(remote->lane, &config->key, &error);
		if (ret) {
			smd_lane_close(remote->lane);
		}
	}
	if (ret) {
		remote->lane = NULL;
		smd_remote_pair_end(remote);
		if (of_carrier || !smd_remote_try_next(remote, ret, error.text, false)) {
			remote_try_later(remote, ret, error.text);
		}
		return;
	}
	remote->answered = false;
	remote->challenged = false;
	smd_turns_begin(&remote->turns, remote->lane);
	(void)remote_be_patient(remote);
}

void smd_remote_abandon(struct smd_remote *remote)
{
	remote->abandoned = true;
	remote->rests = false;
	remote->waits = false;
	evtimer_del(remote->retry);
	if (remote->lane) {
		smd_remote_drop_lane(remote);
	}
}

/* Room for two of the largest chunks. What is never used takes no page and counts as no memory,
 * because a context may have hundreds of remotes. */
static uint8_t *remote_memory(void)
{
	void *memory = mmap(NULL, REMOTE_MEMORY, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

struct smd_remote *smd_remote_create(
	struct smd_remote_owner *owner, struct smd_target *target, uint32_t shard)
{
	const struct timeval now = {0, 0};
	struct smd_remote *remote = calloc(1, sizeof(*remote));

	if (!remote) {
		return NULL;
	}
	remote->owner = owner;
	remote->callbacks = &remote_callbacks;
	remote->target = target;
	remote->index = SMD_REMOTE_UNKNOWN;
	remote->shard = shard;
	remote->sink = remote_memory();
	remote->retry = evtimer_new(owner->progress->base, remote_connect, remote);
	if (!remote->sink || !remote->retry || evtimer_add(remote->retry, &now) != 0) {
		smd_remote_free(remote);
		return NULL;
	}
	remote->beside = remote->sink + SMD_CHUNK_LIMIT;
	return remote;
}

void smd_remote_free(struct smd_remote *remote)
{
	smd_remote_pair_end(remote);
	if (remote->lane) {
		smd_turns_end(&remote->turns);
		smd_lane_close(remote->lane);
	}
	if (remote->retry) {
		event_free(remote->retry);
	}
	smd_lookout_end(&remote->owner->lookout, &remote->watched);
	if (remote->sink) {
		munmap(remote->sink, REMOTE_MEMORY);
	}
	free(remote);
}

static void remote_on_open(void *owner)
{
	struct smd_remote *remote = owner;

	evtimer_del(remote->retry);
	if (remote->pairs && remote->lane->ops != smd_remote_connects_over(remote)) {
		return; /* it has said HELLO over the one that carries this */
	}
	remote->err = 0;
	remote->reason[0] = '\0';
	remote->greeted = true;
	if (smd_remote_say_hello(remote)) {
		smd_remote_fail(remote, -ENOMEM, "could not be greeted: out of memory");
	}
}

/* For want of the job's token, at either end, whatever the lanes go over. Other errors of that
 * number are a device's, or of memory that it may not write to. */
static bool remote_is_kept_out(const struct smd_remote *remote, int err)
{
	return err == -EACCES && !remote->welcomed &&
	       (remote->disbelieved || remote->refused || remote->owner->config->encrypt);
}

/* The lane that was to carry it has ended before a word of it: the next transport would go over the
 * same. */
static bool remote_has_lost_carrier(const struct smd_remote *remote)
{
	return remote->pairs && !remote->answered;
}

/* Both ends have made their halves, and wait for each other, or there is no path between them; or
 * this end has made its own, and waits. */
static bool remote_has_asked(const struct smd_remote *remote)
{
	return (remote->pairs && remote->answered) ||
	       (remote->lane && smd_transport_is_made(remote->lane->ops) &&
		       remote->lane->ops == remote->owner->config->transports[remote->transport]);
}

static void remote_on_closed(void *owner, int err, const char *reason)
{
	struct smd_remote *remote = owner;
	bool carrier = remote_has_lost_carrier(remote);
	bool asked = remote_has_asked(remote);
	char what[SMD_ERROR_TEXT_MAX];

	smd_remote_drop_lane(remote);
	if (remote_is_kept_out(remote, err)) { /* it stays so */
		snprintf(what, sizeof(what), "%s: %.400s",
			remote->disbelieved ? "is not believed" : "does not let this process in",
			reason);
		smd_remote_fail(remote, err, what);
		return;
	}
	if (!remote->welcomed && err != -EPROTO) {
		if (!remote->owner->failed &&
			(carrier || !smd_remote_try_next(remote, err, reason, asked))) {
			remote_try_later(remote, err, reason);
		}
		return;
	}
	smd_remote_lose(remote, err, reason);
}

/* ---- rest ---- */

static void remote_begin_again(struct smd_remote *remote, unsigned after_ms)
{
	const struct timeval delay = {0, after_ms * 1000};

	remote->greeted = false;
	remote->transport = 0;
	remote->err = 0;
	remote->reason[0] = '\0';
	if (evtimer_add(remote->retry, &delay) != 0) {
		smd_remote_fail(remote, -ENOMEM, "could not be reached again: out of memory");
	}
}

void smd_remote_wake(struct smd_remote *remote)
{
	if (remote->rests) {
		remote->rests = false;
		remote->returns = true;
		remote_begin_again(remote, 0);
	}
}

void smd_remote_try_again(struct smd_remote *remote, unsigned after_ms)
{
	if (remote->shard == 0) { /* which is the first */
		smd_remote_transport_returns(remote->target);
	}
	remote->abandoned = false;
	remote->returns = false;
	remote->welcomed = false;
	remote->disbelieved = false;
	remote->refused = false;
	remote_begin_again(remote, after_ms);
}

/* ---- sending ---- */

void smd_remote_send_frame(
	struct smd_remote *remote, struct smd_frame *frame, const void *payload, size_t length)
{
	/* Who says it goes on with what the end of the lane would free. */
	if (remote->lane && remote->welcomed && !remote->unsaid) {
		remote->unsaid = smd_lane_send_control(remote->lane, frame, payload, length);
	}
}

void smd_remote_send(struct smd_remote *remote, enum smd_frame_kind kind, uint32_t number,
	uint16_t rank, const void *payload, size_t length)
{
	struct smd_frame frame = {.kind = (uint8_t)kind, .comm = number, .rank = rank};

	smd_remote_send_frame(remote, &frame, payload, length);
}

void smd_remote_send_shrunk(
	struct smd_remote *remote, uint32_t number, uint16_t rank, uint64_t ordinal)
{
	struct smd_frame frame = {
		.kind = SMD_FRAME_SHRUNK, .comm = number, .rank = rank, .ordinal = ordinal};

	smd_remote_send_frame(remote, &frame, NULL, 0);
}

void smd_remote_cancel(struct smd_remote *remote, struct smd_receiver *receiver)
{
	if (!remote->lane) {
		return;
	}
	smd_lane_cancel(remote->lane, receiver);
	if (remote->rx_receiver == receiver) {
		if (remote->rx_result) {
			smd_lane_redirect(remote->lane, remote->sink);
		}
		remote->rx_receiver = NULL;
		remote->rx_result = false;
	}
	smd_turns_run(&remote->turns); /* what it was to send makes room for others */
}

static const struct smd_lane_callbacks remote_callbacks = {
	.on_open = remote_on_open,
	.on_header = smd_remote_on_header,
	.on_frame = smd_remote_on_frame,
	.on_closed = remote_on_closed,
	.callers_memory = true,
};
