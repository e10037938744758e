/*
 * Lanes that are made over others, between the handshake and WELCOME (PAIR): how a worker and a
 * server come to them, do without, try again, and hold off who has not shown that he has the job's
 * token. What of that holds for lanes that take as much to make and connect by themselves is here,
 * too. The transport is one of tests (transport/testing/carried.h); RDMA's own part is in
 * tests/unit/rdma/test_rdma_offer.c and test_rdma_connect.c.
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

#include "reduction_server/transport/testing/carried.h"
#include "tests/unit/allreduce/capture.h"
#include "tests/unit/allreduce/fixture.h"
#include "tests/unit/allreduce/raw.h"
#include "tests/unit/allreduce/token_worker.h"
#include "worker/libsummand/remote_pair.h"

enum { CHUNK = 4096, COUNT = 50000 };
enum { SILENT_S = 11 }; /* longer than a server that returns has by default */

static char the_token[] = TOKEN;
static const struct smd_tokens one_token = {.every = the_token};

/* ---- a transport whose halves cannot be made for a reason that tests choose ---- */

static struct smd_transport_ops moody; /* else it is "carried" */
static struct {
	atomic_int err;
	atomic_uint workers; /* so many of the first offers of theirs fail with it, */
	atomic_uint servers; /* and so many of theirs */
	atomic_uint kinds;   /* that the last server's offer was made for */
} moods;

static unsigned moody_making_s(void)
{
	return SILENT_S;
}

static uint16_t moody_kinds(void)
{
	return SMD_HELLO_ROCE;
}

static int moody_offer(struct event_base *base, const struct smd_lane *carrier, unsigned shard,
	const struct smd_offer *other, uint16_t kinds, const struct smd_lane_callbacks *callbacks,
	void *owner, struct smd_lane **out, struct smd_offer *own, struct smd_error *error)
{
	atomic_uint *left = other ? &moods.workers : &moods.servers;
	int ret;

	if (!other) {
		moods.kinds = kinds;
	}
	if (atomic_load(left)) {
		atomic_fetch_sub(left, 1);
		return smd_error_set(error, -moods.err, "it is in no mood");
	}
	ret = smd_transport_find("carried")->offer(
		base, carrier, shard, other, kinds, callbacks, owner, out, own, error);
	if (ret == 0) {
		(*out)->ops = &moody;
	}
	return ret;
}

unsigned __real_smd_transport_select(
	const char *name, const struct smd_transport_ops *out[SMD_TRANSPORTS_MAX]);

unsigned __wrap_smd_transport_select(
	const char *name, const struct smd_transport_ops *out[SMD_TRANSPORTS_MAX]);
/* As "auto" has RDMA and TCP. */
unsigned __wrap_smd_transport_select(
	const char *name, const struct smd_transport_ops *out[SMD_TRANSPORTS_MAX])
{
	if (strcmp(name, "either") != 0) {
		return __real_smd_transport_select(name, out);
	}
	out[0] = &moody;
	out[1] = smd_transport_find("tcp");
	return 2;
}

static int set_up(void **state)
{
	(void)state;
	moody = *smd_transport_find("carried");
	moody.offer = moody_offer;
	moody.kinds = moody_kinds;
	moody.making_s = moody_making_s;
	smd_carried_trials = (struct smd_carried_trials){0};
	return 0;
}

static struct smd_server_config configure(
	unsigned shards, bool also, const struct smd_tokens *tokens)
{
	return (struct smd_server_config){.shards = shards,
		.chunk_bytes = CHUNK,
		.memory_bytes = (size_t)shards * 16 * SMD_BUFFER_POOL_STRIDE(CHUNK),
		.transports = {[1] = {also && !smd_carried_trials.itself ? &moody : NULL, true}},
		.tokens = tokens,
		.greeting_s = 2};
}

static void start(struct pool *pool, const char *transport, unsigned shards, bool also,
	const struct smd_tokens *tokens)
{
	const struct smd_server_config config = configure(shards, also, tokens);

	pool_start(pool, transport, 1, &config);
}

