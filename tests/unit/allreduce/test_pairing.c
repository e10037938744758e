/*
 * Lanes that are made over others, between the handshake and WELCOME (PAIR): how a worker and a
 * server come to them, do without, try again, and hold off who has not shown that he has the job's
 * token. The transport is one of tests (transport/testing/carried.h); RDMA's own part is in
 * tests/unit/rdma/test_rdma_offer.c, what a fabric that drops all costs in test_pairing_silence.c,
 * and what holds of lanes that connect by themselves in test_pairing_managed.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <event2/event.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/allreduce/capture.h"
#include "tests/unit/allreduce/pairing.h"
#include "tests/unit/allreduce/raw.h"
#include "tests/unit/allreduce/token_worker.h"
#include "worker/libsummand/remote_pair.h"

static char the_token[] = TOKEN;
static const struct smd_tokens one_token = {.every = the_token};

static void lanes_go_over_to_what_they_carry(void **state)
{
	struct pool pool;

	(void)state;
	capture_begin();
	pairing_start(&pool, "carried", 3, false, NULL);
	assert_int_equal(pairing_work(&pool, "carried", 60), 0);
	assert_true(capture_has("shard 2: goes over carried", NULL));
	capture_end();
	assert_true(smd_carried_trials.most >= 1);
	pool_stop(&pool);
}

/* A server whose cards are of two kinds hears which of them this process has. */
static void a_worker_says_of_which_kind_its_devices_are(void **state)
{
	struct pool pool;

	(void)state;
	pairing_start(&pool, "tcp", 1, true, NULL);
	assert_int_equal(pairing_work(&pool, "carried", 60), 0); /* which has no kinds */
	assert_int_equal(pairing_moods.kinds, 0);
	assert_int_equal(pairing_work(&pool, "either", 60), 0);
	assert_int_equal(pairing_moods.kinds, SMD_HELLO_ROCE);
	pool_stop(&pool);
}

/* What a card makes one after the other is not asked of it all at once. */
static void few_are_made_at_once(void **state)
{
	struct pool pool;

	(void)state;
	pairing_start(&pool, "carried", SMD_SHARDS_MAX, false, NULL);
	assert_int_equal(pairing_work(&pool, "carried", 60), 0);
	assert_in_range(smd_carried_trials.most, 1, 8);
	assert_int_equal(smd_carried_trials.answering, 0);
	pool_stop(&pool);
}

static void *start_later(void *arg)
{
	const struct smd_server_config config = {.shards = 1,
		.chunk_bytes = PAIRING_CHUNK,
		.memory_bytes = 16 * SMD_BUFFER_POOL_STRIDE(PAIRING_CHUNK),
		.transports = {[1] = {&pairing_moody, true}}};

	usleep(300000);
	pool_restart_server(arg, 0, &config);
	return NULL;
}

/* A worker that is there before the server is refused by the carrier: the next transport would be,
 * too, but for the moment in which the server comes. */
static void a_carrier_that_is_not_there_is_not_its_transports_fault(void **state)
{
	struct pool pool;
	pthread_t thread;

	(void)state;
	pairing_start(&pool, "tcp", 1, true, NULL);
	pool_end_server(&pool, 0, 1);
	capture_begin();
	assert_int_equal(pthread_create(&thread, NULL, start_later, &pool), 0);
	assert_int_equal(pairing_work(&pool, "either", 60), 0);
	pthread_join(thread, NULL);
	assert_false(capture_has("tries tcp after carried", NULL));
	assert_true(capture_has("shard 0: goes over carried", NULL));
	capture_end();
	pool_stop(&pool);
}

static void what_times_out_is_tried_once_more(void **state)
{
	struct pool pool;

	(void)state;
	capture_begin();
	pairing_start(&pool, "carried", 2, false, NULL);
	smd_carried_trials.time_out = 1;
	assert_int_equal(pairing_work(&pool, "carried", 60), 0);
	assert_true(capture_has("tries carried again: it is to time out", NULL));
	capture_end();
	assert_int_equal(smd_carried_trials.time_out, 0);
	pool_stop(&pool);
}

