/* Has communicators hear of servers that are lost, rest, or are there again. */
#include "worker/libsummand/context_servers.h"

#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/log.h"
#include "worker/libsummand/remote_pair.h"

#define BEGIN_S   3      /* as long as a lost packet delays a connection */
#define SETTLE_US 200000 /* the kernel takes time to end a process with much memory */

bool smd_context_settles(struct smd_context *context)
{
	const struct timeval delay = {0, SETTLE_US};

	return context->ntargets > 1 && (evtimer_pending(context->settle, NULL) ||
						evtimer_add(context->settle, &delay) == 0);
}

void smd_context_settled(evutil_socket_t fd, short what, void *arg)
{
	struct smd_context *context = arg;

	(void)fd;
	(void)what;
	for (unsigned i = 0; i < SMD_COMMS_MAX; i++) {
		if (context->comms[i]) {
			context->comms[i]->ops->on_settled(context->comms[i]);
		}
	}
}

void smd_context_fail(struct smd_context *context, int err, const char *text)
{
	context->remote_owner.failed = true;
	smd_progress_lock(&context->progress);
	if (context->err == 0) {
		context->err = err;
		smd_error_set(&context->error, -err, "%s", text);
	} else {
		smd_error_add(&context->error, text);
	}
	smd_progress_publish(&context->progress);
	for (unsigned i = 0; i < SMD_COMMS_MAX; i++) {
		if (context->comms[i]) {
			context->comms[i]->ops->on_failed(context->comms[i], err, text);
		}
	}
}

static bool is_absent(const struct smd_context *context, unsigned target)
{
	return context->absent >> target & 1;
}

/* The first shard of every server, then the second of every server, ...: so neighbours in the deal
 * are behind different links. */
static int context_order_remotes(struct smd_context *context)
{
	unsigned n = 0;

	for (unsigned t = 0; t < context->ntargets; t++) {
		n += is_absent(context, t) ? 0 : context->targets[t].nremotes;
	}
	/* It must not move: callers look at it. */
	context->remotes.each =
		calloc(SMD_SERVERS_MAX * SMD_SHARDS_MAX, sizeof(struct smd_remote *));
	if (!context->remotes.each) {
		return -ENOMEM;
	}
	context->ninitial = n;
	for (unsigned s = 0; context->remotes.count < n; s++) {
		for (unsigned t = 0; t < context->ntargets; t++) {
			if (s < context->targets[t].nremotes && !is_absent(context, t)) {
				struct smd_remote *remote = context->targets[t].remotes[s];

				remote->index = context->remotes.count;
				context->remotes.each[context->remotes.count++] = remote;
			}
		}
	}
	return 0;
}

/* All shards are known: make the deal. */
static int context_make_deal(struct smd_context *context)
{
	struct smd_deal_shard *shards;
	uint32_t chunk_bytes = SMD_CHUNK_LIMIT;
	int ret = context_order_remotes(context);

	if (ret) {
		return ret;
	}
	context->weights = calloc(context->remotes.count, sizeof(*context->weights));
	shards = calloc(context->remotes.count, sizeof(*shards));
	if (!context->weights || !shards) {
		free(shards);
		return -ENOMEM;
	}
	for (unsigned i = 0; i < context->remotes.count; i++) {
		const struct smd_welcome *welcome = &context->remotes.each[i]->welcome;

		context->weights[i] = welcome->weight;
		shards[i] = (struct smd_deal_shard){
			welcome->server_id, welcome->shard, welcome->weight};
		chunk_bytes =
			welcome->chunk_bytes < chunk_bytes ? welcome->chunk_bytes : chunk_bytes;
	}
	ret = smd_deal_create(&context->deal, shards, context->remotes.count, chunk_bytes);
	context->deal_hash =
		context->absent ? 0 : smd_deal_hash(shards, context->remotes.count, chunk_bytes);
	free(shards);
	return ret;
}

/* A server that was added is tried as one that was lost, and is like it until it is there. */
static void context_add(void *owner, const char *address)
{
	struct smd_context *context = owner;
	struct smd_target *target = &context->targets[context->ntargets];
	uint64_t bit = 1ull << context->ntargets;

	target->address = address;
	target->remotes[0] = smd_remote_create(&context->remote_owner, target, 0);
	if (!target->remotes[0]) {
		return; /* it is looked for again */
	}
	smd_remote_abandon(target->remotes[0]);
	target->nremotes = 1;
	target->lost = true;
	context->config.nservers++;
	context->ntargets++;
	context->lost |= bit;
	smd_reconnection_begin(context, target);
}

static void context_publish_ready(struct smd_context *context)
{
	smd_progress_lock(&context->progress);
	context->ready = true;
	smd_progress_publish(&context->progress);
	smd_remotes_tell_mixed(&context->remotes);
	smd_server_file_watch(&context->server_file, &context->config, context->progress.base,
		context_add, context);
}

