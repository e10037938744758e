/*
 * The process that tells a webhook (webhook.h), as the service keeps it: started with the service,
 * started again when it has ended, and ended with it.
 */
#ifndef SMD_SERVICE_SENDER_H
#define SMD_SERVICE_SENDER_H

#include <stdint.h>
#include <sys/types.h>

struct smd_sender {
	char *const *words; /* NULL: there is no webhook */
	pid_t pid;          /* 0: there is none just now */
	uint64_t ended_ns;
};

/* A child has ended; called before others wait for any child. */
void smd_sender_reap(struct smd_sender *sender);

/* Starts it, if it is not there and has not just ended. Called a few times a second. */
void smd_sender_keep(struct smd_sender *sender);

void smd_sender_end(struct smd_sender *sender);

#endif