/* Once it may have been slow: the next time that it returns it is tried again. */
static void what_has_worked_is_tried_when_a_server_returns(void **state)
{
	(void)state;
	pairing_return_twice(&smd_carried_trials.time_out);
}

/* A card that lanes were made with comes again, as after a reset: for the lanes that find it away
 * there is TCP, and those that come later try it. */
static void a_device_that_is_away_for_a_moment_is_tried_again(void **state)
{
	(void)state;
	pairing_moods.err = -ENODEV;
	pairing_return_twice(&pairing_moods.workers);
}

/* However long that takes over the one transport, the next has its turn in the same attempt: the
 * next attempt would begin with the first again. */
static void a_server_that_returns_is_reached_after_a_long_silence(void **state)
{
	const struct smd_server_config both[] = {
		pairing_configure(1, true, NULL), pairing_configure(1, false, NULL)};
	struct smd_context_options options = {
		.replica = "worker", .job = "job", .transport = "either", .connect_timeout_s = 60};
	smd_context *context;
	struct pool pool;

	(void)state;
	pool_start(&pool, "tcp", 2, both);
	options.servers = pool.list;
	capture_begin();
	assert_int_equal(smd_context_create(&options, &context), 0);
	assert_int_equal(capture_count("goes over carried"), 1);
	smd_carried_trials.time_out = 2;
	smd_carried_trials.time_out_ms = PAIRING_SILENT_S * 1000;
	pairing_return_server(&pool, &both[0], 1);
	assert_int_equal(smd_carried_trials.time_out, 1); /* in the first attempt */
	smd_context_destroy(context);
	capture_end();
	pool_stop(&pool);
}

/* Where the server could make no half in time it tries again, and tells the worker nothing of it;
 * TCP is for those of which that is so again. */
static void what_is_late_before_it_is_offered_is_tried_once_more(void **state)
{
	struct pool pool;

	(void)state;
	pairing_start(&pool, "tcp", 1, true, NULL);
	capture_begin();
	smd_carried_trials.late = 1;
	assert_int_equal(pairing_work(&pool, "carried", 60), 0);
	assert_false(capture_has("no lane of worker over carried", NULL));
	assert_true(capture_has("lane of worker: tries carried again: it is to be late", NULL));
	smd_carried_trials.late = 2;
	assert_int_equal(pairing_work(&pool, "carried", 60), 0); /* at the next time that it asks */
	assert_true(capture_has("no lane of worker over carried: it is to be late", NULL));
	assert_int_equal(smd_carried_trials.late, 0);
	capture_end();
	pool_stop(&pool);
}

/* A driver may say so where all start at once; neither end then leaves its card for good. */
static void what_passes_is_tried_once_more(void **state)
{
	static const int passes[] = {-EAGAIN, -EBUSY, -EIO};
	struct pool pool;

	(void)state;
	pairing_start(&pool, "tcp", 1, true, NULL);
	for (size_t i = 0; i < 2 * sizeof(passes) / sizeof(passes[0]); i++) {
		pairing_moods.err = passes[i / 2];
		pairing_moods.workers = i % 2;
		pairing_moods.servers = 1 - i % 2;
		capture_begin();
		assert_int_equal(pairing_work(&pool, "either", 60), 0);
		assert_true(capture_has("tries carried again: it is in no mood", NULL));
		assert_true(capture_has("shard 0: goes over carried", NULL));
		capture_end();
	}
	pool_stop(&pool);
}

/* A card's file that may not be opened is not the server's word: the worker goes on over TCP. */
static void a_device_that_lets_nobody_in_is_done_without(void **state)
{
	struct pool pool;

	(void)state;
	pairing_start(&pool, "tcp", 1, true, NULL);
	capture_begin();
	pairing_moods.err = -EACCES;
	pairing_moods.workers = 1;
	assert_int_equal(pairing_work(&pool, "either", 60), 0);
	assert_true(capture_has("tries tcp after carried: it is in no mood", NULL));
	assert_true(capture_has("shard 0: goes over tcp", NULL));
	capture_end();
	pool_stop(&pool);
}

