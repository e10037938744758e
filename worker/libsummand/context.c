/* A context's life, and what callers ask of it. */
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
#include "worker/libsummand/context_connecting.h"
#include "worker/libsummand/context_failure.h"
#include "worker/libsummand/context_servers.h"
#include "worker/libsummand/history.h"
#include "worker/libsummand/host_memory.h"
#include "worker/libsummand/object.h"
#include "worker/libsummand/segment.h"

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

/* ---- what is kept ---- */

/* Memory that was touched stays the process's until the communicator ends. */
void smd_context_keeps(struct smd_context *context, struct smd_history *history)
{
	struct smd_context_histories *all = &context->histories;

	if (history->used <= history->most) {
		return;
	}
	all->count += history->most == 0;
	all->bytes += history->used - history->most;
	history->most = history->used;
	all->count_most = all->count > all->count_most ? all->count : all->count_most;
	all->bytes_most = all->bytes > all->bytes_most ? all->bytes : all->bytes_most;
}

void smd_context_forgets(struct smd_context *context, const struct smd_history *history)
{
	context->histories.count -= history->most > 0;
	context->histories.bytes -= history->most;
}

/* ---- what lanes have moved ---- */

/* A caller asks what the lanes have moved. */
struct stats_task {
	struct smd_task task;
	struct smd_context *context;
	struct smd_lane_counts counts;
	uint64_t epochs;
	struct smd_context_histories histories;
	struct smd_context_tables tables;
	uint64_t undo_most;
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
	for (unsigned i = 0; i < SMD_COMMS_MAX; i++) {
		if (context->comms[i] && context->comms[i]->ops->count) {
			context->comms[i]->ops->count(context->comms[i], &stats->counts);
		}
	}
	smd_lane_counts_add(&stats->counts, &context->mesh_counts);
	stats->epochs = context->epochs;
	stats->histories = context->histories;
	stats->tables = context->tables;
	stats->undo_most = context->undos.kept_most;
	smd_progress_lock(&context->progress);
	stats->done = true;
	smd_progress_publish(&context->progress);
}

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
	out->bytes_skipped = stats.counts.bytes_skipped;
	out->rdma_requests = stats.counts.requests;
	out->rdma_doorbells = stats.counts.doorbells;
	out->epochs = stats.epochs;
	out->history_bytes = stats.histories.bytes_most;
	out->history_limit = (uint64_t)SMD_HISTORY_BYTES *
			     (stats.histories.count_most ? stats.histories.count_most : 1);
	out->undo_bytes = stats.undo_most;
	out->undo_limit = context->config.undo_bytes;
	out->table_bytes = stats.tables.bytes_most;
	out->tables = stats.tables.count_most;
}

/* ---- its life ---- */

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

	context->deadline = evtimer_new(context->progress.base, smd_context_deadline, context);
	context->settle = evtimer_new(context->progress.base, smd_context_settled, context);
	context->begin = evtimer_new(context->progress.base, smd_context_begin_without, context);
	if (!context->settle || !context->begin || !context->deadline ||
		evtimer_add(context->deadline, &timeout) != 0 ||
		smd_context_create_targets(context)) {
		smd_context_fail(context, -ENOMEM, "cannot start: out of memory");
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
	context->remote_owner.connect_s = context->config.connect_timeout_s;
	context->remote_owner.deadline_ns =
		smd_clock_ns() + context->config.connect_timeout_s * SMD_SECOND_NS;
	smd_progress_await(&context->progress, &context->connect, &goal, context, 0);
	smd_progress_lock(&context->progress);
	ret = context->err;
	*error = context->error;
	smd_progress_unlock(&context->progress);
	return ret;
}

int smd_context_register(struct smd_context *context, const void *user, void *base, size_t length,
	const struct smd_dmabuf *dmabuf)
{
	int ret = smd_context_check_process(context);

	return ret ? ret
		   : smd_registrations_add(&context->registrations, user, base, length, dmabuf);
}

int smd_context_deregister(struct smd_context *context, const void *user, void *base, size_t length)
{
	int ret = smd_context_check_process(context);

	return ret ? ret : smd_registrations_remove(&context->registrations, user, base, length);
}

/* Host memory of this process, of which no other part is registered. */
static int context_check_memory(
	struct smd_context *context, void *base, size_t bytes, struct smd_error *error)
{
	const struct smd_device_ops *devices = context->staging.ops;
	struct smd_device_location location = {.ordinal = -1};
	int ret;

