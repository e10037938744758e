/* Keeps the process's context, and replaces one that has lost a server. */
#include "worker/nccl_plugin/collnet/shared_context.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "worker/libsummand/context.h"

struct smd_shared_context {
	smd_context *context;
	unsigned users;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t connected = PTHREAD_COND_INITIALIZER;
static struct smd_shared_context *current; /* what the next user gets, unless it has failed */
static bool connecting; /* one user does; what comes of it is for all that wait */

static struct {
	unsigned count;
	int err;
	struct smd_error error; /* of the last one */
} failures;

static bool shared_context_has_failed(const struct smd_shared_context *shared)
{
	struct smd_progress *progress = &shared->context->progress;
	bool failed;

	smd_progress_lock(progress);
	failed = shared->context->err != 0;
	smd_progress_unlock(progress);
	return failed;
}

static int shared_context_create(
	unsigned timeout_s, struct smd_shared_context **out, struct smd_error *error)
{
	const struct smd_context_options options = {.connect_timeout_s = timeout_s};
	struct smd_shared_context *shared = calloc(1, sizeof(*shared));
	int ret;

	if (!shared) {
		return smd_error_set(error, ENOMEM, "out of memory");
	}
	/* A call of the driver may wait for the device, whose kernel waits for this thread. */
	ret = smd_context_create_without_devices(&options, &shared->context);
	if (ret) {
		smd_error_set(error, -ret, "%s", smd_error_message());
		free(shared);
		return ret;
	}
	*out = shared;
	return 0;
}

/* With the lock held, but not while it connects. */
static void shared_context_connect(unsigned timeout_s)
{
	struct smd_error error = {""};
	struct smd_shared_context *fresh;
	int ret;

	connecting = true;
	pthread_mutex_unlock(&lock);
	ret = shared_context_create(timeout_s, &fresh, &error);
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

int smd_shared_context_get(
	unsigned timeout_s, struct smd_shared_context **out, struct smd_error *error)
{
	unsigned before;
	int ret = 0;

	pthread_mutex_lock(&lock);
	before = failures.count;
	while (connecting) {
		pthread_cond_wait(&connected, &lock);
	}
	if (failures.count == before && (!current || shared_context_has_failed(current))) {
		shared_context_connect(timeout_s);
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

void smd_shared_context_put(struct smd_shared_context *shared)
{
	bool last;

	pthread_mutex_lock(&lock);
	last = --shared->users == 0;
	if (last && current == shared) {
		current = NULL;
	}
	pthread_mutex_unlock(&lock);
	if (last) {
		smd_context_destroy(shared->context);
		free(shared);
	}
}

smd_context *smd_shared_context_get_context(const struct smd_shared_context *shared)
{
	return shared->context;
}
