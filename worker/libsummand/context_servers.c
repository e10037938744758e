/* Has communicators hear of servers that are lost, rest, or are there again. */
#include "worker/libsummand/context_servers.h"

#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/log.h"
#include "worker/libsummand/context_connecting.h"
#include "worker/libsummand/context_failure.h"

#define WAKE_LEAST_S 3
#define WAKE_MADE_S  2 /* more where lanes are made over it, of which each is tried twice */

static struct smd_context *context_of(struct smd_remote_owner *owner)
{
	return (struct smd_context *)owner;
}

/* A lane that has rested is there again. */
static void context_take_back(struct smd_context *context, struct smd_remote *remote)
{
	if (smd_registrations_restore(&context->registrations, remote->lane)) {
		smd_context_lose(context, 1ull << (remote->target - context->targets),
			"the memory of a device that network cards use cannot be registered for "
			"it again");
		return;
	}
	smd_allocations_restore(&context->staging.allocations, remote->lane);
	for (unsigned i = 0; i < SMD_COMMS_MAX; i++) {
		if (context->comms[i]) {
			context->comms[i]->ops->on_lane_back(context->comms[i], remote);
		}
	}
	for (unsigned i = 0; i < SMD_COMMS_MAX; i++) { /* may begin another table, on this lane too */
		if (context->comms[i]) {
			context->comms[i]->ops->on_returned(context->comms[i]);
		}
	}
}

/* Who has set it would else look for its effect in vain. Once, and not for each lane. */
static void context_tell_zeros(struct smd_config *config, const struct smd_remote *remote)
{
	if (config->zeros_asked && !config->zeros_told && !remote->lane->ops->skip_zeros) {
		config->zeros_told = true;
		smd_log(SMD_LOG_INFO, "libsummand",
			"SUMMAND_ZERO_BLOCKS has no effect on lanes over %s: blocks of zeros are "
			"left out over TCP only",
			config->transports[remote->transport]->name);
	}
}

static void context_on_welcomed(struct smd_remote_owner *owner, struct smd_remote *remote)
{
	struct smd_context *context = context_of(owner);

	context_tell_zeros(owner->config, remote);
	if (remote->target->reconnection.under_way) {
		smd_reconnection_welcomed(context, remote);
		return;
	}
	if (context->ready) {
		context_take_back(context, remote);
	} else {
		smd_context_welcomed(context, remote);
	}
}

static bool context_is_owed(const struct smd_remote_owner *owner, const struct smd_remote *remote)
{
	const struct smd_context *context = (const struct smd_context *)owner;

	for (unsigned i = 0; context->ready && i < SMD_COMMS_MAX; i++) {
		const struct smd_receiver *receiver = context->comms[i];

		if (receiver && receiver->ops->is_owed(receiver, remote)) {
			return true;
		}
	}
	return false;
}

static bool context_may_rest(struct smd_remote_owner *owner, const struct smd_remote *remote)
{
	struct smd_context *context = context_of(owner);
	bool may = true;

	for (unsigned i = 0; context->ready && i < SMD_COMMS_MAX; i++) {
		struct smd_receiver *receiver = context->comms[i];

		may = may && (!receiver || receiver->ops->may_rest(receiver, remote));
	}
	return may;
}

/* Servers that were there: one that does not answer is lost as soon as at work, but a connection
 * may be late by a lost packet, and making a lane over it takes time. */
static unsigned wake_patience_s(const struct smd_remote_owner *owner)
{
	const struct smd_config *config = owner->config;
	unsigned limit_s = (config->heartbeat_ms + 999) / 1000;
	unsigned wait_s = limit_s > WAKE_LEAST_S ? limit_s : WAKE_LEAST_S;

	for (unsigned i = 0; i < config->ntransports; i++) {
		if (owner->found[i].had && !config->transports[i]->within_host) {
			wait_s += 2 * smd_transport_making_s(config->transports[i]) + WAKE_MADE_S;
		}
	}
	return wait_s < config->connect_timeout_s ? wait_s : config->connect_timeout_s;
}

void smd_context_wake(struct smd_context *context)
{
	struct smd_remote_owner *owner = &context->remote_owner;
	const struct timeval timeout = {wake_patience_s(&context->remote_owner), 0};
	bool wakes = false;

	owner->connect_s = (unsigned)timeout.tv_sec;
	owner->deadline_ns = smd_clock_ns() + owner->connect_s * SMD_SECOND_NS;
	for (unsigned i = 0; i < context->remotes.count; i++) {
		wakes |= context->remotes.each[i]->rests; /* none that was abandoned */
		smd_remote_wake(context->remotes.each[i]);
	}
	if (wakes) { /* or the lanes try for ever, and what waits for them does not */
		(void)evtimer_add(context->deadline, &timeout);
	}
}

