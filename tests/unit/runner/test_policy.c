/* Success and restarts: what follows from which end, under each policy. */
#include "orchestrator/runner/loss.h"
#include "orchestrator/runner/policy.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "reduction_server/base/clock.h"

#define CODE(n)                                                                                    \
	{                                                                                          \
		.kind = SMD_EXIT_CODE, .value = (n)                                                \
	}
#define SIGNAL(n)                                                                                  \
	{                                                                                          \
		.kind = SMD_EXIT_SIGNAL, .value = (n)                                              \
	}
#define ERRNO(n)                                                                                   \
	{                                                                                          \
		.kind = SMD_EXIT_ERRNO, .value = (n)                                               \
	}

enum { NEVER, TAKEN, ON_FAILURE, BY_CODE, POLICIES };

/* TAKEN: restart-policy never with restartJobOnWorkerRestart. */
static const struct smd_job jobs[POLICIES] = {
	[NEVER] = {.restart_policy = SMD_RESTART_NEVER},
	[TAKEN] = {.restart_policy = SMD_RESTART_NEVER, .restart_job_on_worker_restart = 1},
	[ON_FAILURE] = {.restart_policy = SMD_RESTART_ON_FAILURE},
	[BY_CODE] = {.restart_policy = SMD_RESTART_EXIT_CODE,
		.retryable = {.bits = {[1] = (uint64_t)1 << (75 - 64)}}},
};

static const struct {
	struct smd_exit end;
	int retried[POLICIES];
} ends[] = {
	{CODE(1), {0, 0, 1, 0}},
	{CODE(75), {0, 0, 1, 1}},
	{CODE(127), {0, 0, 1, 0}},
	{CODE(128), {0, 0, 1, 1}},
	{CODE(143), {0, 0, 1, 1}},
	{CODE(255), {0, 0, 1, 1}},
	{SIGNAL(SIGKILL), {0, 1, 1, 1}},
	{SIGNAL(SIGTERM), {0, 1, 1, 1}},
	{SIGNAL(SIGSEGV), {0, 0, 1, 1}},
	{ERRNO(ENOENT), {0, 0, 1, 0}},
	{ERRNO(EAGAIN), {1, 1, 1, 1}},
	{{.kind = SMD_EXIT_SIGNAL, .value = SIGKILL, .is_lost = 1}, {1, 1, 1, 1}},
};

static void test_which_ends_are_retried(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		for (int policy = 0; policy < POLICIES; policy++) {
			struct smd_job job = jobs[policy];

			assert_int_equal(
				smd_policy_retries(&job, &ends[i].end), ends[i].retried[policy]);
			job.disable_retries = 1;
			assert_int_equal(smd_policy_retries(&job, &ends[i].end), 0);
		}
	}
}