static int context_open_shards(struct smd_context *context, struct smd_remote *first)
{
	struct smd_target *target = first->target;

	while (target->nremotes < first->welcome.shards) {
		struct smd_remote *remote =
			smd_remote_create(&context->remote_owner, target, target->nremotes);

		if (!remote) {
			return -ENOMEM;
		}
		target->remotes[target->nremotes++] = remote;
	}
	return 0;
}

static void context_fail_without_memory(struct smd_context *context, int err)
{
	smd_context_fail(context, err, "cannot connect to the reduction servers: out of memory");
}

/* Two addresses must not be those of one server: it would wait for this rank to join twice. */
static int context_check_twice(struct smd_context *context)
{
	char text[SMD_ERROR_TEXT_MAX];

	for (unsigned t = 1; t < context->ntargets; t++) {
		for (unsigned u = 0; u < t; u++) {
			if (is_absent(context, t) || is_absent(context, u) ||
				context->targets[t].remotes[0]->welcome.server_id !=
					context->targets[u].remotes[0]->welcome.server_id) {
				continue;
			}
			snprintf(text, sizeof(text),
				"reduction servers: each must be named once, but %.100s and %.100s "
				"are the same",
				context->targets[u].address, context->targets[t].address);
			smd_context_fail(context, -EINVAL, text);
			return -EINVAL;
		}
	}
	return 0;
}

/* The shards of one address must be those of one server. */
static int context_check_server(struct smd_context *context, const struct smd_remote *remote)
{
	const struct smd_remote *first = remote->target->remotes[0];
	char name[160];
	char text[SMD_ERROR_TEXT_MAX];

	if (first->welcome.server_id == remote->welcome.server_id &&
		first->welcome.shards == remote->welcome.shards) {
		return 0;
	}
	smd_target_name(remote->target, name);
	snprintf(text, sizeof(text), "%s was replaced by another while this process connected",
		name);
	smd_context_fail(context, -ECONNRESET, text);
	return -ECONNRESET;
}

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
}

/* All that can be is known. */
static int context_begin(struct smd_context *context)
{
	int ret;

	if (context_check_twice(context)) {
		return 0;
	}
	(void)evtimer_del(context->begin);
	ret = context_make_deal(context);
	for (unsigned t = 0; t < context->ntargets; t++) {
		context->targets[t].known = !is_absent(context, t);
	}
	if (ret == 0) {
		context_publish_ready(context);
	}
	return ret;
}

/* Where others run, who comes late gives what cannot be reached a moment only: the others may be
 * without it, and wait for this rank. */
static void context_hurry(struct smd_context *context, const struct smd_remote *remote)
{
	const struct timeval moment = {BEGIN_S, 0};

	if (remote->others_run && !evtimer_pending(context->begin, NULL)) {
		(void)evtimer_add(context->begin, &moment);
	}
}

static void context_on_welcomed(struct smd_remote_owner *owner, struct smd_remote *remote)
{
	struct smd_context *context = context_of(owner);
	unsigned expected = 0;
	int ret = 0;

	if (remote->target->reconnection.under_way) {
		smd_reconnection_welcomed(context, remote);
		return;
	}
	if (context_check_server(context, remote)) {
		return;
	}
	if (context->ready) {
		context_take_back(context, remote);
		return;
	}
	context->nwelcomed++;
	if (remote->shard == 0) {
		ret = context_open_shards(context, remote);
	}
	for (unsigned t = 0; t < context->ntargets; t++) {
		expected += context->targets[t].nremotes;
	}
	/* A server that has not answered counts as one shard, so this is not reached too early. */
	if (ret == 0 && context->nwelcomed == expected) {
		ret = context_begin(context);
	} else if (ret == 0) {
		context_hurry(context, remote);
	}
	if (ret) {
		context_fail_without_memory(context, ret);
	}
}

/* Like one that was added, it is tried again, and has its place in a later table. */
static void context_go_without(struct smd_context *context, struct smd_target *target)
{
	const char *reason = target->remotes[0]->reason;
	char name[160];

	for (unsigned s = 0; s < target->nremotes; s++) {
		smd_remote_abandon(target->remotes[s]);
	}
	target->lost = true;
	smd_target_name(target, name);
	smd_log(SMD_LOG_WARN, "libsummand",
		"%s cannot be reached, and other processes of the job run: this one begins "
		"without it%s%s; %u of %u reduction servers go on",
		name, reason[0] ? ": " : "", reason,
		context->ntargets - (unsigned)__builtin_popcountll(context->absent),
		context->ntargets);
	smd_reconnection_begin(context, target);
}

