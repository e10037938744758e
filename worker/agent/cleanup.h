/*
 * Removal of what a command leaves where no signal reaches it, such as a container.
 */
#ifndef SMD_AGENT_CLEANUP_H
#define SMD_AGENT_CLEANUP_H

#include <sys/types.h>

/* Runs a shell command to its end, for at most 60 s; signals that end other programs it does not
 * get. NULL and "" are none. */
void smd_clean_up(const char *command);

/* The same without waiting: its process, which is the caller's to reap. 0: there is none. */
pid_t smd_clean_up_begin(const char *command);

#endif
