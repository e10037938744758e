/*
 * What the tuner names for NCCL 2.21, which shows no costs: a chain through the servers, or a tree or a ring where
 * these cannot win.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/nccl/tuner_tables.h"

static void it_names_a_chain_a_ring_or_a_tree(void **state)
{
	static const struct {
		int function, collnet;
		size_t nranks, nnodes, bytes;
		const char *algo, *proto;
		int algorithm, protocol;
	} cases[] = {
		{NCCL_FUNC_ALLREDUCE, 1, 2, 2, MIB, NULL, NULL, NCCL_ALGO_COLLNET_CHAIN,
			NCCL_PROTO_SIMPLE},
		{NCCL_FUNC_ALLREDUCE, 1, 2, 2, MIB - 1, NULL, NULL, NCCL_ALGO_RING,
			NCCL_PROTO_SIMPLE},
		{NCCL_FUNC_ALLREDUCE, 1, 2, 2, MIB / 2, NULL, NULL, NCCL_ALGO_RING,
			NCCL_PROTO_SIMPLE},
		{NCCL_FUNC_ALLREDUCE, 1, 2, 2, MIB / 2 - 1, NULL, NULL, NCCL_ALGO_TREE,
			NCCL_PROTO_SIMPLE},
		{NCCL_FUNC_ALLREDUCE, 1, 2, 2, 65536, NULL, NULL, NCCL_ALGO_TREE, NCCL_PROTO_LL},
		{NCCL_FUNC_ALLREDUCE, 1, 2, 2, 65537, NULL, NULL, NCCL_ALGO_TREE,
			NCCL_PROTO_SIMPLE},
		{NCCL_FUNC_ALLREDUCE, 0, 2, 2, MIB, NULL, NULL, UNTOUCHED, UNTOUCHED},
		{NCCL_FUNC_ALLREDUCE, 0, 2, 2, 4, NULL, NULL, UNTOUCHED, UNTOUCHED},
		{NCCL_FUNC_ALLREDUCE, 1, 1, 1, MIB, NULL, NULL, UNTOUCHED, UNTOUCHED},
		{NCCL_FUNC_REDUCESCATTER, 1, 2, 2, MIB, NULL, NULL, UNTOUCHED, UNTOUCHED},
		{NCCL_FUNC_REDUCESCATTER, 1, 2, 2, 4, NULL, NULL, UNTOUCHED, UNTOUCHED},
		{NCCL_FUNC_ALLREDUCE, 1, 2, 2, MIB, "Ring", NULL, UNTOUCHED, UNTOUCHED},
		{NCCL_FUNC_ALLREDUCE, 1, 2, 2, 4, "CollNetChain", NULL, UNTOUCHED, UNTOUCHED},
		{NCCL_FUNC_ALLREDUCE, 1, 2, 2, MIB, NULL, "LL", UNTOUCHED, UNTOUCHED},
		/* Several GPUs in a node: NCCL may have better ways for what is small. */
		{NCCL_FUNC_ALLREDUCE, 1, 4, 2, 65536, NULL, NULL, UNTOUCHED, UNTOUCHED},
		{NCCL_FUNC_ALLREDUCE, 1, 4, 2, MIB, NULL, NULL, NCCL_ALGO_COLLNET_CHAIN,
			NCCL_PROTO_SIMPLE},
	};
	const struct nccl_tuner_v2 *v2 = table_of("ncclTunerPlugin_v2");

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int algorithm = UNTOUCHED, protocol = UNTOUCHED, nchannels = UNTOUCHED;
		void *ctx = open_tuner_for(2, cases[i].nranks, cases[i].nnodes);

		variables_of_a_job(state);
		if (cases[i].algo) {
			setenv("NCCL_ALGO", cases[i].algo, 1);
		}
		if (cases[i].proto) {
			setenv("NCCL_PROTO", cases[i].proto, 1);
		}
		assert_int_equal(v2->getCollInfo(ctx, cases[i].function, cases[i].bytes,
					 cases[i].collnet, 0, 1, &algorithm, &protocol, &nchannels),
			NCCL_SUCCESS);
		assert_int_equal(algorithm, cases[i].algorithm);
		assert_int_equal(protocol, cases[i].protocol);
		assert_int_equal(nchannels, UNTOUCHED);
		close_tuner(2, ctx);
	}
}