/* One rank over that transport: 0, or -errno with what the library says. */
static int work(const struct pool *pool, const char *transport, unsigned timeout_s)
{
	const struct smd_context_options options = {.servers = pool->list,
		.replica = "worker",
		.job = "job",
		.transport = transport,
		.connect_timeout_s = timeout_s};
	static int32_t values[COUNT];
	smd_context *context;
	smd_comm *comm;
	int ret = smd_context_create(&options, &context);

	if (ret) {
		return ret;
	}
	for (int i = 0; i < COUNT; i++) {
		values[i] = i;
	}
	assert_int_equal(smd_comm_create(context, "group", 1, 0, &comm), 0);
	assert_int_equal(smd_allreduce(comm, values, values, COUNT, SMD_INT32, SMD_SUM), 0);
	for (int i = 0; i < COUNT; i++) {
		assert_int_equal(values[i], i);
	}
	smd_comm_destroy(comm);
	smd_context_destroy(context);
	return 0;
}

static void lanes_go_over_to_what_they_carry(void **state)
{
	struct pool pool;

	(void)state;
	capture_begin();
	start(&pool, "carried", 3, false, NULL);
	assert_int_equal(work(&pool, "carried", 60), 0);
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
	start(&pool, "tcp", 1, true, NULL);
	assert_int_equal(work(&pool, "carried", 60), 0); /* which has no kinds */
	assert_int_equal(moods.kinds, 0);
	assert_int_equal(work(&pool, "either", 60), 0);
	assert_int_equal(moods.kinds, SMD_HELLO_ROCE);
	pool_stop(&pool);
}

/* What a card makes one after the other is not asked of it all at once. */
static void few_are_made_at_once(void **state)
{
	struct pool pool;

	(void)state;
	start(&pool, "carried", SMD_SHARDS_MAX, false, NULL);
	assert_int_equal(work(&pool, "carried", 60), 0);
	assert_in_range(smd_carried_trials.most, 1, 8);
	assert_int_equal(smd_carried_trials.answering, 0);
	pool_stop(&pool);
}

static void *start_later(void *arg)
{
	const struct smd_server_config config = {.shards = 1,
		.chunk_bytes = CHUNK,
		.memory_bytes = 16 * SMD_BUFFER_POOL_STRIDE(CHUNK),
		.transports = {[1] = {&moody, true}}};

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
	start(&pool, "tcp", 1, true, NULL);
	pool_end_server(&pool, 0, 1);
	capture_begin();
	assert_int_equal(pthread_create(&thread, NULL, start_later, &pool), 0);
	assert_int_equal(work(&pool, "either", 60), 0);
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
	start(&pool, "carried", 2, false, NULL);
	smd_carried_trials.time_out = 1;
	assert_int_equal(work(&pool, "carried", 60), 0);
	assert_true(capture_has("tries carried again: it is to time out", NULL));
	capture_end();
	assert_int_equal(smd_carried_trials.time_out, 0);
	pool_stop(&pool);
}

/* A fabric may drop all that crosses, and a server may have many lanes: what the first has found
 * out the others need not. */
static void where_nothing_comes_the_others_are_spared(void **state)
{
	enum { ALL = 1000 };
	struct pool pool;

	(void)state;
	start(&pool, "tcp", SMD_SHARDS_MAX, true, NULL);
	smd_carried_trials.time_out = ALL;
	capture_begin();
	assert_int_equal(work(&pool, "either", 60), 0);
	assert_int_equal(ALL - smd_carried_trials.time_out, 2);
	assert_true(capture_has("go over tcp: both ends have what carried needs, and nothing comes "
				"over it: it is to time out",
		"warn"));
	/* One card of the server's may be cut off, whose lanes come later. */
	smd_carried_trials.open = 1;
	smd_carried_trials.time_out = ALL;
	assert_int_equal(work(&pool, "either", 60), 0);
	assert_in_range(ALL - smd_carried_trials.time_out, 8 * 2, 8 * 2 + 8);
	capture_end();
	pool_stop(&pool);
}

/* Server 0 ends and is started again; until it has returned so many times. */
static void return_server(struct pool *pool, const struct smd_server_config *config, unsigned times)
{
	pool_end_server(pool, 0, 1);
	pool_restart_server(pool, 0, config);
	while (capture_count("is there again") < times) {
		usleep(10000);
	}
}

