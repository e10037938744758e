/* Tries lost servers again, and takes back those that are there. */
#include "worker/libsummand/reconnection.h"

#include <errno.h>
#include <event2/event.h>
#include <stdio.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/log.h"
#include "worker/libsummand/context.h"
#include "worker/libsummand/context_failure.h"
#include "worker/libsummand/remote_pair.h"

#define DELAY_LEAST_MS 250
#define DELAY_MOST_MS  5000
#define REST_MS        5000 /* of an attempt, beside what silence of a fabric takes of it */
#define HURRY_MS       500 /* who cannot go on says so within a second */
#define HURRY_AGAIN_MS 50
#define TAKEN_MS       2000 /* instead, where a connection is taken: by no dead process */
#define MS_NS          (SMD_SECOND_NS / 1000)
#define STAYED_NS      (10 * SMD_SECOND_NS) /* one that was there for so long is no flickering one */

static struct smd_context *context_of(const struct smd_target *target)
{
	return (struct smd_context *)target->remotes[0]->owner;
}

static bool is_added(const struct smd_context *context, const struct smd_target *target)
{
	return target - context->targets >= context->config.ninitial;
}

static void arm(struct smd_reconnection *reconnection, unsigned ms)
{
	const struct timeval delay = {ms / 1000, ms % 1000 * 1000};

	(void)evtimer_add(reconnection->timer, &delay);
}

static void wait_for_next(struct smd_reconnection *reconnection)
{
	unsigned delay = reconnection->delay_ms;

	reconnection->delay_ms = 2 * delay < DELAY_MOST_MS ? 2 * delay : DELAY_MOST_MS;
	arm(reconnection, delay);
}

/* 0: whoever waited does not any more. */
static unsigned hurry_left_ms(const struct smd_reconnection *reconnection)
{
	uint64_t now_ns = smd_clock_ns();

	return reconnection->hurried && now_ns < reconnection->hurry_ns
		       ? (unsigned)((reconnection->hurry_ns - now_ns) / MS_NS)
		       : 0;
}

/* Each transport may be silent for as long as it takes to find that out, and the last one has time
 * all the same: the next attempt begins with the first again. */
static unsigned attempt_ms(const struct smd_remote_owner *owner)
{
	unsigned ms = REST_MS;

	for (unsigned i = 0; i < owner->config->ntransports; i++) {
		ms += smd_transport_making_s(owner->config->transports[i]) * 1000;
	}
	return ms;
}

static void try_now(struct smd_target *target)
{
	struct smd_reconnection *reconnection = &target->reconnection;
	unsigned left_ms = reconnection->hurried ? hurry_left_ms(reconnection)
						 : attempt_ms(target->remotes[0]->owner);

	reconnection->under_way = true;
	reconnection->began_ns = smd_clock_ns();
	reconnection->answered = false;
	arm(reconnection, left_ms);
	smd_remote_try_again(target->remotes[0], 0);
}

/* Whoever waits has no other server. One that answers has the time that lanes take; one that takes
 * the connection and says nothing may stand still for a moment. 0: it has had its time. */
static unsigned attempt_left_ms(struct smd_target *target)
{
	struct smd_reconnection *reconnection = &target->reconnection;
	uint64_t spent_ms = (smd_clock_ns() - reconnection->began_ns) / MS_NS;
	unsigned limit_ms = 0;
	bool taken = false;

	if (!reconnection->hurried) {
		return 0;
	}
	for (unsigned s = 0; s < target->nremotes; s++) {
		reconnection->answered |= smd_remote_answers(target->remotes[s]);
		taken |= smd_remote_is_taken(target->remotes[s]);
	}
	if (reconnection->answered) {
		limit_ms = attempt_ms(target->remotes[0]->owner);
	} else if (taken) {
		limit_ms = TAKEN_MS;
	}
	return spent_ms < limit_ms ? (unsigned)(limit_ms - spent_ms) : 0;
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct smd_target *target = arg;
	struct smd_reconnection *reconnection = &target->reconnection;
	unsigned left_ms;

	(void)fd;
	(void)what;
	if (context_of(target)->remote_owner.failed) {
		return;
	}
	left_ms = reconnection->under_way ? attempt_left_ms(target) : 0;
	if (left_ms) {
		arm(reconnection, left_ms < HURRY_MS ? left_ms : HURRY_MS);
		return;
	}
	if (reconnection->under_way) {
		for (unsigned s = 0; s < target->nremotes; s++) {
			target->remotes[s]->tries +=
				target->remotes[s]->lane && !target->remotes[s]->welcomed;
		}
		smd_reconnection_missed(
			context_of(target), target, -ETIMEDOUT, "it does not answer");
		return;
	}
	try_now(target);
}

