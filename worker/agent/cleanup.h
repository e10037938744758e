/*
 * Removal of what a command leaves where no signal reaches it, such as a container.
 */
#ifndef SMD_AGENT_CLEANUP_H
#define SMD_AGENT_CLEANUP_H

/* Runs a shell command to its end, for at most 60 s. NULL and "" are none. */
void smd_clean_up(const char *command);

#endif