/* The engine's word and the agents' reports cross. */
static void test_which_ends_an_engine_has_brought(void **state)
{
	const uint64_t word = 100 * (uint64_t)SMD_SECOND_NS;
	const uint64_t tell = SMD_POLICY_TELL_S * (uint64_t)SMD_SECOND_NS;
	static const struct {
		struct smd_exit end;
		int may_be;
	} cases[] = {
		{SIGNAL(SIGTERM), 1},
		{SIGNAL(SIGKILL), 1},
		{CODE(143), 1}, /* of a shell whose command had it */
		{CODE(137), 1},
		{SIGNAL(SIGSEGV), 0},
		{CODE(1), 0},
		{CODE(0), 0},
		{ERRNO(ENOENT), 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct smd_exit *end = &cases[i].end;

		assert_int_equal(smd_policy_may_be_taken(end), cases[i].may_be);
		assert_int_equal(smd_policy_is_taken(end, word - 1, word), cases[i].may_be);
		assert_int_equal(smd_policy_is_taken(end, word - tell + 1, word), cases[i].may_be);
		assert_int_equal(smd_policy_is_taken(end, word - tell, word), 0);
		assert_int_equal(smd_policy_is_taken(end, word, word), 1);
		assert_int_equal(smd_policy_is_taken(end, word + 2 * tell, word), 1);
	}
}

static void test_what_is_started_again(void **state)
{
	struct smd_job job = {.restart_scope = SMD_RESTART_REPLICA};

	(void)state;
	assert_int_equal(smd_policy_scope(&job, SMD_ROLE_WORKER), SMD_RESTART_REPLICA);
	assert_int_equal(smd_policy_scope(&job, SMD_ROLE_PARAMETER_SERVER), SMD_RESTART_REPLICA);
	assert_int_equal(smd_policy_scope(&job, SMD_ROLE_REDUCTION_SERVER), SMD_RESTART_JOB);
	job.restart_job_on_worker_restart = 1;
	assert_int_equal(smd_policy_scope(&job, SMD_ROLE_WORKER), SMD_RESTART_JOB);
	job = (struct smd_job){.restart_scope = SMD_RESTART_JOB};
	assert_int_equal(smd_policy_scope(&job, SMD_ROLE_WORKER), SMD_RESTART_JOB);
}

static void test_restarts_are_bounded_and_of_one_scope(void **state)
{
	const struct smd_exit failed = CODE(1);
	const struct smd_restart_counts none = {.drawn = {0}};
	struct smd_job job = {.restart_scope = SMD_RESTART_REPLICA,
		.restart_policy = SMD_RESTART_ON_FAILURE,
		.max_restarts = 2};

	(void)state;
	for (unsigned restarts = 0; restarts < 4; restarts++) {
		const struct smd_restart_counts counts = {.drawn = {restarts}};

		assert_int_equal(smd_policy_restarts(&job, SMD_RESTART_REPLICA, SMD_ROLE_WORKER,
					 &failed, &counts),
			restarts < 2);
		assert_false(smd_policy_restarts(
			&job, SMD_RESTART_JOB, SMD_ROLE_WORKER, &failed, &counts));
		assert_int_equal(smd_policy_restarts(&job, SMD_RESTART_JOB,
					 SMD_ROLE_REDUCTION_SERVER, &failed, &counts),
			restarts < 2);
	}
	job.restart_policy = SMD_RESTART_NEVER;
	assert_false(smd_policy_restarts(&job, SMD_RESTART_REPLICA, SMD_ROLE_WORKER, &failed, &none));
}

/* How often each end is followed by another attempt, where nothing else ends the job. */
static unsigned count_restarts(const struct smd_job *job, const struct smd_exit *end)
{
	struct smd_restart_counts counts = {.drawn = {0}};
	unsigned restarts = 0;

	while (restarts < 100 &&
		smd_policy_restarts(job, SMD_RESTART_JOB, SMD_ROLE_WORKER, end, &counts)) {
		counts.drawn[smd_policy_budget(job, end)]++;
		restarts++;
	}
	return restarts;
}

static void test_an_exit_code_has_a_budget_of_its_own(void **state)
{
	const struct smd_restart_budgets budgets = {
		.list = {{75, 5}, {137, 20}, {SMD_RESTART_CODE_LOST, 9}, {1, 0}, {127, 2}},
		.count = 5};
	static const struct {
		struct smd_exit end;
		unsigned restarts[POLICIES];
	} cases[] = {
		{CODE(75), {5, 5, 5, 5}},
		{CODE(137), {20, 20, 20, 20}},
		{SIGNAL(SIGKILL), {20, 20, 20, 20}},
		{{.kind = SMD_EXIT_SIGNAL, .value = SIGKILL, .is_lost = 1}, {9, 9, 9, 9}},
		{ERRNO(EAGAIN), {9, 9, 9, 9}},
		{CODE(1), {0, 0, 0, 0}},
		{ERRNO(ENOENT), {2, 2, 2, 2}},
		{ERRNO(EACCES), {0, 0, 3, 0}}, /* the others have max-restarts */
		{CODE(2), {0, 0, 3, 0}},
		{SIGNAL(SIGTERM), {0, 3, 3, 3}},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (int policy = 0; policy < POLICIES; policy++) {
			struct smd_job job = jobs[policy];

			job.max_restarts = 3;
			job.budgets = budgets;
			assert_int_equal(
				count_restarts(&job, &cases[i].end), cases[i].restarts[policy]);
			job.disable_retries = 1;
			assert_int_equal(count_restarts(&job, &cases[i].end), 0);
		}
	}
}

static void test_backoff_doubles_up_to_a_maximum(void **state)
{
	struct smd_job job = {.restart_backoff_s = 3};

	(void)state;
	assert_int_equal(smd_policy_backoff_s(&job, 0), 3);
	assert_int_equal(smd_policy_backoff_s(&job, 1), 6);
	assert_int_equal(smd_policy_backoff_s(&job, 3), 24);
	assert_int_equal(smd_policy_backoff_s(&job, 7), SMD_POLICY_BACKOFF_MAX_S);
	assert_int_equal(smd_policy_backoff_s(&job, 1000000), SMD_POLICY_BACKOFF_MAX_S);
	job.restart_backoff_s = 0;
	assert_int_equal(smd_policy_backoff_s(&job, 1000000), 0);
	job.restart_backoff_s = 86400; /* longer than the maximum: as it was given */
	assert_int_equal(smd_policy_backoff_s(&job, 5), 86400);
}

static void test_a_lost_server_comes_back_a_bounded_number_of_times(void **state)
{
	static const int waits[] = {1, 2, 4, 8, 16, 30, 30, -1, -1};
	const uint64_t second_ns = SMD_SECOND_NS;
	struct smd_loss loss = {0};
	uint64_t now = 5 * second_ns;

	(void)state;
	for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
		assert_int_equal(smd_loss_take(&loss, now + i, 7), waits[i]);
	}
	assert_int_equal(smd_loss_take(&loss, now + SMD_LOSS_WINDOW_S * second_ns - 1, 7), -1);
	now += SMD_LOSS_WINDOW_S * second_ns;
	assert_int_equal(smd_loss_take(&loss, now, 7), 1);
	assert_int_equal(smd_loss_take(&loss, now + second_ns, 7), 2);
	assert_int_equal(loss.count, 12);
}