void smd_context_begin_without(evutil_socket_t fd, short what, void *arg)
{
	struct smd_context *context = arg;
	int ret;

	(void)fd;
	(void)what;
	if (context->ready || context->err) {
		return;
	}
	for (unsigned t = 0; t < context->ntargets; t++) {
		for (unsigned s = 0; s < context->targets[t].nremotes; s++) {
			context->absent |= context->targets[t].remotes[s]->welcomed ? 0 : 1ull << t;
		}
	}
	if (context->absent == smd_context_first(context->ntargets)) {
		context->absent = 0;
		return; /* what was there is not any more */
	}
	context->lost |= context->absent;
	for (unsigned t = 0; t < context->ntargets; t++) {
		if (is_absent(context, t)) {
			context_go_without(context, &context->targets[t]);
		}
	}
	ret = context_begin(context);
	if (ret) {
		context_fail_without_memory(context, ret);
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

void smd_context_wake(struct smd_context *context)
{
	const struct timeval timeout = {context->config.connect_timeout_s, 0};
	bool wakes = false;

	context->remote_owner.deadline_ns =
		smd_clock_ns() + context->config.connect_timeout_s * SMD_SECOND_NS;
	for (unsigned i = 0; i < context->remotes.count; i++) {
		wakes |= context->remotes.each[i]->rests; /* none that was abandoned */
		smd_remote_wake(context->remotes.each[i]);
	}
	if (wakes) { /* or the lanes try for ever, and what waits for them does not */
		(void)evtimer_add(context->deadline, &timeout);
	}
}

/* While others are still connecting, or where a group has just begun to JOIN, it is needed. */
static void context_on_rests(struct smd_remote_owner *owner, struct smd_remote *remote)
{
	struct smd_context *context = context_of(owner);

	if (!context->ready) {
		context->nwelcomed--;
		smd_remote_wake(remote);
	} else if (context_is_owed(owner, remote)) {
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

static void context_lose(struct smd_context *context, uint64_t targets, int err, const char *text)
{
	bool leave = true;
	unsigned left;

	targets &= ~context->lost;
	if (targets == 0) {
		return;
	}
	for (unsigned t = 0; t < context->ntargets; t++) {
		if (targets >> t & 1) {
			context->targets[t].left = context_is_left_by(context, &context->targets[t]);
			leave &= context->targets[t].left;
		}
	}
	if (context->lost && context->lost_why.text[0]) {
		smd_error_add(&context->lost_why, text);
	} else {
		smd_error_set(&context->lost_why, -err, "%s", text);
	}
	context->lost |= targets;
	left = context->ntargets - (unsigned)__builtin_popcountll(context->lost);
	if (left == 0) {
		smd_context_fail(context, err, context->lost_why.text);
		return;
	}
	smd_log(leave ? SMD_LOG_DEBUG : SMD_LOG_WARN, "libsummand",
		"%s; %u of %u reduction servers go on", text, left, context->ntargets);
	context_give_up(context, targets);
}

uint64_t smd_context_reach(const struct smd_context *context)
{
	uint64_t reached = smd_context_first(context->ntargets) &
			   ~(context->lost | context->drains);

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
			context_lose(context, 1ull << t, -ECONNRESET, text);
		}
	}
}

/* What is this process's own fault, or of the time before all servers were there, is the end. */
static void context_on_failed(
	struct smd_remote_owner *owner, struct smd_target *target, int err, const char *text)
{
	struct smd_context *context = context_of(owner);

	if (!context->ready || context->err || err == -EFAULT || err == -ENOMEM) {
		smd_context_fail(context, err, text);
	} else {
		context_lose(context, 1ull << (target - context->targets), err, text);
	}
}

static void context_on_missed(
	struct smd_remote_owner *owner, struct smd_target *target, const char *text)
{
	smd_reconnection_missed(context_of(owner), target, text);
}

/* Each of its lanes says so. One that is not taken back yet never is. */
static void context_on_drains(struct smd_remote_owner *owner, struct smd_target *target)
{
	struct smd_context *context = context_of(owner);
	uint64_t bit = 1ull << (target - context->targets);

	if (target->reconnection.under_way) {
		smd_reconnection_missed(context, target, "it is being drained");
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
	.on_drains = context_on_drains,
	.is_owed = context_is_owed,
	.find = context_find,
};

/* A server may take the connection and say nothing, or the network may swallow the attempt. */
void smd_context_deadline(evutil_socket_t fd, short what, void *arg)
{
	struct smd_context *context = arg;

	(void)fd;
	(void)what;
	for (unsigned t = 0; t < context->ntargets; t++) {
		for (unsigned s = 0; s < context->targets[t].nremotes; s++) {
			struct smd_remote *remote = context->targets[t].remotes[s];

			if (!remote->welcomed && !remote->rests && !remote->target->lost) {
				smd_remote_give_up(remote);
				return;
			}
		}
	}
}

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

int smd_context_create_targets(struct smd_context *context)
{
	for (unsigned t = 0; t < context->config.nservers; t++) {
		struct smd_target *target = &context->targets[t];

		target->address = context->config.servers[t];
		target->nremotes = 1;
		context->ntargets++;
		target->remotes[0] = smd_remote_create(&context->remote_owner, target, 0);
		if (!target->remotes[0]) {
			return -ENOMEM;
		}
	}
	return 0;
}
