/*
 * Jobs of the store as candidates of completion.
 */
#ifndef SMD_CLI_COMPLETED_JOB_H
#define SMD_CLI_COMPLETED_JOB_H

#include "orchestrator/store/store.h"

/* Prints the ids and display names that begin with the word, of the newest jobs of a kind; nothing
 * where there is no store, or it cannot be read. */
void smd_completed_jobs_print(enum smd_stored_kind kind, const char *word);

#endif