/* What was found out holds for a server that returns, which has little time, and counts once. */
static void what_was_in_vain_is_not_tried_when_a_server_returns(void **state)
{
	enum { ALL = 1000, SHARDS = 2, TIMES = 3 };
	const struct smd_server_config config = configure(SHARDS, true, NULL);
	const struct smd_server_config both[] = {config, configure(1, false, NULL)};
	struct smd_context_options options = {
		.replica = "worker", .job = "job", .transport = "either", .connect_timeout_s = 60};
	smd_context *context;
	struct pool pool;

	(void)state;
	pool_start(&pool, "tcp", 2, both);
	options.servers = pool.list;
	smd_carried_trials.time_out = ALL;
	capture_begin();
	assert_int_equal(smd_context_create(&options, &context), 0);
	assert_int_equal(ALL - smd_carried_trials.time_out, 2);
	for (unsigned i = 0; i < TIMES; i++) {
		return_server(&pool, &config, 1 + i);
	}
	assert_int_equal(ALL - smd_carried_trials.time_out, 2);
	assert_int_equal(capture_count("nothing comes over it"), 1);
	assert_false(capture_has("lanes to all servers go over tcp", NULL));
	smd_context_destroy(context);
	capture_end();
	pool_stop(&pool);
}

/* Once it may have been slow: the next time that it returns it is tried again. */
static void what_has_worked_is_tried_when_a_server_returns(void **state)
{
	const struct smd_server_config both[] = {
		configure(1, true, NULL), configure(1, false, NULL)};
	struct smd_context_options options = {
		.replica = "worker", .job = "job", .transport = "either", .connect_timeout_s = 60};
	const unsigned first = smd_carried_trials.itself ? 2 : 1;
	smd_context *context;
	struct pool pool;

	(void)state;
	pool_start(&pool, "tcp", 2, both);
	options.servers = pool.list;
	capture_begin();
	assert_int_equal(smd_context_create(&options, &context), 0);
	assert_int_equal(capture_count("goes over carried"), first);
	for (unsigned i = 0; i < 2; i++) {
		smd_carried_trials.time_out = i == 0;
		return_server(&pool, &both[0], 1 + i);
		assert_int_equal(smd_carried_trials.time_out, 0);
		assert_int_equal(capture_count("goes over carried"), first + i);
	}
	smd_context_destroy(context);
	capture_end();
	pool_stop(&pool);
}

/* A card that lanes were made with comes again, as after a reset: for the lanes that find it away
 * there is TCP, and those that come later try it. */
static void a_device_that_is_away_for_a_moment_is_tried_again(void **state)
{
	const struct smd_server_config both[] = {
		configure(1, true, NULL), configure(1, false, NULL)};
	struct smd_context_options options = {
		.replica = "worker", .job = "job", .transport = "either", .connect_timeout_s = 60};
	const unsigned first = smd_carried_trials.itself ? 2 : 1;
	smd_context *context;
	struct pool pool;

	(void)state;
	pool_start(&pool, "tcp", 2, both);
	options.servers = pool.list;
	capture_begin();
	assert_int_equal(smd_context_create(&options, &context), 0);
	assert_int_equal(capture_count("goes over carried"), first);
	for (unsigned i = 0; i < 2; i++) {
		moods.err = -ENODEV;
		moods.workers = i == 0;
		return_server(&pool, &both[0], 1 + i);
		assert_int_equal(moods.workers, 0);
		assert_int_equal(capture_count("goes over carried"), first + i);
	}
	smd_context_destroy(context);
	capture_end();
	pool_stop(&pool);
}

/* However long that takes over the one transport, the next has its turn in the same attempt: the
 * next attempt would begin with the first again. */
static void a_server_that_returns_is_reached_after_a_long_silence(void **state)
{
	const struct smd_server_config both[] = {
		configure(1, true, NULL), configure(1, false, NULL)};
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
	smd_carried_trials.time_out_ms = SILENT_S * 1000;
	return_server(&pool, &both[0], 1);
	assert_int_equal(smd_carried_trials.time_out, 1); /* in the first attempt */
	smd_context_destroy(context);
	capture_end();
	pool_stop(&pool);
}

static void where_nothing_comes_from_two_servers_the_others_are_spared(void **state)
{
	enum { ALL = 1000, SERVERS = 8, SHARDS = 8 };
	struct smd_server_config configs[SERVERS];
	struct pool pool;

	(void)state;
	for (int i = 0; i < SERVERS; i++) {
		configs[i] = configure(SHARDS, true, NULL);
	}
	pool_start(&pool, "tcp", SERVERS, configs);
	smd_carried_trials.time_out = ALL;
	capture_begin();
	assert_int_equal(work(&pool, "either", 60), 0);
	assert_in_range(ALL - smd_carried_trials.time_out, 4, SERVERS * 2);
	assert_true(capture_has(
		"nothing comes over carried from 2 servers: lanes to all servers go over tcp",
		"warn"));
	capture_end();
	pool_stop(&pool);
}

