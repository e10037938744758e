/* How many threads move a CollNet communicator's bytes, where the user does not say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "worker/nccl_plugin/collnet/loops.h"

static void each_four_processors_have_one(void **state)
{
	(void)state;
	assert_int_equal(smd_loops_default(2, 2, 1), 1);
	assert_int_equal(smd_loops_default(7, 7, 1), 1);
	assert_int_equal(smd_loops_default(8, 8, 1), 2);
	assert_int_equal(smd_loops_default(192, 192, 1), 4);
}

/* Four ranks of an H200's host of 16 processors took 1.6 times as long by 16 threads as by 4. */
static void ranks_of_a_host_share_its_processors(void **state)
{
	(void)state;
	assert_int_equal(smd_loops_default(16, 16, 2), 2);
	assert_int_equal(smd_loops_default(16, 16, 4), 1);
	assert_int_equal(smd_loops_default(16, 16, 64), 1);
	assert_int_equal(smd_loops_default(192, 192, 8), 4);
}

/* As mpirun and srun bind ranks to cores: such processors are not divided once more. */
static void processors_that_a_rank_is_bound_to_are_its_own(void **state)
{
	(void)state;
	assert_int_equal(smd_loops_default(16, 128, 8), 4);
	assert_int_equal(smd_loops_default(8, 128, 8), 2);
}

static unsigned want(const char *variable, const char *value)
{
	struct smd_loops loops = {0};
	struct smd_error error;

	unsetenv("LOCAL_WORLD_SIZE");
	unsetenv("OMPI_COMM_WORLD_LOCAL_SIZE");
	unsetenv("MPI_LOCALNRANKS");
	unsetenv(SMD_LOOPS_VARIABLE);
	setenv(variable, value, 1);
	assert_int_equal(smd_loops_want(&loops, 2, &error), 0);
	return loops.wanted;
}

/* So many ranks that each has less than eight processors, on any host. */
static void launchers_tell_how_many_ranks_a_host_has(void **state)
{
	(void)state;
	assert_int_equal(want("LOCAL_WORLD_SIZE", "60000"), 1);
	assert_int_equal(want("OMPI_COMM_WORLD_LOCAL_SIZE", "60000"), 1);
	assert_int_equal(want("MPI_LOCALNRANKS", "60000"), 1);
	assert_true(want("LOCAL_WORLD_SIZE", "many") >= 1);
	assert_int_equal(want(SMD_LOOPS_VARIABLE, "3"), 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_four_processors_have_one),
		cmocka_unit_test(ranks_of_a_host_share_its_processors),
		cmocka_unit_test(processors_that_a_rank_is_bound_to_are_its_own),
		cmocka_unit_test(launchers_tell_how_many_ranks_a_host_has),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
