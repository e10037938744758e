/* What each replica gets, against the examples of Vertex AI's page on distributed training. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "orchestrator/contract/environment.h"

/* A text that the job may own as far as the compiler is concerned. */
#define TEXT(literal) ((char[]){literal})

/* A job as the page has it: its id is "ab", and its spec is of no interest. */
static void job_begin(struct smd_job *job, int workers, int servers, int evaluators)
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

struct fixture {
	struct smd_job *job;
	struct smd_placement placement;
	struct smd_contract *contract;
	struct smd_environment environment;
};

static void open_replica(struct fixture *fixture, struct smd_job *job, int pool, int index)
{
	fixture->job = job;
	assert_int_equal(smd_placement_vertex(job, &fixture->placement), 0);
	assert_int_equal(smd_contract_create(job, &fixture->placement, &fixture->contract), 0);
	assert_int_equal(
		smd_contract_environment(fixture->contract, pool, index, &fixture->environment), 0);
}

static void close_replica(struct fixture *fixture)
{
	smd_environment_free(&fixture->environment);
	smd_contract_free(fixture->contract);
	smd_placement_free(&fixture->placement);
	json_decref(fixture->job->spec);
}

static const char *get(const struct fixture *fixture, const char *name)
{
	return smd_environment_get(&fixture->environment, name);
}

static void cluster_spec_of_the_page(void **state)
{
	struct smd_job job;
	struct fixture replica;

	(void)state;
	job_begin(&job, 2, 2, 3);
	job.trial = TEXT("TRIAL_ID");
	open_replica(&replica, &job, 0, 0);
	assert_string_equal(get(&replica, "CLUSTER_SPEC"),
		"{\"cluster\":{"
		"\"workerpool0\":[\"cmle-training-workerpool0-ab-0:2222\"],"
		"\"workerpool1\":[\"cmle-training-workerpool1-ab-0:2222\","
		"\"cmle-training-workerpool1-ab-1:2222\"],"
		"\"workerpool2\":[\"cmle-training-workerpool2-ab-0:2222\","
		"\"cmle-training-workerpool2-ab-1:2222\"],"
		"\"workerpool3\":[\"cmle-training-workerpool3-ab-0:2222\","
		"\"cmle-training-workerpool3-ab-1:2222\",\"cmle-training-workerpool3-ab-2:2222\"]},"
		"\"environment\":\"cloud\","
		"\"task\":{\"type\":\"workerpool0\",\"index\":0,\"trial\":\"TRIAL_ID\"},"
		"\"job\":{\"workerPoolSpecs\":[]}}");
	close_replica(&replica);
}

static void tf_config_of_the_page(void **state)
{
	struct smd_job job;
	struct fixture replica;

	(void)state;
	job_begin(&job, 2, 1, 0);
	job.trial = TEXT("1");
	open_replica(&replica, &job, 1, 0);
	assert_string_equal(get(&replica, "TF_CONFIG"),
		"{\"cluster\":{\"chief\":[\"cmle-training-workerpool0-ab-0:2222\"],"
		"\"ps\":[\"cmle-training-workerpool2-ab-0:2222\"],"
		"\"worker\":[\"cmle-training-workerpool1-ab-0:2222\","
		"\"cmle-training-workerpool1-ab-1:2222\"]},"
		"\"environment\":\"cloud\",\"job\":{\"workerPoolSpecs\":[]},"
		"\"task\":{\"cloud\":\"ab\",\"index\":0,\"trial\":\"1\",\"type\":\"worker\"}}");
	assert_string_equal(get(&replica, "CLOUD_ML_TRIAL_ID"), "1");
	close_replica(&replica);
}

static void an_evaluator_is_outside_the_tensorflow_cluster(void **state)
{
	struct smd_job job;
	struct fixture replica;

	(void)state;
	job_begin(&job, 0, 0, 1);
	open_replica(&replica, &job, 3, 0);
	assert_string_equal(get(&replica, "TF_CONFIG"),
		"{\"cluster\":{\"chief\":[\"cmle-training-workerpool0-ab-0:2222\"]},"
		"\"environment\":\"cloud\",\"job\":{\"workerPoolSpecs\":[]},"
		"\"task\":{\"cloud\":\"ab\",\"index\":0,\"type\":\"evaluator\"}}");
	assert_null(get(&replica, "RANK"));
	close_replica(&replica);
}

static void a_single_replica_is_not_distributed(void **state)
{
	struct smd_job job;
	struct fixture replica;

	(void)state;
	job_begin(&job, 0, 0, 0);
	open_replica(&replica, &job, 0, 0);
	assert_string_equal(get(&replica, "CLUSTER_SPEC"),
		"{\"cluster\":{\"workerpool0\":[\"cmle-training-workerpool0-ab-0:2222\"]},"
		"\"environment\":\"cloud\",\"task\":{\"type\":\"workerpool0\",\"index\":0},"
		"\"job\":{\"workerPoolSpecs\":[]}}");
	assert_null(get(&replica, "TF_CONFIG"));
	assert_null(get(&replica, "MASTER_ADDR"));
	assert_null(get(&replica, "AIP_MODEL_DIR"));
	assert_null(get(&replica, "SUMMAND_REDUCTION_SERVERS"));
	close_replica(&replica);
}

