/* Gives turns to lanes that are made; answers a shard's PAIR, and goes over to the lane that is
 * made. */
#include "worker/libsummand/remote_pair.h"

#include <errno.h>
#include <event2/event.h>
#include <string.h>
#include <sys/random.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/log.h"
#include "worker/libsummand/remote_greeting.h"

/* Of a context, as cards make queue pairs one after the other. Not of a process, whose contexts have
 * threads of their own: none could take a turn back from another's server that is silent. */
#define AT_ONCE 8
#define WAIT_MS 4 /* at least; as much again at random, so that processes do not keep step */
/* After that a server that has not said PAIR, or is not there yet without that, keeps nobody
 * waiting: it is silent, or has many others before this one. */
#define SILENT_NS (2 * SMD_SECOND_NS)
static const char waits_for_turn[] = "other lanes are still being made";

static const struct smd_transport_ops *remote_wants(const struct smd_remote *remote)
{
	return remote->owner->config->transports[remote->transport];
}

const struct smd_transport_ops *smd_remote_connects_over(const struct smd_remote *remote)
{
	const struct smd_transport_ops *carrier =
		remote->owner->config->encrypt ? NULL : smd_transport_carrier(remote_wants(remote));

	return carrier ? carrier : remote_wants(remote);
}

/* ---- turns ---- */

/* NULL: none. */
static struct smd_remote *pairing_silent(const struct smd_remote_owner *owner, uint64_t now_ns)
{
	struct smd_remote *remote;

	LIST_FOREACH (remote, &owner->pairing, turn_link) {
		if (!remote->answered && now_ns - remote->turn_ns > SILENT_NS) {
			break;
		}
	}
	return remote;
}

bool smd_remote_pair_begin(struct smd_remote *remote)
{
	struct smd_remote_owner *owner = remote->owner;
	uint64_t now_ns = smd_clock_ns();
	struct timeval delay = {0, 0};
	struct smd_remote *silent;
	uint8_t jitter = 0;

	if (!smd_transport_is_made(remote_wants(remote)) || remote->pairs) {
		return true;
	}
	silent = owner->npairing < AT_ONCE ? NULL : pairing_silent(owner, now_ns);
	if (silent) {
		smd_remote_pair_give_turn(silent);
	}
	if (owner->npairing >= AT_ONCE) {
		if (!remote->reason[0]) {
			snprintf(remote->reason, sizeof(remote->reason), "%s", waits_for_turn);
		}
		(void)!getrandom(&jitter, sizeof(jitter), 0);
		delay.tv_usec = WAIT_MS * 1000 + jitter * (WAIT_MS * 1000 / UINT8_MAX);
		evtimer_add(remote->retry, &delay);
		return false;
	}
	if (strcmp(remote->reason, waits_for_turn) == 0) {
		remote->reason[0] = '\0';
	}
	remote->pairs = smd_remote_connects_over(remote) != remote_wants(remote);
	remote->answered = false;
	remote->turn_ns = now_ns;
	LIST_INSERT_HEAD(&owner->pairing, remote, turn_link);
	owner->npairing++;
	return true;
}

/* ---- offers ---- */

static int remote_check_pair(
	struct smd_remote *remote, const struct smd_pair *pair, struct smd_error *error)
{
	const char *token = remote->owner->config->token;
	struct smd_proof expected;

	if (!token[0]) {
		return 0;
	}
	if (remote->challenged && smd_handshake_prove_offer(&remote->handshake, true, &pair->offer,
					  token, &expected)) {
		return smd_error_set(error, ENOMEM, "out of memory");
	}
	if (remote->challenged && pair->proved && smd_proof_equals(&pair->proof, &expected)) {
		return 0;
	}
	remote->disbelieved = true;
	return smd_remote_disbelieve(remote->challenged && pair->proved, error);
}

static int remote_say_pair(struct smd_remote *remote, struct smd_pair *pair)
{
	const char *token = remote->owner->config->token;
	struct smd_frame frame = {.kind = SMD_FRAME_PAIR};
	uint8_t payload[SMD_CONTROL_MAX];
	int ret = 0;

	pair->proved = token[0];
	if (pair->proved) {
		ret = smd_handshake_prove_offer(
			&remote->handshake, false, &pair->offer, token, &pair->proof);
	}
	return ret ? ret
		   : smd_lane_send_control(
			     remote->lane, &frame, payload, smd_pair_encode(pair, payload));
}