/* One that goes on, by whichever lanes. */
static bool context_is_in_group(const struct smd_context *context)
{
	for (unsigned i = 0; i < SMD_COMMS_MAX; i++) {
		const struct smd_receiver *receiver = context->comms[i];

		for (unsigned r = 0; receiver && r < context->remotes.count; r++) {
			if (receiver->ops->uses(receiver, context->remotes.each[r])) {
				return true;
			}
		}
	}
	return false;
}

/* It is needed while others are still connecting; and by a group, which has just begun to JOIN or
 * takes the server in as soon as each rank reaches it again, which may be in hours. */
static void context_on_rests(struct smd_remote_owner *owner, struct smd_remote *remote)
{
	struct smd_context *context = context_of(owner);

	if (!context->ready) {
		context->nwelcomed--;
		smd_remote_wake(remote);
	} else if (context_is_owed(owner, remote) ||
		   (!context->err && context_is_in_group(context))) {
		smd_context_wake(context);
	}
}

static void context_on_lane_closed(struct smd_remote_owner *owner, struct smd_remote *remote)
{
	struct smd_context *context = context_of(owner);

	for (unsigned i = 0; context->ready && i < SMD_COMMS_MAX; i++) {
		if (context->comms[i]) {
			context->comms[i]->ops->on_lane_closed(context->comms[i], remote);
		}
	}
}

/* The servers are lost; others go on. */
static void context_give_up(struct smd_context *context, uint64_t targets)
{
	context->drains &= ~targets;
	for (unsigned t = 0; t < context->ntargets; t++) {
		if (!(targets >> t & 1)) {
			continue;
		}
		context->targets[t].lost = true;
		for (unsigned s = 0; s < context->targets[t].nremotes; s++) {
			smd_remote_abandon(context->targets[t].remotes[s]);
		}
		smd_reconnection_begin(context, &context->targets[t]);
	}
	for (unsigned i = 0; i < SMD_COMMS_MAX; i++) {
		if (context->comms[i]) {
			context->comms[i]->ops->on_lost(context->comms[i], targets);
		}
	}
}

/* What was drained, and has nothing left to do for this process. */
static bool context_is_left_by(const struct smd_context *context, const struct smd_target *target)
{
	bool uses = !(context->drains >> (target - context->targets) & 1);

	for (unsigned i = 0; i < SMD_COMMS_MAX; i++) {
		const struct smd_receiver *receiver = context->comms[i];

		for (unsigned s = 0; receiver && s < target->nremotes; s++) {
			uses |= receiver->ops->uses(receiver, target->remotes[s]);
		}
	}
	return !uses;
}

/* Each that is lost now, once: what is there again has ended nothing. */
static void context_name_lost(struct smd_context *context, unsigned target, const char *text)
{
	unsigned n = 0;

	for (unsigned k = 0; k < context->nlosses; k++) {
		if (context->lost >> context->losses[k] & 1) {
			context->losses[n++] = context->losses[k];
		}
	}
	context->losses[n++] = (uint8_t)target;
	context->nlosses = n;
	snprintf(context->targets[target].why, sizeof(context->targets[target].why), "%s", text);
	context->lost_why.text[0] = '\0';
	for (unsigned k = 0; k < n; k++) {
		const char *why = context->targets[context->losses[k]].why;

		if (k == 0) {
			(void)smd_error_set(&context->lost_why, ECONNRESET, "%s", why);
		} else {
			smd_error_add(&context->lost_why, why);
		}
	}
}

static void context_lose(struct smd_context *context, unsigned t, int err, const char *text)
{
	struct smd_target *target = &context->targets[t];
	unsigned left;

	if (context->lost >> t & 1) {
		return;
	}
	target->left = context_is_left_by(context, target);
	context_name_lost(context, t, text);
	context->lost |= 1ull << t;
	context->lost_err = err;
	left = context->ntargets - (unsigned)__builtin_popcountll(context->lost);
	smd_log(target->left ? SMD_LOG_DEBUG : SMD_LOG_WARN, "libsummand",
		"%s; %u of %u reduction servers go on", text, left, context->ntargets);
	context_give_up(context, 1ull << t);
	smd_reconnection_check_left(context);
}

