/* Coming together: who is let into a group, and what each refusal says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>

#include "reduction_server/wire/frame.h"
#include "tests/unit/allreduce/fixture.h"
#include "tests/unit/allreduce/raw.h"
#include "worker/libsummand/context_connecting.h"

#define CHECK_SAYS(text) CHECK(strstr(smd_error_message(), (text)) != NULL)

static smd_context *context_of_job(
	const char *job, const char *servers, const char *replica, unsigned timeout_s)
{
	const struct smd_context_options options = {
		.servers = servers,
		.replica = replica,
		.job = job,
		.transport = "tcp",
		.connect_timeout_s = timeout_s,
	};
	smd_context *context;

	CHECK(smd_context_create(&options, &context) == 0);
	return context;
}

static smd_context *context_of(const char *servers, const char *replica, unsigned timeout_s)
{
	return context_of_job("test", servers, replica, timeout_s);
}

/* ---- joins that run beside each other ---- */

struct joiner {
	smd_context *context;
	const char *group;
	int nranks;
	int rank;
	smd_comm *comm;
	int ret;
	char text[512];
	pthread_t thread;
};

static void *join_main(void *arg)
{
	struct joiner *joiner = arg;

	joiner->ret = smd_comm_create(
		joiner->context, joiner->group, joiner->nranks, joiner->rank, &joiner->comm);
	snprintf(joiner->text, sizeof(joiner->text), "%s", smd_error_message());
	return NULL;
}

static void join_begin(
	struct joiner *joiner, smd_context *context, const char *group, int nranks, int rank)
{
	*joiner =
		(struct joiner){.context = context, .group = group, .nranks = nranks, .rank = rank};
	CHECK(pthread_create(&joiner->thread, NULL, join_main, joiner) == 0);
}

static void join_end(struct joiner *joiner, int ret, const char *text)
{
	pthread_join(joiner->thread, NULL);
	if (joiner->ret != ret || (text && !strstr(joiner->text, text))) {
		fprintf(stderr, "rank %d: expected %d \"%s\", got %d \"%s\"\n", joiner->rank, ret,
			text ? text : "", joiner->ret, joiner->text);
		abort();
	}
	if (ret == 0) {
		smd_comm_destroy(joiner->comm);
	}
}

/* ---- ranks that do not fit together ---- */

/* A communicator that is complete, so that the order of the two joins is certain. */
static void a_rank_joins_once(void **state)
{
	struct joiner joiners[2];
	struct pool pool;
	smd_context *contexts[2];
	int32_t values[2][1] = {{1}, {2}};
	smd_request *request;
	smd_comm *again;

	(void)state;
	pool_start(&pool, "tcp", 2, NULL);
	contexts[0] = context_of(pool.list, "one", 10);
	contexts[1] = context_of(pool.list, "two", 10);
	for (int r = 0; r < 2; r++) {
		join_begin(&joiners[r], contexts[r], "twice", 2, r);
	}
	for (int r = 0; r < 2; r++) {
		pthread_join(joiners[r].thread, NULL);
		assert_int_equal(joiners[r].ret, 0);
	}
	assert_int_equal(smd_comm_create(contexts[1], "twice", 2, 0, &again), -EEXIST);
	assert_string_equal(smd_error_message(),
		"group test/twice: rank 0 may join once, got it from one and again from two");
	/* The two that were first do not notice. */
	assert_int_equal(smd_allreduce_start(joiners[0].comm, values[0], values[0], 1, SMD_INT32,
				 SMD_SUM, &request),
		0);
	assert_int_equal(
		smd_allreduce(joiners[1].comm, values[1], values[1], 1, SMD_INT32, SMD_SUM), 0);
	assert_int_equal(smd_request_wait(request), 0);
	assert_int_equal(values[0][0], 3);
	for (int r = 0; r < 2; r++) {
		smd_comm_destroy(joiners[r].comm);
		smd_context_destroy(contexts[r]);
	}
	pool_stop(&pool);
}

