/*
 * Whether the kernel has killed for lack of memory.
 */
#ifndef SMD_AGENT_OOM_H
#define SMD_AGENT_OOM_H

/* How many processes of this process's own memory cgroup the kernel has killed for it; -1 when that
 * is not said. The machine's count would blame the memory for what killed somebody here while
 * another job's process was killed for lack of it. */
long smd_oom_kills(void);

/* The same, of the cgroups in this file (/proc/self/cgroup), mounted in this folder. */
long smd_oom_kills_in(const char *groups, const char *mount);

#endif
