/*
 * How a replica ended, in words.
 */
#ifndef SMD_RUNNER_OBITUARY_H
#define SMD_RUNNER_OBITUARY_H

#include <stdio.h>

#include "orchestrator/runner/jobdir.h"
#include "orchestrator/runner/replica.h"

#define SMD_OBITUARY_SIZE 512

/* In the job directory: the error file of a replica, in PyTorch's form. */
#define SMD_OBITUARY_ERROR_FILE "errors/%s.json"

/* "exited with a non-zero status of 3", "was killed by signal 9 (Killed)", ... */
void smd_obituary_sentence(const struct smd_replica *replica, char text[SMD_OBITUARY_SIZE]);

/* "0", "stopped", "signal 9", "": for a table. */
void smd_obituary_word(const struct smd_replica *replica, char text[SMD_OBITUARY_SIZE]);

/* Prints, indented, the message in its error file, the last lines of its standard error, and the
 * path of its log. */
void smd_obituary_print_tail(
	const struct smd_replica *replica, const struct smd_jobdir *dir, FILE *file);

#endif
