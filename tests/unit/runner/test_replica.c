/* The replica's state machine: the two tables agree, and the events lead where they should. */
#include "orchestrator/runner/replica.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void test_every_event_leads_to_a_legal_state(void **state)
{
	(void)state;
	for (int from = 0; from < SMD_REPLICA_STATE_COUNT; from++) {
		for (int event = 0; event < SMD_REPLICA_EVENT_COUNT; event++) {
			enum smd_replica_state next = smd_replica_after(from, event);

			if ((int)next != from) {
				assert_true(smd_replica_may_follow(from, next));
			}
		}
	}
}

static void test_every_legal_step_has_an_event(void **state)
{
	(void)state;
	for (int from = 0; from < SMD_REPLICA_STATE_COUNT; from++) {
		for (int next = 0; next < SMD_REPLICA_STATE_COUNT; next++) {
			int found = 0;

			for (int event = 0; event < SMD_REPLICA_EVENT_COUNT; event++) {
				found |=
					from != next && (int)smd_replica_after(from, event) == next;
			}
			assert_int_equal(found, smd_replica_may_follow(from, next));
		}
	}
}

static void test_ends_are_final_unless_retried(void **state)
{
	static const enum smd_replica_state ends[] = {
		SMD_REPLICA_SUCCEEDED, SMD_REPLICA_FAILED, SMD_REPLICA_STOPPED};

	(void)state;
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		for (int event = 0; event < SMD_REPLICA_EVENT_COUNT; event++) {
			assert_int_equal(smd_replica_after(ends[i], event),
				event == SMD_REPLICA_EVENT_RETRY ? SMD_REPLICA_PENDING : ends[i]);
		}
	}
}

static void apply(struct smd_replica *replica, enum smd_replica_event event, const char *expected)
{
	smd_replica_apply(replica, event);
	assert_string_equal(smd_replica_state_name(replica->state), expected);
}

static void test_lives(void **state)
{
	const struct smd_job_pool pool = {.index = 2, .role = SMD_ROLE_REDUCTION_SERVER};
	struct smd_replica replica;

	(void)state;
	assert_int_equal(smd_replica_init(&replica, &pool, 7, 0, 1), 0);
	assert_string_equal(replica.name, "workerpool2-7");
	apply(&replica, SMD_REPLICA_EVENT_READY, "PENDING");
	apply(&replica, SMD_REPLICA_EVENT_LAUNCHED, "STARTING");
	apply(&replica, SMD_REPLICA_EVENT_READY, "RUNNING");
	apply(&replica, SMD_REPLICA_EVENT_READY, "RUNNING");
	apply(&replica, SMD_REPLICA_EVENT_STOP, "STOPPING");
	apply(&replica, SMD_REPLICA_EVENT_EXIT_BAD, "STOPPED");
	smd_replica_clear(&replica);

	assert_int_equal(smd_replica_init(&replica, &pool, 0, 0, 1), 0);
	apply(&replica, SMD_REPLICA_EVENT_LAUNCHED, "STARTING");
	apply(&replica, SMD_REPLICA_EVENT_RETRY, "STARTING"); /* it has not ended */
	apply(&replica, SMD_REPLICA_EVENT_EXIT_OK, "FAILED"); /* before it was ready */
	smd_replica_set_result(&replica, "chunks", "3");
	smd_replica_retry(&replica);
	assert_string_equal(smd_replica_state_name(replica.state), "PENDING");
	assert_null(smd_replica_result(&replica, "chunks"));
	smd_replica_clear(&replica);
}

static void test_a_process_has_a_name(void **state)
{
	const struct smd_job_pool pool = {.index = 1, .role = SMD_ROLE_WORKER};
	struct smd_replica replica;

	(void)state;
	assert_int_equal(smd_replica_init(&replica, &pool, 7, 3, 8), 0);
	assert_string_equal(replica.name, "workerpool1-7.3");
	smd_replica_clear(&replica);
}

static void test_results_are_bounded(void **state)
{
	const struct smd_job_pool pool = {.index = 0, .role = SMD_ROLE_CHIEF};
	struct smd_replica replica;
	char key[16];

	(void)state;
	assert_int_equal(smd_replica_init(&replica, &pool, 0, 0, 1), 0);
	for (int i = 0; i < SMD_REPLICA_RESULTS_MAX; i++) {
		snprintf(key, sizeof(key), "key%d", i);
		assert_int_equal(smd_replica_set_result(&replica, key, "1"), 0);
	}
	assert_int_not_equal(smd_replica_set_result(&replica, "one_more", "1"), 0);
	assert_int_equal(smd_replica_set_result(&replica, "key3", "2"), 0);
	assert_string_equal(smd_replica_result(&replica, "key3"), "2");
	assert_int_not_equal(smd_replica_set_result(&replica, "key4", "\xff\xfe"), 0);
	assert_string_equal(smd_replica_result(&replica, "key4"), "1");
	assert_null(smd_replica_result(&replica, "one_more"));
	smd_replica_clear(&replica);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_event_leads_to_a_legal_state),
		cmocka_unit_test(test_every_legal_step_has_an_event),
		cmocka_unit_test(test_ends_are_final_unless_retried),
		cmocka_unit_test(test_lives),
		cmocka_unit_test(test_a_process_has_a_name),
		cmocka_unit_test(test_results_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
