/*
 * Servers that are there and do nothing: each wait for one ends, in a bounded time, with an error
 * that names it. And servers that wait for a late rank, which are not taken for such.
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

#include "reduction_server/transport/heartbeat.h"
#include "tests/unit/allreduce/capture.h"
#include "tests/unit/allreduce/fixture.h"
#include "tests/unit/allreduce/raw.h"

/* A second of a limit, so that the tests wait for parts of seconds. */
#define SECOND_MS 60u

/* How far a false server goes; it answers PING all the time. */
enum progress { TAKES_HELLO_AND_DIES, TAKES_HELLO, SAYS_WELCOME, SAYS_JOINED };

struct stuck_server {
	enum progress progress;
	int listener;
	unsigned attempts; /* connections that came */
	char address[64];
	pthread_t thread;
};

static void say_welcome(struct raw *raw)
{
	const struct smd_welcome welcome = {
		.server_id = 77, .shards = 1, .chunk_bytes = 4096, .weight = 100};
	uint8_t payload[SMD_CONTROL_MAX];

	raw_send(raw, (struct smd_frame){.kind = SMD_FRAME_WELCOME}, payload,
		smd_welcome_encode(&welcome, payload));
}

static void serve_lane(const struct stuck_server *server, struct raw *raw)
{
	while (raw_receive(raw)) {
		struct smd_frame frame = raw->frame;

		if (frame.kind == SMD_FRAME_HELLO && server->progress == TAKES_HELLO_AND_DIES) {
			return;
		}
		if (frame.kind == SMD_FRAME_HELLO && server->progress >= SAYS_WELCOME) {
			say_welcome(raw);
		}
		if (frame.kind == SMD_FRAME_JOIN && server->progress >= SAYS_JOINED) {
			frame.kind = SMD_FRAME_JOINED;
			frame.window = 1;
			raw_send(raw, frame, NULL, 0);
		}
	}
}

static void *serve(void *arg)
{
	struct stuck_server *server = arg;

	for (;;) {
		struct raw raw = {.payload = malloc(SMD_CHUNK_LIMIT + 1)};

		raw.fd = accept(server->listener, NULL, NULL);
		if (raw.fd < 0) {
			free(raw.payload);
			return NULL;
		}
		server->attempts++;
		serve_lane(server, &raw);
		raw_close(&raw);
	}
}

static void stuck_start(struct stuck_server *server, enum progress progress)
{
	struct sockaddr_in name = {.sin_family = AF_INET};
	socklen_t size = sizeof(name);

	*server = (struct stuck_server){.progress = progress};
	name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	server->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(server->listener >= 0);
	assert_int_equal(bind(server->listener, (struct sockaddr *)&name, sizeof(name)), 0);
	assert_int_equal(listen(server->listener, 8), 0);
	assert_int_equal(getsockname(server->listener, (struct sockaddr *)&name, &size), 0);
	snprintf(server->address, sizeof(server->address), "127.0.0.1:%u", ntohs(name.sin_port));
	assert_int_equal(pthread_create(&server->thread, NULL, serve, server), 0);
}

static void stuck_stop(struct stuck_server *server)
{
	assert_int_equal(shutdown(server->listener, SHUT_RDWR), 0);
	pthread_join(server->thread, NULL);
	close(server->listener);
}

static void assert_names(const struct stuck_server *server, const char *what)
{
	char text[300];

	snprintf(text, sizeof(text), "reduction server %s %s", server->address, what);
	if (!strstr(smd_error_message(), text)) {
		fail_msg("expected \"%s\" in \"%s\"", text, smd_error_message());
	}
}

static int connect_to(const char *servers, unsigned timeout_s, smd_context **context)
{
	const struct smd_context_options options = {.servers = servers,
		.replica = "worker",
		.job = "test",
		.transport = "tcp",
		.connect_timeout_s = timeout_s};

	return smd_context_create(&options, context);
}

static void a_server_that_says_no_welcome(void **state)
{
	struct stuck_server server;
	smd_context *context;

	(void)state;
	stuck_start(&server, TAKES_HELLO);
	assert_int_equal(connect_to(server.address, 1, &context), -ETIMEDOUT);
	assert_names(&server,
		"could not be reached within 1 s: it takes the connection and does not answer "
		"HELLO");
	stuck_stop(&server);
}

/* It may be coming up again, so it is tried for as long as there is time. */
static void a_server_that_dies_in_hello(void **state)
{
	struct stuck_server server;
	smd_context *context;

	(void)state;
	stuck_start(&server, TAKES_HELLO_AND_DIES);
	assert_int_equal(connect_to(server.address, 1, &context), -ETIMEDOUT);
	assert_names(&server,
		"could not be reached within 1 s: it took the connection and ended it at HELLO: ");
	stuck_stop(&server);
	assert_true(server.attempts > 2);
}

