/* What each process gets, against the examples of the pages of Vertex AI and Azure ML. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
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
		smd_contract_environment(fixture->contract, pool, index, 0, &fixture->environment),
		0);
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

static void a_reduction_server_is_no_worker(void **state)
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

	assert_int_equal(
		smd_contract_environment(replica.contract, 2, 1, 0, &replica.environment), 0);
	assert_string_equal(get(&replica, "TF_CONFIG"),
		"{\"cluster\":{\"chief\":[\"cmle-training-workerpool0-ab-0:2222\"],"
		"\"worker\":[\"cmle-training-workerpool1-ab-0:2222\"]},"
		"\"environment\":\"cloud\",\"job\":{\"workerPoolSpecs\":[]},"
		"\"task\":{\"cloud\":\"ab\",\"index\":1,\"type\":\"reduction_server\"}}");
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
	assert_int_equal(smd_contract_environment(contract, 0, 0, 0, &environment), 0);
	assert_string_equal(smd_environment_get(&environment, "MASTER_ADDR"), "::1");
	assert_string_equal(smd_environment_get(&environment, "MASTER_PORT"), "4444");
	assert_string_equal(smd_environment_get(&environment, "AIP_MODEL_DIR"), "/tmp/out/model/");
	assert_non_null(strstr(smd_environment_get(&environment, "CLUSTER_SPEC"),
		"\"workerpool1\":[\"10.0.0.2:4001\"]"));
	smd_environment_free(&environment);
	smd_contract_free(contract);
	json_decref(job.spec);
}

/* The next process of a fixture's job. */
static void next_process(struct fixture *fixture, int pool, int index, int process)
{
	smd_environment_free(&fixture->environment);
	assert_int_equal(smd_contract_environment(
				 fixture->contract, pool, index, process, &fixture->environment),
		0);
}

static void expect_all(
	const struct fixture *fixture, const struct smd_variable *expected, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const char *got = get(fixture, expected[i].name);

		if (!expected[i].value) {
			assert_null(got);
		} else {
			assert_non_null(got);
			assert_string_equal(got, expected[i].value);
		}
	}
}

#define EXPECT(fixture, ...)                                                                       \
	expect_all(fixture, (const struct smd_variable[]){__VA_ARGS__},                            \
		sizeof((const struct smd_variable[]){__VA_ARGS__}) / sizeof(struct smd_variable))
#define IS(name, value)                                                                            \
	{                                                                                          \
		TEXT(name), TEXT(value)                                                            \
	}
#define ABSENT(name)                                                                               \
	{                                                                                          \
		TEXT(name), NULL                                                                   \
	}

static void every_process_of_pytorch_is_a_rank(void **state)
{
	struct smd_job job;
	struct fixture process;

	(void)state;
	job_begin(&job, 1, 1, 0);
	job.distribution = SMD_DISTRIBUTION_PYTORCH;
	job.processes_per_replica = 4;
	open_replica(&process, &job, 1, 0);
	next_process(&process, 1, 0, 3);
	EXPECT(&process, IS("MASTER_ADDR", "cmle-training-workerpool0-ab-0"),
		IS("MASTER_PORT", "3333"), IS("RANK", "7"), IS("WORLD_SIZE", "8"),
		IS("NODE_RANK", "1"), IS("GROUP_RANK", "1"), IS("LOCAL_RANK", "3"),
		IS("LOCAL_WORLD_SIZE", "4"), IS("SUMMAND_REPLICA", "workerpool1-0"),
		IS("SUMMAND_PROCESS", "3"), ABSENT("PET_NNODES"), ABSENT("TF_CONFIG"),
		ABSENT("OMPI_COMM_WORLD_RANK"));
	next_process(&process, 2, 0, 0);
	EXPECT(&process, ABSENT("RANK"), ABSENT("SUMMAND_PROCESS"));
	close_replica(&process);
}

