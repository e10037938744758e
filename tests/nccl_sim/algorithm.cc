/* The algorithms: which elements go to whom, in the order that the other ranks' kernels expect. */
#include "algorithm.h"

#include "collectives.h" /* NCCL's */

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>

/* Beside SMD_RECEIVE and so on: the work's own input and output take part. */
enum { SOURCE = SMD_END << 1, TARGET = SMD_END << 2 };

/* n elements of the work, from element at on. */
static void operate(smd_primitives &primitives, const smd_function &function,
	const smd_block_work &work, size_t at, ssize_t n, unsigned what)
{
	size_t byte = at * function.size;

	primitives.operate(what & SOURCE ? work.source + byte : nullptr,
		what & TARGET ? work.target + byte : nullptr, n, what);
}

/* Each piece goes around twice: reduced, until its last rank has the sum, and as the sum. */
static void ring_all_reduce(
	const smd_block &block, const smd_function &function, const smd_block_work &work)
{
	ncclRing &ring = block.channel->ring;
	ssize_t nranks = block.comm->nRanks, here = ring.index;
	smd_primitives primitives(block, function, ALLREDUCE_CHUNKSTEPS / ALLREDUCE_SLICESTEPS,
		ALLREDUCE_SLICESTEPS, {ring.prev}, {ring.next});

	for (const smd_round &round : work.rounds) {
		auto run = [&](ssize_t number, unsigned what) {
			ssize_t piece = number % nranks;

			operate(primitives, function, work, round.at(piece), round.count(piece),
				what);
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

/* The parts of the work that a kernel's warps do at a time. */
static void together(const std::vector<std::function<void()>> &parts)
{
	std::atomic<bool> aborted(false);
	std::vector<std::thread> threads;

	for (const auto &part : parts) {
		threads.emplace_back([&aborted, &part] {
			try {
				part();
			} catch (smd_aborted &) {
				aborted = true;
			}
		});
	}
	for (auto &thread : threads) {
		thread.join();
	}
	if (aborted) {
		throw smd_aborted();
	}
}

/* Sums go up to the root, and down again. */
static void tree_all_reduce(
	const smd_block &block, const smd_function &function, const smd_block_work &work)
{
	ncclTree &tree = block.channel->tree;
	std::vector<int> up = {tree.up}, down(tree.down, tree.down + NCCL_MAX_TREE_ARITY);
	auto run = [&](const std::vector<int> &from, const std::vector<int> &to, unsigned what) {
		smd_primitives primitives(block, function, 1, 1, from, to);

		for (const smd_round &round : work.rounds) {
			operate(primitives, function, work, round.first, round.count(),
				what | SMD_RECEIVE | SMD_SEND);
		}
	};

	if (tree.up == -1) {
		return run(down, down, SOURCE | SMD_END | TARGET);
	}
	together({[&] { run(down, up, SOURCE); }, [&] { run(up, down, TARGET); }});
}

/* A chain through the GPUs of a node, whose first has the network above it, which sums. */
static void chain_all_reduce(
	const smd_block &block, const smd_function &function, const smd_block_work &work)
{
	enum { DOWN, UP }; /* connections to a rank */
	ncclTree &tree = block.channel->collnetChain;
	std::vector<int> up = {tree.up}, down = {tree.down[0]};

	if (work.registered) {
		return smd_primitives::let_network(block, tree.up, UP, DOWN);
	}
	auto run = [&](const std::vector<int> &from, const std::vector<int> &to, int index,
			   unsigned what) {
		smd_primitives primitives(block, function, 1, 1, from, to, index);

		/* Also where nothing is left: the proxy counts a step of every channel. */
		for (const smd_round &round : work.rounds) {
			operate(primitives, function, work, round.first, round.count(),
				what | SMD_RECEIVE | SMD_SEND);
		}
	};

	together({[&] { run(down, up, UP, SOURCE); },
		[&] {
			run(up, down, DOWN, TARGET | (tree.up == block.comm->nRanks ? SMD_END : 0));
		}});
}

/* The GPUs of a node that have the network beside them, the heads, sum a piece each of what all of its GPUs have, and
 * give everybody the network's sum of it. */
static void direct_all_reduce(
	const smd_block &block, const smd_function &function, const smd_block_work &work)
{
	enum { DOWN, UP }; /* connections to a rank */
	ncclDirect &direct = block.channel->collnetDirect;
	std::vector<int> heads, down, network = {direct.out};
	std::vector<std::function<void()>> parts;

	for (int i = 0; i < NCCL_MAX_DIRECT_ARITY; i++) {
		heads.push_back(direct.up[i]);
		down.push_back(direct.down[i]);
	}
	/* With the other heads: for each the piece that is its own. */
	auto exchange = [&](bool send) {
		std::vector<std::unique_ptr<smd_primitives>> each;

		for (int head : heads) {
			std::vector<int> one = {head}, none = {-1};

			each.push_back(std::make_unique<smd_primitives>(block, function, 1, 1,
				send ? none : one, send ? one : none, send ? UP : DOWN));
		}
		for (const smd_round &round : work.rounds) {
			for (int i = 0; i < NCCL_MAX_DIRECT_ARITY && heads[i] != -1; i++) {
				int piece = direct.headRank >= 0 && i >= direct.headRank ? i + 1 : i;

				operate(*each[i], function, work, round.at(piece),
					round.count(piece),
					send ? SOURCE | SMD_SEND : SMD_RECEIVE | TARGET);
			}
		}
	};
	auto head = [&](const std::vector<int> &from, const std::vector<int> &to, int index,
			    unsigned what) {
		smd_primitives primitives(block, function, 1, 1, from, to, index);

		for (const smd_round &round : work.rounds) {
			operate(primitives, function, work, round.at(direct.headRank),
				round.count(direct.headRank), what | SMD_RECEIVE | SMD_SEND);
		}
	};

	if (direct.up[0] != -1) {
		parts.push_back([&] { exchange(true); });
		parts.push_back([&] { exchange(false); });
	}
	if (direct.out != -1) {
		parts.push_back([&] { head(down, network, UP, SOURCE); });
		parts.push_back([&] { head(network, down, DOWN, SMD_END | TARGET); });
	}
	together(parts);
}

static void ring_all_gather(
	const smd_block &block, const smd_function &function, const smd_block_work &work)
{
	ncclRing &ring = block.channel->ring;
	int nranks = block.comm->nRanks;
	smd_primitives primitives(block, function, ALLGATHER_CHUNKSTEPS / ALLGATHER_SLICESTEPS,
		ALLGATHER_SLICESTEPS, {ring.prev}, {ring.next});

	for (const smd_round &round : work.rounds) {
		ssize_t n = round.count();
		size_t byte = round.first * function.size;
		auto target = [&](int distance) {
			return work.target + byte +
			       ring.userRanks[distance % nranks] * work.count * function.size;
		};

		primitives.operate(work.source + byte, target(0), n, SMD_SEND);
		for (int i = 1; i < nranks - 1; i++) {
			primitives.operate(nullptr, target(nranks - i), n, SMD_RECEIVE | SMD_SEND);
		}
		primitives.operate(nullptr, target(1), n, SMD_RECEIVE);
	}
}

static void ring_reduce_scatter(
	const smd_block &block, const smd_function &function, const smd_block_work &work)
{
	ncclRing &ring = block.channel->ring;
	int nranks = block.comm->nRanks;
	smd_primitives primitives(block, function,
		REDUCESCATTER_CHUNKSTEPS / REDUCESCATTER_SLICESTEPS, REDUCESCATTER_SLICESTEPS,
		{ring.prev}, {ring.next});

	for (const smd_round &round : work.rounds) {
		ssize_t n = round.count();
		size_t byte = round.first * function.size;
		auto source = [&](int distance) {
			return work.source + byte +
			       ring.userRanks[distance] * work.count * function.size;
		};

		primitives.operate(source(nranks - 1), nullptr, n, SMD_SEND);
		for (int i = 2; i < nranks; i++) {
			primitives.operate(source(nranks - i), nullptr, n, SMD_RECEIVE | SMD_SEND);
		}
		primitives.operate(source(0), work.target + byte, n, SMD_RECEIVE | SMD_END);
	}
}

static void ring_broadcast(
	const smd_block &block, const smd_function &function, const smd_block_work &work)
{
	ncclRing &ring = block.channel->ring;
	int root = work.root;
	smd_primitives primitives(block, function, BROADCAST_CHUNKSTEPS / BROADCAST_SLICESTEPS,
		BROADCAST_SLICESTEPS, {ring.prev}, {ring.next});
	unsigned what = SMD_RECEIVE | TARGET | SMD_SEND;

	if (ring.userRanks[0] == root) {
		what = SOURCE | TARGET | SMD_SEND;
	} else if (ring.userRanks[1] == root) {
		what = SMD_RECEIVE | TARGET;
	}
	for (const smd_round &round : work.rounds) {
		operate(primitives, function, work, round.first, round.count(), what);
	}
}

void smd_algorithm_collective(
	const smd_block &block, const smd_function &function, const smd_block_work &work)
{
	if (function.collective == ncclFuncAllGather) {
		ring_all_gather(block, function, work);
	} else if (function.collective == ncclFuncReduceScatter) {
		ring_reduce_scatter(block, function, work);
	} else if (function.collective == ncclFuncBroadcast) {
		ring_broadcast(block, function, work);
	} else if (function.algorithm == NCCL_ALGO_COLLNET_CHAIN) {
		chain_all_reduce(block, function, work);
	} else if (function.algorithm == NCCL_ALGO_COLLNET_DIRECT) {
		direct_all_reduce(block, function, work);
	} else if (function.algorithm == NCCL_ALGO_TREE) {
		tree_all_reduce(block, function, work);
	} else {
		ring_all_reduce(block, function, work);
	}
}

void smd_algorithm_transfer(const smd_block &block, const smd_transfer &work)
{
	enum { CONNECTION = 1 };
	size_t at = 0;

	if (work.peer == block.comm->rank) {
		if (work.send) {
			memcpy(work.other, work.memory, work.bytes);
		}
		return;
	}
	smd_function bytewise = {ncclFuncSendRecv, ncclDevSum, ncclUint8, 0,
		work.ll ? NCCL_PROTO_LL : NCCL_PROTO_SIMPLE, 1, 0};
	std::vector<int> from = {work.send ? -1 : work.peer}, to = {work.send ? work.peer : -1};
	smd_primitives primitives(block, bytewise, 1, 1, from, to, CONNECTION,
		work.ll ? 0 : block.comm->p2pChunkSize);

	do { /* also of no bytes: the other side waits for a step */
		size_t n = std::min(work.chunk, work.bytes - at);
		char *memory = work.memory + at;

		primitives.operate(work.send ? memory : nullptr, work.send ? nullptr : memory, n,
			SMD_RECEIVE | SMD_SEND);
		at += n;
	} while (at < work.bytes);
}