static void ranks_agree_on_their_number(void **state)
{
	static const char text[] = "group test/number: all ranks must agree on their number, got ";
	struct joiner joiners[2];
	struct pool pool;
	smd_context *contexts[2];

	(void)state;
	pool_start(&pool, "tcp", 2, NULL);
	contexts[0] = context_of(pool.list, "one", 10);
	contexts[1] = context_of(pool.list, "two", 10);
	join_begin(&joiners[0], contexts[0], "number", 2, 0);
	join_begin(&joiners[1], contexts[1], "number", 3, 1);
	join_end(&joiners[0], -EINVAL, text);
	join_end(&joiners[1], -EINVAL, text);
	for (int r = 0; r < 2; r++) {
		assert_non_null(strstr(joiners[r].text, "2 from rank 0 (one)"));
		assert_non_null(strstr(joiners[r].text, "3 from rank 1 (two)"));
		smd_context_destroy(contexts[r]);
	}
	pool_stop(&pool);
}

static void ranks_have_the_same_servers_in_the_same_order(void **state)
{
	static const char text[] = "group test/order: all ranks must have the same reduction "
				   "servers in the same order, but rank ";
	struct joiner joiners[2];
	struct pool pool;
	smd_context *contexts[2];
	char swapped[1024];
	const char *comma;

	(void)state;
	pool_start(&pool, "tcp", 2, NULL);
	comma = strchr(pool.list, ',');
	snprintf(swapped, sizeof(swapped), "%s,%.*s", comma + 1, (int)(comma - pool.list),
		pool.list);
	contexts[0] = context_of(pool.list, "one", 10);
	contexts[1] = context_of(swapped, "two", 10);
	for (int r = 0; r < 2; r++) {
		join_begin(&joiners[r], contexts[r], "order", 2, r);
	}
	for (int r = 0; r < 2; r++) {
		join_end(&joiners[r], -EINVAL, text);
		assert_non_null(strstr(joiners[r].text, "rank 0 (one)"));
		assert_non_null(strstr(joiners[r].text, "rank 1 (two)"));
		smd_context_destroy(contexts[r]);
	}
	pool_stop(&pool);
}

static void join_with_differing_lists(const struct smd_server_config configs[3])
{
	static const char text[] = "group test/other: all ranks must have the same reduction "
				   "servers in the same order, but rank ";
	struct joiner joiners[2];
	struct pool pool;
	char lists[2][512];

	pool_start(&pool, "tcp", 3, configs);
	for (unsigned r = 0; r < 2; r++) {
		snprintf(lists[r], sizeof(lists[r]), "%s,%s", pool.servers[0].address,
			pool.servers[1 + r].address);
		join_begin(&joiners[r], context_of(lists[r], r ? "two" : "one", 60), "other", 2,
			(int)r);
	}
	for (int r = 0; r < 2; r++) {
		join_end(&joiners[r], -EINVAL, text);
		assert_non_null(strstr(joiners[r].text, "rank 0 (one)"));
		assert_non_null(strstr(joiners[r].text, "rank 1 (two)"));
		smd_context_destroy(joiners[r].context);
	}
	pool_stop(&pool);
}

/* One of them may have been started again at an address of the same name, so shards wait for a rank
 * to say that it has lost it. */
static void ranks_whose_lists_differ_in_one_server_are_named(void **state)
{
	const struct smd_server_config quick = {.heartbeat_ms = 2000};
	const struct smd_server_config configs[] = {quick, quick, quick};

	(void)state;
	join_with_differing_lists(configs);
}

/* They would deal differently, so that is told at once: no silence ends it here. */
static void ranks_to_which_a_server_is_spare_or_not_are_named(void **state)
{
	const struct smd_server_config configs[3] = {[1] = {.spare = true}};

	(void)state;
	join_with_differing_lists(configs);
}

