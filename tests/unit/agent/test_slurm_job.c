/* What scontrol says of a job. */
#include "orchestrator/engine/slurm/job.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

/* The gres that a job gets which says this of itself. */
static void expect_gres(const char *said, const char *expected)
{
	struct smd_slurm_job job;
	char text[256];

	snprintf(text, sizeof(text),
		"JobId=7 JobState=RUNNING Reason=None NodeList=node[0-1] NumNodes=2 %sNumTasks=2\n",
		said);
	assert_int_equal(smd_slurm_job_parse(&job, text), 0);
	assert_int_equal(job.count, 1);
	assert_string_equal(job.components[0].gres, expected);
	assert_string_equal(job.components[0].nodes, "node[0-1]");
	assert_int_equal(job.components[0].ntasks, 2);
	smd_slurm_job_clear(&job);
}

static void test_gres_without_slurms_prefix(void **state)
{
	(void)state;
	expect_gres("", "");
	expect_gres("TresPerNode=(null) ", "");
	expect_gres("TresPerNode=gpu:2 ", "gpu:2");
	expect_gres("TresPerNode=gres:gpu:2 ", "gpu:2");
	expect_gres("TresPerNode=gres/gpu:h100:8 ", "gpu:h100:8");
	expect_gres("TresPerNode=gres/gpu:2,gres/nic:1,gres:gres:3 ", "gpu:2,nic:1,gres:3");
}

static void test_components_are_in_order(void **state)
{
	struct smd_slurm_job job;
	char text[] = "JobId=9 HetJobOffset=1 JobState=PENDING Reason=Resources NumTasks=1\n"
		      "JobId=8 HetJobOffset=0 JobState=RUNNING TresPerNode=gres/gpu:1\n";
	char nothing[] = "JobId=9 Reason=None\n";

	(void)state;
	assert_int_equal(smd_slurm_job_parse(&job, text), 0);
	assert_int_equal(job.count, 2);
	assert_string_equal(job.components[0].gres, "gpu:1");
	assert_string_equal(job.components[1].reason, "Resources");
	assert_int_equal(smd_slurm_job_phase(&job), SMD_SLURM_WAITING);
	smd_slurm_job_clear(&job);
	assert_int_equal(smd_slurm_job_parse(&job, nothing), -EPROTO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gres_without_slurms_prefix),
		cmocka_unit_test(test_components_are_in_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
