/* The tuner's tables, called as the versions of NCCL call them that know each of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/nccl/tuner_tables.h"

/* What NCCL would have without switches between GPUs: network latencies, and no CollNet but with
 * the simple protocol. */
static const costs of_nccl = {
	{20, 30, 40},
	{25, 35, 45},
	{NCCL_COST_IGNORE, NCCL_COST_IGNORE, NCCL_COST_IGNORE},
	{NCCL_COST_IGNORE, NCCL_COST_IGNORE, 50},
	{NCCL_COST_IGNORE, NCCL_COST_IGNORE, NCCL_COST_IGNORE},
	{NCCL_COST_IGNORE, NCCL_COST_IGNORE, NCCL_COST_IGNORE},
	{NCCL_COST_IGNORE, NCCL_COST_IGNORE, NCCL_COST_IGNORE},
};

static bool is_through_collnet(int algorithm)
{
	return algorithm == NCCL_ALGO_COLLNET_DIRECT || algorithm == NCCL_ALGO_COLLNET_CHAIN ||
	       algorithm == NCCL_ALGO_NVLS;
}

/* A chain is taken out then, whatever is chosen. */
static bool has_switches(const costs table)
{
	return table[NCCL_ALGO_COLLNET_DIRECT][NCCL_PROTO_SIMPLE] >= 0 ||
	       table[NCCL_ALGO_NVLS][NCCL_PROTO_SIMPLE] >= 0 ||
	       table[NCCL_ALGO_NVLS_TREE][NCCL_PROTO_SIMPLE] >= 0;
}

/*
 * Which algorithm has become the cheapest; nothing else may have changed then. SHUT: every way
 * through CollNet has been taken out, and nothing else. -1: nothing has changed.
 */
static int changed(const costs before, const costs after)
{
	int found = -1;

	for (int a = 0; a < ALGORITHMS; a++) {
		for (int p = 0; p < PROTOCOLS; p++) {
			if (before[a][p] == after[a][p] ||
				(a == NCCL_ALGO_COLLNET_CHAIN && has_switches(before))) {
				continue;
			}
			assert_int_equal(p, NCCL_PROTO_SIMPLE);
			assert_true(is_through_collnet(a));
			assert_true(found == -1 || (found == SHUT && after[a][p] != 0));
			found = after[a][p] == 0 ? a : SHUT;
		}
	}
	for (int a = 0; found == SHUT && a < ALGORITHMS; a++) {
		for (int p = 0; is_through_collnet(a) && p < PROTOCOLS; p++) {
			assert_true(after[a][p] == NCCL_COST_IGNORE);
		}
	}
	return found;
}

static int choice_of(int version, void *ctx, int function, size_t bytes, const costs before)
{
	costs table;

	memcpy(table, before, sizeof(table));
	ask(version, ctx, function, bytes, table);
	return changed(before, table);
}

/* Opens, asks once, closes. */
static int choice(int version, size_t nnodes, size_t bytes, const costs before)
{
	void *ctx = open_tuner(version, nnodes);
	int found = choice_of(version, ctx, NCCL_FUNC_ALLREDUCE, bytes, before);

	close_tuner(version, ctx);
	return found;
}

static void large_allreduces_go_through_collnet(void **state)
{
	(void)state;
	for (int version = 3; version <= 5; version++) {
		void *ctx = open_tuner(version, 2);

		assert_int_equal(choice_of(version, ctx, NCCL_FUNC_ALLREDUCE, MIB, of_nccl),
			NCCL_ALGO_COLLNET_CHAIN);
		assert_int_equal(
			choice_of(version, ctx, NCCL_FUNC_ALLREDUCE, MIB - 1, of_nccl), SHUT);
		assert_int_equal(choice_of(version, ctx, NCCL_FUNC_ALLREDUCE, 1 << 30, of_nccl),
			NCCL_ALGO_COLLNET_CHAIN);
		close_tuner(version, ctx);
	}
}

/* NCCL has CollNetDirect and NVLS for all-gather and reduce-scatter, and knows nothing of what
 * servers carry. What NCCL_ALGO leaves alone is what the user asks for. */
