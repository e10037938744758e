/* Starts the runners of jobs that have room. */
#include "orchestrator/service/scheduler.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "orchestrator/service/admission.h"
#include "orchestrator/service/filter.h"
#include "orchestrator/service/launches.h"
#include "orchestrator/service/preemption.h"
#include "orchestrator/service/room.h"
#include "orchestrator/service/spawn.h"
#include "orchestrator/store/abandoned.h"
#include "reduction_server/base/clock.h"
#include "reduction_server/base/log.h"

#define SETTLE_S               5 /* how often jobs are looked for whose runner is gone */
#define ATTEMPTS_MAX           3 /* to start a runner */
#define RETRY_S                2
#define REST                   9 /* times what a look took */
#define ENDING_S               60 /* beyond its time limit a job may take that to end */
#define CODE_DEADLINE_EXCEEDED 4
#define CODE_UNAVAILABLE       14

struct queue_item {
	int64_t id;
	int is_waiting;
	struct smd_demand demand;
	int priority;
	enum smd_preemption preemption;
	int is_preempted;
	int64_t lasts_s;
	int64_t waits_since_ns;
	int64_t began_s;
	int64_t max_wait_s;
	char *devices;
	const struct smd_quota *quota; /* of its project; NULL: it has none */
};

struct smd_scheduler {
	struct smd_store *store;
	const struct smd_service_options *options;
	struct smd_room room;
	int64_t version; /* of the store, at the last look */
	uint64_t rests_until_ns; /* after a look, which a long queue makes long */
	uint64_t settled_ns;
	int is_woken;
	int64_t expires_ns; /* when the first that waits will have waited for too long */
	struct smd_launches launches;
	uint64_t started;
	uint64_t given_up;
	uint64_t preempted;
	/* Of one look: */
	struct queue_item *items;
	size_t nitems;
	size_t size;
};

int smd_scheduler_open(struct smd_store *store, const struct smd_service_options *options,
	struct smd_scheduler **out, struct smd_error *error)
{
	struct smd_scheduler *scheduler = calloc(1, sizeof(*scheduler));
	int ret;

	if (!scheduler) {
		return smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
	}
	scheduler->store = store;
	scheduler->options = options;
	scheduler->version = -1;
	scheduler->is_woken = 1;
	scheduler->expires_ns = INT64_MAX;
	ret = smd_room_open(&scheduler->room, &options->capacity, error);
	if (ret) {
		free(scheduler);
		return ret;
	}
	ret = smd_queue_preempt_again(store, error);
	if (ret) {
		smd_scheduler_close(scheduler);
		return ret;
	}
	*out = scheduler;
	return 0;
}

static void clear_items(struct smd_scheduler *scheduler)
{
	for (size_t i = 0; i < scheduler->nitems; i++) {
		free(scheduler->items[i].devices);
	}
	scheduler->nitems = 0;
}

void smd_scheduler_close(struct smd_scheduler *scheduler)
{
	smd_launches_clear(&scheduler->launches);
	clear_items(scheduler);
	free(scheduler->items);
	smd_room_close(&scheduler->room);
	free(scheduler);
}

const struct smd_demand *smd_scheduler_capacity(const struct smd_scheduler *scheduler)
{
	return &scheduler->room.capacity;
}

static const struct smd_quota *quota_of(const struct smd_scheduler *scheduler, const char *project)
{
	const struct smd_service_options *options = scheduler->options;

	for (size_t i = 0; i < options->nquotas; i++) {
		if (strcmp(options->quotas[i].project, project) == 0) {
			return &options->quotas[i];
		}
	}
	return NULL;
}

const struct smd_demand *smd_scheduler_refuses(
	const struct smd_scheduler *scheduler, const char *project, const struct smd_demand *demand)
{
	const struct smd_quota *quota = quota_of(scheduler, project);

	if (quota && !smd_admission_fits(&quota->limit, demand)) {
		return &quota->limit;
	}
	if (!scheduler->options->begins_at_once &&
		!smd_admission_fits(&scheduler->room.capacity, demand)) {
		return &scheduler->room.capacity;
	}
	return NULL;
}

