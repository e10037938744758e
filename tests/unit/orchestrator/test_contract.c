/* What each process gets, against the examples of the pages of Vertex AI. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/orchestrator/contracted.h"

static void cluster_spec_of_the_page(void **state)
{
	struct smd_job job;
	struct contracted replica;

	(void)state;
	contract_job(&job, 2, 2, 3);
	job.trial = TEXT("TRIAL_ID");
	contract_open(&replica, &job, 0, 0);
	assert_string_equal(contract_get(&replica, "CLUSTER_SPEC"),
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
	contract_close(&replica);
}

static void tf_config_of_the_page(void **state)
{
	struct smd_job job;
	struct contracted replica;

	(void)state;
	contract_job(&job, 2, 1, 0);
	job.trial = TEXT("1");
	contract_open(&replica, &job, 1, 0);
	assert_string_equal(contract_get(&replica, "TF_CONFIG"),
		"{\"cluster\":{\"chief\":[\"cmle-training-workerpool0-ab-0:2222\"],"
		"\"ps\":[\"cmle-training-workerpool2-ab-0:2222\"],"
		"\"worker\":[\"cmle-training-workerpool1-ab-0:2222\","
		"\"cmle-training-workerpool1-ab-1:2222\"]},"
		"\"environment\":\"cloud\",\"job\":{\"workerPoolSpecs\":[]},"
		"\"task\":{\"cloud\":\"ab\",\"index\":0,\"trial\":\"1\",\"type\":\"worker\"}}");
	assert_string_equal(contract_get(&replica, "CLOUD_ML_TRIAL_ID"), "1");
	contract_close(&replica);
}

static void an_evaluator_is_outside_the_tensorflow_cluster(void **state)
{
	struct smd_job job;
	struct contracted replica;

	(void)state;
	contract_job(&job, 0, 0, 1);
	contract_open(&replica, &job, 3, 0);
	assert_string_equal(contract_get(&replica, "TF_CONFIG"),
		"{\"cluster\":{\"chief\":[\"cmle-training-workerpool0-ab-0:2222\"]},"
		"\"environment\":\"cloud\",\"job\":{\"workerPoolSpecs\":[]},"
		"\"task\":{\"cloud\":\"ab\",\"index\":0,\"type\":\"evaluator\"}}");
	assert_null(contract_get(&replica, "RANK"));
	contract_close(&replica);
}

static void a_single_replica_is_not_distributed(void **state)
{
	struct smd_job job;
	struct contracted replica;

	(void)state;
	contract_job(&job, 0, 0, 0);
	contract_open(&replica, &job, 0, 0);
	assert_string_equal(contract_get(&replica, "CLUSTER_SPEC"),
		"{\"cluster\":{\"workerpool0\":[\"cmle-training-workerpool0-ab-0:2222\"]},"
		"\"environment\":\"cloud\",\"task\":{\"type\":\"workerpool0\",\"index\":0},"
		"\"job\":{\"workerPoolSpecs\":[]}}");
	assert_null(contract_get(&replica, "TF_CONFIG"));
	assert_null(contract_get(&replica, "MASTER_ADDR"));
	assert_null(contract_get(&replica, "AIP_MODEL_DIR"));
	assert_null(contract_get(&replica, "SUMMAND_REDUCTION_SERVERS"));
	contract_close(&replica);
}

static void torch_counts_pools_0_and_1(void **state)
{
	struct smd_job job;
	struct contracted replica;

	(void)state;
	contract_job(&job, 2, 3, 1);
	contract_open(&replica, &job, 1, 1);
	assert_string_equal(
		contract_get(&replica, "MASTER_ADDR"), "cmle-training-workerpool0-ab-0");
	assert_string_equal(contract_get(&replica, "MASTER_PORT"), "3333");
	assert_string_equal(contract_get(&replica, "RANK"), "2");
	assert_string_equal(contract_get(&replica, "NODE_RANK"), "2");
	assert_string_equal(contract_get(&replica, "WORLD_SIZE"), "3");
	assert_string_equal(contract_get(&replica, "LOCAL_RANK"), "0");
	contract_close(&replica);
}

static void a_reduction_server_is_no_worker(void **state)
{
	struct smd_job job;
	struct contracted replica;
	char **argv;

	(void)state;
	contract_job(&job, 1, 2, 0);
	job.pools[2].role = SMD_ROLE_REDUCTION_SERVER;
	contract_open(&replica, &job, 1, 0);
	assert_string_equal(contract_get(&replica, "SUMMAND_REDUCTION_SERVERS"),
		"cmle-training-workerpool2-ab-0:2222,cmle-training-workerpool2-ab-1:2222");
	assert_null(strstr(contract_get(&replica, "TF_CONFIG"), "ps"));
	assert_non_null(strstr(contract_get(&replica, "CLUSTER_SPEC"), "workerpool2"));
	smd_environment_free(&replica.environment);

	assert_int_equal(
		smd_contract_environment(replica.contract, 2, 1, 0, &replica.environment), 0);
	assert_string_equal(contract_get(&replica, "TF_CONFIG"),
		"{\"cluster\":{\"chief\":[\"cmle-training-workerpool0-ab-0:2222\"],"
		"\"worker\":[\"cmle-training-workerpool1-ab-0:2222\"]},"
		"\"environment\":\"cloud\",\"job\":{\"workerPoolSpecs\":[]},"
		"\"task\":{\"cloud\":\"ab\",\"index\":1,\"type\":\"reduction_server\"}}");
	assert_null(contract_get(&replica, "RANK"));
	assert_null(contract_get(&replica, "SUMMAND_REDUCTION_SERVERS"));
	assert_string_equal(contract_get(&replica, "SUMMAND_REPLICA"), "workerpool2-1");
	job.pools[2].args = (char *[]){TEXT("--threads=2")};
	job.pools[2].nargs = 1;
	assert_int_equal(smd_contract_argv(replica.contract, 2, 1, &replica.environment, &argv), 0);
	assert_string_equal(argv[0], "summand-reduction-server");
	assert_string_equal(argv[1], "--listen=cmle-training-workerpool2-ab-1:2222");
	assert_string_equal(argv[2], "--threads=2");
	assert_null(argv[3]);
	smd_argv_free(argv);
	contract_close(&replica);
}

/* What it carries is known, or so many have to share what each finds. */
static void a_reduction_server_is_told_what_it_carries(void **state)
{
	static const struct {
		struct smd_placement_host host;
		const char *told;
	} cases[] = {
		{{.server_bandwidth_mbps = 5000}, "--bandwidth=5000mbps"},
		{{.server_parts = 2}, "--bandwidth=1/2"},
		{{.server_bandwidth_mbps = 5000, .server_parts = 2}, "--bandwidth=5000mbps"},
		{{.server_parts = 1}, NULL},
	};
	int servers[] = {0, 0};
	struct contracted replica;
	struct smd_job job;
	char **argv;

	(void)state;
	contract_job(&job, 1, 2, 0);
	job.pools[2].role = SMD_ROLE_REDUCTION_SERVER;
	contract_open(&replica, &job, 2, 1);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct smd_placement_host host = cases[i].host;

		replica.placement.hosts = &host; /* nhosts stays 0: it is this test's */
		replica.placement.host_of[2] = servers;
		assert_int_equal(
			smd_contract_argv(replica.contract, 2, 1, &replica.environment, &argv), 0);
		if (cases[i].told) {
			assert_string_equal(argv[2], cases[i].told);
		} else {
			assert_null(argv[2]);
		}
		smd_argv_free(argv);
	}
	replica.placement.hosts = NULL;
	replica.placement.host_of[2] = NULL;
	contract_close(&replica);
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
	struct contracted replica;
	char **argv;

	(void)state;
	contract_job(&job, 1, 0, 0);
	job.output_uri = TEXT("gs://bucket/x//");
	job.pools[1].env = env;
	job.pools[1].nenv = sizeof(env) / sizeof(env[0]);
	job.pools[1].command = command;
	job.pools[1].ncommand = 2;
	job.pools[1].args = args;
	job.pools[1].nargs = 1;
	contract_open(&replica, &job, 1, 0);
	assert_string_equal(contract_get(&replica, "MODEL"), "gs://bucket/x/model/m2");
	assert_string_equal(contract_get(&replica, "RANK"), "rank 1");
	assert_string_equal(contract_get(&replica, "EARLY"), "$(LATE)");
	assert_int_equal(smd_contract_argv(replica.contract, 1, 0, &replica.environment, &argv), 0);
	assert_string_equal(argv[1], "gs://bucket/x/model/m2");
	assert_string_equal(argv[2], "rank 1");
	assert_null(argv[3]);
	smd_argv_free(argv);
	contract_close(&replica);
}

