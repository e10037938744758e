/* What the forms of a list of work have in common. */
#include "list.h"

void smd_list_add_turns(smd_block_work &work, const smd_block &block, const smd_function &function,
	ssize_t channels, ssize_t channel, ssize_t chunk, ssize_t size)
{
	bool direct = function.algorithm == NCCL_ALGO_COLLNET_DIRECT;
	ssize_t heads = direct ? block.channel->collnetDirect.nHeads : 1;

	for (ssize_t at = 0; at < size; at += channels * heads * chunk) {
		work.rounds.push_back({at + channel * heads * chunk, chunk, chunk, size});
	}
}
