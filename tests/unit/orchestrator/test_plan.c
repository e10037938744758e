/* Plans against the worked example of Vertex AI's page, and what a plan warns of. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/plan/plan.h"

struct pool {
	int replicas;
	const char *machine_type;
	const char *accelerator_type;
	int accelerators;
};

static int open_catalogue(void **state)
{
	struct smd_catalogue *catalogue;
	char path[4096];
	struct smd_error error = {""};
	const char *source = getenv("SUMMAND_SOURCE");

	snprintf(path, sizeof(path), "%s/specs/machine_types.json", source ? source : ".");
	if (smd_catalogue_load(path, &catalogue, &error)) {
		fprintf(stderr, "%s\n", error.text);
		return -1;
	}
	*state = catalogue;
	return 0;
}

static int close_catalogue(void **state)
{
	smd_catalogue_free(*state);
	return 0;
}

/* Plans a job of reduction servers; the strings stay the caller's. */
static struct smd_plan *plan_of(const struct smd_catalogue *catalogue, struct smd_job *job,
	struct pool chief, struct pool workers, struct pool servers)
{
	const struct pool pools[] = {chief, workers, servers};
	struct smd_plan *plan;

	*job = (struct smd_job){.id = "ab", .display_name = (char *)"test"};
	for (int i = 0; i < 3; i++) {
		job->pools[i] = (struct smd_job_pool){.index = i,
			.role = i == 2 ? SMD_ROLE_REDUCTION_SERVER : (enum smd_role)i,
			.replica_count = pools[i].replicas,
			.machine_type = (char *)pools[i].machine_type,
			.accelerator_type = (char *)pools[i].accelerator_type,
			.accelerator_count = pools[i].accelerators};
	}
	assert_int_equal(smd_plan_create(job, catalogue, &plan), 0);
	return plan;
}

static void the_example_of_the_page(void **state)
{
	struct pool v100 = {1, "n1-highmem-96", "NVIDIA_TESLA_V100", 8};
	struct pool workers = {4, "n1-highmem-96", "NVIDIA_TESLA_V100", 8};
	struct pool servers = {16, "n1-highcpu-16", NULL, 0};
	struct smd_job job;
	struct smd_plan *plan = plan_of(*state, &job, v100, workers, servers);

	assert_int_equal(plan->workers, 5);
	assert_true(plan->gbps[0] == 100);
	assert_true(plan->worker_gbps == 500);
	assert_true(plan->reduction_gbps == 512);
	assert_int_equal(plan->needed, 16);
	assert_true(plan->speedup > 1.599 && plan->speedup < 1.601);
	assert_int_equal(plan->nwarnings, 0);
	smd_plan_free(plan);
}

static void too_few_servers(void **state)
{
	struct pool chief = {1, "a2-megagpu-16g", "NVIDIA_TESLA_A100", 16};
	struct pool workers = {7, "a2-megagpu-16g", "NVIDIA_TESLA_A100", 16};
	struct pool servers = {10, "n1-highcpu-16", "NVIDIA_TESLA_T4", 1};
	struct smd_job job;
	struct smd_plan *plan = plan_of(*state, &job, chief, workers, servers);

	assert_int_equal(plan->needed, 25);
	assert_true(plan->speedup > 0.699 && plan->speedup < 0.701);
	assert_int_equal(plan->nwarnings, 2);
	assert_string_equal(plan->warnings[0],
		"worker pool 2: 10 reduction servers carry 320 Gbit/s, 480 less than the workers' "
		"800: 25 of n1-highcpu-16 are needed; with these alone an all-reduce is slower "
		"than a "
		"ring");
	assert_non_null(strstr(plan->warnings[1], "do not use their 1 NVIDIA_TESLA_T4"));
	smd_plan_free(plan);
}

