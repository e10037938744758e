/*
 * A context that is in no group for long: the server ends its lanes and says why, and the next
 * group finds them made again. Whoever is in a group is left alone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/allreduce/capture.h"
#include "tests/unit/allreduce/fixture.h"
#include "tests/unit/allreduce/raw.h"

enum { RANKS = 2, SERVERS = 2, IDLE_S = 1 };

static const struct smd_server_config soon[SERVERS] = {
	{.shards = 2, .idle_s = IDLE_S}, {.shards = 2, .idle_s = IDLE_S}};

static void add_up(smd_comm *comm, int nranks)
{
	int32_t values[3] = {1, 2, 3};

	CHECK(smd_allreduce(comm, values, values, 3, SMD_INT32, SMD_SUM) == 0);
	CHECK(values[0] == nranks && values[1] == 2 * nranks && values[2] == 3 * nranks);
}

/* ---- a pause between two groups ---- */

static void pause_between_groups(struct pool_rank *rank)
{
	smd_comm *comm;

	add_up(rank->comm, rank->nranks);
	smd_comm_destroy(rank->comm);
	sleep(IDLE_S + 2); /* the server looks once a second */
	CHECK(smd_comm_create(rank->context, "second", rank->nranks, rank->rank, &rank->comm) == 0);
	add_up(rank->comm, rank->nranks);
	CHECK(smd_comm_create(rank->context, "third", rank->nranks, rank->rank, &comm) == 0);
	add_up(comm, rank->nranks);
	smd_comm_destroy(comm);
}

static void pause_over(const char *transport)
{
	struct pool pool;

	pool_start(&pool, transport, SERVERS, soon);
	pool_run(&pool, RANKS, "first", pause_between_groups, NULL);
	capture_await("it has been in no group for ", "is made again for the next group");
	pool_stop(&pool);
}

static void the_next_group_connects_again(void **state)
{
	(void)state;
	pause_over("tcp");
	pause_over("loopback");
}

/* Nobody reads what the server says before the next call. */
static void so_it_does_without_a_thread(void **state)
{
	(void)state;
	setenv("SUMMAND_PROGRESS", "poll", 1);
	pause_over("tcp");
	unsetenv("SUMMAND_PROGRESS");
}

/* ---- a group that works seldom ---- */

static void work_seldom(struct pool_rank *rank)
{
	add_up(rank->comm, rank->nranks);
	sleep(IDLE_S + 2);
	add_up(rank->comm, rank->nranks);
}

static void a_group_may_be_idle(void **state)
{
	struct pool pool;

	(void)state;
	pool_start(&pool, "tcp", SERVERS, soon);
	pool_run(&pool, RANKS, "seldom", work_seldom, NULL);
	pool_stop(&pool);
}

/* ---- servers that stand still meanwhile ---- */

/* Whose machine takes connections, and nothing that is said there. */
static int stand_still(struct pool *pool, unsigned server)
{
	struct sockaddr_in name = {.sin_family = AF_INET};
	const char *port = strrchr(pool->servers[server].address, ':') + 1;
	const int yes = 1;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	pool_end_server(pool, server, 1);
	name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	name.sin_port = htons((uint16_t)atoi(port));
	CHECK(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) == 0);
	CHECK(bind(fd, (struct sockaddr *)&name, sizeof(name)) == 0);
	CHECK(listen(fd, 64) == 0);
	return fd;
}

struct standstill {
	struct pool *pool;
	int sockets[2];
	pthread_barrier_t all;
};

static void begin_again_without_two(struct pool_rank *rank)
{
	struct standstill *standstill = rank->argument;

	add_up(rank->comm, rank->nranks);
	smd_comm_destroy(rank->comm);
	sleep(IDLE_S + 2);
	if (rank->rank == 0) {
		standstill->sockets[0] = stand_still(standstill->pool, 0);
		standstill->sockets[1] = stand_still(standstill->pool, 2);
	}
	pthread_barrier_wait(&standstill->all);
	CHECK(smd_comm_create(rank->context, "second", rank->nranks, rank->rank, &rank->comm) == 0);
	add_up(rank->comm, rank->nranks);
}

/* After the limit of silence, and both at once: the next group does not wait for as long as a
 * process may take to connect. */
static void servers_that_stand_still_are_lost(void **state)
{
	const struct smd_server_config configs[3] = {soon[0], soon[0], soon[0]};
	struct standstill standstill;
	struct pool pool;

	(void)state;
	setenv("SUMMAND_HEARTBEAT_LIMIT", "3", 1);
	standstill.pool = &pool;
	pthread_barrier_init(&standstill.all, NULL, RANKS);
	pool_start(&pool, "tcp", 3, configs);
	pool_run(&pool, RANKS, "first", begin_again_without_two, &standstill);
	capture_await("could not be reached within 3 s", "1 of 3 reduction servers go on");
	close(standstill.sockets[0]);
	close(standstill.sockets[1]);
	pool_stop(&pool);
	pthread_barrier_destroy(&standstill.all);
	unsetenv("SUMMAND_HEARTBEAT_LIMIT");
}

