/* Fails a context, and its communicators with it. */
#include "worker/libsummand/context_failure.h"

#include <event2/event.h>

#define SETTLE_US 200000 /* the kernel takes time to end a process with much memory */

bool smd_context_settles(struct smd_context *context)
{
	const struct timeval delay = {0, SETTLE_US};

	return context->ntargets > 1 && (evtimer_pending(context->settle, NULL) ||
						evtimer_add(context->settle, &delay) == 0);
}

void smd_context_settled(evutil_socket_t fd, short what, void *arg)
{
	struct smd_context *context = arg;

	(void)fd;
	(void)what;
	for (unsigned i = 0; i < SMD_COMMS_MAX; i++) {
		if (context->comms[i]) {
			context->comms[i]->ops->on_settled(context->comms[i]);
		}
	}
}

void smd_context_fail(struct smd_context *context, int err, const char *text)
{
	context->remote_owner.failed = true;
	smd_progress_lock(&context->progress);
	if (context->err == 0) {
		context->err = err;
		smd_error_set(&context->error, -err, "%s", text);
	} else {
		smd_error_add(&context->error, text);
	}
	smd_progress_publish(&context->progress);
	for (unsigned i = 0; i < SMD_COMMS_MAX; i++) {
		if (context->comms[i]) {
			context->comms[i]->ops->on_failed(context->comms[i], err, text);
		}
	}
}
