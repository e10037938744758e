/*
 * The handshake where a server has tokens: who has the job's is let in, and nobody else by any
 * means.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "reduction_server/base/clock.h"
#include "tests/unit/allreduce/capture.h"
#include "tests/unit/allreduce/fixture.h"
#include "tests/unit/allreduce/raw.h"
#include "tests/unit/allreduce/token_worker.h"

enum { CHUNK = 4096 };

static char the_token[] = TOKEN;
static const struct smd_tokens one_token = {.every = the_token};
static struct smd_job_token job_tokens[] = {
	{.job = "raw", .token = "token-of-raw"}, {.job = "other", .token = "token-of-other"}};
static struct smd_job_token *by_name[] = {&job_tokens[1], &job_tokens[0]};
static const struct smd_tokens tokens_of_jobs = {
	.njobs = 2, .jobs = job_tokens, .by_name = by_name};

static void start(struct pool *pool, const struct smd_tokens *tokens)
{
	const struct smd_server_config config = {.shards = 1,
		.chunk_bytes = CHUNK,
		.memory_bytes = 64 * SMD_BUFFER_POOL_STRIDE(CHUNK),
		.tokens = tokens,
		.greeting_s = 2};

	pool_start(pool, "tcp", 1, &config);
}

/* ---- workers ---- */

static void who_has_the_token_is_let_in(void **state)
{
	struct pool pool;

	(void)state;
	start(&pool, &one_token);
	assert_int_equal(token_work(pool.list, "any", TOKEN), 0);
	assert_int_equal(token_work(pool.list, "any", "another"), -EACCES);
	token_assert_said("refuses this process: worker: the job's token is not this server's");
	assert_int_equal(token_work(pool.list, "any", NULL), -EACCES);
	token_assert_said("SUMMAND_TOKEN_FILE must name the file that holds it");
	pool_stop(&pool);
}

static void a_jobs_token_opens_that_job(void **state)
{
	struct pool pool;

	(void)state;
	start(&pool, &tokens_of_jobs);
	assert_int_equal(token_work(pool.list, "raw", "token-of-raw"), 0);
	assert_int_equal(token_work(pool.list, "other", "token-of-other"), 0);
	assert_int_equal(token_work(pool.list, "raw", "token-of-other"), -EACCES);
	assert_int_equal(token_work(pool.list, "unknown", "token-of-other"), -EACCES);
	token_assert_said("the job's token is not this server's");
	assert_int_equal(token_work(pool.list, "", "token-of-raw"), -EACCES);
	pool_stop(&pool);
}

static void a_server_without_tokens_is_not_believed(void **state)
{
	struct pool pool;

	(void)state;
	start(&pool, NULL);
	assert_int_equal(token_work(pool.list, "any", TOKEN), -EACCES);
	token_assert_said("does not show that it has the job's token");
	assert_int_equal(token_work(pool.list, "any", NULL), 0);
	pool_stop(&pool);
}

/* ---- lanes by hand ---- */

static void challenged(struct raw *raw, const struct pool *pool, const char *token)
{
	raw_open(raw, pool, 0);
	raw_say_hello(raw, "hand", 0, token);
	raw_expect(raw, SMD_FRAME_CHALLENGE);
	assert_int_equal(smd_challenge_decode(
				 raw->payload, raw->frame.length, &raw->handshake.challenge, NULL),
		0);
}

static void say_proof(struct raw *raw, const struct smd_proof *proof)
{
	uint8_t payload[SMD_CONTROL_MAX];

	raw_send(raw, (struct smd_frame){.kind = SMD_FRAME_PROOF}, payload,
		smd_proof_encode(proof, payload));
}

static void assert_refused(struct raw *raw)
{
	raw_expect(raw, SMD_FRAME_REFUSE);
	assert_string_equal((char *)raw->payload, "hand: the job's token is not this server's");
	raw_close(raw);
}

static void both_ends_prove_it(void **state)
{
	struct smd_welcome welcome;
	struct smd_proof proof;
	struct pool pool;
	struct raw raw;

	(void)state;
	start(&pool, &one_token);
	challenged(&raw, &pool, TOKEN);
	assert_int_equal(smd_handshake_prove_worker(&raw.handshake, TOKEN, &proof), 0);
	say_proof(&raw, &proof);
	raw_expect(&raw, SMD_FRAME_WELCOME);
	assert_int_equal(smd_welcome_decode(raw.payload, raw.frame.length, &welcome, NULL), 0);
	assert_true(welcome.proved);
	assert_int_equal(smd_handshake_prove_server(&raw.handshake, &welcome, TOKEN, &proof), 0);
	assert_true(smd_proof_equals(&welcome.proof, &proof));
	raw_join(&raw, 0, "group", 1, 0);
	raw_expect(&raw, SMD_FRAME_JOINED);
	raw_close(&raw);
	pool_stop(&pool);
}

