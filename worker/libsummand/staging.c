/* Keeps the pool of stages, and devices with their fences. */
#include "worker/libsummand/staging.h"

#include <errno.h>
#include <stdlib.h>

#define STAGE_ALIGNMENT 4096u

/* ---- stages, on the owner of the progress engine ---- */

struct smd_stage *smd_staging_take(struct smd_staging *staging, struct smd_request *operation)
{
	struct smd_stage *stage = SLIST_FIRST(&staging->free);

	if (stage) {
		SLIST_REMOVE_HEAD(&staging->free, link);
		stage->operation = operation;
	}
	return stage;
}

struct smd_stage *smd_staging_take_send(struct smd_staging *staging, struct smd_request *operation)
{
	struct smd_stage *stage = NULL;

	if (staging->sending < staging->sending_max) {
		stage = smd_staging_take(staging, operation);
		staging->sending += stage != NULL;
	}
	return stage;
}

/* Whoever waits may go on, but not from here: the caller may be inside a lane's callback. */
void smd_staging_free(struct smd_staging *staging, struct smd_stage *stage)
{
	SLIST_INSERT_HEAD(&staging->free, stage, link);
	if (!TAILQ_EMPTY(&staging->waiting) && !staging->resuming) {
		staging->resuming = true;
		smd_progress_defer(staging->progress, &staging->resume);
	}
}

void smd_staging_free_send(struct smd_staging *staging, struct smd_stage *stage)
{
	staging->sending--;
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

/* ---- devices, on callers' threads ---- */

void smd_staging_put_fence(struct smd_staging *staging, struct smd_fence *fence)
{
	pthread_mutex_lock(&staging->lock);
	SLIST_INSERT_HEAD(&fence->device->idle_fences, fence, idle_link);
	pthread_mutex_unlock(&staging->lock);
}

/* The calls of this section down to smd_staging_take_device() are made with the lock. */
static int staging_make_stages(
	struct smd_staging *staging, struct smd_device *device, struct smd_error *error)
{
	size_t stride = (staging->deal->chunk_bytes + STAGE_ALIGNMENT - 1) / STAGE_ALIGNMENT *
			STAGE_ALIGNMENT;
	size_t n = staging->bytes / stride;
	struct smd_stage *stages;
	void *memory;
	int ret;

	n = n < 2 ? 2 : n;
	stages = calloc(n, sizeof(*stages));
	if (!stages) {
		return smd_error_set(error, ENOMEM, "out of memory");
	}
	ret = staging->ops->pin(device, n * stride, &memory, error);
	if (ret) {
		free(stages);
		return ret;
	}
	for (size_t i = 0; i < n; i++) {
		stages[i].memory = (uint8_t *)memory + i * stride;
		SLIST_INSERT_HEAD(&staging->free, &stages[i], link);
	}
	staging->pinned_by = device;
	staging->memory = memory;
	staging->sending_max = (unsigned)(n - n / 2);
	staging->stages = stages;
	return 0;
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
	ret = staging->ops->open(location, staging->progress, out, error);
	if (ret == 0) {
		SLIST_INSERT_HEAD(&staging->devices, *out, link);
	}
	return ret;
}

static int staging_take_fence(struct smd_staging *staging, struct smd_device *device,
	struct smd_fence **out, struct smd_error *error)
{
	int ret;

	*out = SLIST_FIRST(&device->idle_fences);
	if (*out) {
		SLIST_REMOVE_HEAD(&device->idle_fences, idle_link);
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
	struct smd_device **out, struct smd_fence **fence, struct smd_error *error)
{
	int ret;

	pthread_mutex_lock(&staging->lock);
	ret = staging_find_device(staging, location, out, error);
	if (ret == 0 && !staging->stages) {
		ret = staging_make_stages(staging, *out, error);
	}
	if (ret == 0 && fence) {
		ret = staging_take_fence(staging, *out, fence, error);
	}
	pthread_mutex_unlock(&staging->lock);
	return ret;
}

void smd_staging_create(struct smd_staging *staging, const struct smd_device_ops *ops,
	struct smd_progress *progress, const struct smd_deal *deal,
	const struct smd_remotes *remotes, uint64_t bytes)
{
	*staging = (struct smd_staging){
		.ops = ops,
		.progress = progress,
		.deal = deal,
		.bytes = bytes,
		.resume.run = staging_resume,
	};
	pthread_mutex_init(&staging->lock, NULL);
	smd_allocations_create(&staging->allocations, staging->ops, remotes);
	SLIST_INIT(&staging->devices);
	SLIST_INIT(&staging->free);
	TAILQ_INIT(&staging->waiting);
}

void smd_staging_destroy(struct smd_staging *staging)
{
	smd_allocations_destroy(&staging->allocations);
	if (staging->stages) {
		staging->ops->unpin(staging->pinned_by, staging->memory);
		free(staging->stages);
	}
	while (!SLIST_EMPTY(&staging->devices)) {
		struct smd_device *device = SLIST_FIRST(&staging->devices);

		SLIST_REMOVE_HEAD(&staging->devices, link);
		staging->ops->close(device);
	}
	pthread_mutex_destroy(&staging->lock);
}
