/* Keeps the process's context, and replaces one that has lost a server. */
#include "worker/nccl_plugin/reach.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "worker/libsummand/context.h"

struct smd_reach {
	smd_context *context;
	unsigned users;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct smd_reach *current; /* what the next user gets, unless it has failed */

static bool reach_has_failed(const struct smd_reach *reach)
{
	struct smd_progress *progress = &reach->context->progress;
	bool failed;

	smd_progress_lock(progress);
	failed = reach->context->err != 0;
	smd_progress_unlock(progress);
	return failed;
}

static int reach_create(unsigned timeout_s, struct smd_reach **out, struct smd_error *error)
{
	const struct smd_context_options options = {.connect_timeout_s = timeout_s};
	struct smd_reach *reach = calloc(1, sizeof(*reach));
	int ret;

	if (!reach) {
		return smd_error_set(error, ENOMEM, "out of memory");
	}
	ret = smd_context_create(&options, &reach->context);
	if (ret) {
		smd_error_set(error, -ret, "%s", smd_error_message());
		free(reach);
		return ret;
	}
	*out = reach;
	return 0;
}

int smd_reach_get(unsigned timeout_s, struct smd_reach **out, struct smd_error *error)
{
	int ret = 0;

	pthread_mutex_lock(&lock);
	if (!current || reach_has_failed(current)) {
		struct smd_reach *fresh;

		ret = reach_create(timeout_s, &fresh, error);
		if (ret == 0) {
			current = fresh; /* one that has failed belongs to its users alone */
		}
	}
	if (ret == 0) {
		current->users++;
		*out = current;
	}
	pthread_mutex_unlock(&lock);
	return ret;
}

void smd_reach_put(struct smd_reach *reach)
{
	bool last;

	pthread_mutex_lock(&lock);
	last = --reach->users == 0;
	if (last && current == reach) {
		current = NULL;
	}
	pthread_mutex_unlock(&lock);
	if (last) {
		smd_context_destroy(reach->context);
		free(reach);
	}
}

smd_context *smd_reach_context(const struct smd_reach *reach)
{
	return reach->context;
}
