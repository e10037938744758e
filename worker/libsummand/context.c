/* Starts and ends the progress thread, and builds the table of shards. */
#include "worker/libsummand/context.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/thread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/log.h"
#include "worker/libsummand/comm.h"

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

/* ---- on the progress thread ---- */

void smd_target_name(const struct smd_target *target, char out[160])
{
	snprintf(out, 160, "reduction server %s", target->address);
}

static int context_order_remotes(struct smd_context *context)
{
	unsigned n = 0;

	for (unsigned t = 0; t < context->ntargets; t++) {
		n += context->targets[t].nremotes;
	}
	context->remotes = calloc(n, sizeof(struct smd_remote *));
	if (!context->remotes) {
		return -ENOMEM;
	}
	for (unsigned t = 0; t < context->ntargets; t++) {
		for (unsigned s = 0; s < context->targets[t].nremotes; s++) {
			struct smd_remote *remote = context->targets[t].remotes[s];

			remote->index = context->nremotes;
			context->remotes[context->nremotes++] = remote;
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
	shards = calloc(context->nremotes, sizeof(*shards));
	if (!shards) {
		return -ENOMEM;
	}
	for (unsigned i = 0; i < context->nremotes; i++) {
		const struct smd_welcome *welcome = &context->remotes[i]->welcome;

		shards[i] = (struct smd_deal_shard){
			welcome->server_id, welcome->shard, welcome->weight};
		chunk_bytes =
			welcome->chunk_bytes < chunk_bytes ? welcome->chunk_bytes : chunk_bytes;
	}
	ret = smd_deal_create(&context->deal, shards, context->nremotes, chunk_bytes);
	context->deal_hash = smd_deal_hash(shards, context->nremotes, chunk_bytes);
	free(shards);
	return ret;
}

static void context_publish_ready(struct smd_context *context)
{
	pthread_mutex_lock(&context->lock);
	context->ready = true;
	pthread_cond_broadcast(&context->changed);
	pthread_mutex_unlock(&context->lock);
}

static int context_open_shards(struct smd_context *context, struct smd_remote *first)
{
	struct smd_target *target = first->target;

	while (target->nremotes < first->welcome.shards) {
		struct smd_remote *remote = smd_remote_create(context, target, target->nremotes);

		if (!remote) {
			return -ENOMEM;
		}
		target->remotes[target->nremotes++] = remote;
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

void smd_context_welcomed(struct smd_context *context, struct smd_remote *remote)
{
	unsigned expected = 0;
	int ret = 0;

	if (context_check_server(context, remote)) {
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
		ret = context_make_deal(context);
		if (ret == 0) {
			context_publish_ready(context);
		}
	}
	if (ret) {
		smd_context_fail(
			context, ret, "cannot connect to the reduction servers: out of memory");
	}
}

void smd_context_fail(struct smd_context *context, int err, const char *text)
{
	pthread_mutex_lock(&context->lock);
	if (context->err == 0) {
		context->err = err;
		smd_error_set(&context->error, -err, "%s", text);
	}
	pthread_cond_broadcast(&context->changed);
	pthread_mutex_unlock(&context->lock);
	for (unsigned i = 0; i < SMD_COMMS_MAX; i++) {
		if (context->comms[i]) {
			smd_comm_fail(context->comms[i], err, text);
		}
	}
}

void smd_context_add_counts(struct smd_context *context, const struct smd_lane *lane)
{
	context->ended.bytes_sent += lane->counts.bytes_sent;
	context->ended.bytes_received += lane->counts.bytes_received;
}

/* A caller's wish to know what the lanes have moved. */
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

	stats->counts = context->ended;
	for (unsigned i = 0; i < context->nremotes; i++) {
		const struct smd_lane *lane = context->remotes[i]->lane;

		if (lane) {
			stats->counts.bytes_sent += lane->counts.bytes_sent;
			stats->counts.bytes_received += lane->counts.bytes_received;
		}
	}
	pthread_mutex_lock(&context->lock);
	stats->done = true;
	pthread_cond_broadcast(&context->changed);
	pthread_mutex_unlock(&context->lock);
}

static void context_on_wake(evutil_socket_t fd, short what, void *arg)
{
	struct smd_context *context = arg;
	struct smd_task_queue tasks = STAILQ_HEAD_INITIALIZER(tasks);

	(void)fd;
	(void)what;
	pthread_mutex_lock(&context->lock);
	STAILQ_CONCAT(&tasks, &context->tasks);
	pthread_mutex_unlock(&context->lock);
	while (!STAILQ_EMPTY(&tasks)) {
		struct smd_task *task = STAILQ_FIRST(&tasks);

		STAILQ_REMOVE_HEAD(&tasks, link);
		task->run(task);
	}
}

/* A server may take the connection and say nothing, or the network may swallow the attempt. */
static void context_on_deadline(evutil_socket_t fd, short what, void *arg)
{
	struct smd_context *context = arg;

	(void)fd;
	(void)what;
	for (unsigned t = 0; !context->ready && t < context->ntargets; t++) {
		for (unsigned s = 0; s < context->targets[t].nremotes; s++) {
			struct smd_remote *remote = context->targets[t].remotes[s];

			if (!remote->welcomed) {
				smd_remote_give_up(remote);
				return;
			}
		}
	}
}

static void context_stop(struct smd_task *task)
{
	struct smd_context *context =
		(struct smd_context *)((char *)task - offsetof(struct smd_context, stop));

	event_base_loopbreak(context->base);
}

static void context_free_remotes(struct smd_context *context)
{
	for (unsigned t = 0; t < context->ntargets; t++) {
		for (unsigned s = 0; s < context->targets[t].nremotes; s++) {
			if (context->targets[t].remotes[s]) {
				smd_remote_free(context->targets[t].remotes[s]);
			}
		}
	}
	free(context->remotes);
}

static void *context_main(void *arg)
{
	struct smd_context *context = arg;

	event_base_loop(context->base, EVLOOP_NO_EXIT_ON_EMPTY);
	context_free_remotes(context);
	/* One more turn, for what is freed at the end of a turn. */
	event_base_loop(context->base, EVLOOP_NONBLOCK);
	return NULL;
}

/* ---- on callers' threads ---- */

void smd_context_post(struct smd_context *context, struct smd_task *task)
{
	bool first;

	pthread_mutex_lock(&context->lock);
	first = STAILQ_EMPTY(&context->tasks);
	STAILQ_INSERT_TAIL(&context->tasks, task, link);
	pthread_mutex_unlock(&context->lock);
	if (first) {
		event_active(context->wake, EV_READ, 1);
	}
}

void smd_context_stats(smd_context *context, struct smd_stats *out)
{
	struct stats_task stats = {.task = {.run = context_count}, .context = context};

	smd_context_post(context, &stats.task);
	pthread_mutex_lock(&context->lock);
	while (!stats.done) {
		pthread_cond_wait(&context->changed, &context->lock);
	}
	*out = context->stats;
	pthread_mutex_unlock(&context->lock);
	out->bytes_sent = stats.counts.bytes_sent;
	out->bytes_received = stats.counts.bytes_received;
}

static int context_create_targets(struct smd_context *context)
{
	for (unsigned t = 0; t < context->config.nservers; t++) {
		struct smd_target *target = &context->targets[t];

		target->context = context;
		target->address = context->config.servers[t];
		target->nremotes = 1;
		context->ntargets++;
		target->remotes[0] = smd_remote_create(context, target, 0);
		if (!target->remotes[0]) {
			return -ENOMEM;
		}
	}
	return 0;
}

/* A program's signals are its own business: the progress thread takes none of them. */
static int context_start_thread(struct smd_context *context)
{
	sigset_t all;
	sigset_t before;
	int ret;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ret = -pthread_create(&context->thread, NULL, context_main, context);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return ret;
}

static int context_wait_ready(struct smd_context *context, struct smd_error *error)
{
	int ret;

	pthread_mutex_lock(&context->lock);
	while (!context->ready && !context->err) {
		pthread_cond_wait(&context->changed, &context->lock);
	}
	ret = context->err;
	*error = context->error;
	pthread_mutex_unlock(&context->lock);
	return ret;
}

static void prepare_process(void)
{
	evthread_use_pthreads();
	smd_log_set_default(SMD_LOG_WARN);
}

static void context_free_events(struct smd_context *context)
{
	struct event *events[] = {context->wake, context->deadline};

	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
		if (events[i]) {
			event_free(events[i]);
		}
	}
	event_base_free(context->base);
}

static int context_create(struct smd_context *context, struct smd_error *error)
{
	const struct timeval patience = {context->config.connect_timeout_s, 0};
	pthread_condattr_t monotonic;
	int ret = -ENOMEM;

	pthread_mutex_init(&context->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&context->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	STAILQ_INIT(&context->tasks);
	context->stop.run = context_stop;
	context->deadline_ns = smd_clock_ns() + context->config.connect_timeout_s * 1000000000ull;
	context->base = event_base_new();
	if (!context->base) {
		goto destroy_lock;
	}
	context->wake = event_new(context->base, -1, EV_PERSIST, context_on_wake, context);
	context->deadline = evtimer_new(context->base, context_on_deadline, context);
	if (!context->wake || !context->deadline ||
		evtimer_add(context->deadline, &patience) != 0 || context_create_targets(context)) {
		goto free_remotes;
	}
	ret = context_start_thread(context);
	if (ret) {
		goto free_remotes;
	}
	return 0;

free_remotes:
	context_free_remotes(context);
	context_free_events(context);
destroy_lock:
	pthread_cond_destroy(&context->changed);
	pthread_mutex_destroy(&context->lock);
	return smd_error_set(error, -ret, "cannot start: %s", strerror(-ret));
}

int smd_context_create(const struct smd_context_options *options, smd_context **out)
{
	static pthread_once_t prepared = PTHREAD_ONCE_INIT;
	struct smd_error error = {""};
	struct smd_context *context = calloc(1, sizeof(*context));
	int ret;

	pthread_once(&prepared, prepare_process);
	if (!context) {
		smd_error_set(&error, ENOMEM, "cannot start: out of memory");
		return smd_error_remember(-ENOMEM, &error);
	}
	ret = smd_config_read(options, &context->config, &error);
	if (ret) {
		goto free_context;
	}
	ret = context_create(context, &error);
	if (ret) {
		goto free_config;
	}
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
	free(context);
	return smd_error_remember(ret, &error);
}

void smd_context_destroy(smd_context *context)
{
	if (!context) {
		return;
	}
	smd_context_post(context, &context->stop);
	pthread_join(context->thread, NULL);
	smd_deal_destroy(&context->deal);
	context_free_events(context);
	pthread_cond_destroy(&context->changed);
	pthread_mutex_destroy(&context->lock);
	smd_config_free(&context->config);
	free(context);
}
