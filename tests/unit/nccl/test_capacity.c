/* What servers say that they carry, and what the tuner makes of it. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/nccl_plugin/abi/log.h"
#include "worker/nccl_plugin/abi/nccl_abi.h"
#include "worker/nccl_plugin/collnet/capacity.h"
#include "worker/nccl_plugin/collnet/tuner.h"

#define SERVERS 7
#define LARGE   ((size_t)64 << 20)

typedef float costs[NCCL_ALGO_COLLNET_CHAIN + 1][NCCL_PROTO_SIMPLE + 1];

static int nothing_is_set(void **state)
{
	(void)state;
	unsetenv("SUMMAND_NCCL_SERVER_LINKS");
	unsetenv("SUMMAND_NCCL_MIN_BYTES");
	return 0;
}

static struct smd_tuner *open_tuner_on(
	unsigned networks, size_t nranks, size_t nnodes, unsigned nservers)
{
	const struct smd_tuner_servers servers = {nservers, networks, SERVERS};
	struct smd_tuner *tuner = smd_tuner_open(nranks, nnodes, &servers, true);

	assert_non_null(tuner);
	return tuner;
}

static struct smd_tuner *open_tuner(size_t nranks, size_t nnodes, unsigned nservers)
{
	return open_tuner_on(1, nranks, nnodes, nservers);
}

/* Whether an all-reduce goes through the servers, by costs of links of 100 Gbit/s. */
static bool goes_through(struct smd_tuner *tuner, double nranks, size_t bytes)
{
	double link_us = (double)bytes * 8 / 100000;
	costs table;

	for (int a = 0; a <= NCCL_ALGO_COLLNET_CHAIN; a++) {
		for (int p = 0; p <= NCCL_PROTO_SIMPLE; p++) {
			table[a][p] = NCCL_COST_IGNORE;
		}
	}
	table[NCCL_ALGO_RING][NCCL_PROTO_SIMPLE] = (float)(2 * (nranks - 1) / nranks * link_us);
	table[NCCL_ALGO_COLLNET_CHAIN][NCCL_PROTO_SIMPLE] = 14;
	smd_tuner_weigh(tuner, NCCL_FUNC_ALLREDUCE, bytes, &table[0][0],
		NCCL_ALGO_COLLNET_CHAIN + 1, NCCL_PROTO_SIMPLE + 1);
	assert_true(table[NCCL_ALGO_COLLNET_CHAIN][NCCL_PROTO_SIMPLE] == 0 ||
		    table[NCCL_ALGO_COLLNET_CHAIN][NCCL_PROTO_SIMPLE] == NCCL_COST_IGNORE);
	return table[NCCL_ALGO_COLLNET_CHAIN][NCCL_PROTO_SIMPLE] == 0;
}

static void settle(uint32_t mbps, struct smd_capacity **out)
{
	struct smd_error error = {""};

	*out = smd_capacity_get(SERVERS);
	assert_non_null(*out);
	assert_int_equal(smd_capacity_settle(*out, mbps, &error), 0);
}

/* One of 400 Gbit/s does for 4 nodes with links of 100, where one like the nodes' would not; and 4
 * slow ones do not. */
