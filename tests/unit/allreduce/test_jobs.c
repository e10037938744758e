/*
 * Several jobs on one shard: none takes memory, groups or connections from the others, whatever it
 * asks for.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "reduction_server/engine/join.h"
#include "tests/unit/allreduce/fixture.h"
#include "tests/unit/allreduce/raw.h"

enum { CHUNK = 4096, GROUPS_MAX = 8 };

/* A job of one rank on one lane, with some groups. */
struct job {
	struct raw raw;
	unsigned ngroups;
	uint64_t next[GROUPS_MAX];    /* ordinals */
	unsigned windows[GROUPS_MAX]; /* last granted */
};

static void job_open(struct job *job, const struct pool *pool, const char *name)
{
	*job = (struct job){.ngroups = 0};
	raw_open(&job->raw, pool, 0);
	raw_greet_job(&job->raw, "worker", name);
}

static void job_add(struct job *job)
{
	char group[16];

	snprintf(group, sizeof(group), "group-%u", job->ngroups);
	raw_join(&job->raw, job->ngroups++, group, 1, 0);
}

static void job_add_many(struct job *job, unsigned n)
{
	while (n--) {
		job_add(job);
		raw_expect(&job->raw, SMD_FRAME_JOINED);
	}
}

/* So many operations of each group, in turns. */
static void job_work(struct job *job, unsigned operations)
{
	static const int32_t value = 1;

	while (operations--) {
		for (unsigned g = 0; g < job->ngroups; g++) {
			raw_send(&job->raw, raw_input(g, 0, job->next[g]++, 1), &value,
				sizeof(value));
			raw_expect(&job->raw, SMD_FRAME_RESULT);
			job->windows[g] = job->raw.frame.window;
		}
	}
}

/* How many of its groups have a full window. */
static unsigned job_wide(const struct job *job)
{
	unsigned wide = 0;

	for (unsigned g = 0; g < job->ngroups; g++) {
		wide += job->windows[g] == SMD_WINDOW_DEFAULT;
	}
	return wide;
}

/*
 * Of 96 buffers 72 are there for windows. A group of one rank takes 2, and 16 with a full window:
 * so five groups of a job that is alone get four of them, and beside another two, of 36 for each.
 */
static void windows_are_shared_between_jobs(void **state)
{
	const struct smd_server_config config = {.shards = 1,
		.chunk_bytes = CHUNK,
		.memory_bytes = 96 * SMD_BUFFER_POOL_STRIDE(CHUNK)};
	struct pool pool;
	struct job first;
	struct job second;

	(void)state;
	pool_start(&pool, "tcp", 1, &config);
	job_open(&first, &pool, "first");
	job_add_many(&first, 5);
	job_work(&first, 3);
	assert_int_equal(job_wide(&first), 4);

	job_open(&second, &pool, "second");
	job_add_many(&second, 3);
	job_work(&second, 1);
	assert_int_equal(job_wide(&second), 0); /* what is granted is not taken back */
	job_work(&first, 2 * SMD_WINDOW_DEFAULT + 2);
	job_work(&second, 2);
	job_work(&first, 1);
	assert_int_equal(job_wide(&first), 1); /* 16 and four times 2 of 36 */
	assert_int_equal(job_wide(&second), 2);

	raw_close(&second.raw);
	do { /* until the server has noticed */
		job_work(&first, 1);
	} while (job_wide(&first) < 4);
	raw_close(&first.raw);
	pool_stop(&pool);
}

static void a_job_leaves_slots_for_others(void **state)
{
	const struct smd_server_config config = {.shards = 1,
		.chunk_bytes = CHUNK,
		.memory_bytes = 16 * SMD_BUFFER_POOL_STRIDE(CHUNK)};
	struct pool pool;
	struct job first;
	struct job second;

	(void)state;
	pool_start(&pool, "tcp", 1, &config);
	job_open(&first, &pool, "first");
	job_add_many(&first, 7);
	job_add(&first);
	raw_expect_text(&first.raw, SMD_FRAME_ABORT,
		"group first/group-7: the reduction server's memory has no slot left for 1 ranks "
		"of "
		"this job, which has 14 of the 14 buffers of 4096 bytes that one may have; give it "
		"a larger --memory-limit, or a larger --job-memory-limit");
	job_open(&second, &pool, "second");
	job_add_many(&second, 1);
	job_work(&second, 3);
	raw_close(&first.raw);
	raw_close(&second.raw);
	pool_stop(&pool);
}

static void a_job_has_what_it_is_given(void **state)
{
	const struct smd_server_config config = {.shards = 1,
		.chunk_bytes = CHUNK,
		.memory_bytes = 16 * SMD_BUFFER_POOL_STRIDE(CHUNK),
		.job_memory_bytes = 4 * SMD_BUFFER_POOL_STRIDE(CHUNK)};
	struct pool pool;
	struct job job;

	(void)state;
	pool_start(&pool, "tcp", 1, &config);
	job_open(&job, &pool, "limited");
	job_add_many(&job, 2);
	job_add(&job);
	raw_expect_text(&job.raw, SMD_FRAME_ABORT, "which has 4 of the 4 buffers of 4096 bytes");
	raw_leave(&job.raw, 0, 0);
	raw_join(&job.raw, SMD_COMMS_MAX, "another", 1, 0);
	raw_expect(&job.raw, SMD_FRAME_JOINED);
	raw_close(&job.raw);
	pool_stop(&pool);
}

static void a_job_leaves_connections_for_others(void **state)
{
	enum { LANES = 3 };
	const struct smd_server_config config = {.shards = 1, .job_lanes = LANES};
	struct pool pool;
	struct job jobs[LANES + 2];

	(void)state;
	pool_start(&pool, "tcp", 1, &config);
	for (unsigned i = 0; i < LANES + 2; i++) {
		job_open(&jobs[i], &pool, i <= LANES ? "greedy" : "other");
		raw_join(&jobs[i].raw, 0, "half", LANES + 2, i);
		raw_send(&jobs[i].raw, (struct smd_frame){.kind = SMD_FRAME_PING}, NULL, 0);
		if (i == LANES) {
			raw_expect_text(&jobs[i].raw, SMD_FRAME_ABORT,
				"group greedy/half: a job may have at most 3 connections in groups "
				"on "
				"a shard of the reduction server, got one more from worker");
			assert_int_equal(jobs[i].raw.payload[0], EMFILE);
		}
		raw_expect(&jobs[i].raw, SMD_FRAME_PONG);
	}
	raw_leave(&jobs[0].raw, 0, 0);
	raw_send(&jobs[0].raw, (struct smd_frame){.kind = SMD_FRAME_PING}, NULL, 0);
	raw_expect(&jobs[0].raw, SMD_FRAME_PONG);
	raw_leave(&jobs[LANES].raw, 0, LANES);
	raw_join(&jobs[LANES].raw, SMD_COMMS_MAX, "alone", 1, 0);
	raw_expect(&jobs[LANES].raw, SMD_FRAME_JOINED);
	for (unsigned i = 0; i < LANES + 2; i++) {
		raw_close(&jobs[i].raw);
	}
	pool_stop(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(windows_are_shared_between_jobs),
		cmocka_unit_test(a_job_leaves_slots_for_others),
		cmocka_unit_test(a_job_has_what_it_is_given),
		cmocka_unit_test(a_job_leaves_connections_for_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