/* The ranks that have come leave the group, so that all can try again. */
static void ranks_that_do_not_come_are_named(void **state)
{
	struct joiner joiners[4];
	struct pool pool;
	smd_context *contexts[4];

	(void)state;
	pool_start(&pool, "tcp", 2, NULL);
	for (int r = 0; r < 4; r++) {
		contexts[r] = context_of(pool.list, "some", 3);
	}
	join_begin(&joiners[0], contexts[0], "missing", 4, 0);
	join_begin(&joiners[2], contexts[2], "missing", 4, 2);
	for (int r = 0; r < 4; r += 2) {
		join_end(&joiners[r], -ETIMEDOUT,
			"group missing: all 4 ranks must join within 3 s, but group test/missing: "
			"rank ");
		/* Of the two that have come, one may have given up before the other. */
		assert_non_null(strstr(joiners[r].text, "rank 1, "));
		assert_non_null(strstr(joiners[r].text, "rank 3 of 4 not joined yet"));
	}
	for (int r = 0; r < 4; r++) {
		join_begin(&joiners[r], contexts[r], "missing", 4, r);
	}
	for (int r = 0; r < 4; r++) {
		join_end(&joiners[r], 0, NULL);
		smd_context_destroy(contexts[r]);
	}
	pool_stop(&pool);
}

/* A frame to each member each second would take longer than to form, where they are many. */
static void a_large_group_that_forms_is_told_less_often(void **state)
{
	enum { CHUNK = 64, MANY = 640 };
	const struct smd_server_config config = {.shards = 1,
		.chunk_bytes = CHUNK,
		.memory_bytes = 2 * MANY * SMD_BUFFER_POOL_STRIDE(CHUNK)};
	struct pool pool;
	struct raw small;
	struct raw large;

	(void)state;
	pool_start(&pool, "tcp", 1, &config);
	raw_open(&small, &pool, 0);
	raw_greet(&small, "small");
	raw_open(&large, &pool, 0);
	raw_greet(&large, "large");
	raw_join(&large, 1, "large", MANY, 0);
	raw_join(&small, 1, "small", 2, 0);
	for (unsigned told = 0; told < 2; told++) {
		raw_expect(&small, SMD_FRAME_LATE);
	}
	raw_send(&large, (struct smd_frame){.kind = SMD_FRAME_PING}, NULL, 0);
	assert_true(raw_receive(&large));
	assert_int_equal(large.frame.kind, SMD_FRAME_PONG); /* and no LATE before it */
	raw_close(&small);
	raw_close(&large);
	pool_stop(&pool);
}

static uint64_t count_switches(void)
{
	struct rusage usage;

	assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
	return (uint64_t)usage.ru_nvcsw;
}

/* Where hundreds of ranks share processors, threads that look after nothing are what they do. */
static void who_waits_for_a_group_sleeps(void **state)
{
	struct pool pool;
	smd_context *context;
	smd_comm *comm;
	uint64_t before;

	(void)state;
	pool_start(&pool, "tcp", 1, NULL);
	context = context_of(pool.list, "one", 1);
	before = count_switches();
	assert_int_equal(smd_comm_create(context, "missing", 2, 0, &comm), -ETIMEDOUT);
	assert_in_range(count_switches() - before, 0, 50); /* of all threads, in a second */
	smd_context_destroy(context);
	pool_stop(&pool);
}

/* ---- jobs that are not one ---- */

/* Their names are alike when they are written with a slash between, and only then. */
static void names_with_slashes_are_told_apart(void **state)
{
	static const char *const names[][2] = {{"a", "b/c"}, {"a/b", "c"}, {"", "a/b/c"}};
	enum { PAIRS = sizeof(names) / sizeof(names[0]) };
	struct joiner joiners[2 * PAIRS];
	smd_context *contexts[2 * PAIRS];
	struct pool pool;

	(void)state;
	pool_start(&pool, "tcp", 1, NULL);
	for (int i = 0; i < 2 * PAIRS; i++) { /* first rank 0 of each, then rank 1 of each */
		const char *const *name = names[i % PAIRS];

		contexts[i] = context_of_job(name[0], pool.list, "some", 10);
		join_begin(&joiners[i], contexts[i], name[1], 2, i / PAIRS);
	}
	for (int i = 0; i < 2 * PAIRS; i++) {
		pthread_join(joiners[i].thread, NULL);
		assert_int_equal(joiners[i].ret, 0);
	}
	for (int i = 0; i < PAIRS; i++) {
		int32_t values[2] = {1 + i, 10};
		smd_request *request;

		assert_int_equal(smd_allreduce_start(joiners[i].comm, &values[0], &values[0], 1,
					 SMD_INT32, SMD_SUM, &request),
			0);
		assert_int_equal(smd_allreduce(joiners[i + PAIRS].comm, &values[1], &values[1], 1,
					 SMD_INT32, SMD_SUM),
			0);
		assert_int_equal(smd_request_wait(request), 0);
		assert_int_equal(values[0], 11 + i);
	}
	for (int i = 0; i < 2 * PAIRS; i++) {
		smd_comm_destroy(joiners[i].comm);
		smd_context_destroy(contexts[i]);
	}
	pool_stop(&pool);
}