	if (bytes == 0) {
		return smd_error_set(error, EINVAL, "register: there must be at least one byte");
	}
	ret = devices ? devices->locate(base, &location, error) : 0;
	if (ret) {
		return ret;
	}
	if (location.ordinal >= 0) {
		return smd_error_set(error, EINVAL,
			"register: memory must be the host's, got that of device %d, which is "
			"registered without a call",
			location.ordinal);
	}
	if (!smd_host_memory_is_readable(base, bytes)) {
		return smd_error_set(error, EFAULT,
			"register: %zu bytes at %p must be memory of this process", bytes, base);
	}
	if (smd_registrations_overlap(&context->registrations, base, bytes)) {
		return smd_error_set(error, EINVAL,
			"register: %zu bytes at %p must not overlap other registered memory", bytes,
			base);
	}
	return 0;
}

int smd_register(smd_context *context, void *base, size_t bytes)
{
	struct smd_error error = {""};
	int ret = smd_context_check(context);

	if (ret) {
		return ret;
	}
	ret = context_check_memory(context, base, bytes, &error);
	if (ret == 0) {
		ret = smd_registrations_add(&context->registrations, context, base, bytes, NULL);
		if (ret) {
			smd_error_set(&error, -ret, "register: %s", strerror(-ret));
		}
	}
	return ret ? smd_error_remember(ret, &error) : 0;
}

int smd_deregister(smd_context *context, void *base, size_t bytes)
{
	struct smd_error error = {""};
	int ret = smd_context_check(context);

	if (ret == 0 && smd_registrations_remove(&context->registrations, context, base, bytes)) {
		smd_error_set(&error, EINVAL,
			"deregister: %zu bytes at %p must be registered as they are, with "
			"smd_register()",
			bytes, base);
		ret = smd_error_remember(-EINVAL, &error);
	}
	return ret;
}

bool smd_context_is_device_registered(struct smd_context *context, const void *memory, size_t bytes)
{
	return smd_registrations_cover_device(&context->registrations, memory, bytes);
}

static int context_create(const struct smd_context_options *options, enum smd_engine_mode mode,
	const struct smd_origin *origin, const struct smd_device_ops *devices, bool exchanges,
	smd_context **out)
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
	context->exchanges = exchanges;
	context->pid = getpid();
	context->forks = smd_forks_count();
	ret = smd_config_read(options, &context->config, &error);
	if (ret) {
		goto free_context;
	}
	ret = smd_progress_create(&context->progress,
		context->config.poll ? SMD_ENGINE_POLLED : mode,
		context->config.near_card ? context->config.servers[0] : NULL,
		(struct smd_locality_ways){.transports = context->config.transports,
			.ntransports = context->config.ntransports});
	if (ret) {
		smd_error_set(&error, -ret, "cannot start: %s", strerror(-ret));
		goto free_config;
	}
	context->remote_owner = (struct smd_remote_owner){
		.ops = &smd_context_remote_ops,
		.config = &context->config,
		.progress = &context->progress,
		.origin = *origin,
	};
	smd_registrations_create(&context->registrations, &context->progress, &context->remotes);
	smd_staging_create(&context->staging, devices, &context->progress, &context->deal,
		&context->remotes, &context->registrations, context->config.staging_bytes);
	context->segment_bytes = SMD_SEGMENT_BYTES;
	smd_known_memory_create(&context->known);
	smd_undos_create(&context->undos, &context->deal, context->config.undo_bytes);
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
	static const struct smd_origin any;

	return context_create(options, SMD_ENGINE_SHARED, &any, smd_device_ops(), true, out);
}

int smd_context_create_without_devices(const struct smd_context_options *options,
	enum smd_engine_mode mode, const struct smd_origin *origin, smd_context **out)
{
	return context_create(options, mode, origin, NULL, false, out);
}

void smd_context_set_pipelined(struct smd_context *context)
{
	smd_progress_lock(&context->progress);
	context->deal.pipelined = true;
	smd_progress_unlock(&context->progress);
}

uint32_t smd_context_server_mbps(struct smd_context *context)
{
	uint32_t mbps;

	smd_progress_lock(&context->progress);
	mbps = context->server_mbps;
	smd_progress_unlock(&context->progress);
	return mbps;
}

bool smd_context_streams(struct smd_context *context)
{
	bool streams;

	smd_progress_lock(&context->progress);
	streams = context->streams;
	smd_progress_unlock(&context->progress);
	return streams;
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
	smd_context_free_remotes(context);
	smd_server_file_end(&context->server_file);
	if (context->deadline) {
		event_free(context->deadline);
	}
	if (context->settle) {
		event_free(context->settle);
	}
	if (context->begin) {
		event_free(context->begin);
	}
	/* One more turn, for what is freed at the end of a turn. */
	event_base_loop(context->progress.base, EVLOOP_NONBLOCK);
	smd_staging_destroy(&context->staging);
	smd_registrations_destroy(&context->registrations);
	smd_undos_destroy(&context->undos);
	smd_known_memory_destroy(&context->known);
	smd_deal_destroy(&context->deal);
	free(context->shards);
	smd_progress_destroy(&context->progress);
	smd_config_free(&context->config);
	smd_object_end(SMD_OBJECT_CONTEXT, context);
}
