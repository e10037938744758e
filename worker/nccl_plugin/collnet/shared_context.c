/* Keeps the process's contexts, and replaces one that has lost a server. */
#include "worker/nccl_plugin/collnet/shared_context.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "worker/libsummand/context.h"

/* What is shared by way of a loop of a device. */
struct rail {
	struct smd_shared_context *current; /* what the next user gets, unless it has failed */
	bool connecting; /* one user does; what comes of it is for all that wait */
	struct {
		unsigned count;
		int err;
		struct smd_error error; /* of the last one */
	} failures;
};

struct smd_shared_context {
	smd_context *context;
	struct rail *rail;
	unsigned users;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t connected = PTHREAD_COND_INITIALIZER;
static struct rail rails[SMD_INTERFACES_MAX][SMD_LOOPS_MAX]; /* by the device's number, and the loop's */

static bool shared_context_has_failed(const struct smd_shared_context *shared)
{
	struct smd_progress *progress = &shared->context->progress;
	bool failed;

	smd_progress_lock(progress);
	failed = shared->context->err != 0;
	smd_progress_unlock(progress);
	return failed;
}

static int shared_context_create(const struct smd_nccl_device *device, unsigned loop,
	unsigned timeout_s, struct smd_shared_context **out, struct smd_error *error)
{
	/* NCCL does not call while it has nothing to do, and servers want to hear of this node all
	 * the same: whatever SUMMAND_PROGRESS says, there is a thread. */
	const struct smd_context_options options = {
		.connect_timeout_s = timeout_s, .progress = SMD_PROGRESS_THREAD};
	const struct smd_origin origin = smd_nccl_device_origin(device);
	struct smd_shared_context *shared = calloc(1, sizeof(*shared));
	int ret;

	if (!shared) {
		return smd_error_set(error, ENOMEM, "out of memory");
	}
	/* A call of the driver may wait for the device, whose kernel waits for this thread. */
	ret = smd_context_create_without_devices(&options,
		loop ? SMD_ENGINE_ALONE : SMD_ENGINE_SHARED, &origin, &shared->context);
	if (ret) {
		smd_error_set(error, -ret, "%s", smd_error_message());
		free(shared);
		return ret;
	}
	smd_context_set_pipelined(shared->context); /* NCCL cuts what is large into pieces, and keeps many in flight */
	shared->rail = &rails[device->number][loop];
	*out = shared;
	return 0;
}

/* With the lock held, but not while it connects. */
static void rail_connect(const struct smd_nccl_device *device, unsigned loop, unsigned timeout_s)
{
	struct rail *rail = &rails[device->number][loop];
	struct smd_error error = {""};
	struct smd_shared_context *fresh;
	int ret;

	rail->connecting = true;
	pthread_mutex_unlock(&lock);
	ret = shared_context_create(device, loop, timeout_s, &fresh, &error);
	pthread_mutex_lock(&lock);
	rail->connecting = false;
	if (ret) {
		rail->failures.count++;
		rail->failures.err = ret;
		rail->failures.error = error;
	} else {
		rail->current = fresh; /* one that has failed belongs to its users alone */
	}
	pthread_cond_broadcast(&connected);
}

int smd_shared_context_get(const struct smd_nccl_device *device, unsigned loop, unsigned timeout_s,
	struct smd_shared_context **out, struct smd_error *error)
{
	struct rail *rail = &rails[device->number][loop];
	unsigned before;
	int ret = 0;

	pthread_mutex_lock(&lock);
	before = rail->failures.count;
	while (rail->connecting) {
		pthread_cond_wait(&connected, &lock);
	}
	if (rail->failures.count == before &&
		(!rail->current || shared_context_has_failed(rail->current))) {
		rail_connect(device, loop, timeout_s);
	}
	if (rail->failures.count == before) {
		rail->current->users++;
		*out = rail->current;
	} else { /* here, or where this one waited */
		ret = smd_error_set(error, -rail->failures.err, "%s", rail->failures.error.text);
	}
	pthread_mutex_unlock(&lock);
	return ret;
}

void smd_shared_context_put(struct smd_shared_context *shared)
{
	bool last;

	pthread_mutex_lock(&lock);
	last = --shared->users == 0;
	if (last && shared->rail->current == shared) {
		shared->rail->current = NULL;
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