static smd_context *context_of_attempt(const char *attempt, const struct pool *pool, unsigned timeout_s)
{
	smd_context *context;

	setenv("SUMMAND_ATTEMPT", attempt, 1);
	context = context_of_job("mine", pool->list, attempt, timeout_s);
	unsetenv("SUMMAND_ATTEMPT");
	return context;
}

/* On a host that was lost, but works, a rank of the first one may wait for another for ever. */
static void two_attempts_of_a_job_never_meet(void **state)
{
	struct joiner joiners[3];
	smd_context *contexts[3];
	smd_context *hasty;
	smd_comm *comm;
	struct pool pool;

	(void)state;
	pool_start(&pool, "tcp", 1, NULL);
	contexts[0] = context_of_attempt("0", &pool, 20);
	join_begin(&joiners[0], contexts[0], "default", 2, 1);
	hasty = context_of_attempt("1", &pool, 3); /* in which the shard says who is missing */
	assert_int_equal(smd_comm_create(hasty, "default", 2, 0, &comm), -ETIMEDOUT);
	CHECK_SAYS("mine#1/default");
	smd_context_destroy(hasty);
	for (int i = 1; i < 3; i++) {
		contexts[i] = context_of_attempt("1", &pool, 20);
		join_begin(&joiners[i], contexts[i], "default", 2, i - 1);
	}
	for (int i = 1; i < 3; i++) {
		pthread_join(joiners[i].thread, NULL);
		assert_int_equal(joiners[i].ret, 0);
	}
	hasty = context_of_attempt("0", &pool, 20);
	assert_int_equal(smd_comm_create(hasty, "default", 2, 0, &comm), 0);
	pthread_join(joiners[0].thread, NULL);
	assert_int_equal(joiners[0].ret, 0);
	smd_comm_destroy(comm);
	smd_context_destroy(hasty);
	for (int i = 0; i < 3; i++) {
		smd_comm_destroy(joiners[i].comm);
		smd_context_destroy(contexts[i]);
	}
	pool_stop(&pool);
}

#define MIXED "two jobs without SUMMAND_JOB_ID use one group name? Set it"

/* Of two jobs that cannot be told apart, as long as none has begun: nobody gets a wrong sum. */
static void a_rank_that_comes_twice_ends_a_group_that_forms(void **state)
{
	struct pool pool;
	struct raw lanes[3];

	(void)state;
	pool_start(&pool, "tcp", 1, NULL);
	for (unsigned i = 0; i < 3; i++) {
		raw_open(&lanes[i], &pool, 0);
		raw_greet_job(&lanes[i], i < 2 ? "first" : "second", "");
		raw_join(&lanes[i], 1, "default", 3, i % 2);
		raw_send(&lanes[i], (struct smd_frame){.kind = SMD_FRAME_PING}, NULL, 0);
		if (i < 2) {
			raw_expect(&lanes[i], SMD_FRAME_PONG); /* so it has joined by now */
		}
	}
	for (unsigned i = 0; i < 3; i++) {
		raw_expect_text(&lanes[i], SMD_FRAME_ABORT,
			"group default: rank 0 may join once, got it from first and again from "
			"second; " MIXED);
		raw_close(&lanes[i]);
	}
	pool_stop(&pool);
}

