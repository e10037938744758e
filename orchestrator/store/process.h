/*
 * A process that is told from any other that has had, or will have, its id: by its start and the
 * machine's.
 */
#ifndef SMD_STORE_PROCESS_H
#define SMD_STORE_PROCESS_H

#include <stdint.h>

#include "reduction_server/base/boot.h"

struct smd_process_mark {
	int64_t pid;
	int64_t start; /* clock ticks since the machine's start */
	char boot[SMD_BOOT_ID_SIZE];
};

/* This process. 0 or -errno. */
int smd_process_mark_own(struct smd_process_mark *mark);

/* Sends the signal to that very process. -ESRCH: it is not there. */
int smd_process_signal(const struct smd_process_mark *mark, int signo);

#endif
