/* Registers memory that its caller keeps mapped, with every lane. */
#include "worker/libsummand/registration.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "worker/libsummand/context.h"

/* What a caller asks of the owner of the progress engine. */
struct registering {
	struct smd_task task;
	struct smd_context *context;
	struct smd_extent memory;
	const struct smd_dmabuf *dmabuf; /* NULL: the memory is the host's */
	bool adds;                       /* else it removes */
	int ret;
	bool done; /* under the lock */
};

static struct smd_registration *registration_find(
	struct smd_registration_list *list, struct smd_extent memory)
{
	struct smd_registration *registration;

	LIST_FOREACH (registration, list, link) {
		if (registration->base == memory.base && registration->length == memory.length) {
			break;
		}
	}
	return registration;
}

static void registration_undo(struct smd_context *context, struct smd_extent memory)
{
	for (unsigned i = 0; i < context->nremotes; i++) {
		if (context->remotes[i]->lane) {
			smd_lane_deregister(context->remotes[i]->lane, memory);
		}
	}
}

static int registration_apply_to(
	struct smd_lane *lane, struct smd_extent memory, const struct smd_dmabuf *dmabuf)
{
	if (!dmabuf) {
		smd_lane_register(lane, memory, SMD_CHUNK_LIMIT);
		return 0;
	}
	return smd_lane_has_card(lane)
		       ? smd_lane_register_device(lane, memory, dmabuf->fd, dmabuf->offset)
		       : -ENOTSUP;
}

/* To all lanes, or none. */
static int registration_apply(
	struct smd_context *context, struct smd_extent memory, const struct smd_dmabuf *dmabuf)
{
	int ret = 0;

	for (unsigned i = 0; ret == 0 && i < context->nremotes; i++) {
		if (context->remotes[i]->lane) {
			ret = registration_apply_to(context->remotes[i]->lane, memory, dmabuf);
		}
	}
	if (ret) {
		registration_undo(context, memory);
	}
	return ret;
}

/*
 * Its address may stand for other memory by now, when somebody has freed it and has not said so
 * yet: an older dma-buf would go on to mean what was there before. What is under way keeps that.
 */
static int registration_renew(
	struct smd_context *context, struct smd_extent memory, const struct smd_dmabuf *dmabuf)
{
	registration_undo(context, memory);
	return registration_apply(context, memory, dmabuf);
}

static int registration_add(
	struct smd_context *context, struct smd_extent memory, const struct smd_dmabuf *dmabuf)
{
	struct smd_registration *registration = registration_find(&context->registrations, memory);
	int ret;

	if (registration) {
		ret = registration->device && dmabuf ? registration_renew(context, memory, dmabuf)
						     : 0;
		registration->users += ret == 0;
		return ret;
	}
	registration = calloc(1, sizeof(*registration));
	if (!registration) {
		return -ENOMEM;
	}
	*registration = (struct smd_registration){
		.base = memory.base,
		.length = memory.length,
		.users = 1,
		.device = dmabuf != NULL,
	};
	ret = registration_apply(context, memory, dmabuf);
	if (ret) {
		free(registration);
		return ret;
	}
	smd_progress_lock(&context->progress);
	LIST_INSERT_HEAD(&context->registrations, registration, link);
	smd_progress_unlock(&context->progress);
	return 0;
}

static void registration_remove(struct smd_context *context, struct smd_extent memory)
{
	struct smd_registration *registration = registration_find(&context->registrations, memory);

	if (!registration || --registration->users) {
		return;
	}
	registration_undo(context, memory);
	smd_progress_lock(&context->progress);
	LIST_REMOVE(registration, link);
	smd_progress_unlock(&context->progress);
	free(registration);
}

static void registering_run(struct smd_task *task)
{
	struct registering *registering = (struct registering *)task;
	struct smd_context *context = registering->context;

	if (registering->adds) {
		registering->ret =
			registration_add(context, registering->memory, registering->dmabuf);
	} else {
		registration_remove(context, registering->memory);
	}
	smd_progress_lock(&context->progress);
	registering->done = true;
	smd_progress_publish(&context->progress);
}

static bool registering_done(const void *arg)
{
	return ((const struct registering *)arg)->done;
}

static int registering_ask(struct smd_context *context, struct registering *registering)
{
	static const struct smd_goal goal = {.done = registering_done};

	registering->task.run = registering_run;
	registering->context = context;
	smd_progress_await(&context->progress, &registering->task, &goal, registering, 0);
	return registering->ret;
}

int smd_context_register(
	struct smd_context *context, void *base, size_t length, const struct smd_dmabuf *dmabuf)
{
	struct registering call = {.memory = {base, length}, .dmabuf = dmabuf, .adds = true};

	return registering_ask(context, &call);
}

void smd_context_deregister(struct smd_context *context, void *base, size_t length)
{
	struct registering call = {.memory = {base, length}};

	(void)registering_ask(context, &call);
}

bool smd_context_is_device_registered(struct smd_context *context, const void *memory, size_t bytes)
{
	uintptr_t begin = (uintptr_t)memory;
	const struct smd_registration *registration;
	bool covered = false;

	smd_progress_lock(&context->progress);
	LIST_FOREACH (registration, &context->registrations, link) {
		uintptr_t base = (uintptr_t)registration->base;

		covered = covered ||
			  (registration->device && begin >= base && bytes <= registration->length &&
				  begin - base <= registration->length - bytes);
	}
	smd_progress_unlock(&context->progress);
	return covered;
}

void smd_registrations_destroy(struct smd_registration_list *list)
{
	while (!LIST_EMPTY(list)) {
		struct smd_registration *registration = LIST_FIRST(list);

		LIST_REMOVE(registration, link);
		free(registration);
	}
}