/* Those who are complete go on, and are told. */
static void a_complete_group_without_a_job_is_warned(void **state)
{
	struct pool pool;
	struct raw lanes[3];

	(void)state;
	pool_start(&pool, "tcp", 1, NULL);
	for (unsigned i = 0; i < 3; i++) {
		raw_open(&lanes[i], &pool, 0);
		raw_greet_job(&lanes[i], i < 2 ? "first" : "second", "");
	}
	raw_join(&lanes[0], 1, "default", 2, 0);
	raw_join(&lanes[1], 1, "default", 2, 1);
	raw_expect(&lanes[0], SMD_FRAME_JOINED);
	raw_expect(&lanes[1], SMD_FRAME_JOINED);
	for (unsigned again = 0; again < 2; again++) {
		raw_join(&lanes[2], 1 + again, "default", 2, 1);
		raw_expect_text(&lanes[2], SMD_FRAME_ABORT, MIXED);
	}
	for (unsigned i = 0; i < 2; i++) {
		static const int32_t one = 1;

		struct smd_late late;

		raw_expect(&lanes[i], SMD_FRAME_LATE); /* once */
		assert_int_equal(
			smd_late_decode(lanes[i].payload, lanes[i].frame.length, &late, NULL), 0);
		assert_int_equal(late.nranks, 0); /* it works */
		assert_non_null(strstr(late.text, MIXED));
		raw_send(&lanes[i], raw_input(1, i, 0, 1), &one, sizeof(one));
	}
	for (unsigned i = 0; i < 2; i++) {
		assert_true(raw_receive(&lanes[i]));
		assert_int_equal(lanes[i].frame.kind, SMD_FRAME_RESULT);
	}
	for (unsigned i = 0; i < 3; i++) {
		raw_close(&lanes[i]);
	}
	pool_stop(&pool);
}

/* ---- ranks of two attempts ---- */

static smd_context *mixed_context;
static char mixed_text[SMD_ERROR_TEXT_MAX];

static void *join_as_rank_1(void *arg)
{
	smd_comm *comm;
	int *ret = arg;

	*ret = smd_comm_create(mixed_context, "mixed", 2, 1, &comm);
	if (*ret == 0) {
		smd_comm_destroy(comm);
	} else {
		snprintf(mixed_text, sizeof(mixed_text), "%s", smd_error_message());
	}
	return NULL;
}

/* Rank 0 has given up its first attempt, of which one server has heard too late to pair the other
 * ranks with its second: it is there as it was before, and at the other server anew. */
static void join_with_attempts(uint64_t at_first, uint64_t at_second, int expected)
{
	const uint64_t attempts[] = {at_first, at_second};
	const struct smd_server_config configs[] = {{.shards = 1}, {.shards = 1}};
	struct smd_context_options options = {
		.replica = "worker", .job = "raw", .transport = "tcp", .connect_timeout_s = 60};
	uint8_t payload[SMD_CONTROL_MAX];
	struct raw raws[2];
	struct pool pool;
	pthread_t thread;
	int ret;

	pool_start(&pool, "tcp", 2, configs);
	options.servers = pool.list;
	assert_int_equal(smd_context_create(&options, &mixed_context), 0);
	for (unsigned i = 0; i < 2; i++) {
		struct smd_join join = {.nranks = 2,
			.group = "mixed",
			.table_hash = smd_deal_hash_add(smd_context_deal_hash(mixed_context), i),
			.attempt = attempts[i]};

		raw_open(&raws[i], &pool, i);
		raw_greet(&raws[i], "again");
		raw_send(&raws[i], (struct smd_frame){.kind = SMD_FRAME_JOIN, .comm = 4096},
			payload, smd_join_encode(&join, payload));
	}
	assert_int_equal(pthread_create(&thread, NULL, join_as_rank_1, &ret), 0);
	for (unsigned i = 0; i < 2; i++) {
		raw_expect(&raws[i], SMD_FRAME_JOINED);
	}
	if (expected) { /* and the others hear it too */
		raw_expect_text(&raws[0], SMD_FRAME_ABORT, "rank 1 (worker) cannot go on: ");
		raw_expect_text(&raws[1], SMD_FRAME_ABORT, "ranks of two attempts to form it");
	}
	pthread_join(thread, NULL);
	assert_int_equal(ret, expected);
	for (unsigned i = 0; i < 2; i++) {
		if (expected) {
			assert_non_null(strstr(mixed_text, pool.servers[i].address));
		}
		raw_close(&raws[i]);
	}
	smd_context_destroy(mixed_context);
	pool_stop(&pool);
}

