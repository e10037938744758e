/* The algorithms: which elements go to whom, in the order that the other ranks' kernels expect. */
#include "algorithm.h"

#include "collectives.h" /* NCCL's */

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

/* Beside SMD_RECEIVE and so on: the work's own input and output take part. */
enum { SOURCE = SMD_END << 1, TARGET = SMD_END << 2 };

/* n elements of the work, from element at on. */
static void operate(smd_primitives &primitives, const smd_function &function,
	const ncclDevWorkColl *work, size_t at, ssize_t n, unsigned what)
{
	size_t byte = at * function.size;

	primitives.operate(what & SOURCE ? (const char *)work->sendbuff + byte : nullptr,
		what & TARGET ? (char *)work->recvbuff + byte : nullptr, n, what);
}

/* The block's part of a collective that is cut by channels. */
struct part {
	ssize_t count, offset, size, chunk;

	part(const smd_block &block, const smd_function &function, ncclDevWorkColl *work)
	{
		ncclCollCbdPart(work, block.id, function.protocol, (int)function.size, &count,
			&offset, &size, &chunk);
	}
};

/* Each chunk goes around twice: reduced, until its last rank has the sum, and as the sum. */
static void ring_all_reduce(
	const smd_block &block, const smd_function &function, ncclDevWorkColl *work)
{
	ncclRing &ring = block.channel->ring;
	ssize_t nranks = block.comm->nRanks, here = ring.index;
	part part(block, function, work);
	ssize_t chunk = part.chunk, loop = nranks * part.chunk;
	smd_primitives primitives(block, function, ALLREDUCE_CHUNKSTEPS / ALLREDUCE_SLICESTEPS,
		ALLREDUCE_SLICESTEPS, {ring.prev}, {ring.next});

	for (ssize_t at = 0; at < part.size; at += loop) {
		ssize_t rest = part.size - at;

		if (rest < loop) {
			chunk = alignUp(divUp(rest, nranks), 16 / function.size);
		}
		auto run = [&](ssize_t number, unsigned what) {
			ssize_t offset = number % nranks * chunk;

			operate(primitives, function, work, part.offset + at + offset,
				std::min(chunk, rest - offset), what);
		};

		run(here + nranks - 1, SOURCE | SMD_SEND);
		for (ssize_t i = 2; i < nranks; i++) {
			run(here + nranks - i, SMD_RECEIVE | SOURCE | SMD_SEND);
		}
		run(here, SMD_RECEIVE | SOURCE | SMD_END | TARGET | SMD_SEND);
		for (ssize_t i = 1; i < nranks - 1; i++) {
			run(here + nranks - i, SMD_RECEIVE | TARGET | SMD_SEND);
		}
		run(here + 1, SMD_RECEIVE | TARGET);
	}
}

/* Both halves of the work at a time, as a kernel's warps do them. */
template <typename One, typename Other> static void both(One one, Other other)
{
	bool aborted[2] = {};
	auto guard = [](bool &ended, auto &half) {
		try {
			half();
		} catch (smd_aborted &) {
			ended = true;
		}
	};
	std::thread thread([&] { guard(aborted[0], one); });

	guard(aborted[1], other);
	thread.join();
	if (aborted[0] || aborted[1]) {
		throw smd_aborted();
	}
}

/* Sums go up to the root, and down again. */
static void tree_all_reduce(
	const smd_block &block, const smd_function &function, ncclDevWorkColl *work)
{
	ncclTree &tree = block.channel->tree;
	std::vector<int> up = {tree.up}, down(tree.down, tree.down + NCCL_MAX_TREE_ARITY);
	part part(block, function, work);
	auto run = [&](const std::vector<int> &from, const std::vector<int> &to, unsigned what) {
		smd_primitives primitives(block, function, 1, 1, from, to);

		for (ssize_t at = 0; at < part.size; at += part.chunk) {
			operate(primitives, function, work, part.offset + at,
				std::min(part.chunk, part.size - at),
				what | SMD_RECEIVE | SMD_SEND);
		}
	};

	if (tree.up == -1) {
		return run(down, down, SOURCE | SMD_END | TARGET);
	}
	both([&] { run(down, up, SOURCE); }, [&] { run(up, down, TARGET); });
}

/* A chain of one GPU: up is the network, which sums. */
static void chain_all_reduce(
	const smd_block &block, const smd_function &function, ncclDevWorkColl *work)
{
	enum { DOWN, UP }; /* connections to a rank */
	ncclTree &tree = block.channel->collnetChain;
	std::vector<int> up = {tree.up}, down = {tree.down[0]};
	ssize_t chunk = work->collnet.chunkCount, size = work->collnet.count;
	ssize_t first = (block.id - work->channelLo) * chunk;
	ssize_t loop = (work->channelHi - work->channelLo + 1) * chunk;
	auto run = [&](const std::vector<int> &from, const std::vector<int> &to, int index,
			   unsigned what) {
		smd_primitives primitives(block, function, 1, 1, from, to, index);

		/* Also where nothing is left: the proxy counts a step of every channel. */
		for (ssize_t at = first; at < first + size; at += loop) {
			operate(primitives, function, work, at, std::min(chunk, size - at),
				what | SMD_RECEIVE | SMD_SEND);
		}
	};

	if (work->netRegUsed) {
		fprintf(stderr, "simulated GPU: buffers must not be registered\n");
		abort();
	}
	both([&] { run(down, up, UP, SOURCE); },
		[&] {
			run(up, down, DOWN, TARGET | (tree.up == block.comm->nRanks ? SMD_END : 0));
		});
}