static void servers_count_by_what_they_say(void **state)
{
	static const struct {
		unsigned nservers;
		uint32_t mbps; /* 0: nobody knows */
		bool through;
	} cases[] = {
		{1, 400000, true},
		{1, 275000, true}, /* 16/11 of a link, a ring 6/4 */
		{1, 266000, false},
		{4, 100000, false},
		{4, 0, true},
		{1, 0, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct smd_tuner *tuner = open_tuner(4, 4, cases[i].nservers);
		struct smd_capacity *capacity;

		settle(cases[i].mbps, &capacity); /* NCCL may open the tuner before it connects */
		assert_int_equal(goes_through(tuner, 4, LARGE), cases[i].through);
		assert_false(goes_through(tuner, 4, 4096));
		smd_tuner_close(tuner);
		smd_capacity_put(capacity);
	}
}

/* By NCCL's costs a node has 100 Gbit/s over all of its cards, and one GPU's CollNet goes by one of
 * them; several GPUs' by as many. */
static void one_gpu_has_one_of_a_nodes_networks(void **state)
{
	static const struct {
		unsigned networks;
		size_t nranks;
		uint32_t mbps;
		const char *links;
		bool through;
	} cases[] = {
		{1, 4, 4000000, NULL, true},
		{2, 4, 4000000, NULL, false}, /* twice the time of all cards, a ring 1.5 times */
		{2, 4, 0, NULL, false},
		{2, 8, 0, "4/1", true},
		{2, 8, 0, NULL, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct smd_capacity *capacity;
		struct smd_tuner *tuner;

		setenv(SMD_TUNER_LINKS, cases[i].links ? cases[i].links : "", 1);
		tuner = open_tuner_on(cases[i].networks, cases[i].nranks, 4, 4);
		settle(cases[i].mbps, &capacity);
		assert_int_equal(
			goes_through(tuner, (double)cases[i].nranks, LARGE), cases[i].through);
		smd_tuner_close(tuner);
		smd_capacity_put(capacity);
	}
}

static void networks_are_those_of_the_node(void **state)
{
	char both[] = "10.2.0.9:1+10.3.0.9:1", one[] = "10.2.0.8:1";
	const struct smd_config config = {.nservers = 2, .servers = {both, one}};

	(void)state;
	assert_int_equal(smd_tuner_find_servers(&config, 1).networks, 1);
	assert_int_equal(smd_tuner_find_servers(&config, 2).networks, 2);
	assert_int_equal(smd_tuner_find_servers(&config, 8).networks, 8);
	assert_int_equal(smd_tuner_find_servers(&config, 8).count, 2);
}

static char last_line[320];
static unsigned nlines;

static void keep_line(enum nccl_log_level level, unsigned long subsystems, const char *file,
	int line, const char *format, ...)
{
	va_list args;

	(void)level;
	(void)subsystems;
	(void)file;
	(void)line;
	va_start(args, format);
	vsnprintf(last_line, sizeof(last_line), format, args);
	va_end(args);
	nlines++;
}

/* What servers say is known when NCCL asks for the first time. */
static void servers_that_cannot_be_faster_are_told_of(void **state)
{
	static const struct {
		uint32_t mbps;
		const char *says;
	} cases[] = {{100000, "servers that carry 100000 Mbit/s cannot be faster for 4 nodes"},
		{0, "servers of 1 links cannot be faster for 4 nodes"}};

	(void)state;
	smd_nccl_log_open(keep_line);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct smd_tuner *tuner = open_tuner(4, 4, 1);
		struct smd_capacity *capacity;

		settle(cases[i].mbps, &capacity);
		assert_false(goes_through(tuner, 4, LARGE));
		assert_non_null(strstr(last_line, cases[i].says));
		smd_tuner_close(tuner);
		smd_capacity_put(capacity);
	}
	smd_nccl_log_open(NULL);
}

/* A tuner has two lines then; another communicator over the same servers has no others. */
static void several_communicators_say_that_once(void **state)
{
	struct smd_tuner *tuners[3];
	struct smd_capacity *capacity;

	(void)state;
	settle(90000, &capacity);
	smd_nccl_log_open(keep_line);
	nlines = 0;
	for (int i = 0; i < 3; i++) {
		tuners[i] = open_tuner(4, 4, 1);
		assert_false(goes_through(tuners[i], 4, LARGE));
	}
	assert_int_equal(nlines, 2);
	for (int i = 0; i < 3; i++) {
		smd_tuner_close(tuners[i]);
	}
	smd_nccl_log_open(NULL);
	smd_capacity_put(capacity);
}

/* Of two GPUs in a node one may not hear what the servers say: for neither they pay then. */
static void where_some_rank_may_not_hear_it_nobody_goes_by_it(void **state)
{
	struct smd_tuner *tuner = open_tuner(8, 4, 4);
	struct smd_capacity *capacity;

	(void)state;
	settle(400000, &capacity);
	assert_false(goes_through(tuner, 8, LARGE));
	smd_tuner_close(tuner);
	smd_capacity_put(capacity);
}

static void what_is_set_comes_first(void **state)
{
	struct smd_capacity *capacity;
	struct smd_tuner *tuner;

	(void)state;
	settle(400000, &capacity);
	setenv("SUMMAND_NCCL_SERVER_LINKS", "1/1", 1);
	tuner = open_tuner(4, 4, 4);
	assert_false(goes_through(tuner, 4, LARGE));
	smd_tuner_close(tuner);
	setenv("SUMMAND_NCCL_SERVER_LINKS", "1/0", 1); /* as if it were not */
	tuner = open_tuner(4, 4, 1);
	assert_true(goes_through(tuner, 4, LARGE));
	smd_tuner_close(tuner);
	smd_capacity_put(capacity);
}

/* Choices must not change while anybody makes them; a program that begins anew may have others. */
static void it_stays_while_anybody_has_it(void **state)
{
	struct smd_capacity *mine, *yours, *others = smd_capacity_get(SERVERS + 1);
	struct smd_error error = {""};

	(void)state;
	settle(400000, &mine);
	yours = smd_capacity_get(SERVERS);
	assert_int_equal(smd_capacity_vote(yours, 100000), 400000);
	assert_int_equal(smd_capacity_vote(others, 100000), 100000);
	assert_int_equal(smd_capacity_settle(yours, 100000, &error), -EINVAL);
	assert_non_null(strstr(error.text, "400000 Mbit/s, got 100000"));
	smd_capacity_put(mine);
	assert_int_equal(smd_capacity_mbps(yours), 400000);
	smd_capacity_put(yours);
	settle(0, &mine);
	assert_int_equal(smd_capacity_vote(mine, 100000), SMD_CAPACITY_NONE); /* settled, too */
	assert_int_equal(smd_capacity_settle(mine, SMD_CAPACITY_NONE, &error), 0);
	assert_int_equal(smd_capacity_settle(mine, 100000, &error), -EINVAL);
	assert_int_equal(smd_capacity_mbps(others), 0);
	smd_capacity_put(mine);
	smd_capacity_put(others);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(servers_count_by_what_they_say, nothing_is_set),
		cmocka_unit_test_setup(one_gpu_has_one_of_a_nodes_networks, nothing_is_set),
		cmocka_unit_test_setup(
			networks_are_those_of_the_node, nothing_is_set),
		cmocka_unit_test_setup(servers_that_cannot_be_faster_are_told_of, nothing_is_set),
		cmocka_unit_test_setup(several_communicators_say_that_once, nothing_is_set),
		cmocka_unit_test_setup(
			where_some_rank_may_not_hear_it_nobody_goes_by_it, nothing_is_set),
		cmocka_unit_test_setup(what_is_set_comes_first, nothing_is_set),
		cmocka_unit_test_setup(it_stays_while_anybody_has_it, nothing_is_set),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
