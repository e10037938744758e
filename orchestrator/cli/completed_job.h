/*
 * Jobs of the store as candidates of completion.
 */
#ifndef SMD_CLI_COMPLETED_JOB_H
#define SMD_CLI_COMPLETED_JOB_H

/* Prints the ids and display names that begin with the word, of the newest jobs; nothing where
 * there is no store, or it cannot be read. */
void smd_completed_jobs_print(const char *word);

#endif
