/*
 * The processes below this one. A child subreaper inherits every orphan of its tree, so killing
 * children again and again until there are none ends the whole tree.
 */
#ifndef SMD_AGENT_DESCENDANTS_H
#define SMD_AGENT_DESCENDANTS_H

/* Kills and reaps every descendant of this process, which must be a child subreaper. Returns when
 * none is left. What the children exited with is lost. */
void smd_descendants_kill(void);

#endif
