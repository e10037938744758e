/* The list of work that NCCL's host code hands to a kernel, in the words of the algorithms. Its form is the version's: batches
 * from 2.22 on (list_batches.cc), elements before (list_elements.cc). */
#ifndef SMD_NCCL_SIM_LIST_H
#define SMD_NCCL_SIM_LIST_H

#include "algorithm.h"

#include <functional>

struct smd_list {
	ncclKernelComm *comm;
	ncclDevChannel *channels;
	uint64_t channel_mask; /* one block for each */
};

smd_list smd_list_open(void *arguments);

/* Who does what the list says. */
struct smd_player {
	std::function<void(const smd_function &, const smd_block_work &)> collective;
	std::function<void(const std::vector<smd_transfer> &)> transfers; /* at a time */
};

/* Goes through the work of the block, which is the kernel's so many-th. */
void smd_list_walk(
	void *arguments, const smd_block &block, int index, const smd_player &player);

/* The turns of CollNet's algorithms, in which all channels take part: each has a chunk in one, or one for each head. */
void smd_list_add_turns(smd_block_work &work, const smd_block &block, const smd_function &function,
	ssize_t channels, ssize_t channel, ssize_t chunk, ssize_t size);

#endif