/* On the hosts of workers it has a share, and may be spare. */
static void a_reducer_is_told_its_share(void **state)
{
	struct smd_job job;
	struct contracted replica;
	char **argv;

	(void)state;
	contract_job(&job, 3, 2, 0);
	job.pools[2].role = SMD_ROLE_REDUCTION_SERVER;
	contract_open(&replica, &job, 2, 1);
	replica.placement.first_reducer = 1;
	replica.placement.nreducers = 1;
	replica.placement.reducer_share = (struct smd_share){5, 14};
	for (int spare = 0; spare <= 1; spare++) {
		replica.placement.spares_reducers = spare;
		assert_int_equal(
			smd_contract_argv(replica.contract, 2, 1, &replica.environment, &argv), 0);
		assert_string_equal(argv[2], "--share=5/14");
		if (spare) {
			assert_string_equal(argv[3], "--spare");
		}
		assert_null(argv[3 + spare]);
		smd_argv_free(argv);
		assert_int_equal(
			smd_contract_argv(replica.contract, 2, 0, &replica.environment, &argv), 0);
		assert_null(argv[2]);
		smd_argv_free(argv);
	}
	contract_close(&replica);
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
	contract_job(&job, 1, 0, 0);
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

static void every_process_of_pytorch_is_a_rank(void **state)
{
	struct smd_job job;
	struct contracted process;

	(void)state;
	contract_job(&job, 1, 1, 0);
	job.distribution = SMD_DISTRIBUTION_PYTORCH;
	job.processes_per_replica = 4;
	contract_open(&process, &job, 1, 0);
	contract_next(&process, 1, 0, 3);
	EXPECT(&process, IS("MASTER_ADDR", "cmle-training-workerpool0-ab-0"),
		IS("MASTER_PORT", "3333"), IS("RANK", "7"), IS("WORLD_SIZE", "8"),
		IS("NODE_RANK", "1"), IS("GROUP_RANK", "1"), IS("LOCAL_RANK", "3"),
		IS("LOCAL_WORLD_SIZE", "4"), IS("SUMMAND_REPLICA", "workerpool1-0"),
		IS("SUMMAND_PROCESS", "3"), ABSENT("PET_NNODES"), ABSENT("TF_CONFIG"),
		ABSENT("OMPI_COMM_WORLD_RANK"));
	contract_next(&process, 2, 0, 0);
	EXPECT(&process, ABSENT("RANK"), ABSENT("SUMMAND_PROCESS"));
	contract_close(&process);
}

static void a_launcher_on_each_node_is_told_of_nodes(void **state)
{
	struct smd_job job;
	struct contracted process;

	(void)state;
	contract_job(&job, 2, 0, 0);
	job.processes_per_replica = 8;
	job.launch = SMD_LAUNCH_NODE;
	contract_open(&process, &job, 1, 1);
	EXPECT(&process, IS("RANK", "2"), IS("WORLD_SIZE", "3"), IS("NODE_RANK", "2"),
		ABSENT("LOCAL_RANK"), ABSENT("LOCAL_WORLD_SIZE"), IS("PET_NNODES", "3"),
		IS("PET_NPROC_PER_NODE", "8"), IS("PET_NODE_RANK", "2"),
		IS("PET_MASTER_ADDR", "cmle-training-workerpool0-ab-0"),
		IS("PET_MASTER_PORT", "3333"), ABSENT("SUMMAND_PROCESS"));
	assert_int_equal(smd_job_processes(&job, 1), 1);
	contract_close(&process);
}

static void who_asks_for_pytorch_gets_it_alone_too(void **state)
{
	struct smd_job job;
	struct contracted process;

	(void)state;
	contract_job(&job, 0, 0, 0);
	job.distribution = SMD_DISTRIBUTION_PYTORCH;
	contract_open(&process, &job, 0, 0);
	EXPECT(&process, IS("RANK", "0"), IS("WORLD_SIZE", "1"), IS("LOCAL_RANK", "0"));
	contract_close(&process);
}

static void open_mpi_is_told_of_processes(void **state)
{
	struct smd_job job;
	struct contracted process;

	(void)state;
	contract_job(&job, 1, 0, 0);
	job.distribution = SMD_DISTRIBUTION_MPI;
	job.processes_per_replica = 4;
	contract_open(&process, &job, 1, 0);
	contract_next(&process, 1, 0, 2);
	EXPECT(&process, IS("OMPI_COMM_WORLD_RANK", "6"), IS("OMPI_COMM_WORLD_SIZE", "8"),
		IS("OMPI_COMM_WORLD_LOCAL_RANK", "2"), IS("OMPI_COMM_WORLD_LOCAL_SIZE", "4"),
		IS("OMPI_COMM_WORLD_NODE_RANK", "2"), IS("RANK", "6"), ABSENT("TF_CONFIG"),
		ABSENT("AZ_BATCH_MASTER_NODE"));
	job.launch = SMD_LAUNCH_NODE;
	contract_next(&process, 1, 0, 0);
	EXPECT(&process, ABSENT("OMPI_COMM_WORLD_RANK"));
	contract_close(&process);
}

/* CLUSTER_SPEC as a replica on Vertex AI printed it: the job is JSON inside a string. */
static void cluster_spec_as_seen_in_the_field(void **state)
{
	struct smd_job job;
	struct contracted process;

	(void)state;
	contract_job(&job, 1, 0, 0);
	job.job_encoding = SMD_JOB_ENCODING_STRING;
	contract_open(&process, &job, 1, 0);
	EXPECT(&process,
		IS("CLUSTER_SPEC",
			"{\"cluster\":{\"workerpool0\":[\"cmle-training-workerpool0-ab-0:2222\"],"
			"\"workerpool1\":[\"cmle-training-workerpool1-ab-0:2222\"]},"
			"\"environment\":\"cloud\",\"task\":{\"type\":\"workerpool1\",\"index\":0},"
			"\"job\":\"{\\\"python_module\\\":\\\"\\\",\\\"package_uris\\\":[],"
			"\\\"job_args\\\":[]}\",\"open_ports\":[3333]}"));
	contract_close(&process);

	contract_job(&job, 0, 0, 0);
	json_decref(job.spec);
	job.spec = json_pack("{s:[{s:{s:s, s:[s], s:[s, s]}}]}", "workerPoolSpecs",
		"pythonPackageSpec", "pythonModule", "trainer.task", "packageUris", "gs://b/t.gz",
		"args", "--lr=1", "\"");
	job.job_encoding = SMD_JOB_ENCODING_STRING;
	contract_open(&process, &job, 0, 0);
	assert_non_null(strstr(contract_get(&process, "CLUSTER_SPEC"),
		"\"job\":\"{\\\"python_module\\\":\\\"trainer.task\\\",\\\"package_uris\\\":"
		"[\\\"gs://b/t.gz\\\"],\\\"job_args\\\":[\\\"--lr=1\\\",\\\"\\\\\\\"\\\"]}\""));
	contract_close(&process);
}

static void the_spec_may_be_left_out(void **state)
{
	struct smd_job job;
	struct contracted process;

	(void)state;
	contract_job(&job, 1, 0, 0);
	job.job_encoding = SMD_JOB_ENCODING_NONE;
	job.chief_name = SMD_CHIEF_NAME_MASTER;
	contract_open(&process, &job, 0, 0);
	assert_null(strstr(contract_get(&process, "CLUSTER_SPEC"), "\"job\""));
	EXPECT(&process,
		IS("TF_CONFIG",
			"{\"cluster\":{\"master\":[\"cmle-training-workerpool0-ab-0:2222\"],"
			"\"worker\":[\"cmle-training-workerpool1-ab-0:2222\"]},"
			"\"environment\":\"cloud\","
			"\"task\":{\"cloud\":\"ab\",\"index\":0,\"type\":\"master\"}}"));
	contract_close(&process);
}

static void a_trial_has_its_own_places(void **state)
{
	struct smd_job job;
	struct contracted process;

	(void)state;
	contract_job(&job, 0, 0, 0);
	job.trial = TEXT("3");
	job.output_uri = TEXT("gs://bucket/base");
	json_object_set_new(job.spec, "tensorboard",
		json_string("projects/1/locations/europe-west4/tensorboards/2"));
	contract_open(&process, &job, 0, 0);
	EXPECT(&process, IS("CLOUD_ML_TRIAL_ID", "3"),
		IS("CLOUD_ML_HP_METRIC_FILE", "/tmp/hypertune/output.metrics"),
		IS("AIP_MODEL_DIR", "gs://bucket/base/3/model/"),
		IS("AIP_TENSORBOARD_RESOURCE_NAME",
			"projects/1/locations/europe-west4/tensorboards/2"),
		IS("AIP_TENSORBOARD_API_URI", "https://europe-west4-aiplatform.googleapis.com"));
	contract_close(&process);
}

static void nccl_is_told_of_interface_and_plugin(void **state)
{
	struct smd_job job;
	struct contracted process;

	(void)state;
	contract_job(&job, 1, 1, 0);
	contract_open(&process, &job, 1, 0);
	EXPECT(&process, ABSENT("NCCL_SOCKET_IFNAME"), ABSENT("NCCL_NET_PLUGIN"));
	process.placement.interface = strdup("eth0");
	contract_next(&process, 1, 0, 0);
	EXPECT(&process, IS("NCCL_SOCKET_IFNAME", "eth0"), IS("GLOO_SOCKET_IFNAME", "eth0"));
	contract_next(&process, 2, 0, 0);
	EXPECT(&process, ABSENT("NCCL_SOCKET_IFNAME"));
	contract_close(&process);
	contract_job(&job, 1, 1, 0);
	job.pools[2].role = SMD_ROLE_REDUCTION_SERVER;
	contract_open(&process, &job, 1, 0);
	EXPECT(&process, IS("NCCL_NET_PLUGIN", "summand"),
		IS("NCCL_TUNER_PLUGIN", "libnccl-net-summand.so"), IS("NCCL_COLLNET_ENABLE", "1"));
	contract_close(&process);
}

/* What the servers' links carry against a node's, where all of them are known. */
static void nccl_is_told_of_servers_links(void **state)
{
	struct smd_placement_host hosts[] = {{.link_mbps = 25000}, {.link_mbps = 10000},
		{.link_mbps = 100000, .server_bandwidth_mbps = 50000}};
	int workers[] = {0, 1}, chief[] = {0}, servers[] = {2, 2};
	char *choosers[] = {
		TEXT("SUMMAND_NCCL_IFNAME"), TEXT("NCCL_IB_HCA"), TEXT("NCCL_SOCKET_IFNAME")};
	char rails[] = "eth1,eth2", rail[] = "eth1";
	struct smd_variable cards[] = {{.name = NULL, .value = TEXT("eth2")}};
	struct smd_placement *placement;
	struct contracted process;
	struct smd_job job;

	(void)state;
	contract_job(&job, 2, 2, 0);
	job.pools[2].role = SMD_ROLE_REDUCTION_SERVER;
	contract_open(&process, &job, 1, 0);
	EXPECT(&process, ABSENT("SUMMAND_NCCL_SERVER_LINKS"));
	placement = &process.placement;
	placement->hosts = hosts; /* nhosts stays 0: they are this test's */
	placement->host_of[0] = chief;
	placement->host_of[1] = workers;
	placement->host_of[2] = servers;
	contract_next(&process, 1, 0, 0);
	EXPECT(&process, IS("SUMMAND_NCCL_SERVER_LINKS", "100000/10000"));
	contract_next(&process, 0, 0, 0);
	EXPECT(&process, IS("SUMMAND_NCCL_SERVER_LINKS", "100000/10000"));
	contract_next(&process, 2, 0, 0);
	EXPECT(&process, ABSENT("SUMMAND_NCCL_SERVER_LINKS"));
	placement->first_reducer = 2;
	placement->nreducers = 1; /* and no other worker's host: nobody to reduce with */
	contract_next(&process, 1, 0, 0);
	EXPECT(&process, ABSENT("SUMMAND_NCCL_SERVER_LINKS"));
	placement->nreducers = 3; /* (9 * 10000 + 100000) / 4 */
	contract_next(&process, 1, 0, 0);
	EXPECT(&process, IS("SUMMAND_NCCL_SERVER_LINKS", "47500/10000"));
	placement->nabsent = 1; /* (9 * 10000 + 50000) / 4 */
	contract_next(&process, 1, 0, 0);
	EXPECT(&process, IS("SUMMAND_NCCL_SERVER_LINKS", "35000/10000"));
	placement->spares_reducers = 1; /* they carry nothing, */
	contract_next(&process, 1, 0, 0);
	EXPECT(&process, IS("SUMMAND_NCCL_SERVER_LINKS", "50000/10000"));
	placement->nabsent = 2; /* unless nobody else does */
	contract_next(&process, 1, 0, 0);
	EXPECT(&process, IS("SUMMAND_NCCL_SERVER_LINKS", "22500/10000"));
	placement->spares_reducers = 0;
	placement->nabsent = 0;
	placement->first_reducer = 0; /* reducers alone are a ring's equals: 9 * 10000 / 4 */
	contract_next(&process, 1, 0, 0);
	EXPECT(&process, IS("SUMMAND_NCCL_SERVER_LINKS", "22500/10000"));
	placement->nreducers = 0;
	hosts[2].server_bandwidth_mbps = 1500000;
	contract_next(&process, 1, 0, 0);
	EXPECT(&process, IS("SUMMAND_NCCL_SERVER_LINKS", "750000/2500"));
	hosts[1].link_mbps = 0;
	contract_next(&process, 1, 0, 0);
	EXPECT(&process, ABSENT("SUMMAND_NCCL_SERVER_LINKS"));
	hosts[1].link_mbps = 10000;
	hosts[2].server_bandwidth_mbps = 50000;
	hosts[1].rails = rails; /* 10000 is of both, and the pool has one */
	job.pools[1].env = cards;
	job.pools[1].nenv = 1;
	for (size_t i = 0; i < sizeof(choosers) / sizeof(choosers[0]); i++) {
		cards[0].name = choosers[i];
		contract_next(&process, 1, 0, 0);
		EXPECT(&process, ABSENT("SUMMAND_NCCL_SERVER_LINKS"));
	}
	hosts[1].rails = rail; /* there is only one */
	contract_next(&process, 1, 0, 0);
	EXPECT(&process, IS("SUMMAND_NCCL_SERVER_LINKS", "100000/10000"));
	job.pools[1].env = NULL;
	job.pools[1].nenv = 0;
	hosts[1].rails = rails;
	contract_next(&process, 1, 0, 0);
	EXPECT(&process, IS("SUMMAND_NCCL_SERVER_LINKS", "100000/10000"));
	hosts[1].rails = NULL;
	hosts[2].server_bandwidth_mbps = 0;
	contract_next(&process, 1, 0, 0);
	EXPECT(&process, ABSENT("SUMMAND_NCCL_SERVER_LINKS"));
	placement->hosts = NULL;
	placement->host_of[0] = placement->host_of[1] = placement->host_of[2] = NULL;
	contract_close(&process);
}

/* Linux takes no variable longer than 128 KiB, so however large a job is, a process costs no more
 * than that for each variable; and what is left out is told. */
static void what_cannot_be_passed_is_left_out(void **state)
{
	struct smd_job job;
	struct contracted process;
	char *const *warnings;

	(void)state;
	contract_job(&job, 9999, 5000, 0);
	job.pools[2].role = SMD_ROLE_REDUCTION_SERVER;
	contract_open(&process, &job, 1, 9998);
	EXPECT(&process, ABSENT("CLUSTER_SPEC"), ABSENT("TF_CONFIG"),
		ABSENT("SUMMAND_REDUCTION_SERVERS"), IS("RANK", "9999"), IS("WORLD_SIZE", "10000"),
		ABSENT("NCCL_NET_PLUGIN"));
	assert_int_equal(smd_contract_warnings(process.contract, &warnings), 3);
	assert_ptr_equal(strstr(warnings[0], "CLUSTER_SPEC: must be at most 131072 bytes long on "
					     "Linux, got "),
		warnings[0]);
	assert_non_null(strstr(warnings[0], "have fewer replicas"));
	assert_non_null(strstr(warnings[2], "have fewer reduction servers"));
	contract_close(&process);

	contract_job(&job, 2000, 0, 0);
	contract_open(&process, &job, 1, 0);
	assert_non_null(contract_get(&process, "CLUSTER_SPEC"));
	assert_int_equal(smd_contract_warnings(process.contract, &warnings), 0);
	contract_close(&process);
}

static void a_long_spec_can_be_left_out(void **state)
{
	struct smd_job job;
	struct contracted process;
	char *const *warnings;
	char *text = calloc(1, 131073);

	(void)state;
	assert_non_null(text);
	memset(text, 'x', 131072);
	contract_job(&job, 1, 0, 0);
	json_object_set_new(job.spec, "serviceAccount", json_string(text));
	contract_open(&process, &job, 0, 0);
	EXPECT(&process, ABSENT("CLUSTER_SPEC"), ABSENT("TF_CONFIG"));
	assert_int_equal(smd_contract_warnings(process.contract, &warnings), 2);
	assert_non_null(
		strstr(warnings[0], "summand-job-encoding: none leaves the spec out of it"));
	json_incref(job.spec);
	contract_close(&process);
	job.job_encoding = SMD_JOB_ENCODING_NONE;
	contract_open(&process, &job, 0, 0);
	assert_non_null(contract_get(&process, "CLUSTER_SPEC"));
	assert_int_equal(smd_contract_warnings(process.contract, &warnings), 0);
	contract_close(&process);
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
		cmocka_unit_test(a_reduction_server_is_told_what_it_carries),
		cmocka_unit_test(later_variables_see_earlier_ones),
		cmocka_unit_test(a_reducer_is_told_its_share),
		cmocka_unit_test(an_engines_placement_is_used),
		cmocka_unit_test(every_process_of_pytorch_is_a_rank),
		cmocka_unit_test(a_launcher_on_each_node_is_told_of_nodes),
		cmocka_unit_test(who_asks_for_pytorch_gets_it_alone_too),
		cmocka_unit_test(open_mpi_is_told_of_processes),
		cmocka_unit_test(cluster_spec_as_seen_in_the_field),
		cmocka_unit_test(the_spec_may_be_left_out),
		cmocka_unit_test(a_trial_has_its_own_places),
		cmocka_unit_test(nccl_is_told_of_interface_and_plugin),
		cmocka_unit_test(nccl_is_told_of_servers_links),
		cmocka_unit_test(what_cannot_be_passed_is_left_out),
		cmocka_unit_test(a_long_spec_can_be_left_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
