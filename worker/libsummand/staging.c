/* Keeps the pool of stages, and devices with their fences. */
#include "worker/libsummand/staging.h"

#include <errno.h>
#include <stdlib.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/log.h"

#define STAGE_ALIGNMENT 4096u
#define START_BYTES     4194304u  /* pinned at first, if the pool may be so large */
#define ASK_NS          10000000u /* between questions whether devices have failed */

static size_t staging_stride(const struct smd_staging *staging)
{
	return (staging->deal->chunk_bytes + STAGE_ALIGNMENT - 1) / STAGE_ALIGNMENT *
	       STAGE_ALIGNMENT;
}

/* ---- stages, on the owner of the progress engine ---- */

struct smd_stage *smd_staging_take(struct smd_staging *staging, struct smd_request *operation)
{
	struct smd_stage *stage = SLIST_FIRST(&staging->free);

	if (stage) {
		SLIST_REMOVE_HEAD(&staging->free, link);
		stage->operation = operation;
	} else {
		staging->scarce = true;
	}
	return stage;
}

struct smd_stage *smd_staging_take_send(struct smd_staging *staging, struct smd_request *operation)
{
	struct smd_stage *stage = NULL;

	if (staging->sending < staging->sending_max) {
		stage = smd_staging_take(staging, operation);
		staging->sending += stage != NULL;
	} else {
		staging->scarce = true;
	}
	return stage;
}

struct smd_stage *smd_staging_take_place(struct smd_staging *staging, struct smd_request *operation)
{
	struct smd_stage *stage = NULL;

	if (staging->places < staging->places_max) {
		stage = smd_staging_take(staging, operation);
		staging->places += stage != NULL;
	} else {
		staging->scarce = true;
	}
	return stage;
}

/* Whoever waits may go on, but not from here: the caller may be inside a lane's callback. */
static void staging_resume_soon(struct smd_staging *staging)
{
	if (!TAILQ_EMPTY(&staging->waiting) && !staging->resuming) {
		staging->resuming = true;
		smd_progress_defer(staging->progress, &staging->resume);
	}
}

void smd_staging_free(struct smd_staging *staging, struct smd_stage *stage)
{
	SLIST_INSERT_HEAD(&staging->free, stage, link);
	staging_resume_soon(staging);
}

void smd_staging_free_send(struct smd_staging *staging, struct smd_stage *stage)
{
	staging->sending--;
	smd_staging_free(staging, stage);
}

void smd_staging_keep_place(struct smd_staging *staging)
{
	staging->places--;
}

void smd_staging_free_place(struct smd_staging *staging, struct smd_stage *stage)
{
	staging->places--;
	smd_staging_free(staging, stage);
}

void smd_staging_wait(struct smd_staging *staging, struct smd_stage_waiter *waiter)
{
	if (!waiter->waits) {
		waiter->waits = true;
		TAILQ_INSERT_TAIL(&staging->waiting, waiter, link);
	}
}

void smd_staging_wait_no_longer(struct smd_staging *staging, struct smd_stage_waiter *waiter)
{
	if (waiter->waits) {
		waiter->waits = false;
		TAILQ_REMOVE(&staging->waiting, waiter, link);
	}
}

static void staging_resume(struct smd_task *task)
{
	struct smd_staging *staging =
		(struct smd_staging *)((char *)task - offsetof(struct smd_staging, resume));
	struct smd_stage_waiter *last = TAILQ_LAST(&staging->waiting, smd_stage_waiter_queue);
	struct smd_stage_waiter *waiter = NULL;

	staging->resuming = false;
	while (waiter != last) { /* whoever must wait again does so behind the last */
		waiter = TAILQ_FIRST(&staging->waiting);
		smd_staging_wait_no_longer(staging, waiter);
		waiter->resume(waiter);
	}
}

