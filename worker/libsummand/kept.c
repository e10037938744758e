/* Tells lanes of memory that stays. */
#include "worker/libsummand/kept.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "worker/libsummand/context.h"

/* What a caller asks of whoever has the turn. */
struct keeping {
	struct smd_task task;
	struct smd_context *context;
	struct smd_extent memory;
	const struct smd_dmabuf *dmabuf; /* NULL: the memory is the host's */
	bool keep;
	int ret;
	bool done; /* under the lock */
};

static struct smd_kept *kept_find(struct smd_kept_list *list, struct smd_extent memory)
{
	struct smd_kept *kept;

	LIST_FOREACH (kept, list, link) {
		if (kept->base == memory.base && kept->length == memory.length) {
			break;
		}
	}
	return kept;
}

static void kept_retract(struct smd_context *context, struct smd_extent memory)
{
	for (unsigned i = 0; i < context->nremotes; i++) {
		if (context->remotes[i]->lane) {
			smd_lane_deregister(context->remotes[i]->lane, memory);
		}
	}
}

static int kept_declare_to(
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
static int kept_declare(
	struct smd_context *context, struct smd_extent memory, const struct smd_dmabuf *dmabuf)
{
	int ret = 0;

	for (unsigned i = 0; ret == 0 && i < context->nremotes; i++) {
		if (context->remotes[i]->lane) {
			ret = kept_declare_to(context->remotes[i]->lane, memory, dmabuf);
		}
	}
	if (ret) {
		kept_retract(context, memory);
	}
	return ret;
}

/*
 * Its address may stand for other memory by now, when somebody has freed it and has not said so
 * yet: an older dma-buf would go on to mean what was there before. What is under way keeps that.
 */
static int kept_renew(
	struct smd_context *context, struct smd_extent memory, const struct smd_dmabuf *dmabuf)
{
	kept_retract(context, memory);
	return kept_declare(context, memory, dmabuf);
}

static int kept_add(
	struct smd_context *context, struct smd_extent memory, const struct smd_dmabuf *dmabuf)
{
	struct smd_kept *kept = kept_find(&context->kept, memory);
	int ret;

	if (kept) {
		ret = kept->device && dmabuf ? kept_renew(context, memory, dmabuf) : 0;
		kept->users += ret == 0;
		return ret;
	}
	kept = calloc(1, sizeof(*kept));
	if (!kept) {
		return -ENOMEM;
	}
	*kept = (struct smd_kept){
		.base = memory.base,
		.length = memory.length,
		.users = 1,
		.device = dmabuf != NULL,
	};
	ret = kept_declare(context, memory, dmabuf);
	if (ret) {
		free(kept);
		return ret;
	}
	smd_progress_lock(&context->progress);
	LIST_INSERT_HEAD(&context->kept, kept, link);
	smd_progress_unlock(&context->progress);
	return 0;
}

static void kept_remove(struct smd_context *context, struct smd_extent memory)
{
	struct smd_kept *kept = kept_find(&context->kept, memory);

	if (!kept || --kept->users) {
		return;
	}
	kept_retract(context, memory);
	smd_progress_lock(&context->progress);
	LIST_REMOVE(kept, link);
	smd_progress_unlock(&context->progress);
	free(kept);
}

static void keeping_run(struct smd_task *task)
{
	struct keeping *keeping = (struct keeping *)task;
	struct smd_context *context = keeping->context;

	if (keeping->keep) {
		keeping->ret = kept_add(context, keeping->memory, keeping->dmabuf);
	} else {
		kept_remove(context, keeping->memory);
	}
	smd_progress_lock(&context->progress);
	keeping->done = true;
	smd_progress_publish(&context->progress);
}

static bool keeping_done(const void *arg)
{
	return ((const struct keeping *)arg)->done;
}

static int keeping_ask(struct smd_context *context, struct keeping *keeping)
{
	static const struct smd_goal goal = {.done = keeping_done};

	keeping->task.run = keeping_run;
	keeping->context = context;
	smd_progress_await(&context->progress, &keeping->task, &goal, keeping, 0);
	return keeping->ret;
}

int smd_context_keep(
	struct smd_context *context, void *base, size_t length, const struct smd_dmabuf *dmabuf)
{
	struct keeping keeping = {.memory = {base, length}, .dmabuf = dmabuf, .keep = true};

	return keeping_ask(context, &keeping);
}

void smd_context_keep_no_longer(struct smd_context *context, void *base, size_t length)
{
	struct keeping keeping = {.memory = {base, length}};

	(void)keeping_ask(context, &keeping);
}

bool smd_context_keeps_device(struct smd_context *context, const void *memory, size_t bytes)
{
	uintptr_t begin = (uintptr_t)memory;
	const struct smd_kept *kept;
	bool keeps = false;

	smd_progress_lock(&context->progress);
	LIST_FOREACH (kept, &context->kept, link) {
		uintptr_t base = (uintptr_t)kept->base;

		keeps = keeps || (kept->device && begin >= base && bytes <= kept->length &&
					 begin - base <= kept->length - bytes);
	}
	smd_progress_unlock(&context->progress);
	return keeps;
}

void smd_kept_destroy(struct smd_kept_list *list)
{
	while (!LIST_EMPTY(list)) {
		struct smd_kept *kept = LIST_FIRST(list);

		LIST_REMOVE(kept, link);
		free(kept);
	}
}
