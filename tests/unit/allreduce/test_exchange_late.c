/*
 * A rank that does not come to an operation that ranks do among themselves is named to all others,
 * as servers name one (specs/design/exchange.md): by the one that sums, and by who waits for that.
 * One that does not say how it meets others is not waited for.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/transport/transport.h"
#include "tests/unit/allreduce/capture.h"
#include "tests/unit/allreduce/fixture.h"
#include "worker/libsummand/epoch_message.h"

enum { RANKS = 3, COMMS = RANKS, LATE = 1, TURN = 16 };

/* One after another of these communicators has another rank as its hub in what comes next. */
static void begin_together(struct pool_rank *rank, smd_comm *comms[COMMS])
{
	for (int c = 0; c < COMMS; c++) {
		struct pool_rank each = *rank;
		char group[16];
		float value = 1;

		snprintf(group, sizeof(group), "late %d", c);
		CHECK(smd_comm_create(rank->context, group, RANKS, rank->rank, &comms[c]) == 0);
		each.comm = comms[c];
		pool_await_exchanges(&each);
		for (int i = 0; i < c * TURN; i++) {
			CHECK(smd_allreduce(comms[c], &value, &value, 1, SMD_FLOAT32, SMD_SUM) ==
				0);
		}
	}
}

static void check_late(smd_comm *comm)
{
	uint64_t end_ns = smd_clock_ns() + 30 * SMD_SECOND_NS;
	char text[SMD_LATE_TEXT_MAX];
	int ret = 0;

	while (ret == 0 && smd_clock_ns() < end_ns) {
		usleep(20000);
		ret = smd_comm_late(comm, text, sizeof(text));
	}
	CHECK(ret == 1);
	if (!strstr(text, "rank 1 (rank-1) is 1") || !strstr(text, " s late for operation ")) {
		fprintf(stderr, "\"%s\" does not name rank 1\n", text);
		abort();
	}
}

static void be_late_or_wait(struct pool_rank *rank)
{
	smd_comm *comms[COMMS];
	smd_request *requests[COMMS];
	float values[COMMS] = {1, 1, 1};

	begin_together(rank, comms);
	CHECK(smd_barrier(rank->comm) == 0);
	if (rank->rank == LATE) {
		sleep(14);
	}
	for (int c = 0; c < COMMS; c++) {
		CHECK(smd_allreduce_start(comms[c], &values[c], &values[c], 1, SMD_FLOAT32, SMD_SUM,
			      &requests[c]) == 0);
	}
	for (int c = 0; c < COMMS && rank->rank != LATE; c++) {
		check_late(comms[c]);
	}
	for (int c = 0; c < COMMS; c++) {
		char text[SMD_LATE_TEXT_MAX];

		CHECK(smd_request_wait(requests[c]) == 0);
		CHECK(values[c] == RANKS);
		CHECK(smd_comm_late(comms[c], text, sizeof(text)) == 0);
	}
	for (int c = 0; c < COMMS; c++) {
		smd_comm_destroy(comms[c]);
	}
}

static void who_is_late_is_named_to_all_others(void **state)
{
	struct pool pool;

	(void)state;
	pool_start(&pool, "tcp", 1, NULL);
	pool_run(&pool, RANKS, "late", be_late_or_wait, NULL);
	pool_stop(&pool);
}

/* ---- a rank that does not answer ---- */

static atomic_bool mute; /* what rank 1 says of how it meets others is lost */

int __real_smd_lane_send_control(
	struct smd_lane *lane, struct smd_frame *frame, const void *payload, size_t length);
int __wrap_smd_lane_send_control(
	struct smd_lane *lane, struct smd_frame *frame, const void *payload, size_t length);

int __wrap_smd_lane_send_control(
	struct smd_lane *lane, struct smd_frame *frame, const void *payload, size_t length)
{
	if (atomic_load(&mute) && frame->kind == SMD_FRAME_AGREE &&
		*(const uint8_t *)payload == SMD_EPOCH_MEETS) {
		return 0;
	}
	return __real_smd_lane_send_control(lane, frame, payload, length);
}

/* Rank 0 knows when it is over, which the others follow. */
static void work_until_given_up(struct pool_rank *rank)
{
	uint64_t end_ns = smd_clock_ns() + 60 * SMD_SECOND_NS;
	int32_t more;

	do {
		CHECK(smd_clock_ns() < end_ns);
		usleep(20000);
		more = rank->rank == 0 &&
		       !capture_has("small operations do not go from rank to rank: not all ranks "
				    "have answered within 10 s",
			       NULL);
		CHECK(smd_allreduce(rank->comm, &more, &more, 1, SMD_INT32, SMD_MAX) == 0);
	} while (more);
	CHECK(pool_exchanges(rank->context) == 0);
}

static void a_rank_that_does_not_answer_is_not_waited_for(void **state)
{
	struct pool pool;

	(void)state;
	atomic_store(&mute, true);
	capture_begin();
	pool_start(&pool, "tcp", 1, NULL);
	pool_run(&pool, 2, "mute", work_until_given_up, NULL);
	pool_stop(&pool);
	capture_end();
	atomic_store(&mute, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_rank_that_does_not_answer_is_not_waited_for),
		cmocka_unit_test(who_is_late_is_named_to_all_others),
	};

	setenv("SUMMAND_EXCHANGE", "on", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
