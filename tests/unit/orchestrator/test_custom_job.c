/* Roles by position and image, ids by content, and the values that a job takes from its spec. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "orchestrator/frontend/vertex/custom_job.h"

static struct smd_job *decode(const char *text)
{
	struct smd_diagnostics diagnostics = {.count = 0};
	struct smd_node *document;
	struct smd_job *job = NULL;

	assert_int_equal(smd_document_parse("-", text, strlen(text), &diagnostics, &document), 0);
	assert_int_equal(smd_custom_job_decode(document, &diagnostics, &job), 0);
	smd_node_free(document);
	smd_diagnostics_clear(&diagnostics);
	return job;
}

static enum smd_role role_of_pool_2(const char *image)
{
	char text[512];
	struct smd_job *job;
	enum smd_role role;

	snprintf(text, sizeof(text),
		"workerPoolSpecs:\n"
		"- containerSpec: {imageUri: a, command: [b]}\n"
		"- {}\n"
		"- containerSpec: {imageUri: \"%s\", command: [b]}\n",
		image);
	job = decode(text);
	role = job->pools[2].role;
	assert_int_equal(job->pools[2].replica_count, 1);
	assert_int_equal(job->pools[1].replica_count, 0);
	smd_job_free(job);
	return role;
}

static void the_image_makes_a_reduction_server(void **state)
{
	static const char *const servers[] = {"reductionserver", "reductionserver:latest",
		"us-docker.pkg.dev/vertex-ai-restricted/training/reductionserver:latest",
		"x/reductionserver@sha256:00", "localhost:5000/reductionserver"};
	static const char *const others[] = {"x/reductionserver2:latest", "x/myreductionserver",
		"reductionserver/x", "x/reductionserver-cpu", "x/ReductionServer"};

	(void)state;
	for (size_t i = 0; i < sizeof(servers) / sizeof(servers[0]); i++) {
		assert_int_equal(role_of_pool_2(servers[i]), SMD_ROLE_REDUCTION_SERVER);
	}
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		assert_int_equal(role_of_pool_2(others[i]), SMD_ROLE_PARAMETER_SERVER);
	}
}

static void the_id_is_the_contents(void **state)
{
	struct smd_job *a =
		decode("{\"workerPoolSpecs\": [{\"replicaCount\": 1, \"containerSpec\": "
		       "{\"imageUri\": \"a\", \"command\": [\"b\"]}}]}");
	struct smd_job *b =
		decode("{\"displayName\": \"x\", \"jobSpec\": {\"workerPoolSpecs\": "
		       "[{\"containerSpec\": {\"command\": [\"b\"], \"imageUri\": \"a\"},"
		       " \"replicaCount\": 1}]}}");
	struct smd_job *c =
		decode("{\"workerPoolSpecs\": [{\"replicaCount\": 1, \"containerSpec\": "
		       "{\"imageUri\": \"a\", \"command\": [\"c\"]}}]}");

	(void)state;
	assert_int_equal(strlen(a->id), 10);
	assert_string_equal(a->id, b->id);
	assert_string_not_equal(a->id, c->id);
	smd_job_free(a);
	smd_job_free(b);
	smd_job_free(c);
}

static void values_and_defaults(void **state)
{
	struct smd_job *job = decode(
		"displayName: digits\n"
		"labels: {a: b}\n"
		"jobSpec:\n"
		"  scheduling: {timeout: 3.5s}\n"
		"  baseOutputDirectory: {outputUriPrefix: 'gs://b'}\n"
		"  workerPoolSpecs:\n"
		"  - machineSpec: {machineType: n1-standard-4, acceleratorType: NVIDIA_TESLA_T4}\n"
		"    containerSpec: {imageUri: a, command: [b, c], args: [d], env: [{name: E}]}\n"
		"  - {replicaCount: '3', containerSpec: {imageUri: a, command: [b]}}\n"
		"  - {replicaCount: 0, containerSpec: {imageUri: a, command: [b]}}\n");
	struct smd_job *bare =
		decode("workerPoolSpecs: [{containerSpec: {imageUri: a, command: [b]}}]");

	(void)state;
	assert_string_equal(job->display_name, "digits");
	assert_string_equal(job->labels[0].value, "b");
	assert_int_equal(job->timeout_s, 4);
	assert_string_equal(job->output_uri, "gs://b");
	assert_int_equal(job->pools[0].replica_count, 1);
	assert_int_equal(job->pools[0].accelerator_count, 1);
	assert_int_equal(job->pools[0].ncommand, 2);
	assert_string_equal(job->pools[0].command[1], "c");
	assert_string_equal(job->pools[0].args[0], "d");
	assert_string_equal(job->pools[0].env[0].value, "");
	assert_int_equal(job->pools[1].replica_count, 3);
	assert_int_equal(job->pools[2].replica_count, 0);
	assert_null(job->pools[2].image_uri);
	assert_int_equal(job->pools[3].role, SMD_ROLE_EVALUATOR);
	assert_int_equal(smd_job_replica_count(job), 4);
	assert_string_equal(bare->display_name, "custom-job");
	assert_int_equal(bare->timeout_s, 604800);
	assert_null(bare->output_uri);
	smd_job_free(job);
	smd_job_free(bare);
}

static void settings_are_labels(void **state)
{
	struct smd_job *job =
		decode("displayName: a\n"
		       "labels: {summand-distribution: mpi, summand-processes-per-replica: '8',\n"
		       "  summand-success-policy: any, summand-retryable-exit-codes: '3_255',\n"
		       "  summand-exit-code-restarts: '75-5_lost-9_255-0'}\n"
		       "jobSpec:\n"
		       "  scheduling: {restartJobOnWorkerRestart: true, maxWaitDuration: 60s}\n"
		       "  workerPoolSpecs: [{containerSpec: {imageUri: a, command: [b]}}]\n");
	struct smd_job *bare =
		decode("workerPoolSpecs: [{containerSpec: {imageUri: a, command: [b]}}]");

	(void)state;
	assert_int_equal(job->distribution, SMD_DISTRIBUTION_MPI);
	assert_int_equal(job->processes_per_replica, 8);
	assert_int_equal(job->success_policy, SMD_SUCCESS_ANY);
	assert_true(smd_exit_codes_contain(&job->retryable, 3));
	assert_true(smd_exit_codes_contain(&job->retryable, 255));
	assert_false(smd_exit_codes_contain(&job->retryable, 4));
	assert_false(smd_exit_codes_contain(&job->retryable, 256));
	assert_false(smd_exit_codes_contain(&job->retryable, -1));
	assert_int_equal(job->budgets.count, 3);
	assert_int_equal(job->budgets.list[0].code, 75);
	assert_int_equal(job->budgets.list[0].restarts, 5);
	assert_int_equal(job->budgets.list[1].code, SMD_RESTART_CODE_LOST);
	assert_int_equal(job->budgets.list[1].restarts, 9);
	assert_int_equal(job->budgets.list[2].code, 255);
	assert_int_equal(job->budgets.list[2].restarts, 0);
	assert_true(job->restart_job_on_worker_restart);
	assert_int_equal(job->max_wait_s, 60);
	assert_int_equal(bare->distribution, SMD_DISTRIBUTION_ANY);
	assert_int_equal(bare->processes_per_replica, 1);
	assert_int_equal(bare->restart_policy, SMD_RESTART_NEVER);
	assert_int_equal(bare->max_restarts, 3);
	assert_int_equal(bare->max_wait_s, 86400);
	smd_job_free(job);
	smd_job_free(bare);
}

static void a_python_package_is_a_command(void **state)
{
	struct smd_job *job =
		decode("workerPoolSpecs: [{pythonPackageSpec: {executorImageUri: a, "
		       "packageUris: [p.tar.gz], pythonModule: trainer.task, args: [x], "
		       "env: [{name: E, value: v}]}}]");

	(void)state;
	assert_string_equal(job->pools[0].image_uri, "a");
	assert_int_equal(job->pools[0].npackage_uris, 1);
	assert_string_equal(job->pools[0].package_uris[0], "p.tar.gz");
	assert_int_equal(job->pools[0].ncommand, 3);
	assert_string_equal(job->pools[0].command[0], "python3");
	assert_string_equal(job->pools[0].command[1], "-m");
	assert_string_equal(job->pools[0].command[2], "trainer.task");
	assert_string_equal(job->pools[0].args[0], "x");
	assert_string_equal(job->pools[0].env[0].value, "v");
	smd_job_free(job);
}

/* Defaults, else least or first values; and only those that the values before them bring along. */
static void the_first_trial_has_its_arguments(void **state)
{
	static const char *const args[] = {"--epochs=3", "--lr=0.5", "--layers=2", "--width=8",
		"--optimizer=sgd", "--momentum=0.9", "--batch=32"};
	struct smd_job *job = decode(
		"displayName: a\nmaxTrialCount: 2\nparallelTrialCount: 1\n"
		"studySpec:\n"
		"  metrics: [{metricId: m, goal: MAXIMIZE}]\n"
		"  parameters:\n"
		"  - {parameterId: lr, doubleValueSpec: {minValue: 0.5, maxValue: 1}}\n"
		"  - parameterId: layers\n"
		"    integerValueSpec: {minValue: 1, maxValue: 8, defaultValue: '2'}\n"
		"    conditionalParameterSpecs:\n"
		"    - parentIntValues: {values: [1]}\n"
		"      parameterSpec: {parameterId: single, discreteValueSpec: {values: [1]}}\n"
		"    - parentIntValues: {values: ['2', 3]}\n"
		"      parameterSpec: {parameterId: width, discreteValueSpec: {values: [8]}}\n"
		"  - parameterId: optimizer\n"
		"    categoricalValueSpec: {values: [sgd, adam]}\n"
		"    conditionalParameterSpecs:\n"
		"    - parentCategoricalValues: {values: [sgd]}\n"
		"      parameterSpec: {parameterId: momentum, discreteValueSpec: {values: [0.9]}}\n"
		"    - parentCategoricalValues: {values: [adam]}\n"
		"      parameterSpec: {parameterId: beta, discreteValueSpec: {values: [0.9]}}\n"
		"  - {parameterId: batch, discreteValueSpec: {values: [32, 64]}}\n"
		"trialJobSpec:\n"
		"  workerPoolSpecs:\n"
		"  - containerSpec: {imageUri: a, command: [b], args: [--epochs=3]}\n");

	(void)state;
	assert_int_equal(job->pools[0].nargs, sizeof(args) / sizeof(args[0]));
	for (size_t i = 0; i < job->pools[0].nargs; i++) {
		assert_string_equal(job->pools[0].args[i], args[i]);
	}
	smd_job_free(job);
}

static void ten_thousand_replicas(void **state)
{
	struct smd_job *job =
		decode("workerPoolSpecs:\n"
		       "- containerSpec: {imageUri: a, command: [b]}\n"
		       "- {replicaCount: 9999, containerSpec: {imageUri: a, command: [b]}}\n");

	(void)state;
	assert_int_equal(smd_job_replica_count(job), 10000);
	smd_job_free(job);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_image_makes_a_reduction_server),
		cmocka_unit_test(the_id_is_the_contents),
		cmocka_unit_test(values_and_defaults),
		cmocka_unit_test(settings_are_labels),
		cmocka_unit_test(a_python_package_is_a_command),
		cmocka_unit_test(the_first_trial_has_its_arguments),
		cmocka_unit_test(ten_thousand_replicas),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
