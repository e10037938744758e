/*
 * Large memory in huge pages: few entries of the processor's and of a network card's tables of
 * addresses cover it, where pages of 4 KiB would miss in both for every chunk.
 */
#ifndef SMD_BASE_PAGES_H
#define SMD_BASE_PAGES_H

#include <stddef.h>
#include <stdint.h>

#define SMD_PAGES_HUGE ((size_t)2 << 20)

enum smd_pages_kind {
	SMD_PAGES_SMALL,       /* the kernel has none other, or it is shorter than a huge one */
	SMD_PAGES_TRANSPARENT, /* huge where it finds some free, as they are touched */
	SMD_PAGES_RESERVED     /* of those that were set aside (vm.nr_hugepages), all in memory */
};

struct smd_pages {
	uint8_t *memory;
	enum smd_pages_kind kind;
	uint8_t *mapping; /* what is unmapped, */
	size_t mapped;    /* so many bytes */
};

/* Maps it, all zeros. What is not touched takes no memory, but for those that were set aside. 0 or
 * -ENOMEM. */
int smd_pages_map(struct smd_pages *pages, size_t bytes);
/* The same, from that NUMA node as long as it has some; -1: from where it is touched. */
int smd_pages_map_near(struct smd_pages *pages, size_t bytes, int node);
void smd_pages_unmap(struct smd_pages *pages);
/* Has these bytes of it in memory, as they are: whoever touches or pins them next does not wait for
 * the kernel to clear pages. Any thread, also while others use them. A kernel before Linux 5.14
 * does nothing. */
void smd_pages_populate(void *memory, size_t bytes);

/* A phrase for the log. */
const char *smd_pages_name(enum smd_pages_kind kind);

#endif