/* The servers that the page's example needs, of whatever machine type. */
static void servers_needed_of_any_machine_type(void **state)
{
	static const struct {
		const char *machine_type;
		int needed;
	} expected[] = {{"n1-highcpu-16", 16}, {"n2-highcpu-16", 16}, {"n1-standard-8", 32},
		{"n1-standard-4", 50}, {"n1-standard-1", 250}, {"c3-highcpu-176", 5}};
	struct pool chief = {1, "n1-highmem-96", "NVIDIA_TESLA_V100", 8};
	struct pool workers = {4, "n1-highmem-96", "NVIDIA_TESLA_V100", 8};
	struct pool servers = {0, NULL, NULL, 0};
	struct smd_job job;
	struct smd_plan *plan = plan_of(*state, &job, chief, workers, servers);

	assert_string_equal(plan->choice.machine_type, "n1-highcpu-16");
	assert_int_equal(plan->choice.needed, 16);
	assert_true(plan->choice.speedup > 1.599 && plan->choice.speedup < 1.601);
	assert_true(plan->speedup == 0);
	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
		assert_int_equal(smd_plan_choose(plan, expected[i].machine_type), 0);
		assert_int_equal(plan->choice.needed, expected[i].needed);
	}
	assert_int_equal(smd_plan_choose(plan, "n1-highcpu-17"), -ENOENT);
	plan->worker_gbps = 0;
	assert_int_equal(smd_plan_choose(plan, "n1-highcpu-16"), -ENODATA);
	smd_plan_free(plan);
}

static void too_many_servers(void **state)
{
	struct pool chief = {1, "n1-highmem-96", "NVIDIA_TESLA_V100", 8};
	struct pool workers = {4, "n1-highmem-96", "NVIDIA_TESLA_V100", 8};
	struct pool servers = {20, "n1-highcpu-16", NULL, 0};
	struct smd_job job;
	struct smd_plan *plan = plan_of(*state, &job, chief, workers, servers);

	assert_true(plan->speedup > 1.599 && plan->speedup < 1.601);
	assert_int_equal(plan->nwarnings, 1);
	assert_string_equal(plan->warnings[0],
		"worker pool 2: 20 reduction servers carry 640 Gbit/s, 140 more than the workers' "
		"500: 16 of n1-highcpu-16 are enough, and each costs every worker connections");
	smd_plan_free(plan);
}

/* 8 workers of 100 Gbit/s, servers of 32: reducers make it a ring at least. */
static void reducers_on_workers_hosts(void **state)
{
	struct pool chief = {1, "a2-megagpu-16g", "NVIDIA_TESLA_A100", 16};
	struct pool workers = {7, "a2-megagpu-16g", "NVIDIA_TESLA_A100", 16};
	struct pool servers = {10, "n1-highcpu-16", NULL, 0};
	struct smd_job job;
	struct smd_plan *plan = plan_of(*state, &job, chief, workers, servers);
	struct smd_plan_hybrid hybrid = smd_plan_hybrid(plan);

	assert_int_equal(hybrid.workers, 8);
	assert_int_equal(hybrid.needed, 25);
	assert_true(hybrid.worker_gbps == 100 && hybrid.server_gbps == 32);
	assert_float_equal(smd_plan_hybrid_speedup(&hybrid, 0), 1, 1e-6);
	assert_float_equal(smd_plan_servers_speedup(&hybrid, 0), 0, 1e-6);
	/* S = 3.2 B: 2n(n-1) / (n^2 + (n-2) 3.2) = 112 / 83.2 of a ring's 1.75. */
	assert_float_equal(smd_plan_hybrid_speedup(&hybrid, 10), 1.75 * 83.2 / 112, 1e-6);
	assert_float_equal(smd_plan_servers_speedup(&hybrid, 10), plan->speedup, 1e-6);
	assert_float_equal(smd_plan_hybrid_speedup(&hybrid, 25), 1.75, 1e-6);
	assert_float_equal(smd_plan_hybrid_seconds(&hybrid, 25), 0.08, 1e-6);
	assert_int_equal(smd_plan_choose(plan, "n1-standard-4"), 0);
	assert_int_equal(smd_plan_hybrid(plan).needed, plan->choice.needed);
	smd_plan_free(plan);
	plan = plan_of(*state, &job, chief, (struct pool){1, "a2-megagpu-16g", "NVIDIA_TESLA_A100", 16}, servers);
	assert_true(smd_plan_hybrid(plan).worker_gbps == 0);
	smd_plan_free(plan);
}