/* As EFA and iWARP do, or a card whose ports are down. Each lane asks it, and one says why. */
static void what_its_own_device_lacks_is_told_once(void **state)
{
	static const int lacks[] = {-EPROTONOSUPPORT, -ENETDOWN, -ENOTSUP};
	enum { SHARDS = 3 };
	struct pool pool;

	(void)state;
	pairing_start(&pool, "tcp", SHARDS, true, NULL);
	for (size_t i = 0; i < sizeof(lacks) / sizeof(lacks[0]); i++) {
		capture_begin();
		pairing_moods.err = lacks[i];
		pairing_moods.workers = SHARDS;
		assert_int_equal(pairing_work(&pool, "either", 60), 0);
		assert_int_equal(pairing_moods.workers, 0);
		assert_int_equal(capture_count("goes over tcp"), SHARDS);
		assert_int_equal(
			capture_count("lanes go over tcp and not over carried: it is in no mood"),
			1);
		assert_int_equal(capture_count("tries tcp after carried: it is in no mood"),
			SHARDS - 1);
		assert_true(capture_has("tries tcp after carried", "debug"));
		capture_end();
	}
	pool_stop(&pool);
}

/* A server without such lanes says WELCOME over what is there, which does not do for a worker that
 * takes nothing else. */
static void a_server_that_makes_none_says_so(void **state)
{
	struct pool pool;

	(void)state;
	pairing_start(&pool, "tcp", 1, false, NULL);
	assert_int_equal(pairing_work(&pool, "tcp", 60), 0);
	assert_int_equal(pairing_work(&pool, "carried", 1), -ETIMEDOUT);
	assert_non_null(strstr(smd_error_message(),
		"could not be reached within 1 s: it makes no lanes over carried"));
	pool_stop(&pool);
}

/* With the token too; and a worker that the server could make no half for comes again. */
static void one_that_takes_both_takes_both(void **state)
{
	char path[] = "/tmp/smd-token-XXXXXX";
	int fd = mkstemp(path);
	struct pool pool;

	(void)state;
	pairing_start(&pool, "tcp", 1, true, &one_token);
	assert_int_equal(token_work(pool.list, "any", TOKEN), 0);
	assert_int_equal(write(fd, TOKEN, strlen(TOKEN)), strlen(TOKEN));
	close(fd);
	setenv("SUMMAND_TOKEN_FILE", path, 1);
	smd_carried_trials.refuse = 1;
	assert_int_equal(pairing_work(&pool, "carried", 60), 0);
	assert_int_equal(smd_carried_trials.refuse, 0);
	smd_carried_trials.refuse_later =
		1; /* when it was tried, and before anything was offered */
	assert_int_equal(pairing_work(&pool, "carried", 60), 0);
	assert_int_equal(smd_carried_trials.refuse_later, 0);
	unsetenv("SUMMAND_TOKEN_FILE");
	unlink(path);
	pool_stop(&pool);
}

static void one_that_takes_no_other_lanes_refuses_them(void **state)
{
	struct pool pool;

	(void)state;
	pairing_start(&pool, "carried", 1, false, NULL);
	assert_int_equal(pairing_work(&pool, "tcp", 60), -EACCES);
	assert_non_null(strstr(smd_error_message(),
		"workers are let in over carried only: this one has not asked for it"));
	smd_carried_trials.refuse = 1;
	assert_int_equal(pairing_work(&pool, "carried", 60), -EACCES);
	assert_non_null(strstr(
		smd_error_message(), "workers are let in over carried only: it is to be refused"));
	smd_carried_trials.refuse_later = 1;
	assert_int_equal(pairing_work(&pool, "carried", 60), -EACCES);
	assert_non_null(strstr(smd_error_message(),
		"workers are let in over carried only: it is to be refused later"));
	pool_stop(&pool);
}