void smd_reconnection_begin(struct smd_context *context, struct smd_target *target)
{
	struct smd_reconnection *reconnection = &target->reconnection;

	if (!reconnection->timer) {
		reconnection->timer = evtimer_new(context->progress.base, on_timer, target);
	}
	if (!reconnection->timer) {
		return; /* the others go on without it */
	}
	reconnection->first_ns = reconnection->first_ns ? reconnection->first_ns : smd_clock_ns();
	if (reconnection->since_ns == 0 || smd_clock_ns() - reconnection->since_ns > STAYED_NS) {
		reconnection->delay_ms = DELAY_LEAST_MS;
	}
	wait_for_next(reconnection);
}

void smd_reconnection_hurry(struct smd_context *context, uint64_t targets)
{
	for (unsigned t = 0; t < context->ntargets; t++) {
		struct smd_target *target = &context->targets[t];
		struct smd_reconnection *reconnection = &target->reconnection;

		if (!(targets >> t & 1) || reconnection->hurried || !reconnection->timer ||
			!evtimer_pending(reconnection->timer, NULL)) {
			continue;
		}
		reconnection->hurried = true;
		reconnection->hurry_ns = smd_clock_ns() + (uint64_t)HURRY_MS * MS_NS;
		if (reconnection->under_way) {
			arm(reconnection, HURRY_MS);
		} else {
			try_now(target);
		}
	}
}

bool smd_reconnection_tries(const struct smd_context *context)
{
	bool tries = false;

	for (unsigned t = 0; t < context->ntargets; t++) {
		tries |= context->targets[t].reconnection.hurried;
	}
	return tries;
}

/* Those that were lost before the last one may be there. */
void smd_reconnection_check_left(struct smd_context *context)
{
	bool left = smd_context_first(context->ntargets) & ~context->lost;

	if (context->ready && !context->err && !left && !smd_reconnection_tries(context)) {
		smd_context_fail(context, context->lost_err, context->lost_why.text);
	}
}

static void tell_missed(struct smd_context *context)
{
	smd_reconnection_check_left(context);
	for (unsigned i = 0; !context->err && i < SMD_COMMS_MAX; i++) {
		if (context->comms[i]) {
			context->comms[i]->ops->on_returned(context->comms[i]);
		}
	}
}

/* It stays so until somebody does something about it, and the server's log alone would say why. */
static void tell_refused(struct smd_target *target, int err, const char *text)
{
	bool refused = err == -EACCES || err == -EPROTO;

	if (refused && !target->reconnection.told) {
		target->reconnection.told = true;
		smd_log(SMD_LOG_WARN, "libsummand", "%s; it is there again, and is not used", text);
	}
}

void smd_reconnection_missed(
	struct smd_context *context, struct smd_target *target, int err, const char *text)
{
	struct smd_reconnection *reconnection = &target->reconnection;

	reconnection->under_way = false;
	for (unsigned s = 0; s < target->nremotes; s++) {
		smd_remote_abandon(target->remotes[s]);
	}
	smd_log(SMD_LOG_DEBUG, "libsummand", "reduction server %s is not there again: %s",
		target->address, text);
	tell_refused(target, err, text);
	if (!context->remote_owner.failed && hurry_left_ms(reconnection) > HURRY_AGAIN_MS) {
		arm(reconnection, HURRY_AGAIN_MS);
		return;
	}
	reconnection->hurried = false;
	if (!target->known && !reconnection->told && is_added(context, target) &&
		smd_clock_ns() - reconnection->first_ns >
			context->config.connect_timeout_s * SMD_SECOND_NS) {
		reconnection->told = true;
		smd_log(SMD_LOG_WARN, "libsummand",
			"reduction server %s was added and cannot be reached, so it is not used: "
			"%s",
			target->address, text);
	}
	if (!context->remote_owner.failed) {
		wait_for_next(reconnection);
		tell_missed(context);
	}
}

/* What another server must have to take the place of the one before; NULL: it has. */
static const char *find_obstacle(const struct smd_context *context, const struct smd_remote *remote)
{
	const struct smd_target *target = remote->target;
	const struct smd_remote *first = target->remotes[0];

	if (remote->welcome.shards != target->nremotes && (target->known || target->nremotes > 1)) {
		return "it must have as many shards (--threads) as the one before";
	}
	if (remote->welcome.chunk_bytes < context->deal.chunk_bytes) {
		return "it must take chunks as large as the one before";
	}
	if (remote->welcome.server_id != first->welcome.server_id) {
		return "it was replaced by another meanwhile";
	}
	for (unsigned t = 0; t < context->ntargets; t++) {
		const struct smd_target *other = &context->targets[t];

		if (other != target && !other->lost &&
			other->remotes[0]->welcome.server_id == first->welcome.server_id) {
			return "it must be named once";
		}
	}
	return NULL;
}