static void two_workers_gain_nothing(void **state)
{
	struct pool chief = {1, "n1-standard-8", NULL, 0};
	struct pool workers = {1, "n1-standard-8", NULL, 0};
	struct pool servers = {1, "n1-highcpu-16", NULL, 0};
	struct smd_job job;
	struct smd_plan *plan = plan_of(*state, &job, chief, workers, servers);

	assert_true(plan->speedup == 1);
	assert_int_equal(plan->nwarnings, 1);
	assert_non_null(strstr(plan->warnings[0], "two workers gain nothing"));
	smd_plan_free(plan);
}

/* Azure's silent default of one process leaves all GPUs but one idle. */
static void fewer_processes_than_accelerators(void **state)
{
	struct smd_job job = {.id = "ab",
		.display_name = (char *)"test",
		.processes_per_replica = 1,
		.distribution = SMD_DISTRIBUTION_PYTORCH,
		.pools = {{.replica_count = 1, .machine_type = (char *)"a2-highgpu-8g"},
			{.index = 1,
				.role = SMD_ROLE_WORKER,
				.replica_count = 1,
				.machine_type = (char *)"g2-standard-4"}}};
	struct smd_plan *plan;

	assert_int_equal(smd_plan_create(&job, *state, &plan), 0);
	assert_int_equal(plan->nwarnings, 1);
	assert_string_equal(plan->warnings[0],
		"worker pool 0: 1 process per replica uses 1 of 8 NVIDIA_TESLA_A100; "
		"summand-processes-per-replica says how many there are, and summand-launch: node "
		"that the command starts them");
	smd_plan_free(plan);
	job.processes_per_replica = 8;
	assert_int_equal(smd_plan_create(&job, *state, &plan), 0);
	assert_int_equal(plan->nwarnings, 0);
	smd_plan_free(plan);
	job.processes_per_replica = 1;
	job.distribution = SMD_DISTRIBUTION_ANY;
	assert_int_equal(smd_plan_create(&job, *state, &plan), 0);
	assert_int_equal(plan->nwarnings, 0);
	smd_plan_free(plan);
}

