/* Which replica goes to which host. */
#include "orchestrator/runner/placing.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char v100[] = "NVIDIA_TESLA_V100";

/* A chief, three workers and two servers. */
static struct smd_job make_job(void)
{
	return (struct smd_job){.processes_per_replica = 1,
		.pools = {{.index = 0, .replica_count = 1}, {.index = 1, .replica_count = 3},
			{.index = 2, .replica_count = 2}, {.index = 3}}};
}

/* "0 012 34": the hosts of each pool's replicas, or what is wrong. */
static void expect(const struct smd_job *job, const struct smd_place *places, size_t count,
	int may_share, const char *expected)
{
	struct smd_error error = {""};
	int *host_of[SMD_JOB_POOLS_MAX];
	char text[64] = "";
	size_t used = 0;
	int ret = smd_placing_decide(job, places, count, may_share, host_of, &error);

	if (ret) {
		assert_int_equal(ret, -ENOSPC);
		assert_string_equal(error.text, expected);
		return;
	}
	for (int pool = 0; pool < SMD_JOB_POOLS_MAX; pool++) {
		for (int i = 0; i < job->pools[pool].replica_count; i++) {
			text[used++] = (char)('0' + host_of[pool][i]);
		}
		if (pool < SMD_JOB_POOLS_MAX - 1 && job->pools[pool + 1].replica_count > 0) {
			text[used++] = ' ';
		}
		assert_true((host_of[pool] == NULL) == (job->pools[pool].replica_count == 0));
		free(host_of[pool]);
	}
	assert_string_equal(text, expected);
}

static void test_hosts_are_filled_in_order(void **state)
{
	const struct smd_job job = make_job();
	const struct smd_place places[] = {{"a", -1, 2, 0}, {"b", -1, 1, 0}, {"c", -1, 4, 0}};
	const struct smd_place one[] = {{"a", -1, 0, 0}};

	(void)state;
	expect(&job, places, 3, 0, "0 012 22");
	expect(&job, one, 1, 0, "0 000 00");
	expect(&job, places, 2, 0,
		"hosts: workerpool1-2 must find a host with 1 free slot, got none: 2 hosts with 3 "
		"slots "
		"in all");
}

static void test_a_host_that_takes_nothing(void **state)
{
	const struct smd_job job = make_job();
	const struct smd_place places[] = {
		{"a", -1, 2, 0}, {"b", SMD_PLACE_NO_POOL, 0, 0}, {"c", -1, 4, 0}};

	(void)state;
	expect(&job, places, 3, 0, "0 022 22");
	expect(&job, places, 2, 0,
		"hosts: workerpool1-1 must find a host with 1 free slot, got none: 1 host with 2 "
		"slots in all");
}

static void test_a_replica_takes_a_slot_for_each_process(void **state)
{
	struct smd_job job = make_job();
	const struct smd_place places[] = {{"a", -1, 5, 0}, {"b", -1, 4, 0}};

	(void)state;
	job.processes_per_replica = 2;
	assert_int_equal(smd_placing_slots(&job, 1), 2);
	assert_int_equal(smd_placing_slots(&job, 2), 1);
	/* The servers take what is left: one slot of the first host. */
	expect(&job, places, 2, 0,
		"hosts: workerpool2-1 must find a host with 1 free slot, got none: 2 hosts with 9 "
		"slots "
		"in all");
	job.pools[2].replica_count = 1;
	expect(&job, places, 2, 0, "0 011 0");
}

static void test_a_pool_has_its_own_hosts(void **state)
{
	const struct smd_job job = make_job();
	const struct smd_place places[] = {{"c", 2, 2, 0}, {"a", 0, 1, 0}, {"b", 1, 3, 0}};
	const struct smd_place short_of_slots[] = {{"c", 2, 2, 0}, {"a", 0, 1, 0}, {"b", 1, 1, 0}};

	(void)state;
	expect(&job, places, 3, 0, "1 222 00");
	expect(&job, short_of_slots, 3, 0,
		"hosts: workerpool1-1 must find a host with 1 free slot, got none: 1 host with 1 "
		"slot in all");
}

static void test_gpus_count_unless_they_may_be_shared(void **state)
{
	struct smd_job job = make_job();
	const struct smd_place places[] = {{"a", -1, 9, 1}, {"b", -1, 9, 4}};

	(void)state;
	job.pools[1].accelerator_type = v100;
	job.pools[1].accelerator_count = 2;
	job.pools[1].replica_count = 2;
	expect(&job, places, 2, 0, "0 11 00");
	expect(&job, places, 2, 1, "0 00 00");
	job.pools[1].replica_count = 3;
	expect(&job, places, 2, 0,
		"hosts: workerpool1-2 must find a host with 1 free slot and 2 free GPUs, got "
		"none: 2 hosts with 18 slots and 5 GPUs in all");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hosts_are_filled_in_order),
		cmocka_unit_test(test_a_host_that_takes_nothing),
		cmocka_unit_test(test_a_replica_takes_a_slot_for_each_process),
		cmocka_unit_test(test_a_pool_has_its_own_hosts),
		cmocka_unit_test(test_gpus_count_unless_they_may_be_shared),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