static void other_collectives_do_not(void **state)
{
	static const int ways[] = {NCCL_ALGO_COLLNET_DIRECT, NCCL_ALGO_NVLS};

	for (int version = 3; version <= 5; version++) {
		for (size_t way = 0; way < 2; way++) {
			void *ctx;
			costs table;

			variables_of_a_job(state);
			setenv("SUMMAND_NCCL_MIN_BYTES", way ? "0" : "1T", 1);
			ctx = open_tuner(version, 4);
			for (int function = 0; function < NCCL_FUNC_ALLREDUCE; function++) {
				memcpy(table, of_nccl, sizeof(table));
				table[ways[way]][NCCL_PROTO_SIMPLE] = 1;
				assert_int_equal(
					choice_of(version, ctx, function, MIB, table), SHUT);
				for (int p = 0; p < PROTOCOLS; p++) {
					table[NCCL_ALGO_TREE][p] = NCCL_COST_IGNORE;
					table[NCCL_ALGO_RING][p] = NCCL_COST_IGNORE;
				}
				assert_int_equal(choice_of(version, ctx, function, MIB, table), -1);
			}
			close_tuner(version, ctx);
		}
	}
}

static void the_cheapest_way_through_collnet_is_taken(void **state)
{
	costs table;

	(void)state;
	memcpy(table, of_nccl, sizeof(table));
	for (int version = 3; version <= 5; version++) {
		table[NCCL_ALGO_COLLNET_DIRECT][NCCL_PROTO_SIMPLE] = 49;
		assert_int_equal(choice(version, 4, MIB, table), NCCL_ALGO_COLLNET_DIRECT);
		table[NCCL_ALGO_COLLNET_DIRECT][NCCL_PROTO_SIMPLE] = NCCL_COST_IGNORE;
		assert_int_equal(choice(version, 4, MIB, table), NCCL_ALGO_COLLNET_CHAIN);
		table[NCCL_ALGO_COLLNET_DIRECT][NCCL_PROTO_SIMPLE] = 49;
		table[NCCL_ALGO_COLLNET_CHAIN][NCCL_PROTO_SIMPLE] = NCCL_COST_IGNORE;
		table[NCCL_ALGO_NVLS][NCCL_PROTO_SIMPLE] = 48;
		assert_int_equal(choice(version, 4, MIB, table), NCCL_ALGO_NVLS);
		table[NCCL_ALGO_NVLS][NCCL_PROTO_SIMPLE] = NCCL_COST_IGNORE;
		table[NCCL_ALGO_COLLNET_CHAIN][NCCL_PROTO_SIMPLE] = 50;
	}
}

/* Where NVLS has been set up, a chain may have no resources (NCCL 2.28.3 to 2.30.4). */
static void the_chain_is_not_taken_where_there_is_nvls(void **state)
{
	static const int of_nvls[] = {NCCL_ALGO_NVLS, NCCL_ALGO_NVLS_TREE};

	(void)state;
	for (int version = 3; version <= 5; version++) {
		void *ctx = open_tuner(version, 4);

		for (size_t i = 0; i < 2; i++) {
			costs table;

			memcpy(table, of_nccl, sizeof(table));
			table[of_nvls[i]][NCCL_PROTO_SIMPLE] = 1000;
			table[NCCL_ALGO_COLLNET_DIRECT][NCCL_PROTO_SIMPLE] = 60;
			ask(version, ctx, NCCL_FUNC_ALLREDUCE, MIB, table);
			assert_true(table[NCCL_ALGO_COLLNET_CHAIN][NCCL_PROTO_SIMPLE] ==
				    NCCL_COST_IGNORE);
			assert_true(table[NCCL_ALGO_COLLNET_DIRECT][NCCL_PROTO_SIMPLE] == 0);
		}
		close_tuner(version, ctx);
	}
}

/* NVLS sums no averages of floats, but its heads are there: as CollNetDirect says, which needs the
 * same switches, or an operation before. */