/* As Google documents them, with what would be right. */
static void accelerators_that_a_machine_cannot_have(void **state)
{
	static const struct {
		const char *machine_type;
		const char *accelerator_type;
		int count;
		enum smd_machine_part wrong;
		const char *text;
	} cases[] = {
		{"n1-highmem-96", "NVIDIA_TESLA_V100", 8, SMD_MACHINE_RIGHT, NULL},
		{"n1-standard-4", "NVIDIA_TESLA_T4", 1, SMD_MACHINE_RIGHT, NULL},
		{"a2-highgpu-8g", "NVIDIA_TESLA_A100", 8, SMD_MACHINE_RIGHT, NULL},
		{"my-machine", "NVIDIA_L4", 3, SMD_MACHINE_RIGHT, NULL},
		{"n1-standard-8", "NVIDIA_TESLA_V100", 3, SMD_MACHINE_ACCELERATOR_COUNT,
			"must be 1, 2, 4 or 8 of NVIDIA_TESLA_V100 with the 8 vCPUs of "
			"n1-standard-8, got 3"},
		{"n1-standard-96", "NVIDIA_TESLA_V100", 1, SMD_MACHINE_ACCELERATOR_COUNT,
			"must be 8 of NVIDIA_TESLA_V100 with the 96 vCPUs of n1-standard-96, got "
			"1"},
		{"a2-highgpu-8g", "NVIDIA_TESLA_A100", 4, SMD_MACHINE_ACCELERATOR_COUNT,
			"must be 8 with a2-highgpu-8g, got 4; a2-highgpu-4g has 4"},
		{"a2-highgpu-8g", "NVIDIA_TESLA_T4", 8, SMD_MACHINE_ACCELERATOR_TYPE,
			"must be NVIDIA_TESLA_A100 with a2-highgpu-8g, got NVIDIA_TESLA_T4; n1 "
			"machines take NVIDIA_TESLA_T4"},
		{"a3-highgpu-8g", "NVIDIA_H100_MEGA_80GB", 8, SMD_MACHINE_ACCELERATOR_TYPE,
			"must be NVIDIA_H100_80GB with a3-highgpu-8g, got NVIDIA_H100_MEGA_80GB; "
			"a3-megagpu-8g has 8 NVIDIA_H100_MEGA_80GB"},
		{"e2-standard-4", "NVIDIA_TESLA_A100", 4, SMD_MACHINE_ACCELERATOR_TYPE,
			"must not be given with e2-standard-4, which takes no accelerators, got "
			"NVIDIA_TESLA_A100; a2-highgpu-4g has 4 NVIDIA_TESLA_A100"},
		{"n1-standard-4", "NVIDIA_L4", 1, SMD_MACHINE_ACCELERATOR_TYPE,
			"must be NVIDIA_TESLA_V100, NVIDIA_TESLA_T4, NVIDIA_TESLA_P100, "
			"NVIDIA_TESLA_P4 or NVIDIA_TESLA_K80 with n1-standard-4, got NVIDIA_L4; "
			"g2-standard-4 has 1 NVIDIA_L4"},
		{"n1-standard-16", "NVIDIA_TESLA_V100", 1, SMD_MACHINE_ACCELERATOR_COUNT,
			"must be 2, 4 or 8 of NVIDIA_TESLA_V100 with the 16 vCPUs of "
			"n1-standard-16, got 1"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[512];

		assert_int_equal(
			smd_catalogue_check_accelerators(*state, cases[i].machine_type,
				cases[i].accelerator_type, cases[i].count, text, sizeof(text)),
			cases[i].wrong);
		if (cases[i].text) {
			assert_string_equal(text, cases[i].text);
		}
	}
}

/* Of the sizes that Azure ML documents: name, GPUs, Gbit/s of Ethernet and of InfiniBand. */
static void sizes_of_azure(void **state)
{
	static const struct {
		const char *name;
		const char *accelerator_type;
		int accelerators;
		double egress_gbps;
		double rdma_gbps;
	} sizes[] = {
		{"Standard_NC24rs_v3", "NVIDIA_TESLA_V100", 4, 0, 56},
		{"STANDARD_NC6", "NVIDIA_TESLA_K80", 1, 0, 0},
		{"Standard_NC4as_T4_v3", "NVIDIA_TESLA_T4", 1, 8, 0},
		{"Standard_NC96ads_A100_v4", "NVIDIA_A100_80GB", 4, 80, 0},
		{"Standard_ND40rs_v2", "NVIDIA_TESLA_V100", 8, 24, 100},
		{"Standard_ND96asr_v4", "NVIDIA_TESLA_A100", 8, 24, 1600},
		{"Standard_NV36ads_A10_v5", "NVIDIA_A10", 1, 40, 0},
		{"Standard_F72s_v2", NULL, 0, 30, 0},
		{"STANDARD_D2_V2", NULL, 0, 1.5, 0},
		{"Standard_E64ds_v4", NULL, 0, 30, 0},
		{"Standard_HB120rs_v3", NULL, 0, 0, 200},
		{"Standard_HC44rs", NULL, 0, 0, 100},
		{"Standard_ND96isr_H200_v5", "NVIDIA_H200_141GB", 8, 80, 3200},
		{"Standard_ND96isr_MI300X_v5", "AMD_INSTINCT_MI300X", 8, 80, 3200},
		{"Standard_ND128isr_NDR_GB200_v6", "NVIDIA_GB200", 4, 160, 1600},
		{"Standard_ND128isr_GB300_v6", "NVIDIA_GB300", 4, 160, 3200},
		{"Standard_NC256lds_xl_RTXPRO6000BSE_v6", "NVIDIA_RTX_PRO_6000", 2, 100, 0},
		{"Standard_D2s_v5", NULL, 0, 12.5, 0},
		{"Standard_E104is_v5", NULL, 0, 100, 0},
		{"Standard_FX4mds", NULL, 0, 4, 0},
		{"Standard_FX96mds_v2", NULL, 0, 70, 0},
		{"Standard_HB368-48rs_v5", NULL, 0, 180, 800},
		{"Standard_HX176rs", NULL, 0, 80, 400},
		{"Standard_H16mr", NULL, 0, 0, 56},
	};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct smd_machine machine;

		assert_int_equal(smd_catalogue_find(*state, sizes[i].name, NULL, 0, &machine), 0);
		assert_true(machine.is_azure);
		assert_true(machine.egress_gbps == sizes[i].egress_gbps);
		assert_true(machine.rdma_gbps == sizes[i].rdma_gbps);
		assert_int_equal(machine.accelerators, sizes[i].accelerators);
		if (sizes[i].accelerator_type) {
			assert_string_equal(machine.accelerator_type, sizes[i].accelerator_type);
		}
	}
}