/* ---- a server that is there again, and that one rank cannot reach for long ---- */

enum { RETURNED = 1 };

struct return_seen {
	void (*meet)(struct pool_rank *rank);
	struct pool *pool;
	pthread_barrier_t all;
};

static void work_until(struct pool_rank *rank, const char *text, const char *other)
{
	int32_t more = 1;

	while (more) {
		add_up(rank->comm, rank->nranks);
		more = rank->rank == 0 && !capture_has(text, other);
		CHECK(smd_broadcast(rank->comm, &more, 1, SMD_INT32, 0) == 0);
		usleep(1000);
	}
}

static void lose_and_restart(struct pool_rank *rank, struct pool *pool)
{
	if (rank->rank == 0) {
		pool_end_server(pool, RETURNED, 1);
	}
	work_until(rank, "1 of 2 reduction servers go on", NULL);
	if (rank->rank == 0) {
		pool_restart_server(pool, RETURNED, &soon[RETURNED]);
	}
}

/* Rank 1 reads nothing before its next call, and so does not know that the server is there. */
static void meet_a_server_again(struct pool_rank *rank)
{
	struct return_seen *seen = rank->argument;

	lose_and_restart(rank, seen->pool);
	if (rank->rank == 0) {
		sleep(IDLE_S + 2);
	}
	pthread_barrier_wait(&seen->all);
	work_until(rank, "is there and serves again", "2 of 2");
}

/* Turns the loop of a rank that calls nothing of the group until the server is there for so many. */
static void call_until_there(struct pool_rank *rank, unsigned ranks)
{
	smd_comm *own;

	CHECK(smd_comm_create(rank->context, rank->rank ? "own-1" : "own-0", 1, 0, &own) == 0);
	while (capture_count("is there again") < ranks) {
		add_up(own, 1);
		usleep(1000);
	}
	smd_comm_destroy(own);
}

/* Rank 0, too. Its lanes to the server have rested when it hears that the other reaches it. */
static void meet_a_server_that_rests(struct pool_rank *rank)
{
	struct return_seen *seen = rank->argument;

	lose_and_restart(rank, seen->pool);
	if (rank->rank == 0) {
		call_until_there(rank, 1);
	}
	pthread_barrier_wait(&seen->all);
	if (rank->rank == 1) {
		call_until_there(rank, 2);
		sleep(IDLE_S + 2);
	}
	pthread_barrier_wait(&seen->all);
	work_until(rank, "of servers that are there again too", "group meet");
	for (int k = 0; k < 100; k++) { /* and stays */
		add_up(rank->comm, rank->nranks);
	}
}

static void *meet(void *arg)
{
	struct pool_rank *rank = arg;
	struct return_seen *seen = rank->argument;

	CHECK(smd_comm_create(
		      rank->context, "meet", rank->nranks, rank->rank, &rank->comm) == 0);
	seen->meet(rank);
	smd_comm_destroy(rank->comm);
	return NULL;
}

static void meet_again(void (*body)(struct pool_rank *rank), const bool polls[RANKS])
{
	struct return_seen seen = {.meet = body};
	struct pool_rank ranks[RANKS];
	pthread_t threads[RANKS];
	struct pool pool;

	seen.pool = &pool;
	pthread_barrier_init(&seen.all, NULL, RANKS);
	pool_start(&pool, "tcp", SERVERS, soon);
	for (int r = 0; r < RANKS; r++) {
		ranks[r] = (struct pool_rank){
			.pool = &pool, .rank = r, .nranks = RANKS, .argument = &seen};
		if (polls[r]) {
			setenv("SUMMAND_PROGRESS", "poll", 1);
		}
		ranks[r].context = pool_context(&pool, r);
		unsetenv("SUMMAND_PROGRESS");
		CHECK(pthread_create(&threads[r], NULL, meet, &ranks[r]) == 0);
	}
	for (int r = 0; r < RANKS; r++) {
		pthread_join(threads[r], NULL);
		smd_context_destroy(ranks[r].context);
	}
	pool_stop(&pool);
	pthread_barrier_destroy(&seen.all);
}

static void a_server_that_one_reaches_late_is_kept(void **state)
{
	(void)state;
	meet_again(meet_a_server_again, (const bool[]){false, true});
	capture_end();
	capture_begin();
	meet_again(meet_a_server_that_rests, (const bool[]){true, true});
	assert_int_equal(capture_count("was lost"), RANKS); /* once each, and never again */
}

/* ---- the server is not the same any more ---- */

#define RESTS "it is made again for the next group"