static void nor_for_what_nvls_cannot_sum(void **state)
{
	(void)state;
	for (int version = 3; version <= 5; version++) {
		void *ctx = open_tuner(version, 4);
		costs table;

		memcpy(table, of_nccl, sizeof(table)); /* NVLS has no cost */
		table[NCCL_ALGO_COLLNET_DIRECT][NCCL_PROTO_SIMPLE] = 10000;
		ask(version, ctx, NCCL_FUNC_ALLREDUCE, MIB, table);
		assert_true(table[NCCL_ALGO_COLLNET_CHAIN][NCCL_PROTO_SIMPLE] == NCCL_COST_IGNORE);
		assert_true(table[NCCL_ALGO_COLLNET_DIRECT][NCCL_PROTO_SIMPLE] == 0);
		memcpy(table, of_nccl, sizeof(table));
		table[NCCL_ALGO_COLLNET_DIRECT][NCCL_PROTO_SIMPLE] = NCCL_COST_IGNORE;
		table[NCCL_ALGO_NVLS_TREE][NCCL_PROTO_SIMPLE] = 1000;
		ask(version, ctx, NCCL_FUNC_ALLREDUCE, MIB, table);
		memcpy(table, of_nccl, sizeof(table));
		table[NCCL_ALGO_COLLNET_DIRECT][NCCL_PROTO_SIMPLE] = NCCL_COST_IGNORE;
		ask(version, ctx, NCCL_FUNC_ALLREDUCE, MIB, table);
		assert_true(table[NCCL_ALGO_COLLNET_CHAIN][NCCL_PROTO_SIMPLE] == NCCL_COST_IGNORE);
		close_tuner(version, ctx);
	}
}

static void what_nccl_cannot_use_stays_so(void **state)
{
	costs table;

	(void)state;
	memcpy(table, of_nccl, sizeof(table));
	table[NCCL_ALGO_COLLNET_DIRECT][NCCL_PROTO_SIMPLE] = NCCL_COST_IGNORE;
	table[NCCL_ALGO_COLLNET_CHAIN][NCCL_PROTO_SIMPLE] = NCCL_COST_IGNORE;
	table[NCCL_ALGO_NVLS][NCCL_PROTO_SIMPLE] = NCCL_COST_IGNORE;
	for (int version = 3; version <= 5; version++) {
		assert_int_equal(choice(version, 4, MIB, table), -1);
		assert_int_equal(choice(version, 4, 4, table), -1);
	}
}

/* By NCCL_ALGO it may have nothing else; without any algorithm NCCL would end the communicator. */
static void small_ones_are_not_left_without_a_way(void **state)
{
	costs table;

	(void)state;
	for (int a = 0; a < ALGORITHMS; a++) {
		for (int p = 0; p < PROTOCOLS; p++) {
			table[a][p] = NCCL_COST_IGNORE;
		}
	}
	table[NCCL_ALGO_COLLNET_CHAIN][NCCL_PROTO_SIMPLE] = 14;
	for (int version = 3; version <= 5; version++) {
		assert_int_equal(choice(version, 4, 4, table), -1);
		assert_int_equal(choice(version, 4, MIB, table), NCCL_ALGO_COLLNET_CHAIN);
	}
}

/* Rows and columns that NCCL does not have are not touched: it had less of them, and may again. */
static void smaller_tables_are_not_overrun(void **state)
{
	const struct nccl_tuner_v3 *v3 = table_of("ncclTunerPlugin_v3");
	void *ctx = open_tuner(3, 4);
	int nchannels = 0;
	costs table;

	(void)state;
	memcpy(table, of_nccl, sizeof(table));
	assert_int_equal(v3->getCollInfo(ctx, NCCL_FUNC_ALLREDUCE, MIB, 1, (float **)table,
				 NCCL_ALGO_COLLNET_DIRECT, PROTOCOLS, &nchannels),
		NCCL_SUCCESS);
	assert_int_equal(v3->getCollInfo(ctx, NCCL_FUNC_ALLREDUCE, MIB, 1, (float **)table,
				 ALGORITHMS, NCCL_PROTO_SIMPLE, &nchannels),
		NCCL_SUCCESS);
	assert_int_equal(v3->getCollInfo(ctx, NCCL_FUNC_ALLREDUCE, 4, 1, (float **)table,
				 NCCL_ALGO_COLLNET_DIRECT, PROTOCOLS, &nchannels),
		NCCL_SUCCESS);
	assert_int_equal(changed(of_nccl, table), -1);
	close_tuner(3, ctx);
}

static void the_size_is_the_users(void **state)
{
	(void)state;
	setenv("SUMMAND_NCCL_MIN_BYTES", "64K", 1);
	assert_int_equal(choice(5, 2, 65536, of_nccl), NCCL_ALGO_COLLNET_CHAIN);
	assert_int_equal(choice(5, 2, 65535, of_nccl), SHUT);
	setenv("SUMMAND_NCCL_MIN_BYTES", "0", 1);
	assert_int_equal(choice(5, 2, 4, of_nccl), NCCL_ALGO_COLLNET_CHAIN);
	assert_non_null(strstr(last_line, "from 0 bytes up"));
}

