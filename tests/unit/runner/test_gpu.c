/* GPUs are dealt out once each, or shared when that is allowed. */
#include "worker/agent/host/gpu.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char v100[] = "NVIDIA_TESLA_V100";
static char tpu[] = "TPU_V3";

/* A chief with two GPUs, three workers with one, one server without. */
static const struct smd_job job = {
	.pools = {{.replica_count = 1, .accelerator_type = v100, .accelerator_count = 2},
		{.replica_count = 3, .accelerator_type = v100, .accelerator_count = 1},
		{.replica_count = 1}}};

static void expect(const struct smd_gpus *gpus, int pool, int index, const char *expected)
{
	char *text = smd_gpus_of(gpus, pool, index);

	assert_non_null(text);
	assert_string_equal(text, expected);
	free(text);
}

static void test_every_replica_has_its_own(void **state)
{
	struct smd_error error = {{0}};
	struct smd_gpus gpus;

	(void)state;
	assert_int_equal(smd_gpus_find(&gpus, "7,GPU-5a,3,2,1,0"), 0);
	assert_int_equal(smd_gpus_deal(&gpus, &job, 0, &error), 0);
	expect(&gpus, 0, 0, "7,GPU-5a");
	expect(&gpus, 1, 0, "3");
	expect(&gpus, 1, 2, "1");
	expect(&gpus, 2, 0, "");
	smd_gpus_clear(&gpus);
}

static void test_one_named_twice_is_one(void **state)
{
	struct smd_error error = {{0}};
	struct smd_gpus gpus;

	(void)state;
	assert_int_equal(smd_gpus_find(&gpus, "0,1,0,1,2"), 0);
	assert_int_equal(gpus.count, 3);
	assert_int_equal(smd_gpus_deal(&gpus, &job, 0, &error), -EBUSY);
	smd_gpus_clear(&gpus);
}

static void test_there_are_too_few(void **state)
{
	struct smd_error error = {{0}};
	struct smd_gpus gpus;

	(void)state;
	assert_int_equal(smd_gpus_find(&gpus, "0,1,2,3"), 0);
	assert_int_equal(smd_gpus_deal(&gpus, &job, 0, &error), -EBUSY);
	assert_non_null(strstr(error.text, "there must be 5 for this job, got 4"));
	assert_int_equal(smd_gpus_deal(&gpus, &job, 1, &error), 0);
	expect(&gpus, 1, 1, "3");
	expect(&gpus, 1, 2, "0");
	smd_gpus_clear(&gpus);

	assert_int_equal(smd_gpus_find(&gpus, "5"), 0);
	assert_int_equal(smd_gpus_deal(&gpus, &job, 1, &error), 0);
	expect(&gpus, 0, 0, "5");
	smd_gpus_clear(&gpus);
}

static void test_there_are_none(void **state)
{
	static const char *const none[] = {"", "-1", ","};
	struct smd_error error = {{0}};
	struct smd_gpus gpus;

	(void)state;
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
		assert_int_equal(smd_gpus_find(&gpus, none[i]), 0);
		assert_int_equal(gpus.count, 0);
		assert_int_equal(smd_gpus_deal(&gpus, &job, 1, &error), 0);
		expect(&gpus, 0, 0, "");
		smd_gpus_clear(&gpus);
	}
}

/* Machines of a cloud have more than this one: replicas share what there is, if there is any. */
static void test_built_in_ones_are_shared(void **state)
{
	const struct smd_job azure = {.pools = {{.replica_count = 1,
							.accelerator_type = v100,
							.accelerator_count = 4,
							.accelerators_are_built_in = 1},
					      {.replica_count = 1,
						      .accelerator_type = v100,
						      .accelerator_count = 4,
						      .accelerators_are_built_in = 1}}};
	struct smd_error error = {{0}};
	struct smd_gpus gpus;

	(void)state;
	assert_int_equal(smd_gpus_find(&gpus, "0,1,2,3,4,5,6,7"), 0);
	assert_int_equal(smd_gpus_deal(&gpus, &azure, 0, &error), 0);
	expect(&gpus, 0, 0, "0,1,2,3");
	expect(&gpus, 1, 0, "4,5,6,7");
	smd_gpus_clear(&gpus);
	assert_int_equal(smd_gpus_find(&gpus, "0,1"), 0);
	assert_int_equal(smd_gpus_deal(&gpus, &azure, 0, &error), 0);
	expect(&gpus, 1, 0, "0,1");
	smd_gpus_clear(&gpus);
	assert_int_equal(smd_gpus_find(&gpus, ""), 0);
	assert_int_equal(smd_gpus_deal(&gpus, &azure, 0, &error), 0);
	assert_int_equal(gpus.wanted, 0);
	smd_gpus_clear(&gpus);
}

static void test_a_tpu_is_no_gpu(void **state)
{
	const struct smd_job tpus = {
		.pools = {{.replica_count = 1, .accelerator_type = tpu, .accelerator_count = 8}}};
	struct smd_error error = {{0}};
	struct smd_gpus gpus;

	(void)state;
	assert_int_equal(smd_gpus_find(&gpus, ""), 0);
	assert_int_equal(smd_gpus_deal(&gpus, &tpus, 0, &error), 0);
	assert_int_equal(gpus.wanted, 0);
	smd_gpus_clear(&gpus);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_replica_has_its_own),
		cmocka_unit_test(test_one_named_twice_is_one),
		cmocka_unit_test(test_there_are_too_few),
		cmocka_unit_test(test_there_are_none),
		cmocka_unit_test(test_built_in_ones_are_shared),
		cmocka_unit_test(test_a_tpu_is_no_gpu),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