static void a_launcher_on_each_node_is_told_of_nodes(void **state)
{
	struct smd_job job;
	struct fixture process;

	(void)state;
	job_begin(&job, 2, 0, 0);
	job.processes_per_replica = 8;
	job.launch = SMD_LAUNCH_NODE;
	open_replica(&process, &job, 1, 1);
	EXPECT(&process, IS("RANK", "2"), IS("WORLD_SIZE", "3"), IS("NODE_RANK", "2"),
		ABSENT("LOCAL_RANK"), ABSENT("LOCAL_WORLD_SIZE"), IS("PET_NNODES", "3"),
		IS("PET_NPROC_PER_NODE", "8"), IS("PET_NODE_RANK", "2"),
		IS("PET_MASTER_ADDR", "cmle-training-workerpool0-ab-0"),
		IS("PET_MASTER_PORT", "3333"), ABSENT("SUMMAND_PROCESS"));
	assert_int_equal(smd_job_processes(&job, 1), 1);
	close_replica(&process);
}

static void who_asks_for_pytorch_gets_it_alone_too(void **state)
{
	struct smd_job job;
	struct fixture process;

	(void)state;
	job_begin(&job, 0, 0, 0);
	job.distribution = SMD_DISTRIBUTION_PYTORCH;
	open_replica(&process, &job, 0, 0);
	EXPECT(&process, IS("RANK", "0"), IS("WORLD_SIZE", "1"), IS("LOCAL_RANK", "0"));
	close_replica(&process);
}

static void open_mpi_is_told_of_processes(void **state)
{
	struct smd_job job;
	struct fixture process;

	(void)state;
	job_begin(&job, 1, 0, 0);
	job.distribution = SMD_DISTRIBUTION_MPI;
	job.processes_per_replica = 4;
	open_replica(&process, &job, 1, 0);
	next_process(&process, 1, 0, 2);
	EXPECT(&process, IS("OMPI_COMM_WORLD_RANK", "6"), IS("OMPI_COMM_WORLD_SIZE", "8"),
		IS("OMPI_COMM_WORLD_LOCAL_RANK", "2"), IS("OMPI_COMM_WORLD_LOCAL_SIZE", "4"),
		IS("OMPI_COMM_WORLD_NODE_RANK", "2"), IS("RANK", "6"), ABSENT("TF_CONFIG"),
		ABSENT("AZ_BATCH_MASTER_NODE"));
	job.launch = SMD_LAUNCH_NODE;
	next_process(&process, 1, 0, 0);
	EXPECT(&process, ABSENT("OMPI_COMM_WORLD_RANK"));
	close_replica(&process);
}

/* Azure's page: MpiConfiguration(process_count_per_node=4, node_count=2). */
static void mpi_on_azure(void **state)
{
	char *chief[] = {TEXT("10.0.0.4:2222"), NULL};
	char *workers[] = {TEXT("10.0.0.5:2222"), NULL};
	const struct smd_placement placement = {.endpoints = {chief, workers}};
	struct smd_job job;
	struct fixture process = {.job = &job, .placement = placement};

	(void)state;
	job_begin(&job, 1, 0, 0);
	job.platform = SMD_PLATFORM_AZUREML;
	job.distribution = SMD_DISTRIBUTION_MPI;
	job.processes_per_replica = 4;
	job.pools[1].accelerator_count = 4;
	assert_int_equal(smd_contract_create(&job, &placement, &process.contract), 0);
	next_process(&process, 1, 0, 1);
	EXPECT(&process, IS("OMPI_COMM_WORLD_RANK", "5"), IS("OMPI_COMM_WORLD_SIZE", "8"),
		IS("AZ_BATCH_MASTER_NODE", "10.0.0.4:6000"),
		IS("AZ_BATCHAI_MPI_MASTER_NODE", "10.0.0.4"),
		IS("AZ_BATCH_NODE_LIST", "10.0.0.4;10.0.0.5"),
		IS("AZ_BATCH_HOST_LIST", "10.0.0.4,10.0.0.5"),
		IS("AZ_BATCH_IS_CURRENT_NODE_MASTER", "false"), IS("AZ_BATCHAI_TASK_INDEX", "1"),
		IS("AZ_BATCHAI_GPU_COUNT", "4"), IS("GPU_PER_NODE_COUNT", "4"),
		IS("AZUREML_NODE_COUNT", "2"), IS("NODE_COUNT", "2"),
		IS("AZUREML_EXPERIMENT_ID", "ab"), IS("AZUREML_RUN_ID", "ab"), ABSENT("RANK"),
		ABSENT("CLUSTER_SPEC"), ABSENT("CLOUD_ML_JOB_ID"));
	next_process(&process, 0, 0, 0);
	EXPECT(&process, IS("AZ_BATCH_IS_CURRENT_NODE_MASTER", "true"),
		ABSENT("GPU_PER_NODE_COUNT"));
	smd_environment_free(&process.environment);
	smd_contract_free(process.contract);
	json_decref(job.spec);
}

