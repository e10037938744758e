/* Lists of work of NCCL up to 2.21: a chain of works of 512 bytes for each block, with elements in
 * each. 2.19's kernels cut their part themselves, later ones find it there. */
#include "function.h"
#include "list.h"

#include "collectives.h" /* NCCL's */

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

/* As the launch has laid them out: each has 8 bytes. */
struct kernel_arguments {
	ncclDevCommAndChannels *all;
	uint64_t channel_mask;
	ncclWork *first; /* of block 0; the other blocks' follow */
};

smd_list smd_list_open(void *arguments)
{
	auto *kernel = (kernel_arguments *)arguments;

	return {&kernel->all->comm, kernel->all->channels, kernel->channel_mask};
}

static bool is_collnet(const smd_function &function)
{
	return function.algorithm == NCCL_ALGO_COLLNET_CHAIN ||
	       function.algorithm == NCCL_ALGO_COLLNET_DIRECT;
}

#if NCCL_VERSION_CODE < NCCL_VERSION(2, 20, 0)

static ssize_t ceiling(ssize_t value, ssize_t unit)
{
	return (value + unit - 1) / unit;
}

/* What a step holds, in elements. */
static ssize_t step_of(const smd_block &block, const smd_function &function)
{
	ssize_t bytes = block.comm->buffSizes[function.protocol] / NCCL_STEPS;

	if (function.protocol == NCCL_PROTO_LL) {
		bytes /= 2;
	} else if (function.protocol == NCCL_PROTO_LL128) {
		bytes = bytes * NCCL_LL128_DATAELEMS / NCCL_LL128_LINEELEMS;
	}
	return bytes / (ssize_t)function.size;
}

/* What all threads of a block move at a time, in elements. */
static ssize_t grain_of(const smd_function &function, ssize_t threads)
{
	ssize_t bytes = sizeof(uint64_t);

	if (function.protocol == NCCL_PROTO_LL128) {
		bytes = NCCL_LL128_SHMEM_ELEMS_PER_THREAD * NCCL_LL128_DATAELEMS *
			sizeof(uint64_t) / NCCL_LL128_LINEELEMS;
	}
	return threads * (bytes / (ssize_t)function.size);
}

static int chunk_steps(const smd_function &function)
{
	if (function.protocol != NCCL_PROTO_SIMPLE) {
		return 1;
	}
	switch (function.collective) {
	case ncclFuncAllReduce:
		return ALLREDUCE_CHUNKSTEPS;
	case ncclFuncAllGather:
		return ALLGATHER_CHUNKSTEPS;
	case ncclFuncReduceScatter:
		return REDUCESCATTER_CHUNKSTEPS;
	default:
		return BROADCAST_CHUNKSTEPS;
	}
}

/* The rings of 2.19: in each turn every channel has a piece, or as many as there are ranks. */
static void add_ring(smd_block_work &out, const smd_block &block, const smd_function &function,
	const ncclWorkElem *element)
{
	bool sums = function.collective == ncclFuncAllReduce;
	ssize_t threads = element->nWarps * WARP_SIZE, channels = element->nChannels;
	ssize_t pieces = sums ? block.comm->nRanks : 1, size = element->count, bid = element->bid;
	ssize_t chunk = step_of(block, function) * chunk_steps(function);
	ssize_t grain = grain_of(function, threads);

	if (function.protocol == NCCL_PROTO_LL128 && function.collective != ncclFuncBroadcast) {
		grain /= 2;
	}
	for (ssize_t at = 0; at < size; at += channels * pieces * chunk) {
		ssize_t rest = size - at, most;

		if (function.protocol == NCCL_PROTO_SIMPLE) {
			ssize_t unit = (threads - WARP_SIZE) * sizeof(uint64_t) / function.size;

			most = std::min(chunk, ceiling(rest, channels * pieces));
			most = ceiling(most, unit) * unit;
			out.rounds.push_back({at + bid * pieces * most, most, most, size});
			continue;
		}
		if (function.protocol == NCCL_PROTO_LL && !sums) {
			most = rest < channels * chunk ? (ssize_t)element->lastChunkSize : chunk;
		} else {
			most = std::min(chunk, ceiling(rest, channels * pieces * grain) * grain);
		}
		out.rounds.push_back({at + bid * most, channels * most, most, size});
	}
}