static void a_server_that_grants_nothing(void **state)
{
	struct stuck_server server;
	smd_context *context;
	smd_comm *comm;

	(void)state;
	stuck_start(&server, SAYS_WELCOME);
	assert_int_equal(connect_to(server.address, 60, &context), 0);
	assert_int_equal(smd_comm_create(context, "stuck", 2, 0, &comm), -ECONNRESET);
	assert_names(&server,
		"was lost: it answers, but for 25 s it has neither worked nor said who is late");
	smd_context_destroy(context);
	stuck_stop(&server);
}

/* The others have said what they wait for, and it is not their doing. */
static void a_server_that_grants_nothing_in_time(void **state)
{
	struct stuck_server server;
	struct pool pool;
	char both[256];
	smd_context *context;
	smd_comm *comm;

	(void)state;
	pool_start(&pool, "tcp", 1, NULL);
	stuck_start(&server, SAYS_WELCOME);
	snprintf(both, sizeof(both), "%s,%s", pool.list, server.address);
	assert_int_equal(connect_to(both, 1, &context), 0);
	assert_int_equal(smd_comm_create(context, "stuck", 1, 0, &comm), -ETIMEDOUT);
	assert_names(&server, "has said nothing about it");
	smd_context_destroy(context);
	stuck_stop(&server);
	pool_stop(&pool);
}

static void a_server_that_delivers_nothing(void **state)
{
	int32_t values[4] = {0};
	struct stuck_server server;
	smd_context *context;
	smd_comm *comm;

	(void)state;
	stuck_start(&server, SAYS_JOINED);
	assert_int_equal(connect_to(server.address, 10, &context), 0);
	assert_int_equal(smd_comm_create(context, "stuck", 1, 0, &comm), 0);
	assert_int_equal(smd_allreduce(comm, values, values, 4, SMD_INT32, SMD_SUM), -ECONNRESET);
	assert_names(&server,
		"was lost: it answers, but for 25 s it has neither worked nor said who is late");
	smd_comm_destroy(comm);
	smd_context_destroy(context);
	stuck_stop(&server);
}

/* Longer than a server may do nothing; it says all the while who is late. */
static void come_late(struct pool_rank *rank)
{
	int32_t value = 1;

	if (rank->rank == 1) {
		usleep(2 * 35 * SECOND_MS * 1000);
	}
	CHECK(smd_allreduce(rank->comm, &value, &value, 1, SMD_INT32, SMD_SUM) == 0);
	CHECK(value == 2);
}

static void a_server_that_waits_for_a_rank_is_no_such(void **state)
{
	const struct smd_server_config config = {.shards = 1, .late_s = 1};
	struct pool pool;

	(void)state;
	pool_start(&pool, "tcp", 1, &config);
	pool_run(&pool, 2, "late", come_late, NULL);
	pool_stop(&pool);
}

struct waiting {
	const struct pool *pool;
	int rank;
	smd_context *context;
	pthread_t thread;
};

static void *join_and_reduce(void *arg)
{
	const struct waiting *self = arg;
	int32_t value = 1;
	smd_comm *comm;

	CHECK(smd_comm_create(self->context, "cut", 3, self->rank, &comm) == 0);
	CHECK(smd_allreduce(comm, &value, &value, 1, SMD_INT32, SMD_SUM) == 0);
	CHECK(value == 3);
	smd_comm_destroy(comm);
	return NULL;
}

/* It has nothing to say of a group that one rank has lost it in: the others wait for the last rank
 * elsewhere. */
static void a_server_that_a_rank_has_lost_is_no_such(void **state)
{
	struct waiting ranks[3];
	struct pool pool;

	(void)state;
	pool_start(&pool, "tcp", 2, NULL);
	for (int r = 0; r < 3; r++) {
		ranks[r] = (struct waiting){
			.pool = &pool, .rank = r, .context = pool_context(&pool, r)};
	}
	for (int r = 0; r < 2; r++) {
		CHECK(pthread_create(&ranks[r].thread, NULL, join_and_reduce, &ranks[r]) == 0);
	}
	usleep(500000); /* they have said JOIN */
	pool_lose(ranks[1].context, 1);
	usleep(2 * 35 * SECOND_MS * 1000);
	assert_false(capture_has("has neither worked nor said who is late", NULL));
	CHECK(pthread_create(&ranks[2].thread, NULL, join_and_reduce, &ranks[2]) == 0);
	for (int r = 0; r < 3; r++) {
		pthread_join(ranks[r].thread, NULL);
		smd_context_destroy(ranks[r].context);
	}
	pool_stop(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_server_that_says_no_welcome),
		cmocka_unit_test(a_server_that_dies_in_hello),
		cmocka_unit_test(a_server_that_grants_nothing),
		cmocka_unit_test(a_server_that_grants_nothing_in_time),
		cmocka_unit_test(a_server_that_delivers_nothing),
		cmocka_unit_test(a_server_that_waits_for_a_rank_is_no_such),
		cmocka_unit_test_setup_teardown(a_server_that_a_rank_has_lost_is_no_such,
			capture_set_up, capture_tear_down),
	};

	smd_heartbeat_second_ms = SECOND_MS;
	setenv("SUMMAND_ZERO_BLOCKS", "off", 1); /* the servers here know no maps of them */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
