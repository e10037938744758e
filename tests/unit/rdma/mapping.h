/* Mappings whose memory tests take away. */
#ifndef SMD_TESTS_RDMA_MAPPING_H
#define SMD_TESTS_RDMA_MAPPING_H

#include <stddef.h>
#include <stdint.h>

#define MIB    ((size_t)1 << 20)
#define LENGTH MIB /* of each */

extern size_t mapping_page; /* the size of one; the program sets it */

/* A new one, filled with ones, with these flags of mmap() or MAP_PRIVATE. */
uint8_t *mapping_make(int flags);
uint8_t *mapping_new(void);
/* One in place of what is there. */
uint8_t *mapping_at(void *address);
/* The kernel's own, which every process has and nobody can watch. */
void *mapping_unwatchable(void);

#endif
