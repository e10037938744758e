/*
 * The processes below this one. A child subreaper inherits every orphan of its tree, so killing its
 * children until there are none ends the whole tree.
 */
#ifndef SMD_AGENT_DESCENDANTS_H
#define SMD_AGENT_DESCENDANTS_H

#include <stddef.h>
#include <sys/types.h>

#define SMD_AGENT_PROGRAM "summand-agent"

typedef int smd_child_fn(pid_t pid, void *arg);

/* Kills every child of this process except those for which is_spared() is true (NULL: none).
 * Returns how many, zombies included. */
size_t smd_children_kill(smd_child_fn *is_spared, void *arg);

/* For smd_children_kill(): whether the child is an agent, which ends its tree and removes its
 * containers by itself when whoever started it is gone. A stopped one could not, so it is continued.
 * `arg` is not used. */
int smd_child_is_agent(pid_t pid, void *arg);

/* Kills and reaps every descendant of this process, which must be a child subreaper. Returns when
 * none is left that this process may kill. What the children exited with is lost. */
void smd_descendants_kill(void);

#endif