/* Lanes that went another way than most are told of, with how many they are. */
static void mixed_lanes_are_told(void **state)
{
	enum { LANES = 6 };
	const struct smd_transport_ops *carried = smd_transport_find("carried");
	const struct smd_transport_ops *tcp = smd_transport_find("tcp");
	struct smd_lane lanes[LANES] = {0};
	struct smd_remote remotes[LANES] = {0};
	struct smd_remote *each[LANES];
	const struct smd_remotes all = {.count = LANES, .each = each};

	(void)state;
	for (int i = 0; i < LANES; i++) {
		lanes[i].ops = carried;
		remotes[i].lane = &lanes[i];
		remotes[i].welcomed = true;
		each[i] = &remotes[i];
	}
	remotes[2].lane = NULL; /* of a server that is lost */
	remotes[5].welcomed = false; /* this one carries the making of another */
	lanes[5].ops = tcp;
	capture_begin();
	smd_remotes_tell_mixed(&all);
	lanes[3].ops = tcp;
	smd_remotes_tell_mixed(&all);
	capture_await("1 of 4 lanes go over tcp and the others over carried", "warn");
	assert_false(capture_has("0 of 4 lanes", NULL));
	capture_end();
}

/* So they are where a server comes back without a card, or is added without one. */
static void mixed_lanes_of_a_server_that_returns_are_told(void **state)
{
	const struct smd_server_config both[] = {
		pairing_configure(1, true, NULL), pairing_configure(1, true, NULL)};
	const struct smd_server_config without = pairing_configure(1, false, NULL);
	struct smd_context_options options = {
		.replica = "worker", .job = "job", .transport = "either", .connect_timeout_s = 60};
	smd_context *context;
	struct pool pool;

	(void)state;
	capture_begin();
	pool_start(&pool, "tcp", 2, both);
	options.servers = pool.list;
	assert_int_equal(smd_context_create(&options, &context), 0);
	assert_false(capture_has("the slower ones decide", NULL));
	pool_end_server(&pool, 1, 1);
	pool_restart_server(&pool, 1, &without);
	capture_await("1 of 2 lanes go over tcp and the others over carried", "warn");
	smd_context_destroy(context);
	capture_end();
	pool_stop(&pool);
}

static void never(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	(void)arg;
}

/* One of eight that take a connection and say nothing is not waited for after two seconds; one that has
 * answered is. */
static void silent_servers_keep_nobody_waiting(void **state)
{
	enum { ALL = 9 };
	static struct smd_config config;
	static struct smd_remote remotes[ALL];
	struct smd_remote_owner owner = {.config = &config};
	struct event_base *base = event_base_new();
	struct smd_remote *last = &remotes[ALL - 1];

	(void)state;
	config.transports[0] = smd_transport_find("carried");
	last->retry = evtimer_new(base, never, NULL);
	for (int i = 0; i < ALL; i++) {
		remotes[i].owner = &owner;
		assert_int_equal(smd_remote_pair_begin(&remotes[i]), &remotes[i] != last);
	}
	remotes[3].answered = true;
	remotes[3].turn_ns = 1;
	assert_false(smd_remote_pair_begin(last));
	remotes[5].turn_ns = 1;
	assert_true(smd_remote_pair_begin(last));
	assert_int_equal(remotes[5].turn_ns, 0);
	assert_true(remotes[5].pairs); /* it may still be made */
	assert_int_equal(owner.npairing, ALL - 1);
	for (int i = 0; i < ALL; i++) {
		smd_remote_pair_end(&remotes[i]);
	}
	assert_int_equal(owner.npairing, 0);
	event_free(last->retry);
	event_base_free(base);
}

/* ---- by hand ---- */

/* Through the handshake with a server that has a token, up to its PAIR. */
static void ask_for_pair(struct raw *raw, const struct pool *pool, struct smd_pair *theirs)
{
	struct smd_hello *hello = &raw->handshake.hello;
	uint8_t payload[SMD_CONTROL_MAX];
	struct smd_proof proof;

	raw_open(raw, pool, 0);
	*hello = (struct smd_hello){
		.flags = SMD_HELLO_TOKEN | SMD_HELLO_PAIR, .replica = "hand", .job = "raw"};
	assert_int_equal(smd_nonce_draw(hello->nonce), 0);
	raw_send(raw, (struct smd_frame){.kind = SMD_FRAME_HELLO}, payload,
		smd_hello_encode(hello, payload));
	raw_expect(raw, SMD_FRAME_CHALLENGE);
	assert_int_equal(smd_challenge_decode(
				 raw->payload, raw->frame.length, &raw->handshake.challenge, NULL),
		0);
	assert_int_equal(smd_handshake_prove_worker(&raw->handshake, TOKEN, &proof), 0);
	raw_send(raw, (struct smd_frame){.kind = SMD_FRAME_PROOF}, payload,
		smd_proof_encode(&proof, payload));
	raw_expect(raw, SMD_FRAME_PAIR);
	assert_int_equal(smd_pair_decode(raw->payload, raw->frame.length, theirs, NULL), 0);
}