/* Azure's page: PyTorchConfiguration(process_count=8, node_count=2); its MASTER_PORT is 6105. */
static void pytorch_on_azure(void **state)
{
	struct smd_job job;
	struct fixture process;

	(void)state;
	job_begin(&job, 1, 0, 0);
	job.platform = SMD_PLATFORM_AZUREML;
	job.distribution = SMD_DISTRIBUTION_PYTORCH;
	job.processes_per_replica = 4;
	open_replica(&process, &job, 1, 0);
	EXPECT(&process, IS("MASTER_PORT", "6105"), IS("WORLD_SIZE", "8"), IS("RANK", "4"),
		IS("NODE_RANK", "1"), IS("LOCAL_RANK", "0"), ABSENT("OMPI_COMM_WORLD_RANK"));
	close_replica(&process);
	/* A job on one node has no master node, and one without a distribution no ranks. */
	job_begin(&job, 0, 0, 0);
	job.platform = SMD_PLATFORM_AZUREML;
	open_replica(&process, &job, 0, 0);
	EXPECT(&process, ABSENT("MASTER_ADDR"), ABSENT("AZ_BATCH_MASTER_NODE"),
		IS("AZUREML_NODE_COUNT", "1"));
	close_replica(&process);
}

/* Azure's page: TensorflowConfiguration(worker_count=2), on the first worker. */
static void tf_config_of_azures_page(void **state)
{
	char *chief[] = {TEXT("host0:2222"), NULL};
	char *workers[] = {TEXT("host1:2222"), NULL};
	char *servers[] = {TEXT("host2:2222"), NULL};
	struct smd_placement placement = {.endpoints = {chief, workers, servers}};
	struct smd_job job;
	struct fixture process = {.job = &job, .placement = placement};

	(void)state;
	job_begin(&job, 1, 0, 0);
	job.platform = SMD_PLATFORM_AZUREML;
	job.distribution = SMD_DISTRIBUTION_TENSORFLOW;
	assert_int_equal(smd_contract_create(&job, &placement, &process.contract), 0);
	next_process(&process, 0, 0, 0);
	EXPECT(&process,
		IS("TF_CONFIG", "{\"cluster\":{\"worker\":[\"host0:2222\",\"host1:2222\"]},"
				"\"task\":{\"type\":\"worker\",\"index\":0},"
				"\"environment\":\"cloud\"}"),
		ABSENT("RANK"));
	smd_contract_free(process.contract);
	job.pools[2].replica_count = 1;
	assert_int_equal(smd_contract_create(&job, &placement, &process.contract), 0);
	next_process(&process, 1, 0, 0);
	assert_non_null(strstr(get(&process, "TF_CONFIG"),
		"\"ps\":[\"host2:2222\"],\"worker\":[\"host0:2222\",\"host1:2222\"]"));
	assert_non_null(strstr(get(&process, "TF_CONFIG"), "\"type\":\"worker\",\"index\":1"));
	next_process(&process, 2, 0, 0);
	assert_non_null(strstr(get(&process, "TF_CONFIG"), "\"type\":\"ps\",\"index\":0"));
	smd_environment_free(&process.environment);
	smd_contract_free(process.contract);
	json_decref(job.spec);
}