/* What is signed: changed in the smallest way, it is another proof. */
static void a_proof_is_for_these_words_only(void **state)
{
	struct smd_handshake said = {.hello = {.shard = 1, .replica = "ab", .job = "c"}};
	struct smd_welcome welcome = {.shards = 1, .chunk_bytes = 64, .weight = 1};
	struct smd_welcome changed[5];
	struct smd_handshake other[7];
	struct smd_proof workers;
	struct smd_proof servers;
	struct smd_proof proof;

	(void)state;
	assert_int_equal(smd_handshake_prove_worker(&said, "token", &workers), 0);
	assert_int_equal(smd_handshake_prove_server(&said, &welcome, "token", &servers), 0);
	assert_false(smd_proof_equals(&workers, &servers));
	assert_int_equal(smd_handshake_prove_worker(&said, "tokem", &proof), 0);
	assert_false(smd_proof_equals(&workers, &proof));
	for (size_t i = 0; i < 7; i++) {
		other[i] = said;
	}
	other[0].hello.nonce[31] = 1;
	other[1].challenge.nonce[0] = 1;
	other[2].hello.shard = 2;
	other[3].hello.flags = SMD_HELLO_CALLED;
	strcpy(other[4].hello.replica, "a"); /* and what it has lost the job has got */
	strcpy(other[4].hello.job, "bc");
	strcpy(other[5].hello.job, "d");
	strcpy(other[6].hello.replica, "abc");
	strcpy(other[6].hello.job, "");
	for (size_t i = 0; i < 7; i++) {
		assert_int_equal(smd_handshake_prove_worker(&other[i], "token", &proof), 0);
		assert_false(smd_proof_equals(&workers, &proof));
		assert_int_equal(
			smd_handshake_prove_server(&other[i], &welcome, "token", &proof), 0);
		assert_false(smd_proof_equals(&servers, &proof));
	}
	for (size_t i = 0; i < 5; i++) {
		changed[i] = welcome;
	}
	changed[0].server_id = 1;
	changed[1].shard = 1;
	changed[2].shards = 2;
	changed[3].chunk_bytes = 128;
	changed[4].weight = 2;
	for (size_t i = 0; i < 5; i++) {
		assert_int_equal(
			smd_handshake_prove_server(&said, &changed[i], "token", &proof), 0);
		assert_false(smd_proof_equals(&servers, &proof));
	}
}

/* Computed by hand (Python's hmac), so that a change of what is signed is seen to be a new version.
 */
static void the_bytes_of_a_proof(void **state)
{
	static const uint8_t worker[SMD_PROOF_SIZE] = {0x03, 0x9f, 0x1f, 0xed, 0x67, 0x56, 0xe5,
		0x42, 0xd7, 0x08, 0x3b, 0x75, 0xf4, 0xea, 0x88, 0x88, 0x55, 0x17, 0xf8, 0xed, 0x8c,
		0x09, 0x95, 0xbd, 0x9e, 0xae, 0x08, 0xd0, 0x02, 0xbc, 0xfd, 0x15};
	static const uint8_t server[SMD_PROOF_SIZE] = {0xe5, 0xfa, 0x9a, 0xf9, 0x19, 0x42, 0x45,
		0x7d, 0x37, 0x29, 0xf1, 0xc6, 0x06, 0xc5, 0xe1, 0xef, 0x79, 0x40, 0x45, 0xb3, 0xe2,
		0xa6, 0x8a, 0x25, 0xf2, 0x3a, 0x1a, 0xbe, 0xf6, 0x97, 0x64, 0xc7};
	const struct smd_welcome welcome = {.server_id = 0x1122334455667788,
		.shard = 2,
		.shards = 3,
		.chunk_bytes = 256 << 10,
		.weight = 8333};
	struct smd_handshake said = {
		.hello = {.shard = 2, .flags = SMD_HELLO_TOKEN, .replica = "worker", .job = "job"}};
	struct smd_proof proof;

	(void)state;
	memset(said.hello.nonce, 'w', SMD_NONCE_SIZE);
	memset(said.challenge.nonce, 's', SMD_NONCE_SIZE);
	assert_int_equal(smd_handshake_prove_worker(&said, "secret", &proof), 0);
	assert_memory_equal(proof.bytes, worker, sizeof(worker));
	assert_int_equal(smd_handshake_prove_server(&said, &welcome, "secret", &proof), 0);
	assert_memory_equal(proof.bytes, server, sizeof(server));
}