static void say_pair(struct raw *raw, const struct smd_pair *pair)
{
	uint8_t payload[SMD_CONTROL_MAX];

	raw_send(raw, (struct smd_frame){.kind = SMD_FRAME_PAIR}, payload,
		smd_pair_encode(pair, payload));
}

/* A proof is of one end, of one lane, and of that offer. */
static void offers_are_proved(void **state)
{
	struct pool pool;
	struct smd_pair theirs;
	struct smd_pair own;
	struct smd_proof proof;
	struct raw raw;

	(void)state;
	pairing_start(&pool, "tcp", 1, true, &one_token);
	for (int wrong = 0; wrong < 6; wrong++) {
		ask_for_pair(&raw, &pool, &theirs);
		assert_true(theirs.proved);
		assert_int_equal(smd_handshake_prove_offer(
					 &raw.handshake, true, &theirs.offer, TOKEN, &proof),
			0);
		assert_memory_equal(proof.bytes, theirs.proof.bytes, SMD_PROOF_SIZE);
		own = theirs;
		assert_int_equal(smd_handshake_prove_offer(&raw.handshake, false, &own.offer,
					 wrong == 1 ? "another" : TOKEN, &own.proof),
			0);
		own.proof.bytes[SMD_PROOF_SIZE - 1] ^= wrong == 2;
		own.offer.bytes[0] ^= wrong == 3;
		own.proved = wrong != 4;
		if (wrong == 5) { /* what the server has said of itself */
			own.proof = theirs.proof;
		}
		say_pair(&raw, &own);
		if (wrong) {
			raw_expect_end(&raw);
		} else {
			raw_expect(&raw, SMD_FRAME_WELCOME);
		}
		raw_close(&raw);
	}
	pool_stop(&pool);
}

static void nothing_else_answers_an_offer(void **state)
{
	struct pool pool;
	struct smd_pair theirs;
	struct raw raw;

	(void)state;
	capture_begin();
	pairing_start(&pool, "tcp", 1, true, &one_token);
	ask_for_pair(&raw, &pool, &theirs);
	raw_send(&raw, (struct smd_frame){.kind = SMD_FRAME_JOIN, .comm = 1}, NULL, 0);
	raw_expect_end(&raw);
	raw_close(&raw);
	capture_await(
		"no lane of hand over carried: the answer to PAIR must be PAIR, got JOIN", NULL);
	ask_for_pair(&raw, &pool, &theirs);
	raw_close(&raw); /* it goes: the half that was offered goes with it */
	capture_await("no lane of hand over carried: ", "closed");
	capture_end();
	pool_stop(&pool);
}

#define TEST(test) cmocka_unit_test_setup(test, pairing_set_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(lanes_go_over_to_what_they_carry),
		TEST(a_worker_says_of_which_kind_its_devices_are),
		TEST(few_are_made_at_once),
		TEST(a_carrier_that_is_not_there_is_not_its_transports_fault),
		TEST(what_times_out_is_tried_once_more),
		TEST(what_has_worked_is_tried_when_a_server_returns),
		TEST(a_device_that_is_away_for_a_moment_is_tried_again),
		TEST(a_server_that_returns_is_reached_after_a_long_silence),
		TEST(what_is_late_before_it_is_offered_is_tried_once_more),
		TEST(what_passes_is_tried_once_more),
		TEST(a_device_that_lets_nobody_in_is_done_without),
		TEST(what_its_own_device_lacks_is_told_once),
		TEST(a_server_that_makes_none_says_so),
		TEST(one_that_takes_both_takes_both),
		TEST(mixed_lanes_are_told),
		TEST(mixed_lanes_of_a_server_that_returns_are_told),
		TEST(silent_servers_keep_nobody_waiting),
		TEST(one_that_takes_no_other_lanes_refuses_them),
		TEST(offers_are_proved),
		TEST(nothing_else_answers_an_offer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
