/*
 * Tells a webhook of each change of a job's state: a POST for each, signed as Standard Webhooks
 * (standardwebhooks.com) has it, and repeated with growing pauses until it is taken.
 *
 * It runs in a process of its own, so that a receiver that answers slowly or never keeps nobody
 * waiting. The address is the service's and never a job's: who creates jobs cannot have the
 * service's machine ask for anything.
 */
#ifndef SMD_SERVICE_WEBHOOK_H
#define SMD_SERVICE_WEBHOOK_H

#include "orchestrator/client/exchange.h"

/* The command of that process. */
#define SMD_WEBHOOK_VERB "send-notices"

struct smd_webhook {
	struct smd_url url;
	struct smd_http_reach reach;
	const char *secret;
};

/* Tells what the store of the state directory has, and what comes, without end. -errno with a text.
 */
int smd_webhook_run(
	const struct smd_webhook *webhook, const char *state_dir, struct smd_error *error);

#endif