/* One GPU in a node: a ring of NCCL's model, a tree that is hardly better, a chain. */
static void set_costs(costs table, size_t nnodes, size_t bytes, double gbytes_per_s)
{
	double link_us = (double)bytes / gbytes_per_s / 1e3;
	double n = (double)nnodes;

	for (int a = 0; a < ALGORITHMS; a++) {
		for (int p = 0; p < PROTOCOLS; p++) {
			table[a][p] = NCCL_COST_IGNORE;
		}
	}
	table[NCCL_ALGO_RING][NCCL_PROTO_SIMPLE] = (float)(9 * n + 2 * (n - 1) / n * link_us);
	table[NCCL_ALGO_TREE][NCCL_PROTO_SIMPLE] = (float)(30 + 2.2 * link_us);
	table[NCCL_ALGO_COLLNET_CHAIN][NCCL_PROTO_SIMPLE] = (float)(14 + 2 * link_us);
}

/* a + M/B through the servers against NCCL's best: on faster links servers pay later. */
static void without_a_size_what_nccl_expects_decides(void **state)
{
	static const struct {
		size_t nnodes;
		unsigned servers;
		size_t bytes;
		double gbytes_per_s;
		int expected;
	} cases[] = {
		{4, 4, 64 << 10, 1.25, SHUT},
		{4, 4, 512 << 10, 1.25, NCCL_ALGO_COLLNET_CHAIN},
		{4, 4, 512 << 10, 12.5, SHUT},
		{4, 4, 4 << 20, 12.5, NCCL_ALGO_COLLNET_CHAIN},
		{8, 8, 1 << 20, 12.5, NCCL_ALGO_COLLNET_CHAIN},
		{8, 6, 64 << 20, 12.5, NCCL_ALGO_COLLNET_CHAIN}, /* 8/6 of a link, a ring 14/8 */
		{8, 4, 64 << 20, 12.5, SHUT},                    /* twice a link */
		{2, 2, 64 << 20, 1.25, SHUT},                    /* as much as a ring */
		{3, 1, 64 << 20, 1.25, SHUT},
	};

	(void)state;
	for (int version = 3; version <= 5; version++) {
		for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
			void *ctx;
			costs table;

			give_servers(cases[i].servers);
			ctx = open_tuner_for(version, cases[i].nnodes, cases[i].nnodes);
			set_costs(table, cases[i].nnodes, cases[i].bytes, cases[i].gbytes_per_s);
			assert_int_equal(
				choice_of(version, ctx, NCCL_FUNC_ALLREDUCE, cases[i].bytes, table),
				cases[i].expected);
			close_tuner(version, ctx);
		}
	}
}

/* What servers' links carry may be more than nodes' do, or less. */
static void servers_count_as_much_as_their_links(void **state)
{
	static const struct {
		const char *links;
		unsigned servers;
		int expected;
	} cases[] = {
		{"400/100", 1, NCCL_ALGO_COLLNET_CHAIN},
		{"11/4", 1, NCCL_ALGO_COLLNET_CHAIN}, /* 16/11 of a link, a ring 6/4 */
		{"10/4", 1, SHUT},                    /* 16/10 */
		{"10/25", 4, SHUT},
		{"", 4, NCCL_ALGO_COLLNET_CHAIN},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		void *ctx;
		costs table;

		give_servers(cases[i].servers);
		setenv("SUMMAND_NCCL_SERVER_LINKS", cases[i].links, 1);
		ctx = open_tuner_for(5, 4, 4);
		set_costs(table, 4, 64 << 20, 12.5);
		assert_int_equal(choice_of(5, ctx, NCCL_FUNC_ALLREDUCE, 64 << 20, table),
			cases[i].expected);
		close_tuner(5, ctx);
	}
}

/* The number of servers counts, as if nothing were set. */
static void bad_links_are_told_and_not_used(void **state)
{
	static const char *const bad[] = {"4", "0/1", "4/0", "4.5/1", "-4/1", "lots"};

	(void)state;
	give_servers(4);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		void *ctx;
		costs table;

		unsetenv("SUMMAND_NCCL_SERVER_LINKS");
		close_tuner(5, open_tuner_for(5, 3, 3)); /* so that the next is news */
		setenv("SUMMAND_NCCL_SERVER_LINKS", bad[i], 1);
		warned = 0;
		ctx = open_tuner_for(5, 4, 4);
		assert_int_equal(warned, 1);
		set_costs(table, 4, 64 << 20, 12.5);
		assert_int_equal(choice_of(5, ctx, NCCL_FUNC_ALLREDUCE, 64 << 20, table),
			NCCL_ALGO_COLLNET_CHAIN);
		close_tuner(5, ctx);
	}
}