static void refuse(struct smd_context *context, struct smd_target *target, const char *obstacle)
{
	smd_log(target->reconnection.told ? SMD_LOG_DEBUG : SMD_LOG_WARN, "libsummand",
		"reduction server %s is there again, and cannot be used: %s", target->address,
		obstacle);
	target->reconnection.told = true;
	smd_reconnection_missed(context, target, -EINVAL, obstacle);
}

/* All lanes know what is registered, or it is not used. */
static bool restore_registrations(struct smd_context *context, const struct smd_target *target)
{
	int ret = 0;

	for (unsigned s = 0; ret == 0 && s < target->nremotes; s++) {
		ret = smd_registrations_restore(&context->registrations, target->remotes[s]->lane);
		smd_allocations_restore(&context->staging.allocations, target->remotes[s]->lane);
	}
	return ret == 0;
}

/* Its shards have a place from now on. */
static void make_known(struct smd_context *context, struct smd_target *target)
{
	struct smd_remotes *remotes = &context->remotes;

	smd_progress_lock(&context->progress);
	for (unsigned s = 0; s < target->nremotes; s++) {
		target->remotes[s]->index = remotes->count;
		remotes->each[remotes->count++] = target->remotes[s];
	}
	target->known = true;
	smd_progress_unlock(&context->progress);
}

static void take_back(struct smd_context *context, struct smd_target *target)
{
	struct smd_reconnection *reconnection = &target->reconnection;

	if (!target->known) {
		make_known(context, target);
	}
	evtimer_del(reconnection->timer);
	reconnection->under_way = false;
	reconnection->hurried = false;
	reconnection->told = false;
	reconnection->serves = false;
	reconnection->since_ns = smd_clock_ns();
	for (unsigned s = 0; s < target->nremotes; s++) {
		target->remotes[s]->tries = 0; /* the next time each begins at its own address */
	}
	target->lost = false;
	target->silent = false;
	context->lost &= ~(1ull << (target - context->targets));
	smd_log(SMD_LOG_INFO, "libsummand", "reduction server %s is there again", target->address);
	smd_remotes_tell_mixed(&context->remotes); /* its lanes may go another way than before */
	for (unsigned i = 0; i < SMD_COMMS_MAX; i++) {
		if (context->comms[i]) {
			context->comms[i]->ops->on_returned(context->comms[i]);
		}
	}
}

/* Shard 0 has said how many there are. False: out of memory. */
static bool open_others(struct smd_context *context, const struct smd_remote *first)
{
	struct smd_target *target = first->target;

	for (unsigned s = 1; s < target->nremotes; s++) {
		smd_remote_try_again(target->remotes[s], 0);
	}
	while (target->nremotes < first->welcome.shards) {
		struct smd_remote *remote =
			smd_remote_create(&context->remote_owner, target, target->nremotes);

		if (!remote) {
			return false;
		}
		target->remotes[target->nremotes++] = remote;
	}
	return true;
}

void smd_reconnection_welcomed(struct smd_context *context, struct smd_remote *remote)
{
	struct smd_target *target = remote->target;
	const char *obstacle = find_obstacle(context, remote);
	bool all = true;

	if (obstacle) {
		refuse(context, target, obstacle);
		return;
	}
	if (remote->shard == 0 && !open_others(context, remote)) {
		smd_reconnection_missed(context, target, -ENOMEM, "out of memory");
		return;
	}
	for (unsigned s = 0; s < target->nremotes; s++) {
		all &= target->remotes[s]->welcomed;
	}
	if (all && restore_registrations(context, target)) {
		take_back(context, target);
	} else if (all) {
		refuse(context, target,
			"the memory of a device that network cards use cannot be registered for "
			"it");
	}
}

void smd_reconnection_tell(struct smd_context *context, uint64_t targets)
{
	for (unsigned t = 0; t < context->ntargets; t++) {
		struct smd_target *target = &context->targets[t];
		bool first = t >= context->config.ninitial && !target->reconnection.served;

		if ((targets >> t & 1) && !target->lost && !target->reconnection.serves) {
			target->reconnection.served = true;
			target->reconnection.serves = true;
			/* Whoever has read that it was lost reads this. */
			smd_log(target->left ? SMD_LOG_INFO : SMD_LOG_WARN, "libsummand",
				"reduction server %s %s; %u of %u reduction servers go on",
				target->address,
				first ? "was added and serves" : "is there and serves again",
				context->ntargets - (unsigned)__builtin_popcountll(context->lost),
				context->ntargets);
		}
	}
}

void smd_reconnection_end(struct smd_reconnection *reconnection)
{
	if (reconnection->timer) {
		event_free(reconnection->timer);
	}
}
