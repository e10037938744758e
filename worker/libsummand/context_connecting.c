/* Connects a context to its servers, until it begins with those that it has reached. */
#include "worker/libsummand/context_connecting.h"

#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>

#include "reduction_server/base/log.h"
#include "reduction_server/transport/address.h"
#include "worker/libsummand/context_failure.h"
#include "worker/libsummand/remote_pair.h"

#define BEGIN_MS 3000 /* as long as a lost packet delays a connection */
#define AGAIN_MS 100  /* a server that was lost may be started again by then */

/* ---- the deal ---- */

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

/* Spare servers have no weight at first, unless all are. */
static bool context_has_others(const struct smd_context *context)
{
	for (unsigned i = 0; i < context->ninitial; i++) {
		if (!context->remotes.each[i]->welcome.spare) {
			return true;
		}
	}
	return false;
}

/* Of those that serve at first. */
static int context_deal(struct smd_context *context, uint32_t chunk_bytes)
{
	struct smd_deal_shard *serve = calloc(context->ninitial, sizeof(*serve));
	unsigned n = 0;
	int ret;

	if (!serve) {
		return -ENOMEM;
	}
	for (unsigned i = 0; i < context->ninitial; i++) {
		if (context->shards[i].weight) {
			serve[n++] = context->shards[i];
		}
	}
	ret = smd_deal_create(&context->deal, serve, n, chunk_bytes);
	free(serve);
	return ret;
}

/* All shards are known: make the deal. */
static int context_make_deal(struct smd_context *context)
{
	uint32_t chunk_bytes = SMD_CHUNK_LIMIT;
	int ret = context_order_remotes(context);
	bool others;

	if (ret) {
		return ret;
	}
	context->shards = calloc(context->ninitial, sizeof(*context->shards));
	if (!context->shards) {
		return -ENOMEM;
	}
	others = context_has_others(context);
	for (unsigned i = 0; i < context->ninitial; i++) {
		const struct smd_welcome *welcome = &context->remotes.each[i]->welcome;

		context->shards[i] = (struct smd_deal_shard){welcome->server_id, welcome->shard,
			welcome->spare && others ? 0 : welcome->weight};
		chunk_bytes =
			welcome->chunk_bytes < chunk_bytes ? welcome->chunk_bytes : chunk_bytes;
	}
	return context_deal(context, chunk_bytes);
}

uint64_t smd_context_deal_hash(struct smd_context *context)
{
	uint64_t hash;

	for (unsigned i = 0; i < context->ninitial; i++) {
		context->shards[i].server_id = context->remotes.each[i]->welcome.server_id;
	}
	if (context->absent) {
		return 0;
	}
	hash = smd_deal_hash(context->shards, context->ninitial, context->deal.chunk_bytes);
	return context->deal.pipelined ? smd_deal_hash_add(hash, 1) : hash;
}

/* ---- it begins ---- */

int smd_context_create_targets(struct smd_context *context)
{
	for (unsigned t = 0; t < context->config.nservers; t++) {
		struct smd_target *target = &context->targets[t];

		target->address = context->config.servers[t];
		target->number = t;
		target->nremotes = 1;
		context->ntargets++;
		target->remotes[0] = smd_remote_create(&context->remote_owner, target, 0);
		if (!target->remotes[0]) {
			return -ENOMEM;
		}
	}
	return 0;
}

static void context_fail_without_memory(struct smd_context *context, int err)
{
	smd_context_fail(context, err, "cannot connect to the reduction servers: out of memory");
}

