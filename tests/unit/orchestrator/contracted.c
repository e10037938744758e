/* Makes jobs and their contracts for tests. */
#include "tests/unit/orchestrator/contracted.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

void contract_job(struct smd_job *job, int workers, int servers, int evaluators)
{
	static const enum smd_role roles[] = {
		SMD_ROLE_CHIEF, SMD_ROLE_WORKER, SMD_ROLE_PARAMETER_SERVER, SMD_ROLE_EVALUATOR};
	const int counts[] = {1, workers, servers, evaluators};

	*job = (struct smd_job){.id = "ab", .spec = json_pack("{s:[]}", "workerPoolSpecs")};
	for (int i = 0; i < SMD_JOB_POOLS_MAX; i++) {
		job->pools[i].index = i;
		job->pools[i].role = roles[i];
		job->pools[i].replica_count = counts[i];
	}
}

void contract_open(struct contracted *contracted, struct smd_job *job, int pool, int index)
{
	contracted->job = job;
	assert_int_equal(smd_placement_vertex(job, &contracted->placement), 0);
	assert_int_equal(
		smd_contract_create(job, &contracted->placement, &contracted->contract), 0);
	assert_int_equal(smd_contract_environment(
				 contracted->contract, pool, index, 0, &contracted->environment),
		0);
}

void contract_close(struct contracted *contracted)
{
	smd_environment_free(&contracted->environment);
	smd_contract_free(contracted->contract);
	smd_placement_free(&contracted->placement);
	json_decref(contracted->job->spec);
}

const char *contract_get(const struct contracted *contracted, const char *name)
{
	return smd_environment_get(&contracted->environment, name);
}

void contract_next(struct contracted *contracted, int pool, int index, int process)
{
	smd_environment_free(&contracted->environment);
	assert_int_equal(smd_contract_environment(contracted->contract, pool, index, process,
				 &contracted->environment),
		0);
}

void contract_expect(
	const struct contracted *contracted, const struct smd_variable *expected, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const char *got = contract_get(contracted, expected[i].name);

		if (!expected[i].value) {
			assert_null(got);
		} else {
			assert_non_null(got);
			assert_string_equal(got, expected[i].value);
		}
	}
}