void smd_scheduler_figures(const struct smd_scheduler *scheduler, struct smd_queue_figures *out)
{
	*out = (struct smd_queue_figures){.started = scheduler->started,
		.given_up = scheduler->given_up,
		.preempted = scheduler->preempted,
		.capacity = scheduler->room.capacity};
	for (size_t i = 0; i < scheduler->nitems; i++) {
		const struct queue_item *item = &scheduler->items[i];

		if (item->is_waiting) {
			out->waiting++;
			continue;
		}
		out->begun++;
		smd_admission_take(&out->taken, &item->demand, -1);
	}
}

void smd_scheduler_wake(struct smd_scheduler *scheduler)
{
	scheduler->is_woken = 1;
}

/* ---- reading the queue ---- */

static int64_t ns_of(const char *time)
{
	int64_t ns = 0;

	if (time) {
		smd_filter_time(time, &ns);
	}
	return ns;
}

/* As the store's times are counted. */
static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec * (int64_t)SMD_SECOND_NS + now.tv_nsec;
}

static int take_item(void *arg, const struct smd_queued_job *job)
{
	struct smd_scheduler *scheduler = arg;
	struct queue_item *item;

	if (scheduler->nitems == scheduler->size) {
		size_t size = scheduler->size ? 2 * scheduler->size : 64;
		void *items = realloc(scheduler->items, size * sizeof(*scheduler->items));

		if (!items) {
			return -ENOMEM;
		}
		scheduler->items = items;
		scheduler->size = size;
	}
	item = &scheduler->items[scheduler->nitems++];
	*item = (struct queue_item){.id = job->id,
		.is_waiting = job->is_waiting,
		.demand = job->demand,
		.priority = job->priority,
		.lasts_s = job->timeout_s + ENDING_S,
		.preemption = job->preemption,
		.is_preempted = job->is_preempted,
		.waits_since_ns = ns_of(job->wait_time),
		.began_s = ns_of(job->begin_time) / (int64_t)SMD_SECOND_NS,
		.max_wait_s = job->max_wait_s,
		.quota = quota_of(scheduler, job->project),
		.devices = job->devices ? strdup(job->devices) : NULL};
	return 0;
}

/* Those whose job does not wait any more have done what they were started for. */
static void forget_launched(struct smd_scheduler *scheduler)
{
	for (size_t i = 0; i < scheduler->nitems; i++) {
		struct smd_started_runner *launch =
			scheduler->items[i].is_waiting
				? smd_launches_find(&scheduler->launches, scheduler->items[i].id)
				: NULL;

		if (launch) {
			launch->is_wanted = 1;
		}
	}
	smd_launches_keep_wanted(&scheduler->launches);
}

static int read_queue(struct smd_scheduler *scheduler)
{
	struct smd_error error = {""};
	int ret;

	clear_items(scheduler);
	ret = smd_queue_each(scheduler->store, take_item, scheduler, &error);
	if (ret) {
		smd_log(SMD_LOG_WARN, "queue", "it cannot be read: %s",
			*error.text ? error.text : strerror(-ret));
		return ret;
	}
	forget_launched(scheduler);
	return 0;
}

/* ---- ending what waits in vain ---- */

static void end_item(struct smd_scheduler *scheduler, const struct queue_item *item, int code,
	const char *message)
{
	struct smd_error error = {""};
	int ret = smd_queue_end(
		scheduler->store, item->id, "JOB_STATE_FAILED", code, message, &error);

	if (ret && ret != -EALREADY) {
		smd_log(SMD_LOG_WARN, "queue", "%" PRId64 ": %s", item->id, error.text);
	}
	smd_log(SMD_LOG_INFO, "queue", "%" PRId64 ": %s", item->id, message);
	scheduler->given_up++;
	scheduler->is_woken = 1;
}