static void ranks_of_two_attempts_are_no_group(void **state)
{
	(void)state;
	join_with_attempts(1, 1, 0);
	join_with_attempts(1, 2, -ESTALE);
	join_with_attempts(7, 0, -ESTALE);
}

/* ---- a rank leaves while ranks begin with another table ---- */

enum { FIRST = 1, NEXT = 2 };

static void join_next(struct raw *raw, unsigned rank, bool optional)
{
	struct smd_join join = {.nranks = 2, .group = "next", .id = 5};
	uint8_t payload[SMD_CONTROL_MAX];

	raw_send(raw,
		(struct smd_frame){.kind = SMD_FRAME_JOIN,
			.comm = NEXT,
			.rank = (uint16_t)rank,
			.window = optional},
		payload, smd_join_encode(&join, payload));
}

/* Its streams, whether all have joined them or not, end as the group does that somebody has left.
 */
static void who_begins_with_another_table_hears_who_left(void **state)
{
	(void)state;
	for (unsigned joined = 1; joined <= 2; joined++) {
		struct smd_abort abort;
		struct raw raws[2];
		struct pool pool;

		pool_start(&pool, "tcp", 1, NULL);
		for (unsigned r = 0; r < 2; r++) {
			raw_open(&raws[r], &pool, 0);
			raw_greet(&raws[r], r ? "other" : "worker");
			raw_join(&raws[r], FIRST, "next", 2, r);
		}
		for (unsigned r = 0; r < 2; r++) {
			raw_expect(&raws[r], SMD_FRAME_JOINED);
		}
		for (unsigned r = 0; r < joined; r++) {
			join_next(&raws[r], r, joined == 2);
		}
		for (unsigned r = 0; joined == 2 && r < 2; r++) {
			raw_expect(&raws[r], SMD_FRAME_JOINED);
		}
		raw_send(&raws[0], (struct smd_frame){.kind = SMD_FRAME_PING}, NULL, 0);
		raw_expect(&raws[0], SMD_FRAME_PONG); /* so it has joined by now */
		raw_leave(&raws[1], FIRST, 1);
		raw_expect_text(&raws[0], SMD_FRAME_ABORT, "rank 1 (other) left");
		assert_int_equal(raws[0].frame.comm, NEXT);
		assert_int_equal(
			smd_abort_decode(raws[0].payload, raws[0].frame.length, &abort, NULL), 0);
		assert_int_equal(abort.err, ECONNRESET);
		raw_leave(&raws[0], NEXT, 0);
		join_next(&raws[0], 0, joined == 2); /* nor can it begin anew */
		raw_expect_text(&raws[0], SMD_FRAME_ABORT, "group raw/next: rank 1 has left");
		for (unsigned r = 0; r < 2; r++) {
			raw_close(&raws[r]);
		}
		pool_stop(&pool);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_rank_joins_once),
		cmocka_unit_test(ranks_agree_on_their_number),
		cmocka_unit_test(ranks_have_the_same_servers_in_the_same_order),
		cmocka_unit_test(ranks_whose_lists_differ_in_one_server_are_named),
		cmocka_unit_test(ranks_to_which_a_server_is_spare_or_not_are_named),
		cmocka_unit_test(ranks_that_do_not_come_are_named),
		cmocka_unit_test(a_large_group_that_forms_is_told_less_often),
		cmocka_unit_test(who_waits_for_a_group_sleeps),
		cmocka_unit_test(names_with_slashes_are_told_apart),
		cmocka_unit_test(two_attempts_of_a_job_never_meet),
		cmocka_unit_test(a_rank_that_comes_twice_ends_a_group_that_forms),
		cmocka_unit_test(a_complete_group_without_a_job_is_warned),
		cmocka_unit_test(ranks_of_two_attempts_are_no_group),
		cmocka_unit_test(who_begins_with_another_table_hears_who_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
