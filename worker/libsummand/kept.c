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

static int kept_add(struct smd_context *context, struct smd_extent memory)
{
	struct smd_kept *kept = kept_find(&context->kept, memory);

	if (!kept) {
		kept = calloc(1, sizeof(*kept));
		if (!kept) {
			return -ENOMEM;
		}
		kept->base = memory.base;
		kept->length = memory.length;
		LIST_INSERT_HEAD(&context->kept, kept, link);
		for (unsigned i = 0; i < context->nremotes; i++) {
			if (context->remotes[i]->lane) {
				smd_lane_declare(
					context->remotes[i]->lane, memory, SMD_CHUNK_LIMIT);
			}
		}
	}
	kept->users++;
	return 0;
}

static void kept_remove(struct smd_context *context, struct smd_extent memory)
{
	struct smd_kept *kept = kept_find(&context->kept, memory);

	if (!kept || --kept->users) {
		return;
	}
	for (unsigned i = 0; i < context->nremotes; i++) {
		if (context->remotes[i]->lane) {
			smd_lane_retract(context->remotes[i]->lane, memory);
		}
	}
	LIST_REMOVE(kept, link);
	free(kept);
}

static void keeping_run(struct smd_task *task)
{
	struct keeping *keeping = (struct keeping *)task;
	struct smd_context *context = keeping->context;

	if (keeping->keep) {
		keeping->ret = kept_add(context, keeping->memory);
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

static int keeping_ask(struct smd_context *context, void *base, size_t length, bool keep)
{
	static const struct smd_goal goal = {.done = keeping_done};
	struct keeping keeping = {
		.task = {.run = keeping_run},
		.context = context,
		.memory = {base, length},
		.keep = keep,
	};

	smd_progress_await(&context->progress, &keeping.task, &goal, &keeping, 0);
	return keeping.ret;
}

int smd_context_keep(struct smd_context *context, void *base, size_t length)
{
	return keeping_ask(context, base, length, true);
}

void smd_context_keep_no_longer(struct smd_context *context, void *base, size_t length)
{
	(void)keeping_ask(context, base, length, false);
}

void smd_kept_destroy(struct smd_kept_list *list)
{
	while (!LIST_EMPTY(list)) {
		struct smd_kept *kept = LIST_FIRST(list);

		LIST_REMOVE(kept, link);
		free(kept);
	}
}