/* A duration may be as long as one likes. */
static int64_t expiry_of(const struct queue_item *item)
{
	int64_t most_s = (INT64_MAX - item->waits_since_ns) / (int64_t)SMD_SECOND_NS;

	return item->max_wait_s == 0 || item->max_wait_s > most_s
		       ? INT64_MAX
		       : item->waits_since_ns + item->max_wait_s * (int64_t)SMD_SECOND_NS;
}

/* 1: it waits no longer. */
static int has_expired(
	struct smd_scheduler *scheduler, const struct queue_item *item, int64_t now)
{
	int64_t expiry = expiry_of(item);
	char message[160];

	if (now < expiry) {
		scheduler->expires_ns =
			expiry < scheduler->expires_ns ? expiry : scheduler->expires_ns;
		return 0;
	}
	snprintf(message, sizeof(message),
		"There was no room for the job within its maxWaitDuration of %" PRId64 " s.",
		item->max_wait_s);
	end_item(scheduler, item, CODE_DEADLINE_EXCEEDED, message);
	return 1;
}

/* ---- starting ---- */

/* Whether a runner is on its way to the job, or was too often, or is to be waited with. */
static int is_on_its_way(struct smd_scheduler *scheduler, const struct queue_item *item)
{
	const struct smd_started_runner *launched = smd_launches_find(&scheduler->launches, item->id);

	return launched && launched->pid;
}

static int must_rest(struct smd_scheduler *scheduler, const struct queue_item *item)
{
	const struct smd_started_runner *launched = smd_launches_find(&scheduler->launches, item->id);

	return launched && !launched->pid &&
	       smd_clock_ns() - launched->ended_ns < RETRY_S * SMD_SECOND_NS;
}

/* GPUs that no other job has, as CUDA_VISIBLE_DEVICES names them. NULL: it needs none of its own.
 */
static char *choose_devices(struct smd_scheduler *scheduler, const struct queue_item *item)
{
	const char **taken = calloc(scheduler->nitems + scheduler->launches.count + 1, sizeof(*taken));
	size_t count = 0;
	char *devices = NULL;

	for (size_t i = 0; taken && i < scheduler->nitems; i++) {
		if (scheduler->items[i].devices) {
			taken[count++] = scheduler->items[i].devices;
		}
	}
	for (size_t i = 0; taken && i < scheduler->launches.count; i++) {
		if (scheduler->launches.list[i].devices) {
			taken[count++] = scheduler->launches.list[i].devices;
		}
	}
	if (taken && item->demand.gpus > 0 && scheduler->options->deals_gpus) {
		devices =
			smd_room_devices(&scheduler->room, (size_t)item->demand.gpus, taken, count);
	}
	free(taken);
	return devices;
}

static void launch(struct smd_scheduler *scheduler, const struct queue_item *item)
{
	struct smd_started_runner *launched = smd_launches_add(&scheduler->launches, item->id);
	pid_t pid;

	if (!launched) {
		return;
	}
	if (launched->attempts++ == ATTEMPTS_MAX) {
		end_item(scheduler, item, CODE_UNAVAILABLE,
			"No runner could be started for the job; the service's log says why.");
		return;
	}
	launched->devices = choose_devices(scheduler, item);
	pid = smd_spawn_runner(item->id, launched->devices, scheduler->options);
	if (pid < 0) {
		smd_log(SMD_LOG_WARN, "queue", "%" PRId64 ": its runner: %s", item->id,
			strerror((int)-pid));
		launched->ended_ns = smd_clock_ns();
		return;
	}
	launched->pid = pid;
	scheduler->started++;
}

/* Those that wait, in the order in which they are served: the queue has them as they came. */
static int precedes(const void *a, const void *b)
{
	const struct queue_item *one = *(const struct queue_item *const *)a;
	const struct queue_item *other = *(const struct queue_item *const *)b;

	if (one->priority != other->priority) {
		return one->priority > other->priority ? -1 : 1;
	}
	return one < other ? -1 : one > other;
}

