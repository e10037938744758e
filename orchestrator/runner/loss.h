/*
 * The losses of one reduction server while its job runs: how it ended, and whether and when it is
 * started again (specs/design/runner.md, "Lost servers"). Pure functions.
 */
#ifndef SMD_RUNNER_LOSS_H
#define SMD_RUNNER_LOSS_H

#include <stdint.h>

#include "orchestrator/runner/obituary.h"

#define SMD_LOSS_WINDOW_S      600
#define SMD_LOSS_BACKOFF_MAX_S 30

struct smd_loss {
	unsigned count;    /* in all */
	unsigned restarts; /* since first_ns */
	uint64_t first_ns; /* when the first loss of this window was */
	uint64_t last_ns;
	int is_late; /* it is ended because it was not ready in time */
	char sentence[SMD_OBITUARY_SIZE]; /* how it ended the last time */
};

/* Takes a loss. The seconds until the restart, which double with each within the window; -1: there
 * have been `max` restarts within the window, and there is none. */
int smd_loss_take(struct smd_loss *loss, uint64_t now_ns, unsigned max);

#endif
