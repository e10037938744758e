/* What each process gets on Azure ML, against the examples of its pages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "tests/unit/orchestrator/contracted.h"

/* Azure's page: MpiConfiguration(process_count_per_node=4, node_count=2). */
static void mpi_on_azure(void **state)
{
	char *chief[] = {TEXT("10.0.0.4:2222"), NULL};
	char *workers[] = {TEXT("10.0.0.5:2222"), NULL};
	const struct smd_placement placement = {.endpoints = {chief, workers}};
	struct smd_job job;
	struct contracted process = {.job = &job, .placement = placement};

	(void)state;
	contract_job(&job, 1, 0, 0);
	job.platform = SMD_PLATFORM_AZUREML;
	job.distribution = SMD_DISTRIBUTION_MPI;
	job.processes_per_replica = 4;
	job.pools[1].accelerator_count = 4;
	assert_int_equal(smd_contract_create(&job, &placement, &process.contract), 0);
	contract_next(&process, 1, 0, 1);
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
	contract_next(&process, 0, 0, 0);
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
	struct contracted process;

	(void)state;
	contract_job(&job, 1, 0, 0);
	job.platform = SMD_PLATFORM_AZUREML;
	job.distribution = SMD_DISTRIBUTION_PYTORCH;
	job.processes_per_replica = 4;
	contract_open(&process, &job, 1, 0);
	EXPECT(&process, IS("MASTER_PORT", "6105"), IS("WORLD_SIZE", "8"), IS("RANK", "4"),
		IS("NODE_RANK", "1"), IS("LOCAL_RANK", "0"), ABSENT("OMPI_COMM_WORLD_RANK"));
	contract_close(&process);
	/* A job on one node has no master node, and one without a distribution no ranks. */
	contract_job(&job, 0, 0, 0);
	job.platform = SMD_PLATFORM_AZUREML;
	contract_open(&process, &job, 0, 0);
	EXPECT(&process, ABSENT("MASTER_ADDR"), ABSENT("AZ_BATCH_MASTER_NODE"),
		IS("AZUREML_NODE_COUNT", "1"));
	contract_close(&process);
}

/* Azure's page: TensorflowConfiguration(worker_count=2), on the first worker. */
static void tf_config_of_azures_page(void **state)
{
	char *chief[] = {TEXT("host0:2222"), NULL};
	char *workers[] = {TEXT("host1:2222"), NULL};
	char *servers[] = {TEXT("host2:2222"), NULL};
	struct smd_placement placement = {.endpoints = {chief, workers, servers}};
	struct smd_job job;
	struct contracted process = {.job = &job, .placement = placement};

	(void)state;
	contract_job(&job, 1, 0, 0);
	job.platform = SMD_PLATFORM_AZUREML;
	job.distribution = SMD_DISTRIBUTION_TENSORFLOW;
	assert_int_equal(smd_contract_create(&job, &placement, &process.contract), 0);
	contract_next(&process, 0, 0, 0);
	EXPECT(&process,
		IS("TF_CONFIG", "{\"cluster\":{\"worker\":[\"host0:2222\",\"host1:2222\"]},"
				"\"task\":{\"type\":\"worker\",\"index\":0},"
				"\"environment\":\"cloud\"}"),
		ABSENT("RANK"));
	smd_contract_free(process.contract);
	job.pools[2].replica_count = 1;
	assert_int_equal(smd_contract_create(&job, &placement, &process.contract), 0);
	contract_next(&process, 1, 0, 0);
	assert_non_null(strstr(contract_get(&process, "TF_CONFIG"),
		"\"ps\":[\"host2:2222\"],\"worker\":[\"host0:2222\",\"host1:2222\"]"));
	assert_non_null(
		strstr(contract_get(&process, "TF_CONFIG"), "\"type\":\"worker\",\"index\":1"));
	contract_next(&process, 2, 0, 0);
	assert_non_null(strstr(contract_get(&process, "TF_CONFIG"), "\"type\":\"ps\",\"index\":0"));
	smd_environment_free(&process.environment);
	smd_contract_free(process.contract);
	json_decref(job.spec);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mpi_on_azure),
		cmocka_unit_test(pytorch_on_azure),
		cmocka_unit_test(tf_config_of_azures_page),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
