/* Plays NCCL's kernels: a thread for each block walks through the batches of work that the host
 * code has laid out, over the same connections. One GPU per node, without registered buffers and
 * NCCL's PAT. */
#include "algorithm.h"

#include "collectives.h" /* NCCL's, and */
#include "core.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <thread>
#include <vector>

typedef std::map<int, smd_function> function_table;

/* Adds what differs in protocol alone. */
static void add_protocols(
	function_table &table, int collective, int reduction, int type, int algorithm)
{
	size_t size = ncclTypeSize((ncclDataType_t)type);

	for (int protocol = 0; protocol < NCCL_NUM_PROTOCOLS; protocol++) {
		table[ncclDevFuncId(collective, reduction, type, algorithm, protocol)] = {
			collective, reduction, type, algorithm, protocol, size, 0};
	}
}

static void add_sums(function_table &table, int collective, int algorithm)
{
	for (int reduction = 0; reduction < ncclNumDevRedOps; reduction++) {
		for (int type = 0; type < ncclNumTypes; type++) {
			add_protocols(table, collective, reduction, type, algorithm);
		}
	}
}

static function_table make_functions()
{
	function_table table;

	add_sums(table, ncclFuncAllReduce, NCCL_ALGO_RING);
	add_sums(table, ncclFuncAllReduce, NCCL_ALGO_TREE);
	add_sums(table, ncclFuncAllReduce, NCCL_ALGO_COLLNET_CHAIN);
	add_sums(table, ncclFuncReduceScatter, NCCL_ALGO_RING);
	add_protocols(table, ncclFuncAllGather, ncclDevSum, ncclUint8, NCCL_ALGO_RING);
	add_protocols(table, ncclFuncBroadcast, ncclDevSum, ncclUint8, NCCL_ALGO_RING);
	table.erase(-1); /* what NCCL has no kernel for */
	return table;
}

static const smd_function &function_of(int number)
{
	static const function_table table = make_functions();
	auto found = table.find(number);

	if (found == table.end()) {
		fprintf(stderr, "simulated GPU: kernel must be one that is played, got %d\n",
			number);
		abort();
	}
	return found->second;
}

static void transfer_all(const smd_block &block, const std::vector<char *> &works)
{
	std::vector<std::thread> threads;

	for (char *work : works) {
		for (bool send : {true, false}) {
			threads.emplace_back([&block, work, send] {
				try {
					smd_algorithm_transfer(block, (ncclDevWorkP2p *)work, send);
				} catch (smd_aborted &) {
				}
			});
		}
	}
	for (auto &thread : threads) {
		thread.join();
	}
}

/* The works of the batch at index and of those that extend it; index moves to the last of these. */
static std::vector<char *> works_of(
	ncclDevKernelArgs *arguments, const ncclDevWorkBatch *batches, int &index)
{
	std::vector<char *> works;

	for (;; index += batches[index].nextJump) {
		const ncclDevWorkBatch &batch = batches[index];
		size_t size = ncclDevWorkSize((ncclDevWorkType)batch.workType);

		for (int bit = 0; bit < 64; bit++) {
			size_t at = batch.offsetBase + bit * size;

			if (!(batch.offsetBitset >> bit & 1)) {
				continue;
			}
			if (arguments->workStorageType == ncclDevWorkStorageTypeArgs) {
				works.push_back((char *)arguments + at);
			} else {
				works.push_back(
					(char *)arguments->workBuf + (at & arguments->workMask));
			}
		}
		if (!batch.nextExtends) {
			return works;
		}
	}
}

static void run_block(ncclDevKernelArgs *arguments, int channel, int index)
{
	auto *all = (ncclKernelCommAndChannels *)arguments->comm;
	auto *batches = (const ncclDevWorkBatch *)(arguments + 1);
	smd_block block = {&all->comm, &all->channels[channel], channel};

	for (;; index += batches[index].nextJump) {
		auto works = works_of(arguments, batches, index);

		if (batches[index].workType == ncclDevWorkTypeP2p) {
			transfer_all(block, works);
		} else {
			for (char *work : works) {
				smd_algorithm_collective(block, function_of(batches[index].funcId),
					(ncclDevWorkColl *)work);
			}
		}
		block.channel->workCounter += works.size();
		if (!batches[index].nextJump) {
			return;
		}
	}
}

/* What every kernel of NCCL is here. */
extern "C" void smd_kernel_run(void *arguments)
{
	auto *kernel = (ncclDevKernelArgs *)arguments;
	std::vector<std::thread> threads;
	int blocks = 0;

	for (int channel = 0; channel < MAXCHANNELS; channel++) {
		if (kernel->channelMask >> channel & 1) {
			threads.emplace_back([kernel, channel, index = blocks++] {
				try {
					run_block(kernel, channel, index);
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