/* The answer is said before the lane is there: nothing may be said on the carrier later. */
static int remote_pair(
	struct smd_remote *remote, const struct smd_offer *theirs, struct smd_error *error)
{
	const struct smd_transport_ops *ops = remote_wants(remote);
	struct smd_pair own = {.proved = false};
	struct smd_lane *made;
	/* Lanes of a device of NCCL's stay on the card that they leave by. */
	bool stays = *remote->owner->origin.interface;
	unsigned shard = stays ? (unsigned)SMD_SHARD_UNKNOWN : remote->shard;
	int ret = ops->offer(remote->owner->progress->base, remote->lane, shard, theirs, 0,
		remote->callbacks, remote, &made, &own.offer, error);

	if (ret) {
		return ret;
	}
	ret = remote_say_pair(remote, &own);
	if (ret) {
		smd_error_set(error, -ret, "out of memory");
	} else {
		ret = ops->join(made, remote->lane, theirs, error);
	}
	if (ret) {
		smd_lane_close(made);
		return ret;
	}
	remote->owner->found[remote->transport].had = true;
	smd_turns_end(&remote->turns);
	remote->lane = made;
	smd_turns_begin(&remote->turns, made);
	return 0;
}

int smd_remote_on_pair(
	struct smd_remote *remote, const struct smd_frame *frame, struct smd_error *error)
{
	struct smd_pair pair;
	int ret;

	/* It understands what it was told: that is not what ends the lane. */
	remote->greeted = false;
	remote->answered = true;
	if (!remote->pairs || remote->lane->ops == remote_wants(remote)) {
		return smd_error_set(
			error, EPROTO, "PAIR: must answer a HELLO that asks for it, and come once");
	}
	ret = smd_pair_decode(remote->rx_control, frame->length, &pair, error);
	if (ret == 0) {
		ret = remote_check_pair(remote, &pair, error);
	}
	if (ret) {
		return ret;
	}
	ret = remote_pair(remote, &pair.offer, error);
	/* A transport of another version is no reason not to take the next one. */
	return ret == -EPROTO ? -EHOSTUNREACH : ret;
}

int smd_remote_settle_for_carrier(struct smd_remote *remote, struct smd_error *error)
{
	const struct smd_config *config = remote->owner->config;
	const struct smd_transport_ops *wanted = remote_wants(remote);
	char server[160];

	if (!remote->pairs || remote->lane->ops == wanted) {
		return 0;
	}
	remote->answered = true;
	for (unsigned i = remote->transport + 1; i < config->ntransports; i++) {
		if (config->transports[i] == remote->lane->ops) {
			smd_target_name(remote->target, server);
			smd_log(SMD_LOG_INFO, "libsummand",
				"lane to %s, shard %u: stays with %s: the server makes none over "
				"%s (its log says why)",
				server, remote->shard, remote->lane->ops->name, wanted->name);
			remote->transport = i;
			return 0;
		}
	}
	remote->greeted = false;
	return smd_error_set(
		error, EHOSTUNREACH, "it makes no lanes over %s (its log says why)", wanted->name);
}

/* ---- what came of it ---- */

bool smd_remotes_stream(const struct smd_remotes *remotes)
{
	for (unsigned i = 0; i < remotes->count; i++) {
		const struct smd_lane *lane = remotes->each[i]->lane;

		if (lane && lane->ops->is_stream && !lane->ops->within_host) {
			return true;
		}
	}
	return false;
}

void smd_remotes_tell_mixed(const struct smd_remotes *remotes)
{
	const struct smd_transport_ops *first = NULL;
	const struct smd_transport_ops *other = NULL;
	unsigned others = 0;
	unsigned lanes = 0;

	for (unsigned i = 0; i < remotes->count; i++) {
		const struct smd_lane *lane = remotes->each[i]->lane;

		if (!lane || !remotes->each[i]->welcomed || /* may carry another's making, */
			lane->ops->within_host) { /* or is as fast as can be */
			continue;
		}
		lanes++;
		first = first ? first : lane->ops;
		if (lane->ops != first) {
			other = lane->ops;
			others++;
		}
	}
	if (other) {
		smd_log(SMD_LOG_WARN, "libsummand",
			"%u of %u lanes go over %s and the others over %s: the slower ones decide "
			"how fast operations are; at SUMMAND_LOG=info each says why",
			others, lanes, other->name, first->name);
	}
}