/* CLUSTER_SPEC as a replica on Vertex AI printed it: the job is JSON inside a string. */
static void cluster_spec_as_seen_in_the_field(void **state)
{
	struct smd_job job;
	struct fixture process;

	(void)state;
	job_begin(&job, 1, 0, 0);
	job.job_encoding = SMD_JOB_ENCODING_STRING;
	open_replica(&process, &job, 1, 0);
	EXPECT(&process,
		IS("CLUSTER_SPEC",
			"{\"cluster\":{\"workerpool0\":[\"cmle-training-workerpool0-ab-0:2222\"],"
			"\"workerpool1\":[\"cmle-training-workerpool1-ab-0:2222\"]},"
			"\"environment\":\"cloud\",\"task\":{\"type\":\"workerpool1\",\"index\":0},"
			"\"job\":\"{\\\"python_module\\\":\\\"\\\",\\\"package_uris\\\":[],"
			"\\\"job_args\\\":[]}\",\"open_ports\":[3333]}"));
	close_replica(&process);

	job_begin(&job, 0, 0, 0);
	json_decref(job.spec);
	job.spec = json_pack("{s:[{s:{s:s, s:[s], s:[s, s]}}]}", "workerPoolSpecs",
		"pythonPackageSpec", "pythonModule", "trainer.task", "packageUris", "gs://b/t.gz",
		"args", "--lr=1", "\"");
	job.job_encoding = SMD_JOB_ENCODING_STRING;
	open_replica(&process, &job, 0, 0);
	assert_non_null(strstr(get(&process, "CLUSTER_SPEC"),
		"\"job\":\"{\\\"python_module\\\":\\\"trainer.task\\\",\\\"package_uris\\\":"
		"[\\\"gs://b/t.gz\\\"],\\\"job_args\\\":[\\\"--lr=1\\\",\\\"\\\\\\\"\\\"]}\""));
	close_replica(&process);
}

static void the_spec_may_be_left_out(void **state)
{
	struct smd_job job;
	struct fixture process;

	(void)state;
	job_begin(&job, 1, 0, 0);
	job.job_encoding = SMD_JOB_ENCODING_NONE;
	job.chief_name = SMD_CHIEF_NAME_MASTER;
	open_replica(&process, &job, 0, 0);
	assert_null(strstr(get(&process, "CLUSTER_SPEC"), "\"job\""));
	EXPECT(&process,
		IS("TF_CONFIG",
			"{\"cluster\":{\"master\":[\"cmle-training-workerpool0-ab-0:2222\"],"
			"\"worker\":[\"cmle-training-workerpool1-ab-0:2222\"]},"
			"\"environment\":\"cloud\","
			"\"task\":{\"cloud\":\"ab\",\"index\":0,\"type\":\"master\"}}"));
	close_replica(&process);
}

static void a_trial_has_its_own_places(void **state)
{
	struct smd_job job;
	struct fixture process;

	(void)state;
	job_begin(&job, 0, 0, 0);
	job.trial = TEXT("3");
	job.output_uri = TEXT("gs://bucket/base");
	json_object_set_new(job.spec, "tensorboard",
		json_string("projects/1/locations/europe-west4/tensorboards/2"));
	open_replica(&process, &job, 0, 0);
	EXPECT(&process, IS("CLOUD_ML_TRIAL_ID", "3"),
		IS("CLOUD_ML_HP_METRIC_FILE", "/tmp/hypertune/output.metrics"),
		IS("AIP_MODEL_DIR", "gs://bucket/base/3/model/"),
		IS("AIP_TENSORBOARD_RESOURCE_NAME",
			"projects/1/locations/europe-west4/tensorboards/2"),
		IS("AIP_TENSORBOARD_API_URI", "https://europe-west4-aiplatform.googleapis.com"));
	close_replica(&process);
}

static void nccl_is_told_of_interface_and_plugin(void **state)
{
	struct smd_job job;
	struct fixture process;

	(void)state;
	job_begin(&job, 1, 1, 0);
	open_replica(&process, &job, 1, 0);
	EXPECT(&process, ABSENT("NCCL_SOCKET_IFNAME"), ABSENT("NCCL_NET_PLUGIN"));
	process.placement.interface = strdup("eth0");
	next_process(&process, 1, 0, 0);
	EXPECT(&process, IS("NCCL_SOCKET_IFNAME", "eth0"), IS("GLOO_SOCKET_IFNAME", "eth0"));
	next_process(&process, 2, 0, 0);
	EXPECT(&process, ABSENT("NCCL_SOCKET_IFNAME"));
	close_replica(&process);
	job_begin(&job, 1, 1, 0);
	job.pools[2].role = SMD_ROLE_REDUCTION_SERVER;
	open_replica(&process, &job, 1, 0);
	EXPECT(&process, IS("NCCL_NET_PLUGIN", "summand"), IS("NCCL_COLLNET_ENABLE", "1"));
	close_replica(&process);
}

