/* Lists of work of NCCL from 2.22 on: batches, each of which names its works by bits. */
#include "function.h"
#include "list.h"

#include "collectives.h" /* NCCL's */

#include <cstdio>
#include <cstdlib>
#include <cstring>

#if NCCL_VERSION_CODE < NCCL_VERSION(2, 24, 0)
#define smd_registered(work) ((work)->regUsed)
#else
#define smd_registered(work) ((work)->netRegUsed)
#endif

smd_list smd_list_open(void *arguments)
{
	auto *kernel = (ncclDevKernelArgs *)arguments;
	auto *all = (ncclKernelCommAndChannels *)kernel->comm;

	return {&all->comm, all->channels, kernel->channelMask};
}

/* CollNet's works go through all channels in turn, the others have a part of each. */
static smd_block_work collective_of(
	const smd_block &block, const smd_function &function, ncclDevWorkColl *work)
{
	smd_block_work out = {
		(const char *)work->sendbuff, (char *)work->recvbuff, 0, (int)work->root, {}, false};
	ssize_t count = 0, offset, size, chunk;

	if (function.algorithm == NCCL_ALGO_COLLNET_CHAIN ||
		function.algorithm == NCCL_ALGO_COLLNET_DIRECT) {
		out.registered = smd_registered(work);
		if (out.registered && function.algorithm == NCCL_ALGO_COLLNET_DIRECT) {
			fprintf(stderr, "simulated GPU: registered buffers must be a chain's\n");
			abort();
		}
		smd_list_add_turns(out, block, function, work->channelHi - work->channelLo + 1,
			block.id - work->channelLo, work->collnet.chunkCount, work->collnet.count);
		return out;
	}
	ncclCollCbdPart(work, block.id, function.protocol, (int)function.size, &count, &offset,
		&size, &chunk);
	out.count = count;
	bool pieces = function.collective == ncclFuncAllReduce && function.algorithm == NCCL_ALGO_RING;
	ssize_t nranks = pieces ? block.comm->nRanks : 1, loop = nranks * chunk;

	for (ssize_t at = 0; at < size; at += loop) {
		ssize_t rest = size - at;

		if (pieces && rest < loop) {
			chunk = alignUp(divUp(rest, nranks), 16 / function.size);
		}
		out.rounds.push_back({offset + at, chunk, chunk, offset + size});
	}
	return out;
}

static void add_transfer(std::vector<smd_transfer> &transfers, const smd_block &block,
	ncclDevWorkP2p *work, bool send)
{
	size_t bytes = send ? work->sendBytes : work->recvBytes, begin, end;
	int parts = send ? work->nSendChannels : work->nRecvChannels;
	int part = ncclP2pChannelToPart(work->nP2pChannels, work->channelBase, block.id);

	if (part >= parts) {
		return;
	}
	ncclP2pPartBounds(parts, part, bytes, &begin, &end);
	transfers.push_back({send, bool(send ? work->sendProtoLL : work->recvProtoLL),
		send ? work->sendRank : work->recvRank,
		(char *)(send ? work->sendAddr : work->recvAddr) + begin,
		(char *)work->recvAddr + begin, end - begin,
		u32fp8Decode(send ? work->sendChunkSize_u32fp8 : work->recvChunkSize_u32fp8)});
}

struct batch_works {
	std::vector<char *> places;
	uint32_t end; /* in the host's ring, if they are there */
};

/* The works of the batch at index, and of those that extend it; index moves to the last of these. */
static batch_works works_of(
	ncclDevKernelArgs *arguments, const ncclDevWorkBatch *batches, int &index)
{
	batch_works works = {};

	for (;; index += batches[index].nextJump) {
		const ncclDevWorkBatch &batch = batches[index];
		size_t size = ncclDevWorkSize((ncclDevWorkType)batch.workType);

		for (int bit = 0; bit < 64; bit++) {
			size_t at = batch.offsetBase + bit * size;

			if (!(batch.offsetBitset >> bit & 1)) {
				continue;
			}
			works.end = (uint32_t)(at + size);
			if (arguments->workStorageType == ncclDevWorkStorageTypeArgs) {
				works.places.push_back((char *)arguments + at);
			} else {
				works.places.push_back(
					(char *)arguments->workBuf + (at & arguments->workMask));
			}
		}
		if (!batch.nextExtends) {
			return works;
		}
	}
}

/* Up to 2.26 the host reads how much of its ring may be written again, from 2.26 on how many works
 * there were. */
static void end_works(
	ncclDevKernelArgs *arguments, const smd_block &block, const batch_works &works)
{
#if NCCL_VERSION_CODE < NCCL_VERSION(2, 27, 0)
	if (arguments->workStorageType == ncclDevWorkStorageTypeFifo) {
		__atomic_store_n(
			&block.comm->workConsumed[block.id], works.end, __ATOMIC_RELEASE);
	}
#endif
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 26, 0)
	block.channel->workCounter += works.places.size();
#endif
	(void)arguments;
}

void smd_list_walk(void *arguments, const smd_block &block, int index, const smd_player &player)
{
	auto *kernel = (ncclDevKernelArgs *)arguments;
	auto *batches = (const ncclDevWorkBatch *)(kernel + 1);

	for (;; index += batches[index].nextJump) {
		batch_works works = works_of(kernel, batches, index);

		if (batches[index].workType == ncclDevWorkTypeP2p) {
			std::vector<smd_transfer> transfers;

			for (char *work : works.places) {
				add_transfer(transfers, block, (ncclDevWorkP2p *)work, true);
				add_transfer(transfers, block, (ncclDevWorkP2p *)work, false);
			}
			player.transfers(transfers);
		} else {
			for (char *place : works.places) {
				auto *work = (ncclDevWorkColl *)place;
				smd_function function = smd_function_of(batches[index].funcId);

				function.argument = work->redOpArg;
				if (work->redOpArgIsPtr) {
					function.argument = 0;
					memcpy(&function.argument, (void *)work->redOpArg, function.size);
				}
				player.collective(function, collective_of(block, function, work));
			}
		}
		end_works(kernel, block, works);
		if (!batches[index].nextJump) {
			return;
		}
	}
}