/* Where the server could make no half in time it tries again, and tells the worker nothing of it;
 * TCP is for those of which that is so again. */
static void what_is_late_before_it_is_offered_is_tried_once_more(void **state)
{
	struct pool pool;

	(void)state;
	start(&pool, "tcp", 1, true, NULL);
	capture_begin();
	smd_carried_trials.late = 1;
	assert_int_equal(work(&pool, "carried", 60), 0);
	assert_false(capture_has("no lane of worker over carried", NULL));
	assert_true(capture_has("lane of worker: tries carried again: it is to be late", NULL));
	smd_carried_trials.late = 2;
	assert_int_equal(work(&pool, "carried", 60), 0); /* at the next time that it asks */
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
	start(&pool, "tcp", 1, true, NULL);
	for (size_t i = 0; i < 2 * sizeof(passes) / sizeof(passes[0]); i++) {
		moods.err = passes[i / 2];
		moods.workers = i % 2;
		moods.servers = 1 - i % 2;
		capture_begin();
		assert_int_equal(work(&pool, "either", 60), 0);
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
	start(&pool, "tcp", 1, true, NULL);
	capture_begin();
	moods.err = -EACCES;
	moods.workers = 1;
	assert_int_equal(work(&pool, "either", 60), 0);
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
	start(&pool, "tcp", SHARDS, true, NULL);
	for (size_t i = 0; i < sizeof(lacks) / sizeof(lacks[0]); i++) {
		capture_begin();
		moods.err = lacks[i];
		moods.workers = SHARDS;
		assert_int_equal(work(&pool, "either", 60), 0);
		assert_int_equal(moods.workers, 0);
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
	start(&pool, "tcp", 1, false, NULL);
	assert_int_equal(work(&pool, "tcp", 60), 0);
	assert_int_equal(work(&pool, "carried", 1), -ETIMEDOUT);
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
	start(&pool, "tcp", 1, true, &one_token);
	assert_int_equal(token_work(pool.list, "any", TOKEN), 0);
	assert_int_equal(write(fd, TOKEN, strlen(TOKEN)), strlen(TOKEN));
	close(fd);
	setenv("SUMMAND_TOKEN_FILE", path, 1);
	smd_carried_trials.refuse = 1;
	assert_int_equal(work(&pool, "carried", 60), 0);
	assert_int_equal(smd_carried_trials.refuse, 0);
	smd_carried_trials.refuse_later =
		1; /* when it was tried, and before anything was offered */
	assert_int_equal(work(&pool, "carried", 60), 0);
	assert_int_equal(smd_carried_trials.refuse_later, 0);
	unsetenv("SUMMAND_TOKEN_FILE");
	unlink(path);
	pool_stop(&pool);
}

static void one_that_takes_no_other_lanes_refuses_them(void **state)
{
	struct pool pool;

	(void)state;
	start(&pool, "carried", 1, false, NULL);
	assert_int_equal(work(&pool, "tcp", 60), -EACCES);
	assert_non_null(strstr(smd_error_message(),
		"workers are let in over carried only: this one has not asked for it"));
	smd_carried_trials.refuse = 1;
	assert_int_equal(work(&pool, "carried", 60), -EACCES);
	assert_non_null(strstr(
		smd_error_message(), "workers are let in over carried only: it is to be refused"));
	smd_carried_trials.refuse_later = 1;
	assert_int_equal(work(&pool, "carried", 60), -EACCES);
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
	const struct smd_server_config both[] = {configure(1, true, NULL), configure(1, true, NULL)};
	const struct smd_server_config without = configure(1, false, NULL);
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

/* ---- lanes that connect by themselves, as by RDMA's connection manager ---- */

static int itself_connect(struct event_base *base, const char *address,
	const struct smd_origin *origin, unsigned shard, const struct smd_lane_callbacks *callbacks,
	void *owner, struct smd_lane **out, struct smd_error *error)
{
	int ret;

	if (atomic_load(&moods.workers)) {
		atomic_fetch_sub(&moods.workers, 1);
		return smd_error_set(error, -moods.err, "it is in no mood");
	}
	ret = smd_transport_find("carried")->connect(
		base, address, origin, shard, callbacks, owner, out, error);
	if (ret == 0) {
		(*out)->ops = &moody;
	}
	return ret;
}

static int set_up_itself(void **state)
{
	set_up(state);
	moody.connect = itself_connect;
	smd_carried_trials.itself = true;
	return 0;
}

static int tear_down_itself(void **state)
{
	(void)state;
	smd_carried_trials.itself = false;
	return 0;
}

static void few_connect_at_once(void **state)
{
	struct pool pool;

	(void)state;
	start(&pool, "tcp", SMD_SHARDS_MAX, false, NULL);
	assert_int_equal(work(&pool, "carried", 60), 0);
	assert_in_range(smd_carried_trials.most, 2, 8);
	assert_int_equal(smd_carried_trials.answering, 0);
	pool_stop(&pool);
}

static void what_passes_is_tried_once_more_by_itself(void **state)
{
	static const int passes[] = {-EAGAIN, -EBUSY, -EIO};
	struct pool pool;

	(void)state;
	start(&pool, "tcp", 1, false, NULL);
	for (size_t i = 0; i < 1 + sizeof(passes) / sizeof(passes[0]); i++) {
		moods.err = i ? passes[i - 1] : 0;
		moods.workers = i > 0;
		smd_carried_trials.time_out = i == 0;
		capture_begin();
		assert_int_equal(work(&pool, "either", 60), 0);
		assert_true(capture_has("tries carried again: it is", NULL));
		assert_true(capture_has("shard 0: goes over carried", NULL));
		capture_end();
	}
	pool_stop(&pool);
}

/* A fabric that drops all, or a server without a device: one lane of each server finds it out. */
static void who_does_not_answer_is_asked_by_one_lane(void **state)
{
	enum { ALL = 1000, SERVERS = 8, SHARDS = 8 };
	struct smd_server_config configs[SERVERS];
	struct pool pool;

	(void)state;
	for (int i = 0; i < SERVERS; i++) {
		configs[i] = configure(SHARDS, false, NULL);
	}
	pool_start(&pool, "tcp", SERVERS, configs);
	smd_carried_trials.time_out = ALL;
	capture_begin();
	assert_int_equal(work(&pool, "either", 60), 0);
	assert_in_range(ALL - smd_carried_trials.time_out, 4, SERVERS * 2);
	assert_true(capture_has(
		"go over tcp: it does not answer over carried: it is to time out", "warn"));
	assert_true(capture_has(
		"nothing comes over carried from 2 servers: lanes to all servers go over tcp",
		"warn"));
	capture_end();
	pool_stop(&pool);
}

/* As one that is made over another is. */
static void what_has_worked_by_itself_is_tried_when_a_server_returns(void **state)
{
	what_has_worked_is_tried_when_a_server_returns(state);
}

/* As one that is made over another is. */
static void a_device_that_is_away_by_itself_is_tried_again(void **state)
{
	a_device_that_is_away_for_a_moment_is_tried_again(state);
}

/* One rank of two servers whose lanes have rested, and wake. */
struct woken {
	struct smd_server_config configs[2];
	struct pool pool;
	smd_context *context;
	smd_comm *comm;
};

static void woken_begin(struct woken *woken)
{
	struct smd_context_options options = {
		.replica = "worker", .job = "job", .transport = "either", .connect_timeout_s = 60};

	for (int i = 0; i < 2; i++) {
		woken->configs[i] = configure(1, false, NULL);
		woken->configs[i].idle_s = 1;
	}
	setenv("SUMMAND_HEARTBEAT_LIMIT", "3", 1);
	pool_start(&woken->pool, "tcp", 2, woken->configs);
	options.servers = woken->pool.list;
	capture_begin();
	assert_int_equal(smd_context_create(&options, &woken->context), 0);
	unsetenv("SUMMAND_HEARTBEAT_LIMIT");
	while (capture_count("is made again for the next group") < 2) {
		usleep(10000);
	}
}

static void woken_wake(struct woken *woken)
{
	assert_int_equal(smd_comm_create(woken->context, "group", 1, 0, &woken->comm), 0);
}

static void woken_end(struct woken *woken)
{
	smd_comm_destroy(woken->comm);
	smd_context_destroy(woken->context);
	capture_end();
	pool_stop(&woken->pool);
}

/* Such lanes may be as long in coming as they were at first, and are tried twice. */
static void lanes_that_wake_by_themselves_have_their_time(void **state)
{
	struct woken woken;

	(void)state;
	woken_begin(&woken);
	assert_int_equal(capture_count("goes over carried"), 2);
	smd_carried_trials.time_out = 1;
	smd_carried_trials.time_out_ms = 2000;
	woken_wake(&woken);
	assert_true(capture_has("tries carried again: it is to time out", NULL));
	assert_int_equal(capture_count("goes over carried"), 4);
	woken_end(&woken);
}

/* That lanes of another transport woke in a short time is nothing to a server that returns. */
static void a_server_that_returns_after_a_wake_has_its_time(void **state)
{
	struct woken woken;

	(void)state;
	moods.err = -EHOSTUNREACH;
	moods.workers = 2;
	woken_begin(&woken);
	assert_int_equal(capture_count("goes over tcp"), 2);
	woken_wake(&woken);
	smd_carried_trials.time_out = 1;
	smd_carried_trials.time_out_ms = 2000;
	return_server(&woken.pool, &woken.configs[0], 1);
	assert_true(capture_has("tries tcp after carried: it is to time out", NULL));
	woken_end(&woken);
}

/* The next transport must have its time, whatever the first one's patience is. */
static void half_of_the_time_is_left_for_others(void **state)
{
	enum { ALL = 1000 };
	struct pool pool;

	(void)state;
	start(&pool, "tcp", 2, false, NULL);
	smd_carried_trials.silent = ALL;
	capture_begin();
	assert_int_equal(work(&pool, "either", 2), 0);
	assert_true(capture_has(
		"tries tcp after carried: no answer within half of the time to connect", NULL));
	assert_int_equal(capture_count("goes over tcp"), 2);
	capture_end();
	smd_carried_trials.silent = 0;
	pool_stop(&pool);
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
	start(&pool, "tcp", 1, true, &one_token);
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
	start(&pool, "tcp", 1, true, &one_token);
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

#define TEST(test) cmocka_unit_test_setup(test, set_up)

#define ITSELF(test) cmocka_unit_test_setup_teardown(test, set_up_itself, tear_down_itself)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(lanes_go_over_to_what_they_carry),
		TEST(a_worker_says_of_which_kind_its_devices_are),
		TEST(few_are_made_at_once),
		TEST(a_carrier_that_is_not_there_is_not_its_transports_fault),
		TEST(what_times_out_is_tried_once_more),
		TEST(where_nothing_comes_the_others_are_spared),
		TEST(what_was_in_vain_is_not_tried_when_a_server_returns),
		TEST(what_has_worked_is_tried_when_a_server_returns),
		TEST(a_device_that_is_away_for_a_moment_is_tried_again),
		TEST(a_server_that_returns_is_reached_after_a_long_silence),
		TEST(where_nothing_comes_from_two_servers_the_others_are_spared),
		TEST(what_is_late_before_it_is_offered_is_tried_once_more),
		TEST(what_passes_is_tried_once_more),
		TEST(a_device_that_lets_nobody_in_is_done_without),
		TEST(what_its_own_device_lacks_is_told_once),
		TEST(a_server_that_makes_none_says_so),
		TEST(one_that_takes_both_takes_both),
		TEST(mixed_lanes_are_told),
		TEST(mixed_lanes_of_a_server_that_returns_are_told),
		TEST(silent_servers_keep_nobody_waiting),
		ITSELF(few_connect_at_once),
		ITSELF(what_passes_is_tried_once_more_by_itself),
		ITSELF(who_does_not_answer_is_asked_by_one_lane),
		ITSELF(what_has_worked_by_itself_is_tried_when_a_server_returns),
		ITSELF(a_device_that_is_away_by_itself_is_tried_again),
		ITSELF(lanes_that_wake_by_themselves_have_their_time),
		ITSELF(a_server_that_returns_after_a_wake_has_its_time),
		ITSELF(half_of_the_time_is_left_for_others),
		TEST(one_that_takes_no_other_lanes_refuses_them),
		TEST(offers_are_proved),
		TEST(nothing_else_answers_an_offer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
