/*
 * From which NUMA node memory comes. Nodes are numbered from 0 on; below 0 is none, and nothing is done.
 */
#ifndef SMD_BASE_NUMA_H
#define SMD_BASE_NUMA_H

#include <stddef.h>

#define SMD_NUMA_NODES_MAX 1024

/* This memory comes from that node as long as it has some, and what has been touched of it is moved there.
 * 0 or -errno. */
int smd_numa_bind(void *memory, size_t length, int node);

/* All memory does, of this thread and those that it makes. 0 or -errno. */
int smd_numa_prefer(int node);

#endif