static void add_tree(smd_block_work &out, const smd_block &block, const smd_function &function,
	const ncclWorkElem *element)
{
	enum { WHOLE = 8, SPLIT = 8 }; /* factors of the smallest chunk in Simple, and in LL128 */
	ssize_t threads = element->nWarps * WARP_SIZE, channels = element->nChannels;
	ssize_t size = element->count, least = grain_of(function, threads);
	ssize_t chunk = function.protocol == NCCL_PROTO_LL ? step_of(block, function)
							   : (ssize_t)element->lastChunkSize;
	ssize_t loop = channels * chunk;

	if (function.protocol == NCCL_PROTO_SIMPLE) {
		least = (threads - 2 * WARP_SIZE) * WHOLE * (sizeof(uint64_t) / function.size);
	} else if (function.protocol == NCCL_PROTO_LL128) {
		least /= SPLIT;
	}
	if (loop > size) {
		chunk = ceiling(size, channels * least) * least;
	}
	for (ssize_t at = 0; at < size; at += loop) {
		out.rounds.push_back({at + (ssize_t)element->bid * chunk, 0, chunk, size});
	}
}

static void add_rounds(smd_block_work &out, const smd_block &block, const smd_function &function,
	const ncclWorkElem *element)
{
	if (is_collnet(function)) {
		smd_list_add_turns(out, block, function, element->nChannels, element->bid,
			element->lastChunkSize, element->count);
	} else if (function.algorithm == NCCL_ALGO_TREE) {
		add_tree(out, block, function, element);
	} else {
		add_ring(out, block, function, element);
	}
}

#else

static void add_rounds(smd_block_work &out, const smd_block &block, const smd_function &function,
	const ncclWorkElem *element)
{
	bool ring = function.algorithm == NCCL_ALGO_RING;
	bool pieces = ring && function.collective == ncclFuncAllReduce;
	ssize_t first = element->workOffset, size = element->workCount, chunk = element->chunkCount;
	ssize_t loop = (pieces ? block.comm->nRanks : 1) * chunk;

	if (is_collnet(function)) {
		if (element->regUsed) {
			fprintf(stderr, "simulated GPU: buffers must not be registered\n");
			abort();
		}
		smd_list_add_turns(out, block, function, element->nChannels, element->bid, chunk,
			element->count);
		return;
	}
	for (ssize_t at = 0; at < size; at += loop) {
		if (pieces && size - at < loop) {
			chunk = element->lastChunkCount;
		}
		out.rounds.push_back({first + at, chunk, chunk, first + size});
	}
}

#endif

static void play_element(const smd_block &block, const ncclWork *work, const ncclWorkElem *element,
	const smd_player &player)
{
	smd_function function = smd_function_of(work->header.funcIndex);
	smd_block_work out = {(const char *)element->sendbuff, (char *)element->recvbuff,
		(size_t)element->count, (int)element->root, {}, false};

	function.argument = element->redOpArg;
	if (element->redOpArgIsPtr) {
		function.argument = 0;
		memcpy(&function.argument, (void *)element->redOpArg, function.size);
	}
	add_rounds(out, block, function, element);
	player.collective(function, out);
}

static char *memory_of(const ncclWorkElemP2p &element)
{
	return (char *)((uintptr_t)element.buffHi32 << 32 | element.buffLo32);
}

/* Pairs: one that receives, one that sends. */
static void play_transfers(const ncclWork *work, const smd_player &player)
{
	std::vector<smd_transfer> transfers;
	int groups = work->p2pElems[0].ngroups;

	for (int i = 0; i < groups; i++) {
		const ncclWorkElemP2p &element = work->p2pElems[i];
		bool ll = element.proto == NCCL_PROTO_LL, send = i % 2;

		if (element.p2pType == ncclWorkP2pTypeUnused || element.peer == -1) {
			continue;
		}
		transfers.push_back({send, ll, element.peer, memory_of(element),
			send ? memory_of(work->p2pElems[i - 1]) : nullptr,
			(size_t)element.countHi32 << 32 | element.countLo32,
			(size_t)element.chunkSize / (ll ? 2 : 1)});
	}
	player.transfers(transfers);
}

static void play_work(const smd_block &block, const ncclWork *work, const smd_player &player)
{
	if (work->header.type == ncclWorkTypeP2p) {
		play_transfers(work, player);
		return;
	}
	if (work->header.type != ncclWorkTypeColl) {
		fprintf(stderr, "simulated GPU: buffers may be registered from NCCL 2.24 on\n");
		abort();
	}
	for (const ncclWorkElem &element : work->elems) {
		if (!element.isUsed) {
			return;
		}
		play_element(block, work, &element, player);
	}
}

void smd_list_walk(void *arguments, const smd_block &block, int index, const smd_player &player)
{
	ncclWork *first = ((kernel_arguments *)arguments)->first, *next = first + index;

	for (;;) {
		ncclWork work = *next; /* the host may use its place again once that is acknowledged */

		if (work.header.isLast && work.header.inFifo) {
			__atomic_store_n(block.channel->workFifoDone, work.header.doneAcks,
				__ATOMIC_RELEASE);
		}
		play_work(block, &work, player);
		if (work.header.isLast) {
			return;
		}
		next = first + work.header.workNext;
	}
}