/* Of one GPU in each node. */
static void name_for(size_t nnodes, size_t bytes, int *algorithm, int *protocol)
{
	const struct nccl_tuner_v2 *v2 = table_of("ncclTunerPlugin_v2");
	void *ctx = open_tuner_for(2, nnodes, nnodes);
	int nchannels = UNTOUCHED;

	*algorithm = *protocol = UNTOUCHED;
	assert_int_equal(v2->getCollInfo(ctx, NCCL_FUNC_ALLREDUCE, bytes, 1, 0, 1, algorithm,
				 protocol, &nchannels),
		NCCL_SUCCESS);
	close_tuner(2, ctx);
}

static void it_takes_a_chain_from_1_mib_where_servers_can_win(void **state)
{
	static const struct {
		size_t nnodes, bytes;
		int algorithm;
	} cases[] = {
		{4, MIB, NCCL_ALGO_COLLNET_CHAIN},
		{4, MIB - 1, NCCL_ALGO_TREE},
		{2, MIB / 2 - 1, NCCL_ALGO_TREE},
		{2, MIB, NCCL_ALGO_RING},
		{2, 64 * MIB, NCCL_ALGO_RING},
		{16, 4 * MIB - 1, NCCL_ALGO_TREE}, /* 4 servers */
		{16, 4 * MIB, NCCL_ALGO_RING},
	};

	(void)state;
	give_servers(4);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int algorithm, protocol;

		name_for(cases[i].nnodes, cases[i].bytes, &algorithm, &protocol);
		assert_int_equal(algorithm, cases[i].algorithm);
		assert_int_equal(protocol, NCCL_PROTO_SIMPLE);
	}
}

/* As whoever compares with NCCL's own way has it. */
static void it_names_a_ring_below_a_large_size(void **state)
{
	int algorithm, protocol;

	(void)state;
	give_servers(4);
	setenv("SUMMAND_NCCL_MIN_BYTES", "1T", 1);
	for (size_t nnodes = 2; nnodes <= 4; nnodes += 2) {
		name_for(nnodes, 64 * MIB, &algorithm, &protocol);
		assert_int_equal(algorithm, NCCL_ALGO_RING);
		assert_int_equal(protocol, NCCL_PROTO_SIMPLE);
	}
	assert_non_null(strstr(last_line,
		"CollNet for all-reduce from 1099511627776 bytes up, and not below, where it is "
		"tree or ring; the rest is NCCL's"));
}

static void it_tells_what_it_names(void **state)
{
	static const struct {
		const char *bytes, *algo, *links;
		size_t nranks, nnodes;
		const char *line;
	} cases[] = {
		{NULL, NULL, NULL, 4, 4,
			"from 1048576 bytes up, and not below, where it is tree or ring;"},
		{NULL, NULL, "4/1", 8, 4,
			"from 1048576 bytes up; below NCCL chooses, and may take it too;"},
		{NULL, NULL, NULL, 8, 4,
			"every choice is NCCL's, and may be CollNet: nodes have several GPUs, so "
			"SUMMAND_NCCL_SERVER_LINKS must say"},
		{NULL, NULL, NULL, 2, 2,
			"tuner: tree for all-reduce, ring from 524288 bytes up: servers of 4 links "
			"cannot be faster for 2 nodes; SUMMAND_NCCL_MIN_BYTES=1M uses them"},
		{NULL, NULL, NULL, 4, 2,
			"every choice is NCCL's, and may be CollNet, though servers of 4 links "
			"cannot"},
		{"7", NULL, NULL, 2, 2, "from 7 bytes up, and not below"},
		{"7", "Ring", NULL, 2, 2, "every choice is NCCL's: NCCL_ALGO or NCCL_PROTO is set"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		variables_of_a_job(state);
		give_servers(4);
		if (cases[i].bytes) {
			setenv("SUMMAND_NCCL_MIN_BYTES", cases[i].bytes, 1);
		}
		if (cases[i].algo) {
			setenv("NCCL_ALGO", cases[i].algo, 1);
		}
		if (cases[i].links) {
			setenv("SUMMAND_NCCL_SERVER_LINKS", cases[i].links, 1);
		}
		close_tuner(2, open_tuner_for(2, cases[i].nranks, cases[i].nnodes));
		assert_non_null(strstr(last_line, cases[i].line));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(it_names_a_chain_a_ring_or_a_tree, variables_of_a_job),
		cmocka_unit_test_setup(it_takes_a_chain_from_1_mib_where_servers_can_win, variables_of_a_job),
		cmocka_unit_test_setup(it_names_a_ring_below_a_large_size, variables_of_a_job),
		cmocka_unit_test_setup(it_tells_what_it_names, variables_of_a_job),
	};

	return tuner_tables_open() ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
