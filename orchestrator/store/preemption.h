/*
 * The end of a job that was to make room (queue.h): it waits again, or has ended with that reason.
 * Inside the room only.
 */
#ifndef SMD_STORE_PREEMPTION_H
#define SMD_STORE_PREEMPTION_H

#include <stdint.h>

#include "orchestrator/store/database.h"

#define SMD_PREEMPTION_REASON_SIZE 160

/* To be called in a transaction, in place of writing that the job was cancelled, by whoever has its
 * lock or finds that free. 1: it waits again, in its directory; 0: it has ended, and unless somebody
 * has cancelled it, `reason` says for which job; empty: it was not to make room. -errno with a text. */
int smd_preemption_end(const struct smd_database *database, int64_t id,
	char reason[SMD_PREEMPTION_REASON_SIZE], struct smd_error *error);

#endif
