/*
 * Finds a region by what it covers, among thousands that may overlap each other: a search tree by
 * where regions begin, in which each also knows how far those below it reach (a treap; all steps
 * take O(log n)).
 */
#ifndef SMD_TRANSPORT_RDMA_REGION_INDEX_H
#define SMD_TRANSPORT_RDMA_REGION_INDEX_H

#include <stdint.h>

#define SMD_REGION_ACCESSES 2 /* kinds of access, each of which includes those before it */

/* What is found. Its owner sets the first three, which stay as they are while it is in an index. */
struct smd_region_node {
	uintptr_t begin;
	uintptr_t end;
	unsigned access;
	struct smd_region_node *left; /* that begin before it */
	struct smd_region_node *right;
	uint64_t priority; /* above that of those below it */
	/* The last end of it and of all below it that may be used so. */
	uintptr_t reach[SMD_REGION_ACCESSES];
};

struct smd_region_index {
	struct smd_region_node *root; /* NULL: it is empty */
	uint64_t seed;                /* of priorities */
};

void smd_region_index_add(struct smd_region_index *index, struct smd_region_node *node);
void smd_region_index_remove(struct smd_region_index *index, struct smd_region_node *node);

/* One that contains all from `begin` to before `end`, and may be used so; NULL: there is none. */
struct smd_region_node *smd_region_index_find(
	const struct smd_region_index *index, uintptr_t begin, uintptr_t end, unsigned access);
/* Any that has a byte of it. */
struct smd_region_node *smd_region_index_overlapping(
	const struct smd_region_index *index, uintptr_t begin, uintptr_t end);

#endif
