/*
 * The runner of a job of the queue: what the service starts for each job that has room.
 *
 * It is a command that no page names, because nobody but the service has a use for it.
 */
#ifndef SMD_CLI_QUEUED_RUN_H
#define SMD_CLI_QUEUED_RUN_H

#define SMD_QUEUED_RUN_VERB "run-queued"

int smd_queued_run(int argc, char **argv);

#endif
