/* Every kernel that is played, by the number that NCCL's host code has for it. */
#include "function.h"

#include "collectives.h" /* NCCL's, and */
#include "core.h"
#include "device.h"

#include <cstdio>
#include <cstdlib>
#include <map>

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
	add_sums(table, ncclFuncAllReduce, NCCL_ALGO_COLLNET_DIRECT);
	add_sums(table, ncclFuncReduceScatter, NCCL_ALGO_RING);
	add_protocols(table, ncclFuncAllGather, ncclDevSum, ncclUint8, NCCL_ALGO_RING);
	add_protocols(table, ncclFuncBroadcast, ncclDevSum, ncclUint8, NCCL_ALGO_RING);
	table.erase(-1); /* what NCCL has no kernel for */
	return table;
}

const smd_function &smd_function_of(int number)
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