/* One look's worth of memory. */
struct line {
	struct smd_at_work *running;
	const struct queue_item **runners; /* whose these are */
	size_t nrunning;
	const struct queue_item **items;
	struct smd_in_line *waiting;
	size_t nwaiting;
	struct smd_demand left[SMD_QUOTAS_MAX]; /* of quotas */
};

/* Takes it out of what is left of its project's quota. 0: that is too little. */
static int draw_quota(
	const struct smd_scheduler *scheduler, struct line *line, const struct queue_item *item)
{
	struct smd_demand *left;

	if (!item->quota) {
		return 1;
	}
	left = &line->left[item->quota - scheduler->options->quotas];
	if (item->is_waiting && !smd_admission_fits(left, &item->demand)) {
		return 0;
	}
	smd_admission_take(left, &item->demand, 1);
	return 1;
}

/* A project that has used up its quota is in nobody's way: its jobs leave the line. */
static void keep_quotas(const struct smd_scheduler *scheduler, struct line *line)
{
	size_t kept = 0;

	for (size_t i = 0; i < line->nwaiting; i++) {
		if (draw_quota(scheduler, line, line->items[i])) {
			line->items[kept++] = line->items[i];
		}
	}
	line->nwaiting = kept;
}

static struct smd_at_work at_work(const struct queue_item *item, int64_t now_s)
{
	int64_t ends_s = (item->is_waiting ? now_s : item->began_s) + item->lasts_s;

	return (struct smd_at_work){.demand = item->demand,
		.ends_s = item->is_preempted ? now_s + ENDING_S : ends_s,
		.priority = item->priority,
		.began_s = item->began_s,
		.may_be_preempted = !item->is_waiting && item->preemption != SMD_PREEMPTION_OFF,
		.is_leaving = item->is_preempted};
}

static void sort_items(struct smd_scheduler *scheduler, struct line *line, int64_t now)
{
	int64_t now_s = now / (int64_t)SMD_SECOND_NS;

	for (size_t i = 0; i < scheduler->options->nquotas; i++) {
		line->left[i] = scheduler->options->quotas[i].limit;
	}
	for (size_t i = 0; i < scheduler->nitems; i++) {
		const struct queue_item *item = &scheduler->items[i];

		if (!item->is_waiting || is_on_its_way(scheduler, item)) {
			draw_quota(scheduler, line, item);
			line->runners[line->nrunning] = item;
			line->running[line->nrunning++] = at_work(item, now_s);
		} else if (!has_expired(scheduler, item, now)) {
			line->items[line->nwaiting++] = item;
		}
	}
	qsort(line->items, line->nwaiting, sizeof(*line->items), precedes);
	keep_quotas(scheduler, line);
	for (size_t i = 0; i < line->nwaiting; i++) {
		line->waiting[i] = (struct smd_in_line){.demand = line->items[i]->demand,
			.priority = line->items[i]->priority,
			.lasts_s = line->items[i]->lasts_s};
	}
}

/* The job that has room next, and what is left beside those that begin before it. NULL: all begin. */
static const struct smd_in_line *find_next(
	const struct smd_scheduler *scheduler, const struct line *line, struct smd_demand *room)
{
	size_t i = 0;

	*room = scheduler->room.capacity;
	while (i < line->nwaiting && line->waiting[i].begins) {
		smd_admission_take(room, &line->waiting[i++].demand, 1);
	}
	return i < line->nwaiting ? &line->waiting[i] : NULL;
}

static void preempt(struct smd_scheduler *scheduler, const struct queue_item *item,
	const struct queue_item *other)
{
	struct smd_error error = {""};
	int ret = smd_queue_preempt(scheduler->store, item->id, other->id, &error);

	if (!ret) {
		smd_log(SMD_LOG_INFO, "queue", "%" PRId64 ": makes room for %" PRId64 ", priority %d",
			item->id, other->id, other->priority);
		scheduler->preempted++;
	} else if (ret != -EALREADY) {
		smd_log(SMD_LOG_WARN, "queue", "%s", error.text);
	}
}

