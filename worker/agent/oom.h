/*
 * Whether the kernel has killed for lack of memory.
 */
#ifndef SMD_AGENT_OOM_H
#define SMD_AGENT_OOM_H

/* How many processes of this machine the kernel has killed for it, in memory cgroups too; -1 when
 * it does not say. It does not say which ones. */
long smd_oom_kills(void);

#endif
