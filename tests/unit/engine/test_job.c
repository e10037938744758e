/* What a shard remembers of a job: what it was promised, and when it is gone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "reduction_server/engine/job.h"

enum { BUFFERS = 16, MOST = 14 };

static struct smd_jobs jobs;
static struct smd_buffer_pool pool;

static int begin(void **state)
{
	(void)state;
	LIST_INIT(&jobs.list);
	jobs.working = 0;
	return smd_buffer_pool_create(&pool, BUFFERS * SMD_BUFFER_POOL_STRIDE(64), 64);
}

static int end(void **state)
{
	(void)state;
	smd_buffer_pool_destroy(&pool);
	return LIST_EMPTY(&jobs.list) ? 0 : -1;
}

static void a_job_has_no_more_than_its_most(void **state)
{
	struct smd_server_job *job = smd_jobs_take(&jobs, "a");

	(void)state;
	assert_true(smd_job_reserve(&jobs, job, &pool, 10, MOST));
	assert_false(smd_job_reserve(&jobs, job, &pool, 5, MOST));
	assert_true(smd_job_reserve(&jobs, job, &pool, 4, MOST));
	assert_int_equal(pool.reserved, 14);
	assert_int_equal(jobs.working, 1);
	smd_job_release(&jobs, job, &pool, 14, 0);
	assert_int_equal(pool.reserved, 0);
	assert_int_equal(jobs.working, 0);
	smd_job_give(job);
}

/* Over RDMA a worker that has left may still write into buffers, until its lane has ended. */
static void what_is_kept_for_lanes_is_no_longer_the_jobs(void **state)
{
	struct smd_server_job *job = smd_jobs_take(&jobs, "a");

	(void)state;
	for (int i = 0; i < 3; i++) {
		assert_true(smd_job_reserve(&jobs, job, &pool, 10, MOST));
		smd_job_release(&jobs, job, &pool, 10, 3);
		assert_int_equal(job->reserved, 0);
		assert_int_equal(jobs.working, 0);
		assert_int_equal(pool.reserved, 3);
		smd_buffer_pool_release(&pool, 3); /* the lane has ended */
	}
	smd_job_give(job);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_job_has_no_more_than_its_most, begin, end),
		cmocka_unit_test_setup_teardown(
			what_is_kept_for_lanes_is_no_longer_the_jobs, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