/* A server that was added is tried as one that was lost, and is like it until it is there. */
static void context_add(void *owner, const char *address)
{
	struct smd_context *context = owner;
	struct smd_target *target = &context->targets[context->ntargets];
	uint64_t bit = 1ull << context->ntargets;

	target->address = address;
	target->number = context->ntargets;
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

/* Lanes that leave by one card reach one of a server's addresses, and it says what all carry. */
static unsigned rails_of(const struct smd_context *context, const struct smd_target *target)
{
	unsigned addresses = smd_addresses_count(target->address);

	return *context->remote_owner.origin.interface && addresses ? addresses : 1;
}

/* Who is absent has not said what it carries, and some do not know. */
static uint32_t context_add_weights(const struct smd_context *context)
{
	bool known = !context->absent;
	double mbps = 0;

	for (unsigned i = 0; i < context->ninitial; i++) {
		const struct smd_remote *remote = context->remotes.each[i];

		known &= !remote->welcome.guessed || !context->shards[i].weight;
		mbps += (double)context->shards[i].weight / rails_of(context, remote->target);
	}
	return !known ? 0 : mbps < UINT32_MAX ? (uint32_t)mbps : UINT32_MAX;
}

static void context_publish_ready(struct smd_context *context)
{
	bool streams = smd_remotes_stream(&context->remotes);
	uint32_t server_mbps = context_add_weights(context);

	smd_progress_lock(&context->progress);
	context->ready = true;
	context->streams = streams;
	context->server_mbps = server_mbps;
	smd_progress_publish(&context->progress);
	smd_remotes_tell_mixed(&context->remotes);
	smd_server_file_watch(&context->server_file, &context->config, context->progress.base,
		context_add, context);
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

/* Half of the time to connect at most: for as long as that the others wait for this rank. */
void smd_context_hurry(struct smd_context *context, const struct smd_remote *remote)
{
	unsigned most_ms = context->config.connect_timeout_s * 500;
	unsigned ms = most_ms < BEGIN_MS ? most_ms : BEGIN_MS;
	const struct timeval moment = {ms / 1000, ms % 1000 * 1000};

	if (remote->others_run && !evtimer_pending(context->begin, NULL)) {
		(void)evtimer_add(context->begin, &moment);
	}
}

/* Like one that was added, it is tried again, and has its place in a later table. */
static void context_go_without(
	struct smd_context *context, struct smd_target *target, const char *why)
{
	const char *reason = target->remotes[0]->reason;
	char name[160];

	for (unsigned s = 0; s < target->nremotes; s++) {
		smd_remote_abandon(target->remotes[s]);
	}
	target->lost = true;
	smd_target_name(target, name);
	smd_log(SMD_LOG_WARN, "libsummand",
		"%s cannot be reached, and %s: this process begins without it%s%s; %u of %u "
		"reduction servers go on",
		name, why, reason[0] ? ": " : "", reason,
		context->ntargets - (unsigned)__builtin_popcountll(context->absent),
		context->ntargets);
	smd_reconnection_begin(context, target);
}

/* With the servers that have answered. False: none has. */
static bool context_begin_without(struct smd_context *context, const char *why)
{
	int ret;

	for (unsigned t = 0; t < context->ntargets; t++) {
		for (unsigned s = 0; s < context->targets[t].nremotes; s++) {
			context->absent |= context->targets[t].remotes[s]->welcomed ? 0 : 1ull << t;
		}
	}
	if (context->absent == smd_context_first(context->ntargets)) {
		context->absent = 0;
		return false;
	}
	context->lost |= context->absent;
	for (unsigned t = 0; t < context->ntargets; t++) {
		if (is_absent(context, t)) {
			context_go_without(context, &context->targets[t], why);
		}
	}
	ret = context_begin(context);
	if (ret) {
		context_fail_without_memory(context, ret);
	}
	return true;
}

void smd_context_begin_without(evutil_socket_t fd, short what, void *arg)
{
	const struct timeval look = {0, 1000 * AGAIN_MS};
	struct smd_context *context = arg;

	(void)fd;
	(void)what;
	if (context->ready || context->err) {
		return;
	}
	for (unsigned t = 0; t < context->ntargets; t++) {
		if (!context->targets[t].remotes[0]->welcomed) {
			(void)context_begin_without(context, "other processes of the job run");
			return;
		}
	}
	(void)evtimer_add(
		context->begin, &look); /* all are there: their other lanes are under way */
}

/* ---- servers that answer, and are lost again ---- */

/* Shard 0 has said how many there are; those of the process before are tried again. */
static int context_open_shards(struct smd_context *context, struct smd_remote *first)
{
	struct smd_target *target = first->target;

	while (target->nremotes > first->welcome.shards) {
		smd_remote_free(target->remotes[--target->nremotes]);
	}
	for (unsigned s = 1; s < target->nremotes; s++) {
		if (target->remotes[s]->abandoned) {
			smd_remote_try_again(target->remotes[s], 0);
		}
	}
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

/* The shards of one address must be those of one server. */
static bool is_of_one_server(const struct smd_remote *remote)
{
	const struct smd_remote *first = remote->target->remotes[0];

	return first->welcome.server_id == remote->welcome.server_id &&
	       first->welcome.shards == remote->welcome.shards;
}

void smd_context_welcomed(struct smd_context *context, struct smd_remote *remote)
{
	char name[160];
	char text[SMD_ERROR_TEXT_MAX];
	unsigned expected = 0;
	int ret = 0;

	context->nwelcomed++;
	if (!is_of_one_server(remote)) {
		smd_target_name(remote->target, name);
		snprintf(text, sizeof(text),
			"%s was replaced by another while this process connected", name);
		smd_context_connect_again(context, remote->target, text);
		return;
	}
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
		smd_context_hurry(context, remote);
	}
	if (ret) {
		context_fail_without_memory(context, ret);
	}
}

void smd_context_connect_again(
	struct smd_context *context, struct smd_target *target, const char *text)
{
	smd_log(SMD_LOG_WARN, "libsummand",
		"%s; it is tried again until the time to connect is over", text);
	for (unsigned s = 0; s < target->nremotes; s++) {
		context->nwelcomed -= target->remotes[s]->welcomed;
		target->remotes[s]->welcomed = false;
		smd_remote_abandon(target->remotes[s]);
	}
	context->drains &= ~(1ull << (target - context->targets));
	target->lost = false;
	smd_remote_try_again(target->remotes[0], AGAIN_MS);
}

/* A server may take the connection and say nothing, or the network may swallow the attempt. */
void smd_context_deadline(evutil_socket_t fd, short what, void *arg)
{
	struct smd_context *context = arg;

	(void)fd;
	(void)what;
	if (!context->ready && !context->err &&
		context_begin_without(context, "the time to connect is over")) {
		return;
	}
	for (unsigned t = 0; t < context->ntargets; t++) {
		for (unsigned s = 0; s < context->targets[t].nremotes; s++) {
			struct smd_remote *remote = context->targets[t].remotes[s];

			if (!remote->welcomed && !remote->rests && !remote->target->lost) {
				smd_remote_give_up(remote);
				if (!context->ready || context->err) {
					return;
				}
			}
		}
	}
}