/* NCCL makes a ring of float8 1,024 times as dear; the link is as fast as before. */
static void a_ring_that_is_not_wanted_does_not_hide_the_link(void **state)
{
	void *ctx;
	costs table;

	(void)state;
	give_servers(4);
	ctx = open_tuner_for(5, 4, 4);
	set_costs(table, 4, 64 << 20, 12.5);
	table[NCCL_ALGO_RING][NCCL_PROTO_SIMPLE] *= 1024;
	assert_int_equal(
		choice_of(5, ctx, NCCL_FUNC_ALLREDUCE, 64 << 20, table), NCCL_ALGO_COLLNET_CHAIN);
	close_tuner(5, ctx);
}

/* A server is no more as fast as a node then, and not every rank hears what servers carry. */
static void nodes_of_several_gpus_need_to_be_told_what_servers_carry(void **state)
{
	static const struct {
		const char *links, *bytes;
		int expected;
		const char *line;
	} cases[] = {
		{NULL, NULL, SHUT,
			"tuner: every choice is NCCL's: nodes have several GPUs, so "
			"SUMMAND_NCCL_SERVER_LINKS must say"},
		{"800/100", NULL, NCCL_ALGO_COLLNET_DIRECT, "8 nodes and servers of 8 links"},
		{"800/200", NULL, SHUT, "servers of 4 links cannot be faster for 8 nodes"},
		{NULL, "1M", NCCL_ALGO_COLLNET_DIRECT, "from 1048576 bytes up"},
	};

	(void)state;
	for (int version = 3; version <= 5; version++) {
		for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
			void *ctx;
			costs table;

			give_servers(8);
			unsetenv("SUMMAND_NCCL_SERVER_LINKS");
			if (cases[i].links) {
				setenv("SUMMAND_NCCL_SERVER_LINKS", cases[i].links, 1);
			}
			if (cases[i].bytes) {
				setenv("SUMMAND_NCCL_MIN_BYTES", cases[i].bytes, 1);
			}
			ctx = open_tuner_for(version, 8 * 8, 8);
			assert_non_null(strstr(last_line, cases[i].line));
			set_costs(table, 8 * 8, 64 * MIB, 12.5);
			table[NCCL_ALGO_COLLNET_DIRECT][NCCL_PROTO_SIMPLE] =
				table[NCCL_ALGO_COLLNET_CHAIN][NCCL_PROTO_SIMPLE];
			assert_int_equal(
				choice_of(version, ctx, NCCL_FUNC_ALLREDUCE, 64 * MIB, table),
				cases[i].expected);
			close_tuner(version, ctx);
		}
	}
}

static void servers_that_cannot_win_are_told(void **state)
{
	(void)state;
	give_servers(2);
	close_tuner(5, open_tuner(5, 2));
	assert_non_null(strstr(last_line, "servers of 2 links cannot be faster for 2 nodes"));
	assert_non_null(strstr(last_line, "SUMMAND_NCCL_MIN_BYTES=1M uses them all the same"));
	give_servers(3);
	setenv("SUMMAND_NCCL_SERVER_LINKS", "3/1", 1);
	close_tuner(5, open_tuner(5, 3));
	assert_non_null(
		strstr(last_line, "it makes faster, by NCCL's costs for 3 nodes and servers of 3 links"));
}

static void a_bad_size_is_told_and_not_used(void **state)
{
	static const char *const bad[] = {"1 M", "-1", "lots", "1e6", "99999999999T"};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		setenv("SUMMAND_NCCL_MIN_BYTES", "7", 1);
		assert_int_equal(choice(5, 2, 7, of_nccl), NCCL_ALGO_COLLNET_CHAIN);
		setenv("SUMMAND_NCCL_MIN_BYTES", bad[i], 1);
		warned = 0;
		assert_int_equal(choice(5, 2, MIB, of_nccl), SHUT); /* two nodes */
		assert_int_equal(warned, 1);
	}
}

