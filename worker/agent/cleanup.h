/*
 * What a command leaves where no signal reaches it, such as a container.
 */
#ifndef SMD_AGENT_CLEANUP_H
#define SMD_AGENT_CLEANUP_H

/* Runs the command that removes it, in a shell, to its end. That may take its time, but not for
 * ever. NULL and "" are none. */
void smd_clean_up(const char *command);

#endif
