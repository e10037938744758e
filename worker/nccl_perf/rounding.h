/*
 * Doubles with all their bits. Their sums round, and those of four have other bits in another
 * order, of every third to fifth element.
 */
#ifndef SMD_NCCL_PERF_ROUNDING_H
#define SMD_NCCL_PERF_ROUNDING_H

#include <stddef.h>
#include <stdint.h>

/* An input of the rank. */
void nccl_perf_rounding_fill(void *buffer, size_t count, int rank);

/* How many elements of a sum of all ranks' inputs have other bits than adding in the order of ranks
 * gives. */
uint64_t nccl_perf_rounding_check(const void *buffer, size_t count, int nranks);

#endif