/* Linux takes no variable longer than 128 KiB, so however large a job is, a process costs no more
 * than that for each variable; and what is left out is told. */
static void what_cannot_be_passed_is_left_out(void **state)
{
	struct smd_job job;
	struct fixture process;
	char *const *warnings;

	(void)state;
	job_begin(&job, 9999, 5000, 0);
	job.pools[2].role = SMD_ROLE_REDUCTION_SERVER;
	open_replica(&process, &job, 1, 9998);
	EXPECT(&process, ABSENT("CLUSTER_SPEC"), ABSENT("TF_CONFIG"),
		ABSENT("SUMMAND_REDUCTION_SERVERS"), IS("RANK", "9999"), IS("WORLD_SIZE", "10000"),
		ABSENT("NCCL_NET_PLUGIN"));
	assert_int_equal(smd_contract_warnings(process.contract, &warnings), 3);
	assert_ptr_equal(strstr(warnings[0], "CLUSTER_SPEC: must be at most 131072 bytes long on "
					     "Linux, got "),
		warnings[0]);
	assert_non_null(strstr(warnings[0], "have fewer replicas"));
	assert_non_null(strstr(warnings[2], "have fewer reduction servers"));
	close_replica(&process);

	job_begin(&job, 2000, 0, 0);
	open_replica(&process, &job, 1, 0);
	assert_non_null(get(&process, "CLUSTER_SPEC"));
	assert_int_equal(smd_contract_warnings(process.contract, &warnings), 0);
	close_replica(&process);
}

static void a_long_spec_can_be_left_out(void **state)
{
	struct smd_job job;
	struct fixture process;
	char *const *warnings;
	char *text = calloc(1, 131073);

	(void)state;
	assert_non_null(text);
	memset(text, 'x', 131072);
	job_begin(&job, 1, 0, 0);
	json_object_set_new(job.spec, "serviceAccount", json_string(text));
	open_replica(&process, &job, 0, 0);
	EXPECT(&process, ABSENT("CLUSTER_SPEC"), ABSENT("TF_CONFIG"));
	assert_int_equal(smd_contract_warnings(process.contract, &warnings), 2);
	assert_non_null(
		strstr(warnings[0], "summand-job-encoding: none leaves the spec out of it"));
	json_incref(job.spec);
	close_replica(&process);
	job.job_encoding = SMD_JOB_ENCODING_NONE;
	open_replica(&process, &job, 0, 0);
	assert_non_null(get(&process, "CLUSTER_SPEC"));
	assert_int_equal(smd_contract_warnings(process.contract, &warnings), 0);
	close_replica(&process);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cluster_spec_of_the_page),
		cmocka_unit_test(tf_config_of_the_page),
		cmocka_unit_test(an_evaluator_is_outside_the_tensorflow_cluster),
		cmocka_unit_test(a_single_replica_is_not_distributed),
		cmocka_unit_test(torch_counts_pools_0_and_1),
		cmocka_unit_test(a_reduction_server_is_no_worker),
		cmocka_unit_test(later_variables_see_earlier_ones),
		cmocka_unit_test(an_engines_placement_is_used),
		cmocka_unit_test(every_process_of_pytorch_is_a_rank),
		cmocka_unit_test(a_launcher_on_each_node_is_told_of_nodes),
		cmocka_unit_test(who_asks_for_pytorch_gets_it_alone_too),
		cmocka_unit_test(open_mpi_is_told_of_processes),
		cmocka_unit_test(mpi_on_azure),
		cmocka_unit_test(pytorch_on_azure),
		cmocka_unit_test(tf_config_of_azures_page),
		cmocka_unit_test(cluster_spec_as_seen_in_the_field),
		cmocka_unit_test(the_spec_may_be_left_out),
		cmocka_unit_test(a_trial_has_its_own_places),
		cmocka_unit_test(nccl_is_told_of_interface_and_plugin),
		cmocka_unit_test(what_cannot_be_passed_is_left_out),
		cmocka_unit_test(a_long_spec_can_be_left_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