static void each_lane_has_nonces_of_its_own(void **state)
{
	struct smd_challenge former;
	struct pool pool;
	struct raw raw;

	(void)state;
	start(&pool, &one_token);
	challenged(&raw, &pool, TOKEN);
	former = raw.handshake.challenge;
	raw_close(&raw);
	challenged(&raw, &pool, TOKEN);
	assert_memory_not_equal(former.nonce, raw.handshake.challenge.nonce, SMD_NONCE_SIZE);
	raw_close(&raw);
	pool_stop(&pool);
}

/* All that a worker has once said to get in, said again: HELLO with its nonce, and PROOF. */
static void a_replay_is_refused(void **state)
{
	uint8_t payload[SMD_CONTROL_MAX];
	struct smd_hello hello;
	struct smd_proof proof;
	struct pool pool;
	struct raw raw;

	(void)state;
	start(&pool, &one_token);
	challenged(&raw, &pool, TOKEN);
	hello = raw.handshake.hello;
	assert_int_equal(smd_handshake_prove_worker(&raw.handshake, TOKEN, &proof), 0);
	say_proof(&raw, &proof);
	raw_expect(&raw, SMD_FRAME_WELCOME);
	raw_close(&raw);
	raw_open(&raw, &pool, 0);
	raw_send(&raw, (struct smd_frame){.kind = SMD_FRAME_HELLO}, payload,
		smd_hello_encode(&hello, payload));
	say_proof(&raw, &proof); /* at once, as a recording does */
	raw_expect(&raw, SMD_FRAME_CHALLENGE);
	assert_refused(&raw);
	pool_stop(&pool);
}

/* What the server would say is no proof of a worker. */
static void a_reflection_is_refused(void **state)
{
	const struct smd_welcome welcome = {.shards = 1, .chunk_bytes = CHUNK, .weight = 1};
	struct smd_proof proof;
	struct pool pool;
	struct raw raw;

	(void)state;
	start(&pool, &one_token);
	challenged(&raw, &pool, TOKEN);
	assert_int_equal(smd_handshake_prove_server(&raw.handshake, &welcome, TOKEN, &proof), 0);
	say_proof(&raw, &proof);
	assert_refused(&raw);
	challenged(&raw, &pool, TOKEN);
	memcpy(proof.bytes, raw.handshake.challenge.nonce, sizeof(proof.bytes));
	say_proof(&raw, &proof);
	assert_refused(&raw);
	pool_stop(&pool);
}

/* A job that is not known, and one whose token is another: the same frames, byte by byte. */
static void jobs_cannot_be_probed(void **state)
{
	static const char *const jobs[] = {"raw", "unknown", ""};
	const struct smd_proof proof = {.bytes = "a guess"};
	struct pool pool;

	(void)state;
	start(&pool, &tokens_of_jobs);
	for (size_t i = 0; i < 3; i++) {
		uint8_t payload[SMD_CONTROL_MAX];
		struct smd_hello hello = {.flags = SMD_HELLO_TOKEN, .replica = "hand"};
		struct raw raw;

		strcpy(hello.job, jobs[i]);
		raw_open(&raw, &pool, 0);
		raw_send(&raw, (struct smd_frame){.kind = SMD_FRAME_HELLO}, payload,
			smd_hello_encode(&hello, payload));
		raw_expect(&raw, SMD_FRAME_CHALLENGE);
		assert_int_equal(raw.frame.length, SMD_NONCE_SIZE);
		say_proof(&raw, &proof);
		assert_refused(&raw);
	}
	pool_stop(&pool);
}

static void a_handshake_has_its_order(void **state)
{
	const struct smd_proof proof = {.bytes = "too early"};
	struct pool pool;
	struct raw raw;

	(void)state;
	start(&pool, &one_token);
	raw_open(&raw, &pool, 0);
	say_proof(&raw, &proof);
	raw_expect_end(&raw);
	capture_await("the first frame must be HELLO, got PROOF", NULL);
	raw_close(&raw);
	challenged(&raw, &pool, TOKEN);
	raw_join(&raw, 0, "group", 1, 0);
	raw_expect_end(&raw);
	capture_await("the answer to CHALLENGE must be PROOF, got JOIN", NULL);
	raw_close(&raw);
	challenged(&raw, &pool, TOKEN);
	raw_say_hello(&raw, "hand", 0, TOKEN);
	raw_expect_end(&raw);
	capture_await("the answer to CHALLENGE must be PROOF, got HELLO", NULL);
	raw_close(&raw);
	challenged(&raw, &pool, TOKEN);
	say_proof(&raw, &proof);
	raw_expect(&raw, SMD_FRAME_REFUSE);
	say_proof(&raw, &proof); /* no second guess */
	raw_expect_end(&raw);
	raw_close(&raw);
	pool_stop(&pool);
}