uint64_t smd_context_reach(const struct smd_context *context)
{
	uint64_t reached =
		smd_context_first(context->ntargets) & ~(context->lost | context->drains);

	for (unsigned i = 0; i < context->remotes.count; i++) {
		const struct smd_remote *remote = context->remotes.each[i];

		if (!remote->lane || !remote->welcomed) {
			reached &= ~(1ull << (remote->target - context->targets));
		}
	}
	return reached;
}

void smd_context_lose(struct smd_context *context, uint64_t targets, const char *why)
{
	char text[SMD_ERROR_TEXT_MAX];
	char name[160];

	for (unsigned t = 0; t < context->ntargets; t++) {
		if (targets >> t & 1) {
			smd_target_name(&context->targets[t], name);
			snprintf(text, sizeof(text), "%s was lost: %.300s", name, why);
			context_lose(context, t, -ECONNRESET, text);
		}
	}
}

/* What is this process's own fault is the end; and before it has begun all but the loss of a lane.
 */
static void context_on_failed(
	struct smd_remote_owner *owner, struct smd_target *target, int err, const char *text)
{
	struct smd_context *context = context_of(owner);

	if (!context->ready && !context->err && err == -ECONNRESET) {
		smd_context_connect_again(context, target, text);
	} else if (!context->ready || context->err || err == -EFAULT || err == -ENOMEM) {
		smd_context_fail(context, err, text);
	} else {
		context_lose(context, (unsigned)(target - context->targets), err, text);
	}
}

static void context_on_missed(
	struct smd_remote_owner *owner, struct smd_target *target, int err, const char *text)
{
	smd_reconnection_missed(context_of(owner), target, err, text);
}

static void context_on_others(struct smd_remote_owner *owner, const struct smd_remote *remote)
{
	struct smd_context *context = context_of(owner);

	if (!context->ready && !context->err) {
		smd_context_hurry(context, remote);
	}
}

/* Each of its lanes says so. One that is not taken back yet never is. */
static void context_on_drains(struct smd_remote_owner *owner, struct smd_target *target)
{
	struct smd_context *context = context_of(owner);
	uint64_t bit = 1ull << (target - context->targets);

	if (target->reconnection.under_way) {
		smd_reconnection_missed(context, target, -EAGAIN, "it is being drained");
		return;
	}
	if (context->lost & bit) {
		return;
	}
	if (!(context->drains & bit)) {
		context->drains |= bit;
		smd_log(SMD_LOG_INFO, "libsummand",
			"reduction server %s is being drained: groups go on without it",
			target->address);
	}
	for (unsigned i = 0; context->ready && i < SMD_COMMS_MAX; i++) {
		if (context->comms[i]) {
			context->comms[i]->ops->on_drains(context->comms[i]);
		}
	}
}

static void context_on_told_lost(struct smd_remote_owner *owner, const struct smd_remote *remote,
	const struct smd_frame *frame)
{
	struct smd_context *context = context_of(owner);

	for (unsigned i = 0; context->ready && !context->err && i < SMD_COMMS_MAX; i++) {
		if (context->comms[i]) {
			context->comms[i]->ops->on_told_lost(context->comms[i], remote, frame);
		}
	}
}

static struct smd_receiver *context_find(struct smd_remote_owner *owner, uint32_t number)
{
	struct smd_receiver *receiver = context_of(owner)->comms[SMD_COMM_INDEX(number)];

	return receiver && receiver->number == number ? receiver : NULL;
}

const struct smd_remote_owner_ops smd_context_remote_ops = {
	.on_welcomed = context_on_welcomed,
	.may_rest = context_may_rest,
	.on_rests = context_on_rests,
	.on_lane_closed = context_on_lane_closed,
	.on_failed = context_on_failed,
	.on_missed = context_on_missed,
	.on_others = context_on_others,
	.on_drains = context_on_drains,
	.on_told_lost = context_on_told_lost,
	.is_owed = context_is_owed,
	.find = context_find,
};

void smd_context_free_remotes(struct smd_context *context)
{
	for (unsigned t = 0; t < context->ntargets; t++) {
		for (unsigned s = 0; s < context->targets[t].nremotes; s++) {
			if (context->targets[t].remotes[s]) {
				smd_remote_free(context->targets[t].remotes[s]);
			}
		}
		smd_target_end(&context->targets[t]);
		smd_reconnection_end(&context->targets[t].reconnection);
	}
	smd_lookout_free(&context->remote_owner.lookout);
	free(context->remotes.each);
}