/* Has running jobs make room for the next one. 1: some do. */
static int make_room(struct smd_scheduler *scheduler, struct line *line, int64_t now_s)
{
	struct smd_demand room;
	const struct smd_in_line *next = find_next(scheduler, line, &room);

	if (!next || smd_preemption_choose(&room, line->running, line->nrunning, next) <= 0) {
		return 0;
	}
	for (size_t i = 0; i < line->nrunning; i++) {
		if (line->running[i].is_preempted) {
			preempt(scheduler, line->runners[i], line->items[next - line->waiting]);
			line->running[i].ends_s = now_s + ENDING_S;
		}
	}
	return 1;
}

static int choose(struct smd_scheduler *scheduler, struct line *line, int64_t now_s)
{
	return smd_admission_choose(&scheduler->room.capacity, line->running, line->nrunning,
		line->waiting, line->nwaiting, now_s);
}

static void serve_line(struct smd_scheduler *scheduler, struct line *line, int64_t now_s)
{
	if (scheduler->options->begins_at_once) {
		for (size_t i = 0; i < line->nwaiting; i++) {
			line->waiting[i].begins = 1;
		}
	} else if (choose(scheduler, line, now_s) ||
		   /* What goes behind the next one is to let it begin then. */
		   (make_room(scheduler, line, now_s) && choose(scheduler, line, now_s))) {
		return;
	}
	for (size_t i = 0; i < line->nwaiting; i++) {
		if (line->waiting[i].begins && !must_rest(scheduler, line->items[i])) {
			launch(scheduler, line->items[i]);
		}
	}
}

static void look(struct smd_scheduler *scheduler)
{
	struct line line = {.nrunning = 0};
	int64_t now = now_ns();

	scheduler->is_woken = 0;
	scheduler->expires_ns = INT64_MAX;
	if (read_queue(scheduler)) {
		return;
	}
	line.running = calloc(scheduler->nitems + 1, sizeof(*line.running));
	line.runners = calloc(scheduler->nitems + 1, sizeof(*line.runners));
	line.items = calloc(scheduler->nitems + 1, sizeof(*line.items));
	line.waiting = calloc(scheduler->nitems + 1, sizeof(*line.waiting));
	if (line.running && line.runners && line.items && line.waiting) {
		sort_items(scheduler, &line, now);
		serve_line(scheduler, &line, now / (int64_t)SMD_SECOND_NS);
	}
	free(line.running);
	free(line.runners);
	free(line.items);
	free(line.waiting);
}

static void settle(struct smd_scheduler *scheduler, uint64_t now)
{
	struct smd_error error = {""};

	scheduler->settled_ns = now;
	if (smd_abandoned_end(scheduler->store, &error)) {
		smd_log(SMD_LOG_WARN, "queue", "jobs cannot be settled: %s", error.text);
	}
	scheduler->is_woken = 1;
}

void smd_scheduler_turn(struct smd_scheduler *scheduler)
{
	uint64_t now = smd_clock_ns();
	int64_t version;

	if (now < scheduler->rests_until_ns) {
		return;
	}
	version = smd_store_version(scheduler->store);
	if (scheduler->settled_ns == 0 || now - scheduler->settled_ns > SETTLE_S * SMD_SECOND_NS) {
		settle(scheduler, now);
	}
	if (scheduler->is_woken || version != scheduler->version ||
		now_ns() >= scheduler->expires_ns) {
		scheduler->version = version;
		look(scheduler);
		scheduler->rests_until_ns = smd_clock_ns() + REST * (smd_clock_ns() - now);
	}
}

void smd_scheduler_reap(struct smd_scheduler *scheduler)
{
	scheduler->is_woken |= smd_launches_reap(&scheduler->launches);
}