/* NCCL uses the tuner of a library whose networks have declined too. */
static void off_it_leaves_everything_alone(void **state)
{
	for (int version = 3; version <= 5; version++) {
		setenv("NCCL_COLLNET_ENABLE", "0", 1);
		assert_int_equal(choice(version, 4, MIB, of_nccl), -1);
		assert_non_null(strstr(last_line, "every choice is NCCL's"));
		variables_of_a_job(state);
		unsetenv("SUMMAND_REDUCTION_SERVERS");
		assert_int_equal(choice(version, 4, MIB, of_nccl), -1);
		variables_of_a_job(state);
		assert_int_equal(choice(version, 1, MIB, of_nccl), -1);
		assert_int_equal(choice(version, 4, MIB, of_nccl), NCCL_ALGO_COLLNET_CHAIN);
	}
}

static void it_says_what_it_does_once(void **state)
{
	(void)state;
	setenv("SUMMAND_NCCL_MIN_BYTES", "3M", 1);
	informed = 0;
	for (int i = 0; i < 6; i++) {
		close_tuner(5, open_tuner(5, i % 2 ? 4 : 1));
	}
	assert_int_equal(informed, 1);
	assert_non_null(strstr(last_line, "from 3145728 bytes up"));
}

/* Communicators of other numbers of nodes come and go beside each other; none says again what one
 * has that is there. */
static void several_at_a_time_say_each_line_once(void **state)
{
	void *large, *small;

	(void)state;
	give_servers(3);
	informed = 0;
	large = open_tuner(5, 3);
	small = open_tuner(5, 2);
	assert_int_equal(informed, 2);
	for (int i = 0; i < 6; i++) {
		close_tuner(5, open_tuner(5, i % 2 ? 2 : 3));
	}
	assert_int_equal(informed, 2);
	close_tuner(5, large);
	large = open_tuner(5, 3); /* who spoke last spoke of two nodes */
	assert_int_equal(informed, 3);
	close_tuner(5, large);
	close_tuner(5, small);
}

/*
 * NCCL 2.26 and 2.27 take the tuner from the network plugin's handle, count no reference, and give
 * the handle back with the tuner: before the last communicator closes its connections.
 */
static void nccl_may_drop_it_before_its_last_call(void **state)
{
	const struct nccl_net_v10 *net = table_of("ncclNetPlugin_v10");
	void *tuner = open_tuner(4, 4);
	int ndevices = UNTOUCHED;

	(void)state;
	close_tuner(4, tuner);
	assert_int_equal(dlclose(library), 0);
	assert_non_null(net->devices);
	(void)net->devices(&ndevices);
	library = dlopen(PLUGIN, RTLD_NOW | RTLD_LOCAL);
	assert_non_null(library);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(large_allreduces_go_through_collnet, variables_of_a_job),
		cmocka_unit_test_setup(other_collectives_do_not, variables_of_a_job),
		cmocka_unit_test_setup(
			the_cheapest_way_through_collnet_is_taken, variables_of_a_job),
		cmocka_unit_test_setup(what_nccl_cannot_use_stays_so, variables_of_a_job),
		cmocka_unit_test_setup(small_ones_are_not_left_without_a_way, variables_of_a_job),
		cmocka_unit_test_setup(smaller_tables_are_not_overrun, variables_of_a_job),
		cmocka_unit_test_setup(the_size_is_the_users, variables_of_a_job),
		cmocka_unit_test_setup(
			the_chain_is_not_taken_where_there_is_nvls, variables_of_a_job),
		cmocka_unit_test_setup(nor_for_what_nvls_cannot_sum, variables_of_a_job),
		cmocka_unit_test_setup(
			without_a_size_what_nccl_expects_decides, variables_of_a_job),
		cmocka_unit_test_setup(
			a_ring_that_is_not_wanted_does_not_hide_the_link, variables_of_a_job),
		cmocka_unit_test_setup(servers_count_as_much_as_their_links, variables_of_a_job),
		cmocka_unit_test_setup(bad_links_are_told_and_not_used, variables_of_a_job),
		cmocka_unit_test_setup(nodes_of_several_gpus_need_to_be_told_what_servers_carry,
			variables_of_a_job),
		cmocka_unit_test_setup(servers_that_cannot_win_are_told, variables_of_a_job),
		cmocka_unit_test_setup(a_bad_size_is_told_and_not_used, variables_of_a_job),
		cmocka_unit_test_setup(off_it_leaves_everything_alone, variables_of_a_job),
		cmocka_unit_test_setup(it_says_what_it_does_once, variables_of_a_job),
		cmocka_unit_test_setup(several_at_a_time_say_each_line_once, variables_of_a_job),
		cmocka_unit_test_setup(nccl_may_drop_it_before_its_last_call, variables_of_a_job),
	};

	return tuner_tables_open() ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