static void staging_receive_slab(struct smd_task *task)
{
	struct smd_stage_slab *slab = (struct smd_stage_slab *)task;
	struct smd_staging *staging = slab->staging;

	for (size_t i = 0; i < slab->count; i++) {
		SLIST_INSERT_HEAD(&staging->free, &slab->stages[i], link);
	}
	staging->count += slab->count;
	staging->sending_max = (unsigned)(staging->count - staging->count / 2);
	staging->places_max = (unsigned)(staging->count / 2 - 1);
	/* Without, cards copy through memory of their own. */
	(void)smd_registrations_declare(staging->registrations, staging, slab->memory,
		slab->count * staging_stride(staging));
	staging_resume_soon(staging);
}

/* ---- ends of work, on the owner ---- */

void smd_staging_watch(struct smd_staging *staging, struct smd_notice *notice)
{
	if (TAILQ_EMPTY(&staging->notices)) {
		staging->asked_ns = smd_clock_ns();
	}
	TAILQ_INSERT_TAIL(&staging->notices, notice, link);
}

/* Those that come to be watched meanwhile stand behind the last. */
static bool staging_look(struct smd_watch *watch)
{
	struct smd_staging *staging =
		(struct smd_staging *)((char *)watch - offsetof(struct smd_staging, watch));
	struct smd_notice *last = TAILQ_LAST(&staging->notices, smd_notice_queue);
	struct smd_notice *next = TAILQ_FIRST(&staging->notices);
	bool thoroughly = last && smd_clock_ns() - staging->asked_ns > ASK_NS;
	struct smd_notice *notice = NULL;

	while (notice != last) {
		notice = next;
		next = TAILQ_NEXT(notice, link);
		if (staging->ops->over(notice, thoroughly)) {
			TAILQ_REMOVE(&staging->notices, notice, link);
			staging->progress->arrivals++;
			notice->ended(notice);
		}
	}
	if (thoroughly) {
		staging->asked_ns = smd_clock_ns();
	}
	return !TAILQ_EMPTY(&staging->notices);
}

/* ---- devices, on callers' threads ---- */

void smd_staging_put_fence(struct smd_staging *staging, struct smd_fence *fence)
{
	pthread_mutex_lock(&staging->idle);
	SLIST_INSERT_HEAD(&fence->device->idle_fences, fence, idle_link);
	pthread_mutex_unlock(&staging->idle);
}

/* The calls of this section down to smd_staging_take_device() are made with `making`. */
static int staging_add_slab(
	struct smd_staging *staging, struct smd_device *device, size_t n, struct smd_error *error)
{
	struct smd_stage_slab *slab = calloc(1, sizeof(*slab) + n * sizeof(slab->stages[0]));
	size_t stride = staging_stride(staging);
	void *memory;
	int ret;

	if (!slab) {
		return smd_error_set(error, ENOMEM, "out of memory");
	}
	ret = staging->ops->pin(device, n * stride, &memory, error);
	if (ret) {
		free(slab);
		return ret;
	}
	slab->task.run = staging_receive_slab;
	slab->staging = staging;
	slab->device = device;
	slab->memory = memory;
	slab->count = n;
	for (size_t i = 0; i < n; i++) {
		slab->stages[i].memory = slab->memory + i * stride;
	}
	SLIST_INSERT_HEAD(&staging->slabs, slab, link);
	staging->pinned += n;
	smd_progress_defer(staging->progress, &slab->task);
	return 0;
}

/* How many stages there should be for an operation of so many bytes: its chunks and their results;
 * and twice as many as before, where that was too few. */
static size_t staging_wanted(const struct smd_staging *staging, size_t bytes)
{
	size_t stride = staging_stride(staging);
	size_t limit = staging->bytes / stride;
	size_t wanted = bytes / stride < limit ? 2 * (bytes / stride + 1) : limit;

	if (staging->scarce && wanted < 2 * staging->pinned) {
		wanted = 2 * staging->pinned;
	}
	if (wanted < START_BYTES / stride) {
		wanted = START_BYTES / stride;
	}
	wanted = wanted < limit ? wanted : limit;
	return wanted < 2 ? 2 : wanted;
}

/* With some stages all works, if slower. */
static int staging_grow(struct smd_staging *staging, struct smd_device *device, size_t bytes,
	struct smd_error *error)
{
	size_t wanted = staging_wanted(staging, bytes);
	struct smd_error why = {""};
	int ret;

