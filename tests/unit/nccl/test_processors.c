/* How many processors a rank has for itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "worker/nccl_plugin/collnet/processors.h"
#include "worker/nccl_plugin/collnet/quota.h"

static cpu_set_t some(int first, int count)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	for (int i = first; i < first + count; i++) {
		CPU_SET(i, &set);
	}
	return set;
}

/* Of a host of `online`, a rank that may use `own` of one whose launcher may use the other. */
static unsigned part(cpu_set_t own, cpu_set_t launchers, unsigned nranks, unsigned online)
{
	const struct smd_processors processors = {
		.usable = (unsigned)CPU_COUNT(&own),
		.pool = smd_processors_pool(&own, &launchers, online),
		.nranks = nranks,
		.quota = SMD_QUOTA_NONE,
	};

	return smd_processors_part(&processors);
}

static void what_the_launcher_leaves_to_all_is_divided(void **state)
{
	(void)state;
	assert_int_equal(part(some(0, 16), some(0, 16), 1, 16), 16);
	assert_int_equal(part(some(0, 16), some(0, 16), 4, 16), 4);
	assert_int_equal(part(some(0, 16), some(0, 16), 64, 16), 0);
	assert_int_equal(part(some(32, 16), some(32, 16), 8, 128), 2); /* in a container */
}

/* As mpirun and srun bind ranks to cores: such processors are not divided once more. */
static void what_a_rank_is_bound_to_is_its_own(void **state)
{
	(void)state;
	assert_int_equal(part(some(32, 16), some(0, 128), 8, 128), 16);
	assert_int_equal(part(some(36, 4), some(32, 16), 4, 128), 4); /* in a container */
}

/* As NCCL binds its threads to the socket of a GPU, which half of the ranks have. */
static void several_may_be_bound_to_the_same(void **state)
{
	(void)state;
	assert_int_equal(part(some(0, 16), some(0, 32), 8, 32), 4);
}

/* It has processors of its own, as srun's daemon may, or nobody sees it. */
static void a_launcher_may_be_no_guide(void **state)
{
	const cpu_set_t own = some(8, 16);

	(void)state;
	assert_int_equal(part(own, some(0, 8), 8, 128), 16);
	assert_int_equal(part(some(0, 128), some(0, 8), 8, 128), 16);
	assert_int_equal(smd_processors_pool(&own, NULL, 128), 128);
}

static void a_quota_is_a_bound(void **state)
{
	struct smd_processors processors = {.usable = 128, .pool = 128, .nranks = 4};

	(void)state;
	processors.quota = 8000;
	assert_int_equal(smd_processors_part(&processors), 8);
	processors.quota = 1999;
	assert_int_equal(smd_processors_part(&processors), 1);
	processors.quota = 64000;
	assert_int_equal(smd_processors_part(&processors), 32);
}

/* Of this process: whatever it may use, but it is no more than so many of all. */
static void many_ranks_have_less_than_one_each(void **state)
{
	(void)state;
	unsetenv("LOCAL_WORLD_SIZE");
	assert_true(smd_processors_own() <= (unsigned)sysconf(_SC_NPROCESSORS_ONLN));
	setenv("LOCAL_WORLD_SIZE", "60000", 1);
	assert_int_equal(smd_processors_own(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_the_launcher_leaves_to_all_is_divided),
		cmocka_unit_test(what_a_rank_is_bound_to_is_its_own),
		cmocka_unit_test(several_may_be_bound_to_the_same),
		cmocka_unit_test(a_launcher_may_be_no_guide),
		cmocka_unit_test(a_quota_is_a_bound),
		cmocka_unit_test(many_ranks_have_less_than_one_each),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
