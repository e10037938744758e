/* Waits for failed communicators to be closed, and ends the process where they are not. */
#include "worker/nccl_plugin/abi/loss.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/thread.h"
#include "worker/nccl_plugin/abi/log.h"

#define PATIENCE_MS   10000
#define LOOK_EVERY_US 100000
#define VARIABLE      "SUMMAND_NCCL_ON_LOSS"

enum on_loss { ON_LOSS_BY_VERSION, ON_LOSS_ABORT, ON_LOSS_WAIT };

struct loss {
	LIST_ENTRY(loss) link;
	const void *comm;
	uint64_t told_ns;
	char text[SMD_ERROR_TEXT_MAX];
};

unsigned smd_loss_patience_ms = PATIENCE_MS;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, loss) losses = LIST_HEAD_INITIALIZER(losses);
static enum on_loss on_loss;
static bool unheard;
static bool watched; /* there is a thread that looks at them */

int smd_loss_read(struct smd_error *error)
{
	const char *text = getenv(VARIABLE);
	enum on_loss read = ON_LOSS_BY_VERSION;

	if (text && strcmp(text, "abort") == 0) {
		read = ON_LOSS_ABORT;
	} else if (text && strcmp(text, "wait") == 0) {
		read = ON_LOSS_WAIT;
	} else if (text && *text) {
		return smd_error_set(
			error, EINVAL, VARIABLE ": must be abort or wait, got \"%s\"", text);
	}
	pthread_mutex_lock(&lock);
	on_loss = read;
	pthread_mutex_unlock(&lock);
	return 0;
}

void smd_loss_is_unheard(void)
{
	pthread_mutex_lock(&lock);
	unheard = true;
	pthread_mutex_unlock(&lock);
}

/* NCCL shows its own lines to those who ask for them, and this one is for all. */
static void end_process(const struct loss *loss)
{
	char line[SMD_ERROR_TEXT_MAX + 256];

	snprintf(line, sizeof(line),
		"%s. NCCL was told %u s ago and %s; " VARIABLE "=wait keeps it", loss->text,
		smd_loss_patience_ms / 1000,
		unheard ? "still waits: 2.23 to 2.25 cannot abort after an error, 2.26 and 2.27 "
			  "take no notice of one. So this process ends"
			: "has not closed its communicator, so that this process ends by " VARIABLE
			  "=abort");
	smd_nccl_log_warn("%s", line);
	fprintf(stderr, "NET/Summand: %s\n", line);
	fflush(stderr);
	abort();
}

static void *watch(void *arg)
{
	const struct loss *loss;

	pthread_mutex_lock(&lock);
	while (!LIST_EMPTY(&losses)) {
		uint64_t now_ns = smd_clock_ns();

		LIST_FOREACH (loss, &losses, link) {
			if (now_ns - loss->told_ns > smd_loss_patience_ms * 1000000ull) {
				end_process(loss);
			}
		}
		pthread_mutex_unlock(&lock);
		usleep(LOOK_EVERY_US);
		pthread_mutex_lock(&lock);
	}
	watched = false;
	pthread_mutex_unlock(&lock);
	return arg;
}

static bool watch_begin(void)
{
	pthread_t thread;
	int ret = smd_thread_start(&thread, NULL, watch, NULL);

	if (ret == 0) {
		pthread_detach(thread);
	}
	return ret == 0;
}

void smd_loss_tell(const void *comm, const char *text)
{
	struct loss *loss;

	pthread_mutex_lock(&lock);
	if (on_loss == ON_LOSS_WAIT || (on_loss == ON_LOSS_BY_VERSION && !unheard)) {
		goto unlock;
	}
	loss = calloc(1, sizeof(*loss)); /* without memory the program waits, as it would anyway */
	if (!loss) {
		goto unlock;
	}
	loss->comm = comm;
	loss->told_ns = smd_clock_ns();
	snprintf(loss->text, sizeof(loss->text), "%s", text);
	LIST_INSERT_HEAD(&losses, loss, link);
	watched = watched || watch_begin();
unlock:
	pthread_mutex_unlock(&lock);
}

void smd_loss_close(const void *comm)
{
	struct loss *loss;
	struct loss *next;

	pthread_mutex_lock(&lock);
	for (loss = LIST_FIRST(&losses); loss; loss = next) {
		next = LIST_NEXT(loss, link);
		if (loss->comm == comm) {
			LIST_REMOVE(loss, link);
			free(loss);
		}
	}
	pthread_mutex_unlock(&lock);
}