static void a_server_that_is_gone_is_named(void **state)
{
	unsigned rested = capture_count(RESTS);
	const struct smd_context_options options = {
		.replica = "w0", .job = "test", .transport = "tcp", .connect_timeout_s = 1};
	struct smd_context_options with = options;
	smd_context *context;
	struct pool pool;
	smd_comm *comm;

	(void)state;
	pool_start(&pool, "tcp", 1, soon);
	with.servers = pool.list;
	assert_int_equal(smd_context_create(&with, &context), 0);
	while (capture_count(RESTS) < rested + soon[0].shards) { /* the lanes are lost, else */
		usleep(2000);
	}
	pool_stop(&pool);
	assert_int_equal(smd_comm_create(context, "late", 1, 0, &comm), -ECONNREFUSED);
	assert_non_null(strstr(smd_error_message(), pool.servers[0].address));
	assert_non_null(strstr(smd_error_message(), "could not be reached within 1 s"));
	smd_context_destroy(context);
}

/* Says WELCOME and, to the first frame after it, IDLE; twice, as two servers or as one. */
struct drowsy {
	int listener;
	bool replaced;
};

static void *serve_drowsily(void *arg)
{
	const struct drowsy *drowsy = arg;
	static const char text[] = "nobody is here";
	uint8_t payload[SMD_CONTROL_MAX];

	for (unsigned lane = 0; lane < 2; lane++) {
		const struct smd_welcome welcome = {.server_id = 1 + (drowsy->replaced ? lane : 0),
			.shards = 1,
			.chunk_bytes = 4096,
			.weight = 100};
		struct raw raw = {.payload = malloc(SMD_CHUNK_LIMIT + 1)};

		raw.fd = accept(drowsy->listener, NULL, NULL);
		CHECK(raw.fd >= 0);
		raw_expect(&raw, SMD_FRAME_HELLO);
		raw_send(&raw, (struct smd_frame){.kind = SMD_FRAME_WELCOME}, payload,
			smd_welcome_encode(&welcome, payload));
		if (lane == 0 || !drowsy->replaced) {
			raw_expect(&raw, SMD_FRAME_JOIN);
			raw_send(&raw, (struct smd_frame){.kind = SMD_FRAME_IDLE}, text,
				strlen(text));
		}
		raw_expect_end(&raw);
		raw_close(&raw);
	}
	return NULL;
}

static void ask_a_drowsy_server(bool replaced, int err, const char *reason)
{
	struct sockaddr_in name = {.sin_family = AF_INET};
	struct drowsy drowsy = {.replaced = replaced};
	socklen_t size = sizeof(name);
	char address[64];
	const struct smd_context_options options = {.servers = address,
		.replica = "w0",
		.job = "test",
		.transport = "tcp",
		.connect_timeout_s = 60};
	smd_context *context;
	pthread_t thread;
	smd_comm *comm;

	name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	drowsy.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(drowsy.listener, (struct sockaddr *)&name, sizeof(name)), 0);
	assert_int_equal(listen(drowsy.listener, 2), 0);
	assert_int_equal(getsockname(drowsy.listener, (struct sockaddr *)&name, &size), 0);
	snprintf(address, sizeof(address), "127.0.0.1:%u", ntohs(name.sin_port));
	assert_int_equal(pthread_create(&thread, NULL, serve_drowsily, &drowsy), 0);
	assert_int_equal(smd_context_create(&options, &context), 0);
	assert_int_equal(smd_comm_create(context, "one", 1, 0, &comm), err);
	assert_non_null(strstr(smd_error_message(), reason));
	smd_context_destroy(context);
	pthread_join(thread, NULL);
	close(drowsy.listener);
}

/* It may have ended the lane while JOIN was under way, once. */
static void a_server_that_goes_on_to_be_idle_is_given_up(void **state)
{
	(void)state;
	ask_a_drowsy_server(false, -EPROTO, "IDLE: must not be said while a group uses it");
}

static void another_server_in_its_place_is_told(void **state)
{
	(void)state;
	ask_a_drowsy_server(true, -ECONNRESET,
		"was replaced by another while no group used it: a new context can use that one");
}

static void the_lane_is_told_why_it_ends(void **state)
{
	struct pool pool;
	struct raw raw;

	(void)state;
	pool_start(&pool, "tcp", 1, soon);
	raw_open(&raw, &pool, 0);
	raw_greet(&raw, "idle");
	raw_expect_text(&raw, SMD_FRAME_IDLE, "it has been in no group for ");
	raw_expect_end(&raw);
	raw_close(&raw);
	pool_stop(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_next_group_connects_again),
		cmocka_unit_test(so_it_does_without_a_thread),
		cmocka_unit_test(a_group_may_be_idle),
		cmocka_unit_test(servers_that_stand_still_are_lost),
		cmocka_unit_test(a_server_that_one_reaches_late_is_kept),
		cmocka_unit_test(a_server_that_is_gone_is_named),
		cmocka_unit_test(a_server_that_goes_on_to_be_idle_is_given_up),
		cmocka_unit_test(another_server_in_its_place_is_told),
		cmocka_unit_test(the_lane_is_told_why_it_ends),
	};

	return cmocka_run_group_tests(tests, capture_set_up, capture_tear_down);
}