static void ring_all_gather(
	const smd_block &block, const smd_function &function, ncclDevWorkColl *work)
{
	ncclRing &ring = block.channel->ring;
	int nranks = block.comm->nRanks;
	part part(block, function, work);
	smd_primitives primitives(block, function, ALLGATHER_CHUNKSTEPS / ALLGATHER_SLICESTEPS,
		ALLGATHER_SLICESTEPS, {ring.prev}, {ring.next});

	for (ssize_t at = 0; at < part.size; at += part.chunk) {
		ssize_t n = std::min(part.chunk, part.size - at);
		size_t byte = (part.offset + at) * function.size;
		auto target = [&](int distance) {
			return (char *)work->recvbuff + byte +
			       ring.userRanks[distance % nranks] * part.count * function.size;
		};

		primitives.operate((char *)work->sendbuff + byte, target(0), n, SMD_SEND);
		for (int i = 1; i < nranks - 1; i++) {
			primitives.operate(nullptr, target(nranks - i), n, SMD_RECEIVE | SMD_SEND);
		}
		primitives.operate(nullptr, target(1), n, SMD_RECEIVE);
	}
}

static void ring_reduce_scatter(
	const smd_block &block, const smd_function &function, ncclDevWorkColl *work)
{
	ncclRing &ring = block.channel->ring;
	int nranks = block.comm->nRanks;
	part part(block, function, work);
	smd_primitives primitives(block, function,
		REDUCESCATTER_CHUNKSTEPS / REDUCESCATTER_SLICESTEPS, REDUCESCATTER_SLICESTEPS,
		{ring.prev}, {ring.next});

	for (ssize_t at = 0; at < part.size; at += part.chunk) {
		ssize_t n = std::min(part.chunk, part.size - at);
		size_t byte = (part.offset + at) * function.size;
		auto source = [&](int distance) {
			return (char *)work->sendbuff + byte +
			       ring.userRanks[distance] * part.count * function.size;
		};

		primitives.operate(source(nranks - 1), nullptr, n, SMD_SEND);
		for (int i = 2; i < nranks; i++) {
			primitives.operate(source(nranks - i), nullptr, n, SMD_RECEIVE | SMD_SEND);
		}
		primitives.operate(
			source(0), (char *)work->recvbuff + byte, n, SMD_RECEIVE | SMD_END);
	}
}

static void ring_broadcast(
	const smd_block &block, const smd_function &function, ncclDevWorkColl *work)
{
	ncclRing &ring = block.channel->ring;
	int root = work->root;
	part part(block, function, work);
	smd_primitives primitives(block, function, BROADCAST_CHUNKSTEPS / BROADCAST_SLICESTEPS,
		BROADCAST_SLICESTEPS, {ring.prev}, {ring.next});
	unsigned what = SMD_RECEIVE | TARGET | SMD_SEND;

	if (ring.userRanks[0] == root) {
		what = SOURCE | TARGET | SMD_SEND;
	} else if (ring.userRanks[1] == root) {
		what = SMD_RECEIVE | TARGET;
	}
	for (ssize_t at = 0; at < part.size; at += part.chunk) {
		operate(primitives, function, work, part.offset + at,
			std::min(part.chunk, part.size - at), what);
	}
}

void smd_algorithm_collective(const smd_block &block, smd_function function, ncclDevWorkColl *work)
{
	function.argument = work->redOpArg;
	if (work->redOpArgIsPtr) {
		function.argument = 0;
		memcpy(&function.argument, (void *)work->redOpArg, function.size);
	}
	if (function.collective == ncclFuncAllGather) {
		ring_all_gather(block, function, work);
	} else if (function.collective == ncclFuncReduceScatter) {
		ring_reduce_scatter(block, function, work);
	} else if (function.collective == ncclFuncBroadcast) {
		ring_broadcast(block, function, work);
	} else if (function.algorithm == NCCL_ALGO_COLLNET_CHAIN) {
		chain_all_reduce(block, function, work);
	} else if (function.algorithm == NCCL_ALGO_TREE) {
		tree_all_reduce(block, function, work);
	} else {
		ring_all_reduce(block, function, work);
	}
}

void smd_algorithm_transfer(const smd_block &block, ncclDevWorkP2p *work, bool send)
{
	enum { CONNECTION = 1 };
	size_t bytes = send ? work->sendBytes : work->recvBytes, begin, end;
	char *memory = (char *)(send ? work->sendAddr : work->recvAddr);
	int parts = send ? work->nSendChannels : work->nRecvChannels;
	int part = ncclP2pChannelToPart(work->nP2pChannels, work->channelBase, block.id);
	bool ll = send ? work->sendProtoLL : work->recvProtoLL;
	size_t chunk = u32fp8Decode(send ? work->sendChunkSize_u32fp8 : work->recvChunkSize_u32fp8);

	if (part >= parts) {
		return;
	}
	ncclP2pPartBounds(parts, part, bytes, &begin, &end);
	if (work->sendRank == block.comm->rank) {
		if (send) {
			memcpy((char *)work->recvAddr + begin, memory + begin, end - begin);
		}
		return;
	}
	smd_function bytewise = {ncclFuncSendRecv, ncclDevSum, ncclUint8, 0,
		ll ? NCCL_PROTO_LL : NCCL_PROTO_SIMPLE, 1, 0};
	std::vector<int> from = {send ? -1 : work->recvRank}, to = {send ? work->sendRank : -1};
	smd_primitives primitives(
		block, bytewise, 1, 1, from, to, CONNECTION, ll ? 0 : block.comm->p2pChunkSize);

	do { /* also of no bytes: the other side waits for a step */
		size_t n = std::min(chunk, end - begin);

		primitives.operate(send ? memory + begin : nullptr, send ? nullptr : memory + begin,
			n, SMD_RECEIVE | SMD_SEND);
		begin += n;
	} while (begin < end);
}