enum { CHIEF, WORKER_0, WORKER_1, SERVER, EVALUATOR, REPLICAS };

static void test_whose_success_is_the_jobs(void **state)
{
	static const struct {
		unsigned succeeded; /* a bit per replica */
		int chief, all_workers, any;
	} cases[] = {
		{0, 0, 0, 0},
		{1 << CHIEF, 1, 0, 1},
		{1 << WORKER_1, 0, 0, 1},
		{1 << WORKER_0 | 1 << WORKER_1, 0, 0, 1},
		{1 << CHIEF | 1 << WORKER_0 | 1 << WORKER_1, 1, 1, 1},
		{1 << SERVER | 1 << EVALUATOR, 0, 0, 0},
	};
	struct smd_replica replicas[REPLICAS] = {
		[CHIEF] = {.role = SMD_ROLE_CHIEF},
		[WORKER_0] = {.role = SMD_ROLE_WORKER},
		[WORKER_1] = {.role = SMD_ROLE_WORKER},
		[SERVER] = {.role = SMD_ROLE_PARAMETER_SERVER},
		[EVALUATOR] = {.role = SMD_ROLE_EVALUATOR},
	};
	struct smd_job job = {0};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (int n = 0; n < REPLICAS; n++) {
			replicas[n].processes = 1;
			replicas[n].state = cases[i].succeeded >> n & 1 ? SMD_REPLICA_SUCCEEDED
									: SMD_REPLICA_RUNNING;
		}
		job.success_policy = SMD_SUCCESS_CHIEF;
		assert_int_equal(smd_policy_is_success(&job, replicas, REPLICAS), cases[i].chief);
		job.success_policy = SMD_SUCCESS_ALL_WORKERS;
		assert_int_equal(
			smd_policy_is_success(&job, replicas, REPLICAS), cases[i].all_workers);
		job.success_policy = SMD_SUCCESS_ANY;
		assert_int_equal(smd_policy_is_success(&job, replicas, REPLICAS), cases[i].any);
	}
}

static void test_a_replica_succeeds_with_all_its_processes(void **state)
{
	struct smd_replica replicas[] = {
		{.role = SMD_ROLE_CHIEF, .processes = 2, .state = SMD_REPLICA_SUCCEEDED},
		{.role = SMD_ROLE_CHIEF, .processes = 2, .process = 1},
		{.role = SMD_ROLE_WORKER, .processes = 2},
		{.role = SMD_ROLE_WORKER, .processes = 2, .process = 1},
	};
	struct smd_job job = {.success_policy = SMD_SUCCESS_ANY};

	(void)state;
	assert_false(smd_policy_is_success(&job, replicas, 4));
	replicas[2].state = SMD_REPLICA_SUCCEEDED; /* one of each replica is none */
	assert_false(smd_policy_is_success(&job, replicas, 4));
	replicas[3].state = SMD_REPLICA_SUCCEEDED;
	assert_true(smd_policy_is_success(&job, replicas, 4));
	job.success_policy = SMD_SUCCESS_CHIEF;
	assert_false(smd_policy_is_success(&job, replicas, 4));
	replicas[1].state = SMD_REPLICA_SUCCEEDED;
	assert_true(smd_policy_is_success(&job, replicas, 4));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_which_ends_are_retried),
		cmocka_unit_test(test_which_ends_an_engine_has_brought),
		cmocka_unit_test(test_what_is_started_again),
		cmocka_unit_test(test_restarts_are_bounded_and_of_one_scope),
		cmocka_unit_test(test_an_exit_code_has_a_budget_of_its_own),
		cmocka_unit_test(test_backoff_doubles_up_to_a_maximum),
		cmocka_unit_test(test_a_lost_server_comes_back_a_bounded_number_of_times),
		cmocka_unit_test(test_whose_success_is_the_jobs),
		cmocka_unit_test(test_a_replica_succeeds_with_all_its_processes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