	if (wanted <= staging->pinned) {
		return 0;
	}
	staging->scarce = false;
	ret = staging_add_slab(staging, device, wanted - staging->pinned, &why);
	if (ret && staging->pinned) {
		smd_log(SMD_LOG_WARN, "libsummand",
			"%zu KiB of pinned memory must be enough, there is no more: %s",
			staging->pinned * staging_stride(staging) >> 10, why.text);
		staging->bytes = staging->pinned * staging_stride(staging);
		return 0;
	}
	return ret ? smd_error_set(error, -ret, "%s", why.text) : 0;
}

static int staging_find_device(struct smd_staging *staging,
	const struct smd_device_location *location, struct smd_device **out,
	struct smd_error *error)
{
	struct smd_device *device;
	int ret;

	SLIST_FOREACH(device, &staging->devices, link)
	{
		if (device->location.ordinal == location->ordinal &&
			device->location.context == location->context) {
			*out = device;
			return 0;
		}
	}
	ret = staging->ops->open(location, out, error);
	if (ret == 0) {
		SLIST_INSERT_HEAD(&staging->devices, *out, link);
	}
	return ret;
}

static int staging_take_fence(struct smd_staging *staging, struct smd_device *device,
	struct smd_fence **out, struct smd_error *error)
{
	int ret;

	pthread_mutex_lock(&staging->idle);
	*out = SLIST_FIRST(&device->idle_fences);
	if (*out) {
		SLIST_REMOVE_HEAD(&device->idle_fences, idle_link);
	}
	pthread_mutex_unlock(&staging->idle);
	if (*out) {
		return 0;
	}
	ret = staging->ops->fence_create(device, out, error);
	if (ret == 0) {
		(*out)->owner = staging;
		SLIST_INSERT_HEAD(&device->fences, *out, link);
	}
	return ret;
}

int smd_staging_take_device(struct smd_staging *staging, const struct smd_device_location *location,
	size_t bytes, struct smd_device **out, struct smd_fence **fence, struct smd_error *error)
{
	int ret;

	pthread_mutex_lock(&staging->making);
	ret = staging_find_device(staging, location, out, error);
	if (ret == 0) {
		ret = staging_grow(staging, *out, bytes, error);
	}
	if (ret == 0 && fence) {
		ret = staging_take_fence(staging, *out, fence, error);
	}
	pthread_mutex_unlock(&staging->making);
	return ret;
}

void smd_staging_create(struct smd_staging *staging, const struct smd_device_ops *ops,
	struct smd_progress *progress, const struct smd_deal *deal,
	const struct smd_remotes *remotes, struct smd_registrations *registrations, uint64_t bytes)
{
	*staging = (struct smd_staging){
		.ops = ops,
		.progress = progress,
		.registrations = registrations,
		.deal = deal,
		.bytes = bytes,
		.resume.run = staging_resume,
		.watch.look = staging_look,
	};
	pthread_mutex_init(&staging->making, NULL);
	pthread_mutex_init(&staging->idle, NULL);
	smd_allocations_create(&staging->allocations, staging->ops, remotes);
	SLIST_INIT(&staging->devices);
	SLIST_INIT(&staging->slabs);
	SLIST_INIT(&staging->free);
	TAILQ_INIT(&staging->notices);
	TAILQ_INIT(&staging->waiting);
	if (ops) {
		progress->watch = &staging->watch;
	}
}

void smd_staging_destroy(struct smd_staging *staging)
{
	smd_allocations_destroy(&staging->allocations);
	while (!SLIST_EMPTY(&staging->slabs)) {
		struct smd_stage_slab *slab = SLIST_FIRST(&staging->slabs);

		SLIST_REMOVE_HEAD(&staging->slabs, link);
		staging->ops->unpin(slab->device, slab->memory);
		free(slab);
	}
	while (!SLIST_EMPTY(&staging->devices)) {
		struct smd_device *device = SLIST_FIRST(&staging->devices);

		SLIST_REMOVE_HEAD(&staging->devices, link);
		staging->ops->close(device);
	}
	pthread_mutex_destroy(&staging->idle);
	pthread_mutex_destroy(&staging->making);
}