/* A machine type brings its accelerators along where the spec names none. */
static void built_in_accelerators(void **state)
{
	struct smd_job job = {
		.pools = {{.replica_count = 1, .machine_type = (char *)"Standard_NC24s_v3"},
			{.replica_count = 1,
				.machine_type = (char *)"a2-highgpu-8g",
				.accelerator_type = (char *)"NVIDIA_TESLA_A100",
				.accelerator_count = 8},
			{.replica_count = 1, .machine_type = (char *)"n1-standard-4"}}};

	assert_int_equal(smd_catalogue_complete(*state, &job), 0);
	assert_string_equal(job.pools[0].accelerator_type, "NVIDIA_TESLA_V100");
	assert_int_equal(job.pools[0].accelerator_count, 4);
	assert_true(job.pools[0].accelerators_are_built_in);
	assert_false(job.pools[1].accelerators_are_built_in);
	assert_null(job.pools[2].accelerator_type);
	free(job.pools[0].accelerator_type);
}

/* Hundreds of servers for three workers are no advice. */
static void servers_that_do_not_pay(void **state)
{
	struct pool chief = {1, "a3-ultragpu-8g", "NVIDIA_H200_141GB", 8};
	struct pool workers = {2, "a3-ultragpu-8g", "NVIDIA_H200_141GB", 8};
	struct pool none = {0, NULL, NULL, 0};
	struct pool servers = {8, "n1-highcpu-16", NULL, 0};
	struct smd_job job;
	struct smd_plan *plan = plan_of(*state, &job, chief, workers, none);

	assert_null(plan->choice.machine_type);
	assert_string_equal(plan->advice,
		"reduction servers do not pay here: 3 workers send 10800 Gbit/s, and 108 of "
		"c3-highcpu-176 would be needed, 36 for each worker; they pay up to 4 for each");
	smd_plan_free(plan);
	plan = plan_of(*state, &job, chief, workers, servers);
	assert_int_equal(plan->nwarnings, 1);
	assert_string_equal(plan->warnings[0],
		"worker pool 2: an all-reduce with these is slower than a ring, and reduction "
		"servers do not pay here: 3 workers send 10800 Gbit/s, and 108 of c3-highcpu-176 "
		"would be needed, 36 for each worker; they pay up to 4 for each; leave worker pool "
		"2 out");
	assert_int_equal(plan->needed, 0);
	assert_null(plan->choice.machine_type);
	smd_plan_free(plan);
}

/* Where slow servers would be too many, fewer fast ones may do. */
static void faster_servers_may_pay(void **state)
{
	struct pool chief = {1, "Standard_NC24rs_v3", NULL, 0};
	struct pool workers = {3, "Standard_NC24rs_v3", NULL, 0};
	struct pool v100 = {1, "n1-highmem-96", "NVIDIA_TESLA_V100", 8};
	struct pool none = {0, NULL, NULL, 0};
	struct smd_job job;
	struct smd_plan *plan = plan_of(*state, &job, chief, workers, none);

	assert_string_equal(plan->choice.machine_type, "Standard_HB120rs_v3");
	assert_int_equal(plan->choice.needed, 2);
	assert_null(plan->advice);
	assert_int_equal(smd_plan_choose(plan, "Standard_F72s_v2"), -ENODATA);
	smd_plan_free(plan);
	plan = plan_of(*state, &job, v100,
		(struct pool){4, v100.machine_type, v100.accelerator_type, 8}, none);
	assert_int_equal(smd_plan_choose(plan, "c3-highcpu-176"), 0);
	assert_int_equal(plan->choice.needed, 5);
	smd_plan_free(plan);
}

