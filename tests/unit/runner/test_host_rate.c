/* What a reduction server is told that its host carries, and where it is told nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "orchestrator/runner/host.h"

static const struct smd_host_interface ethernet = {.name = "eth0", .speed_mbps = 10000};
static const struct smd_host_interface another = {.name = "eth1", .speed_mbps = 25000};
static const struct smd_host_interface slow = {.name = "eth2", .speed_mbps = 0};
static const struct smd_host_interface loop = {.name = "lo", .is_loopback = 1, .speed_mbps = 1};
static const struct smd_host_rails one = {{{NULL, &ethernet}}, 1};
static const struct smd_host_rails two = {{{NULL, &ethernet}, {NULL, &another}}, 2};
static const struct smd_host_rails unknown = {{{NULL, &ethernet}, {NULL, &slow}}, 2};
static const struct smd_host_rails loopback = {{{NULL, &loop}}, 1};

static void servers_share_what_a_host_has(void **state)
{
	static const struct smd_host_facts facts = {.nrdma = 0};

	(void)state;
	assert_int_equal(smd_run_host_server_mbps(&facts, &one, 1), 10000);
	assert_int_equal(smd_run_host_server_mbps(&facts, &one, 4), 2500);
	assert_int_equal(smd_run_host_server_mbps(&facts, &one, 0), 0);
	assert_int_equal(smd_run_host_server_mbps(&facts, &loopback, 1), 0);
	assert_int_equal(smd_run_host_server_mbps(&facts, &two, 2), 17500);
	assert_int_equal(smd_run_host_server_mbps(&facts, &unknown, 1), 0); /* it finds out */
	assert_int_equal(smd_run_host_server_parts(&facts, &one, 4), 0);
}

/* An interface of 10 Gbit/s leads to a server whose card has 400: it reads that itself. */
static void a_server_with_rdma_finds_out_by_itself(void **state)
{
	static const struct smd_host_facts facts = {.nrdma = 1};

	(void)state;
	assert_int_equal(smd_run_host_server_mbps(&facts, &one, 1), 0);
	assert_int_equal(smd_run_host_server_mbps(&facts, &one, 2), 0);
	assert_int_equal(smd_run_host_server_parts(&facts, &one, 2), 2); /* not twice all */
	assert_int_equal(smd_run_host_server_parts(&facts, &loopback, 2), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(servers_share_what_a_host_has),
		cmocka_unit_test(a_server_with_rdma_finds_out_by_itself),
	};

	return cmocka_run_group_tests_name("host rate", tests, NULL, NULL);
}
