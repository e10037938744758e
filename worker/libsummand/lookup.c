/* Asks the resolver on a thread of its own. */
#include "worker/libsummand/lookup.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "reduction_server/base/thread.h"
#include "reduction_server/transport/address.h"

struct smd_lookup {
	struct smd_task task; /* first */
	smd_lookup_done *done;
	void *arg;
	char address[SMD_ERROR_TEXT_MAX];

	pthread_mutex_t lock;
	struct smd_progress *progress; /* NULL: abandoned, and the thread frees it */
	bool told;                     /* the task is posted: the thread is through with it */
	int err;
	char said[SMD_ERROR_TEXT_MAX];
};

static void lookup_free(struct smd_lookup *lookup)
{
	pthread_mutex_destroy(&lookup->lock);
	free(lookup);
}

static void lookup_ask(struct smd_lookup *lookup)
{
	char address[SMD_ADDRESS_TEXT_MAX];
	struct smd_error error = {""};
	const struct addrinfo *chosen;
	struct addrinfo *list;
	int ret = smd_address_resolve(lookup->address, 0, &list, &error);

	lookup->err = ret;
	if (ret) {
		snprintf(lookup->said, sizeof(lookup->said), "%s", error.text);
		return;
	}
	chosen = smd_address_choose(list);
	smd_address_print(chosen->ai_addr, chosen->ai_addrlen, address);
	snprintf(lookup->said, sizeof(lookup->said), "%s", address);
	freeaddrinfo(list);
}

static void *lookup_main(void *arg)
{
	struct smd_lookup *lookup = arg;
	bool wanted;

	lookup_ask(lookup);
	pthread_mutex_lock(&lookup->lock);
	wanted = lookup->progress != NULL;
	if (wanted) {
		lookup->told = true;
		smd_progress_defer(lookup->progress, &lookup->task);
	}
	pthread_mutex_unlock(&lookup->lock);
	if (!wanted) {
		lookup_free(lookup);
	}
	return NULL;
}

static void lookup_tell(struct smd_task *task)
{
	struct smd_lookup *lookup = (struct smd_lookup *)task;

	pthread_mutex_lock(&lookup->lock); /* the thread lets go of it */
	pthread_mutex_unlock(&lookup->lock);
	lookup->done(lookup->arg, lookup->err, lookup->said);
	lookup_free(lookup);
}

static int lookup_start_thread(struct smd_lookup *lookup)
{
	pthread_attr_t detached;
	pthread_t thread;
	int ret;

	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	ret = smd_thread_start(&thread, &detached, lookup_main, lookup);
	pthread_attr_destroy(&detached);
	return ret;
}

int smd_lookup_begin(struct smd_progress *progress, const char *address, smd_lookup_done *done,
	void *arg, struct smd_lookup **out)
{
	struct smd_lookup *lookup = calloc(1, sizeof(*lookup));
	int ret;

	if (!lookup) {
		return -ENOMEM;
	}
	lookup->task.run = lookup_tell;
	lookup->done = done;
	lookup->arg = arg;
	lookup->progress = progress;
	snprintf(lookup->address, sizeof(lookup->address), "%s", address);
	pthread_mutex_init(&lookup->lock, NULL);
	ret = lookup_start_thread(lookup);
	if (ret) {
		lookup_free(lookup);
		return ret;
	}
	*out = lookup; /* this is the owner, so it has not been told yet */
	return 0;
}

void smd_lookup_abandon(struct smd_lookup *lookup)
{
	bool told;

	pthread_mutex_lock(&lookup->lock);
	told = lookup->told;
	lookup->progress = NULL;
	pthread_mutex_unlock(&lookup->lock);
	if (told) {
		lookup_free(lookup);
	}
}
