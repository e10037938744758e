/* Connects to every shard, and builds the table that chunks are dealt by. */
#include "worker/libsummand/context.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/thread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/forks.h"
#include "reduction_server/base/log.h"
#include "worker/libsummand/object.h"

#define SETTLE_US 200000 /* the kernel takes time to end a process with much memory */

/* ---- the last error of each thread ---- */

static _Thread_local struct smd_error last_error;

int smd_error_remember(int ret, const struct smd_error *error)
{
	if (ret) {
		last_error = *error;
	}
	return ret;
}

const char *smd_error_message(void)
{
	return last_error.text[0] ? last_error.text : "no error";
}

/* ---- processes ---- */

int smd_context_check_process(const struct smd_context *context)
{
	struct smd_error error = {""};

	if (context->forks == smd_forks_count()) {
		return 0;
	}
	smd_error_set(&error, EPERM,
		"libsummand: this process was forked from the one that made the context: make a "
		"context of its own, got pid %d, made by %d",
		(int)getpid(), (int)context->pid);
	return smd_error_remember(-EPERM, &error);
}

/* ---- what callers give ---- */

int smd_context_check(const struct smd_context *context)
{
	enum smd_object_state state = smd_object_state(SMD_OBJECT_CONTEXT, context);
	struct smd_error error = {""};

	if (state == SMD_OBJECT_LIVES) {
		return smd_context_check_process(context);
	}
	smd_error_set(&error, EINVAL,
		"context: must be one that smd_context_create() has made, got %s",
		smd_object_state_text(state));
	return smd_error_remember(-EINVAL, &error);
}

int smd_check_out(const void *out)
{
	struct smd_error error = {""};

	if (out) {
		return 0;
	}
	smd_error_set(&error, EINVAL, "out: must not be NULL");
	return smd_error_remember(-EINVAL, &error);
}

/* ---- on the owner of the progress engine ---- */

bool smd_context_settles(struct smd_context *context)
{
	const struct timeval delay = {0, SETTLE_US};

	return context->ntargets > 1 && (evtimer_pending(context->settle, NULL) ||
						evtimer_add(context->settle, &delay) == 0);
}

static void context_on_settled(evutil_socket_t fd, short what, void *arg)
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

/* The context is of no further use, its communicators fail, and every later call says the text, and
 * those that come after it. */
static void context_fail(struct smd_context *context, int err, const char *text)
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

/* The first shard of every server, then the second of every server, ...: so neighbours in the deal
 * are behind different links. */
