/* Plays NCCL's kernels: a thread for each block goes through the list of work that the host code has
 * laid out, over the same connections. Without registered buffers and NCCL's PAT. */
#include "list.h"

#include "collectives.h" /* NCCL's, and */
#include "core.h"

#include <thread>

static void transfer_all(const smd_block &block, const std::vector<smd_transfer> &transfers)
{
	std::vector<std::thread> threads;

	for (const smd_transfer &transfer : transfers) {
		threads.emplace_back([&block, &transfer] {
			try {
				smd_algorithm_transfer(block, transfer);
			} catch (smd_aborted &) {
			}
		});
	}
	for (auto &thread : threads) {
		thread.join();
	}
}

static void run_block(void *arguments, const smd_list &list, int channel, int index)
{
	smd_block block = {list.comm, &list.channels[channel], channel};

	smd_list_walk(arguments, block, index,
		{[&block](const smd_function &function, const smd_block_work &work) {
			 smd_algorithm_collective(block, function, work);
		 },
			[&block](const std::vector<smd_transfer> &transfers) {
				transfer_all(block, transfers);
			}});
}

/* What every kernel of NCCL is here. */
extern "C" void smd_kernel_run(void *arguments)
{
	smd_list list = smd_list_open(arguments);
	std::vector<std::thread> threads;
	int blocks = 0;

	for (int channel = 0; channel < MAXCHANNELS; channel++) {
		if (list.channel_mask >> channel & 1) {
			threads.emplace_back([arguments, &list, channel, index = blocks++] {
				try {
					run_block(arguments, list, channel, index);
				} catch (smd_aborted &) {
				}
			});
		}
	}
	for (auto &thread : threads) {
		thread.join();
	}
}

/* NCCL's only function on the host that is in a file for the device: a communicator of one rank.
 * Its reductions here are sums, which leave elements as they are. */
ncclResult_t ncclLaunchOneRank(void *to, void const *from, size_t n, ncclDevRedOpFull,
	ncclDataType_t type, cudaStream_t stream)
{
	if (to != from) {
		CUDACHECK(cudaMemcpyAsync(
			to, from, n * ncclTypeSize(type), cudaMemcpyDefault, stream));
	}
	return ncclSuccess;
}