/* Of a slow type there cannot be enough; one of another type is named. */
static void a_faster_type_is_named(void **state)
{
	struct pool chief = {1, "n1-highmem-96", "NVIDIA_TESLA_V100", 8};
	struct pool workers = {4, "n1-highmem-96", "NVIDIA_TESLA_V100", 8};
	struct pool servers = {4, "n1-standard-4", NULL, 0};
	struct smd_job job;
	struct smd_plan *plan = plan_of(*state, &job, chief, workers, servers);

	assert_int_equal(plan->nwarnings, 1);
	assert_string_equal(plan->warnings[0],
		"worker pool 2: an all-reduce with these is slower than a ring, and more than 4 of "
		"n1-standard-4 for each worker do not pay; have 16 of n1-highcpu-16, or leave "
		"worker pool 2 out");
	assert_null(plan->choice.machine_type);
	smd_plan_free(plan);
}

/* Workers use their InfiniBand among themselves, and to servers that have it too. */
static void infiniband(void **state)
{
	struct pool chief = {1, "Standard_ND40rs_v2", NULL, 0};
	struct pool workers = {3, "Standard_ND40rs_v2", NULL, 0};
	struct smd_job job;
	struct smd_plan *plan = plan_of(
		*state, &job, chief, workers, (struct pool){2, "Standard_HB120rs_v3", NULL, 0});

	assert_true(plan->worker_gbps == 400);
	assert_true(plan->reduction_gbps == 400);
	assert_int_equal(plan->needed, 2);
	assert_int_equal(plan->nwarnings, 0);
	smd_plan_free(plan);
	plan = plan_of(*state, &job, chief, workers, (struct pool){4, "Standard_F72s_v2", NULL, 0});
	assert_true(plan->reduction_gbps == 120);
	assert_true(plan->speedup > 0.359 && plan->speedup < 0.361);
	assert_int_equal(plan->nwarnings, 1);
	assert_string_equal(plan->warnings[0],
		"worker pool 2: Standard_F72s_v2 has no InfiniBand, so the workers send 96 Gbit/s "
		"to it, and 400 to each other: a ring is faster");
	smd_plan_free(plan);
}

static void one_evaluator_is_expected(void **state)
{
	struct smd_job job = {.id = "ab",
		.display_name = (char *)"test",
		.pools = {{.replica_count = 1}, [3] = {.index = 3,
							.role = SMD_ROLE_EVALUATOR,
							.replica_count = 2}}};
	struct smd_plan *plan;

	assert_int_equal(smd_plan_create(&job, *state, &plan), 0);
	assert_int_equal(plan->nwarnings, 1);
	assert_string_equal(
		plan->warnings[0], "worker pool 3: TensorFlow expects one evaluator, got 2");
	smd_plan_free(plan);
}

static void unknown_machines_are_no_error(void **state)
{
	struct pool chief = {1, "my-machine", NULL, 0};
	struct pool workers = {2, NULL, NULL, 0};
	struct pool servers = {1, NULL, NULL, 0};
	struct smd_job job;
	struct smd_plan *plan = plan_of(*state, &job, chief, workers, servers);

	assert_true(plan->worker_gbps == 0);
	assert_int_equal(plan->needed, 0);
	assert_true(plan->speedup_is_bound);
	assert_true(plan->speedup > 1.333 && plan->speedup < 1.334);
	assert_int_equal(plan->nwarnings, 1);
	assert_non_null(strstr(plan->warnings[0], "my-machine is not in the catalogue"));
	smd_plan_free(plan);
}