static int context_order_remotes(struct smd_context *context)
{
	unsigned n = 0;

	for (unsigned t = 0; t < context->ntargets; t++) {
		n += context->targets[t].nremotes;
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
			if (s < context->targets[t].nremotes) {
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
	context->deal_hash = smd_deal_hash(shards, context->remotes.count, chunk_bytes);
	free(shards);
	return ret;
}

/* Over RDMA communicators go on without a server, and take none in. */
static bool context_uses_rdma(const struct smd_context *context)
{
	for (unsigned i = 0; i < context->remotes.count; i++) {
		const struct smd_lane *lane = context->remotes.each[i]->lane;

		if (lane && smd_lane_can_advertise(lane)) {
			return true;
		}
	}
	return false;
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
	context->lost_once |= bit;
	smd_reconnection_begin(context, target);
}

static void context_publish_ready(struct smd_context *context)
{
	smd_progress_lock(&context->progress);
	context->ready = true;
	smd_progress_publish(&context->progress);
	if (!context_uses_rdma(context)) {
		smd_server_file_watch(&context->server_file, &context->config,
			context->progress.base, context_add, context);
	}
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

/* Two addresses must not be those of one server: it would wait for this rank to join twice. */
static int context_check_twice(struct smd_context *context)
{
	char text[SMD_ERROR_TEXT_MAX];

	for (unsigned t = 1; t < context->ntargets; t++) {
		for (unsigned u = 0; u < t; u++) {
			if (context->targets[t].remotes[0]->welcome.server_id !=
				context->targets[u].remotes[0]->welcome.server_id) {
				continue;
			}
			snprintf(text, sizeof(text),
				"reduction servers: each must be named once, but %.100s and %.100s "
				"are the same",
				context->targets[u].address, context->targets[t].address);
			context_fail(context, -EINVAL, text);
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
	context_fail(context, -ECONNRESET, text);
	return -ECONNRESET;
}

static struct smd_context *context_of(struct smd_remote_owner *owner)
{
	return (struct smd_context *)owner;
}

/* A lane that has rested is there again. */
static void context_take_back(struct smd_context *context, struct smd_remote *remote)
{
	smd_registrations_restore(&context->registrations, remote->lane);
	for (unsigned i = 0; i < SMD_COMMS_MAX; i++) {
		if (context->comms[i]) {
			context->comms[i]->ops->on_lane_back(context->comms[i], remote);
		}
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
	if (ret == 0 && context->nwelcomed == expected && !context->ready) {
		if (context_check_twice(context)) {
			return;
		}
		ret = context_make_deal(context);
		for (unsigned t = 0; t < context->ntargets; t++) {
			context->targets[t].known = true;
		}
		if (ret == 0) {
			context_publish_ready(context);
		}
	}
	if (ret) {
		context_fail(
			context, ret, "cannot connect to the reduction servers: out of memory");
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
	bool tries_again = !context_uses_rdma(context);

	for (unsigned t = 0; t < context->ntargets; t++) {
		if (!(targets >> t & 1)) {
			continue;
		}
		context->targets[t].lost = true;
		for (unsigned s = 0; s < context->targets[t].nremotes; s++) {
			smd_remote_abandon(context->targets[t].remotes[s]);
		}
		if (tries_again) {
			smd_reconnection_begin(context, &context->targets[t]);
		}
	}
	for (unsigned i = 0; i < SMD_COMMS_MAX; i++) {
		if (context->comms[i]) {
			context->comms[i]->ops->on_lost(context->comms[i], targets);
		}
	}
}

static void context_lose(struct smd_context *context, uint64_t targets, int err, const char *text)
{
	unsigned left;

	targets &= ~context->lost;
	if (targets == 0) {
		return;
	}
	if (context->lost && context->lost_why.text[0]) {
		smd_error_add(&context->lost_why, text);
	} else {
		smd_error_set(&context->lost_why, -err, "%s", text);
	}
	context->lost |= targets;
	context->lost_once |= targets;
	left = context->ntargets - (unsigned)__builtin_popcountll(context->lost);
	if (left == 0) {
		context_fail(context, err, context->lost_why.text);
		return;
	}
	smd_log(SMD_LOG_WARN, "libsummand", "%s; %u of %u reduction servers go on", text, left,
		context->ntargets);
	context_give_up(context, targets);
}

uint64_t smd_context_reach(const struct smd_context *context)
{
	uint64_t reached = smd_context_first(context->ntargets) & ~context->lost;

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
		context_fail(context, err, text);
	} else {
		context_lose(context, 1ull << (target - context->targets), err, text);
	}
}

static void context_on_missed(
	struct smd_remote_owner *owner, struct smd_target *target, const char *text)
{
	smd_reconnection_missed(context_of(owner), target, text);
}

static struct smd_receiver *context_find(struct smd_remote_owner *owner, uint32_t number)
{
	struct smd_receiver *receiver = context_of(owner)->comms[SMD_COMM_INDEX(number)];

	return receiver && receiver->number == number ? receiver : NULL;
}

static const struct smd_remote_owner_ops context_remote_ops = {
	.on_welcomed = context_on_welcomed,
	.may_rest = context_may_rest,
	.on_rests = context_on_rests,
	.on_lane_closed = context_on_lane_closed,
	.on_failed = context_on_failed,
	.on_missed = context_on_missed,
	.is_owed = context_is_owed,
	.find = context_find,
};

/* A caller asks what the lanes have moved. */
struct stats_task {
	struct smd_task task;
	struct smd_context *context;
	struct smd_lane_counts counts;
	bool done;
};

static void context_count(struct smd_task *task)
{
	struct stats_task *stats = (struct stats_task *)task;
	struct smd_context *context = stats->context;

	for (unsigned i = 0; i < context->remotes.count; i++) {
		const struct smd_remote *remote = context->remotes.each[i];

		smd_lane_counts_add(&stats->counts, &remote->ended);
		if (remote->lane) {
			smd_lane_counts_add(&stats->counts, &remote->lane->counts);
		}
	}
	smd_progress_lock(&context->progress);
	stats->done = true;
	smd_progress_publish(&context->progress);
}

/* A server may take the connection and say nothing, or the network may swallow the attempt. */
static void context_on_deadline(evutil_socket_t fd, short what, void *arg)
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

static void context_free_remotes(struct smd_context *context)
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
	free(context->remotes.each);
}

/* ---- on callers' threads ---- */

static bool stats_done(const void *arg)
{
	return ((const struct stats_task *)arg)->done;
}

void smd_context_stats(smd_context *context, struct smd_stats *out)
{
	static const struct smd_goal goal = {.done = stats_done};
	struct stats_task stats = {.task = {.run = context_count}, .context = context};

	if (smd_check_out(out)) {
		return;
	}
	if (smd_context_check(context)) {
		*out = (struct smd_stats){0};
		return;
	}
	smd_progress_await(&context->progress, &stats.task, &goal, &stats, 0);
	smd_progress_lock(&context->progress);
	*out = context->stats;
	smd_progress_unlock(&context->progress);
	out->bytes_sent = stats.counts.bytes_sent;
	out->bytes_received = stats.counts.bytes_received;
	out->rdma_requests = stats.counts.requests;
	out->rdma_doorbells = stats.counts.doorbells;
}

static int context_create_targets(struct smd_context *context)
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

static void prepare_process(void)
{
	smd_log_set_default(SMD_LOG_WARN);
}

/* Begins to connect, as a task, so that all of it happens on the owner. */
static void context_connect(struct smd_task *task)
{
	struct smd_context *context =
		(struct smd_context *)((char *)task - offsetof(struct smd_context, connect));
	const struct timeval timeout = {context->config.connect_timeout_s, 0};

	context->deadline = evtimer_new(context->progress.base, context_on_deadline, context);
	context->settle = evtimer_new(context->progress.base, context_on_settled, context);
	if (!context->settle || !context->deadline ||
		evtimer_add(context->deadline, &timeout) != 0 || context_create_targets(context)) {
		context_fail(context, -ENOMEM, "cannot start: out of memory");
	}
}

static bool context_settled(const void *arg)
{
	const struct smd_context *context = arg;

	return context->ready || context->err;
}

static int context_wait_ready(struct smd_context *context, struct smd_error *error)
{
	static const struct smd_goal goal = {.done = context_settled};
	int ret;

	context->connect.run = context_connect;
	context->remote_owner.deadline_ns =
		smd_clock_ns() + context->config.connect_timeout_s * SMD_SECOND_NS;
	smd_progress_await(&context->progress, &context->connect, &goal, context, 0);
	smd_progress_lock(&context->progress);
	ret = context->err;
	*error = context->error;
	smd_progress_unlock(&context->progress);
	return ret;
}

int smd_context_register(
	struct smd_context *context, void *base, size_t length, const struct smd_dmabuf *dmabuf)
{
	int ret = smd_context_check_process(context);

	return ret ? ret : smd_registrations_add(&context->registrations, base, length, dmabuf);
}

void smd_context_deregister(struct smd_context *context, void *base, size_t length)
{
	if (smd_context_check_process(context) == 0) {
		smd_registrations_remove(&context->registrations, base, length);
	}
}

bool smd_context_is_device_registered(struct smd_context *context, const void *memory, size_t bytes)
{
	return smd_registrations_cover_device(&context->registrations, memory, bytes);
}

static int context_create(const struct smd_context_options *options,
	const struct smd_device_ops *devices, smd_context **out)
{
	static pthread_once_t prepared = PTHREAD_ONCE_INIT;
	struct smd_error error = {""};
	struct smd_context *context;
	int ret = smd_check_out(out);

	if (ret) {
		return ret;
	}
	pthread_once(&prepared, prepare_process);
	context = smd_object_create(SMD_OBJECT_CONTEXT, sizeof(*context));
	if (!context) {
		smd_error_set(&error, ENOMEM, "cannot start: out of memory");
		return smd_error_remember(-ENOMEM, &error);
	}
	context->pid = getpid();
	context->forks = smd_forks_count();
	ret = smd_config_read(options, &context->config, &error);
	if (ret) {
		goto free_context;
	}
	ret = smd_progress_create(&context->progress, context->config.poll);
	if (ret) {
		smd_error_set(&error, -ret, "cannot start: %s", strerror(-ret));
		goto free_config;
	}
	context->remote_owner = (struct smd_remote_owner){
		.ops = &context_remote_ops,
		.config = &context->config,
		.progress = &context->progress,
	};
	smd_staging_create(&context->staging, devices, &context->progress, &context->deal,
		&context->remotes, context->config.staging_bytes);
	smd_registrations_create(&context->registrations, &context->progress, &context->remotes);
	ret = context_wait_ready(context, &error);
	if (ret) {
		smd_context_destroy(context);
		return smd_error_remember(ret, &error);
	}
	*out = context;
	return 0;

free_config:
	smd_config_free(&context->config);
free_context:
	smd_object_end(SMD_OBJECT_CONTEXT, context);
	return smd_error_remember(ret, &error);
}

int smd_context_create(const struct smd_context_options *options, smd_context **out)
{
	return context_create(options, smd_device_ops(), out);
}

int smd_context_create_without_devices(const struct smd_context_options *options, smd_context **out)
{
	return context_create(options, NULL, out);
}

/* Some communicator of the context, which are the owner's to look up. */
struct find_task {
	struct smd_task task;
	struct smd_context *context;
	struct smd_receiver *found; /* NULL: there is none */
	bool done;
};

static void context_find_any(struct smd_task *task)
{
	struct find_task *find = (struct find_task *)task;
	struct smd_context *context = find->context;

	for (unsigned i = 0; i < SMD_COMMS_MAX && !find->found; i++) {
		find->found = context->comms[i];
	}
	smd_progress_lock(&context->progress);
	find->done = true;
	smd_progress_publish(&context->progress);
}

static bool find_done(const void *arg)
{
	return ((const struct find_task *)arg)->done;
}

/* Communicators that their caller has left behind. */
static void context_end_receivers(struct smd_context *context)
{
	static const struct smd_goal goal = {.done = find_done};
	struct smd_receiver *receiver;

	do {
		struct find_task find = {.task = {.run = context_find_any}, .context = context};

		smd_progress_await(&context->progress, &find.task, &goal, &find, 0);
		receiver = find.found;
		if (receiver) {
			receiver->ops->end(receiver);
		}
	} while (receiver);
}

void smd_context_destroy(smd_context *context)
{
	/* A parent's threads and lanes are not a forked child's to end. */
	if (!context || smd_context_check(context)) {
		return;
	}
	context_end_receivers(context);
	smd_progress_end(&context->progress);
	context_free_remotes(context);
	smd_server_file_end(&context->server_file);
	if (context->deadline) {
		event_free(context->deadline);
	}
	if (context->settle) {
		event_free(context->settle);
	}
	/* One more turn, for what is freed at the end of a turn. */
	event_base_loop(context->progress.base, EVLOOP_NONBLOCK);
	smd_staging_destroy(&context->staging);
	smd_registrations_destroy(&context->registrations);
	smd_deal_destroy(&context->deal);
	free(context->weights);
	smd_progress_destroy(&context->progress);
	smd_config_free(&context->config);
	smd_object_end(SMD_OBJECT_CONTEXT, context);
}