static void what_is_cut_short_is_refused(void **state)
{
	uint8_t hello[SMD_CONTROL_MAX];
	struct smd_proof proof;
	struct pool pool;
	struct raw raw;
	size_t length;

	(void)state;
	start(&pool, &one_token);
	challenged(&raw, &pool, TOKEN);
	length = smd_hello_encode(&raw.handshake.hello, hello);
	raw_close(&raw);
	for (size_t n = 0; n < length; n++) {
		raw_open(&raw, &pool, 0);
		raw_send(&raw, (struct smd_frame){.kind = SMD_FRAME_HELLO}, hello, n);
		raw_expect(&raw, SMD_FRAME_REFUSE);
		assert_non_null(strstr((char *)raw.payload, "HELLO: payload must be"));
		raw_expect_end(&raw);
		raw_close(&raw);
	}
	for (size_t n = 0; n <= SMD_PROOF_SIZE + 1; n++) { /* the right one, as far as it goes */
		uint8_t payload[SMD_PROOF_SIZE + 1] = {0};

		if (n == SMD_PROOF_SIZE) {
			continue;
		}
		challenged(&raw, &pool, TOKEN);
		assert_int_equal(smd_handshake_prove_worker(&raw.handshake, TOKEN, &proof), 0);
		memcpy(payload, proof.bytes, sizeof(proof.bytes));
		raw_send(&raw, (struct smd_frame){.kind = SMD_FRAME_PROOF}, payload, n);
		raw_expect(&raw, SMD_FRAME_REFUSE);
		assert_non_null(strstr((char *)raw.payload, "PROOF: payload must be"));
		raw_expect_end(&raw);
		raw_close(&raw);
	}
	pool_stop(&pool);
}

/* The time is the whole handshake's: what comes in between buys none. */
static void a_handshake_has_its_time(void **state)
{
	uint64_t began = smd_clock_ns();
	struct pool pool;
	struct raw raw;

	(void)state;
	start(&pool, &one_token);
	raw_open(&raw, &pool, 0);
	sleep(1);
	raw_say_hello(&raw, "hand", 0, TOKEN);
	raw_expect(&raw, SMD_FRAME_CHALLENGE);
	raw_expect_end(&raw);
	assert_true(smd_clock_ns() - began < 9 * SMD_SECOND_NS);
	capture_await("ended: it has said HELLO and not proved that it has a token for 2 s", NULL);
	raw_close(&raw);
	pool_stop(&pool);
}

static void an_older_version_is_told(void **state)
{
	struct smd_frame frame = {.kind = SMD_FRAME_HELLO};
	uint8_t bytes[SMD_FRAME_SIZE];
	struct pool pool;
	struct raw raw;

	(void)state;
	start(&pool, &one_token);
	raw_open(&raw, &pool, 0);
	smd_frame_encode(&frame, bytes);
	bytes[3] = 1;
	raw_write(&raw, bytes, sizeof(bytes));
	raw_expect(&raw, SMD_FRAME_REFUSE);
	assert_string_equal((char *)raw.payload, "frame: version must be 6, got 1");
	raw_expect_end(&raw);
	raw_close(&raw);
	pool_stop(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_has_the_token_is_let_in),
		cmocka_unit_test(a_jobs_token_opens_that_job),
		cmocka_unit_test(a_server_without_tokens_is_not_believed),
		cmocka_unit_test(both_ends_prove_it),
		cmocka_unit_test(a_proof_is_for_these_words_only),
		cmocka_unit_test(the_bytes_of_a_proof),
		cmocka_unit_test(each_lane_has_nonces_of_its_own),
		cmocka_unit_test(a_replay_is_refused),
		cmocka_unit_test(a_reflection_is_refused),
		cmocka_unit_test(jobs_cannot_be_probed),
		cmocka_unit_test(a_handshake_has_its_order),
		cmocka_unit_test(what_is_cut_short_is_refused),
		cmocka_unit_test(a_handshake_has_its_time),
		cmocka_unit_test(an_older_version_is_told),
	};

	return cmocka_run_group_tests(tests, capture_set_up, capture_tear_down);
}