static void nccl_reduces_through_the_servers(void **state)
{
	static const struct {
		int accelerators;
		struct smd_variable variable;
		int plugin;
	} cases[] = {
		{8, {(char *)"NCCL_DEBUG", (char *)"INFO"}, 1},
		{8, {(char *)"NCCL_COLLNET_ENABLE", (char *)"1"}, 1},
		{8, {(char *)"NCCL_COLLNET_ENABLE", (char *)"0"}, 0},
		{8, {(char *)"NCCL_NET_PLUGIN", (char *)"none"}, 0},
		{0, {(char *)"NCCL_DEBUG", (char *)"INFO"}, 0},
	};
	struct pool chief = {1, "n1-highmem-96", "NVIDIA_TESLA_V100", 8};
	struct pool servers = {16, "n1-highcpu-16", NULL, 0};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct pool workers = {4, "n1-highmem-96",
			cases[i].accelerators ? "NVIDIA_TESLA_V100" : NULL, cases[i].accelerators};
		struct smd_variable variable = cases[i].variable;
		struct smd_job job;
		struct smd_plan *plan = plan_of(*state, &job, chief, workers, servers);

		smd_plan_free(plan);
		job.pools[1].env = &variable;
		job.pools[1].nenv = 1;
		assert_int_equal(smd_plan_create(&job, *state, &plan), 0);
		assert_int_equal(plan->has_nccl_plugin, cases[i].plugin);
		smd_plan_free(plan);
	}
}

static void attached_accelerators_lift_the_limit(void **state)
{
	struct smd_machine machine;

	assert_int_equal(smd_catalogue_find(*state, "n1-standard-8", NULL, 0, &machine), 0);
	assert_true(machine.egress_gbps == 16);
	assert_int_equal(
		smd_catalogue_find(*state, "n1-highmem-96", "NVIDIA_TESLA_V100", 8, &machine), 0);
	assert_true(machine.egress_gbps == 100);
	assert_int_equal(
		smd_catalogue_find(*state, "n1-highmem-32", "NVIDIA_TESLA_V100", 8, &machine), 0);
	assert_true(machine.egress_gbps == 64);
	assert_int_equal(
		smd_catalogue_find(*state, "n1-highmem-32", "NVIDIA_TESLA_V100", 3, &machine), 0);
	assert_true(machine.egress_gbps == 32);
	assert_int_equal(smd_catalogue_find(*state, "n1-standard-7", NULL, 0, &machine), -ENOENT);
}

static void a_bad_catalogue_says_where(void **state)
{
	struct smd_catalogue *catalogue = NULL;
	struct smd_error error = {""};

	(void)state;
	assert_int_equal(smd_catalogue_load("/dev/null", &catalogue, &error), -EINVAL);
	assert_non_null(strstr(error.text, "/dev/null: must be a machine catalogue"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_example_of_the_page),
		cmocka_unit_test(too_few_servers),
		cmocka_unit_test(servers_needed_of_any_machine_type),
		cmocka_unit_test(too_many_servers),
		cmocka_unit_test(reducers_on_workers_hosts),
		cmocka_unit_test(two_workers_gain_nothing),
		cmocka_unit_test(fewer_processes_than_accelerators),
		cmocka_unit_test(accelerators_that_a_machine_cannot_have),
		cmocka_unit_test(sizes_of_azure),
		cmocka_unit_test(built_in_accelerators),
		cmocka_unit_test(servers_that_do_not_pay),
		cmocka_unit_test(faster_servers_may_pay),
		cmocka_unit_test(a_faster_type_is_named),
		cmocka_unit_test(infiniband),
		cmocka_unit_test(one_evaluator_is_expected),
		cmocka_unit_test(unknown_machines_are_no_error),
		cmocka_unit_test(nccl_reduces_through_the_servers),
		cmocka_unit_test(attached_accelerators_lift_the_limit),
		cmocka_unit_test(a_bad_catalogue_says_where),
	};

	return cmocka_run_group_tests(tests, open_catalogue, close_catalogue);
}