static void torch_counts_pools_0_and_1(void **state)
{
	struct smd_job job;
	struct fixture replica;

	(void)state;
	job_begin(&job, 2, 3, 1);
	open_replica(&replica, &job, 1, 1);
	assert_string_equal(get(&replica, "MASTER_ADDR"), "cmle-training-workerpool0-ab-0");
	assert_string_equal(get(&replica, "MASTER_PORT"), "3333");
	assert_string_equal(get(&replica, "RANK"), "2");
	assert_string_equal(get(&replica, "NODE_RANK"), "2");
	assert_string_equal(get(&replica, "WORLD_SIZE"), "3");
	assert_string_equal(get(&replica, "LOCAL_RANK"), "0");
	close_replica(&replica);
}

static void reduction_servers_are_workers_business_only(void **state)
{
	struct smd_job job;
	struct fixture replica;
	char **argv;

	(void)state;
	job_begin(&job, 1, 2, 0);
	job.pools[2].role = SMD_ROLE_REDUCTION_SERVER;
	open_replica(&replica, &job, 1, 0);
	assert_string_equal(get(&replica, "SUMMAND_REDUCTION_SERVERS"),
		"cmle-training-workerpool2-ab-0:2222,cmle-training-workerpool2-ab-1:2222");
	assert_null(strstr(get(&replica, "TF_CONFIG"), "ps"));
	assert_non_null(strstr(get(&replica, "CLUSTER_SPEC"), "workerpool2"));
	smd_environment_free(&replica.environment);

	assert_int_equal(smd_contract_environment(replica.contract, 2, 1, &replica.environment), 0);
	assert_null(get(&replica, "TF_CONFIG"));
	assert_null(get(&replica, "RANK"));
	assert_null(get(&replica, "SUMMAND_REDUCTION_SERVERS"));
	assert_string_equal(get(&replica, "SUMMAND_REPLICA"), "workerpool2-1");
	job.pools[2].args = (char *[]){TEXT("--threads=2")};
	job.pools[2].nargs = 1;
	assert_int_equal(smd_contract_argv(replica.contract, 2, 1, &replica.environment, &argv), 0);
	assert_string_equal(argv[0], "summand-reduction-server");
	assert_string_equal(argv[1], "--listen=cmle-training-workerpool2-ab-1:2222");
	assert_string_equal(argv[2], "--threads=2");
	assert_null(argv[3]);
	smd_argv_free(argv);
	close_replica(&replica);
}

static void later_variables_see_earlier_ones(void **state)
{
	struct smd_variable env[] = {
		{TEXT("MODEL"), TEXT("$(AIP_MODEL_DIR)m")},
		{TEXT("MODEL"), TEXT("$(MODEL)2")},
		{TEXT("RANK"), TEXT("rank $(RANK)")},
		{TEXT("EARLY"), TEXT("$(LATE)")},
		{TEXT("LATE"), TEXT("late")},
	};
	char *command[] = {TEXT("run"), TEXT("$(MODEL)")};
	char *args[] = {TEXT("$(RANK)")};
	struct smd_job job;
	struct fixture replica;
	char **argv;

	(void)state;
	job_begin(&job, 1, 0, 0);
	job.output_uri = TEXT("gs://bucket/x//");
	job.pools[1].env = env;
	job.pools[1].nenv = sizeof(env) / sizeof(env[0]);
	job.pools[1].command = command;
	job.pools[1].ncommand = 2;
	job.pools[1].args = args;
	job.pools[1].nargs = 1;
	open_replica(&replica, &job, 1, 0);
	assert_string_equal(get(&replica, "MODEL"), "gs://bucket/x/model/m2");
	assert_string_equal(get(&replica, "RANK"), "rank 1");
	assert_string_equal(get(&replica, "EARLY"), "$(LATE)");
	assert_int_equal(smd_contract_argv(replica.contract, 1, 0, &replica.environment, &argv), 0);
	assert_string_equal(argv[1], "gs://bucket/x/model/m2");
	assert_string_equal(argv[2], "rank 1");
	assert_null(argv[3]);
	smd_argv_free(argv);
	close_replica(&replica);
}

static void an_engines_placement_is_used(void **state)
{
	char *chief[] = {TEXT("[::1]:4000"), NULL};
	char *workers[] = {TEXT("10.0.0.2:4001"), NULL};
	struct smd_placement placement = {
		.endpoints = {chief, workers}, .output_dir = TEXT("/tmp/out"), .master_port = 4444};
	struct smd_contract *contract;
	struct smd_environment environment;
	struct smd_job job;

	(void)state;
	job_begin(&job, 1, 0, 0);
	job.output_uri = TEXT("gs://bucket");
	assert_int_equal(smd_contract_create(&job, &placement, &contract), 0);
	assert_int_equal(smd_contract_environment(contract, 0, 0, &environment), 0);
	assert_string_equal(smd_environment_get(&environment, "MASTER_ADDR"), "::1");
	assert_string_equal(smd_environment_get(&environment, "MASTER_PORT"), "4444");
	assert_string_equal(smd_environment_get(&environment, "AIP_MODEL_DIR"), "/tmp/out/model/");
	assert_non_null(strstr(smd_environment_get(&environment, "CLUSTER_SPEC"),
		"\"workerpool1\":[\"10.0.0.2:4001\"]"));
	smd_environment_free(&environment);
	smd_contract_free(contract);
	json_decref(job.spec);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cluster_spec_of_the_page),
		cmocka_unit_test(tf_config_of_the_page),
		cmocka_unit_test(an_evaluator_is_outside_the_tensorflow_cluster),
		cmocka_unit_test(a_single_replica_is_not_distributed),
		cmocka_unit_test(torch_counts_pools_0_and_1),
		cmocka_unit_test(reduction_servers_are_workers_business_only),
		cmocka_unit_test(later_variables_see_earlier_ones),
		cmocka_unit_test(an_engines_placement_is_used),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
