/* Keeps the process's context, and replaces one that has lost a server. */
#include "worker/nccl_plugin/collnet/shared_context.h"

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
static pthread_cond_t connected = PTHREAD_COND_INITIALIZER;
static struct smd_reach *current; /* what the next user gets, unless it has failed */
static bool connecting;           /* one user does; what comes of it is for all that wait */

static struct {
	unsigned count;
	int err;
	struct smd_error error; /* of the last one */
} failures;

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

/* With the lock held, but not while it connects. */
static void reach_connect(unsigned timeout_s)
{
	struct smd_error error = {""};
	struct smd_reach *fresh;
	int ret;

	connecting = true;
	pthread_mutex_unlock(&lock);
	ret = reach_create(timeout_s, &fresh, &error);
	pthread_mutex_lock(&lock);
	connecting = false;
	if (ret) {
		failures.count++;
		failures.err = ret;
		failures.error = error;
	} else {
		current = fresh; /* one that has failed belongs to its users alone */
	}
	pthread_cond_broadcast(&connected);
}

int smd_reach_get(unsigned timeout_s, struct smd_reach **out, struct smd_error *error)
{
	unsigned before;
	int ret = 0;

	pthread_mutex_lock(&lock);
	before = failures.count;
	while (connecting) {
		pthread_cond_wait(&connected, &lock);
	}
	if (failures.count == before && (!current || reach_has_failed(current))) {
		reach_connect(timeout_s);
	}
	if (failures.count == before) {
		current->users++;
		*out = current;
	} else { /* here, or where this one waited */
		ret = smd_error_set(error, -failures.err, "%s", failures.error.text);
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
