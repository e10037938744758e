/*
 * Memory runs out while things are set up: each allocation of a reduction server and of a worker
 * fails once, in turn. What was asked for is then there all the same, or ends in an error with a
 * text; nothing crashes, hangs or leaks, and a job that has nothing to do with it goes on.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <event2/event.h>
#include <event2/thread.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/transport/loop.h"
#include "tests/unit/allreduce/fixture.h"
#include "tests/unit/shortage/shortage.h"

#define COUNT      1000
#define PATIENCE_S 120                  /* of a worker; nobody needs it */
#define ROUND_NS   (20 * SMD_SECOND_NS) /* a round that takes longer waits for what will not come */

static char every[] = "token";
static struct smd_tokens tokens = {.every = every};

/* ---- a server ---- */

static void ended(void *owner)
{
	event_base_loopbreak(owner);
}

/* Starts one and ends it: 0, or -errno with a text. */
static int server_once(const char *transport, bool encrypt)
{
	static int counter;
	struct event_base *base = smd_loop_create();
	struct smd_server_config config = {
		.transports = {{smd_transport_find(transport), true}},
		.shards = 2,
		.memory_bytes = 32u << 20,
		.tokens = &tokens,
		.encrypt = encrypt,
		.on_ended = ended,
		.owner = base,
	};
	struct smd_shard_stats stats;
	struct smd_error error = {""};
	struct smd_server *server;
	char address[64];
	int ret;

	if (!base) {
		return -ENOMEM;
	}
	snprintf(address, sizeof(address), "loopback:shortage-%d", counter++);
	config.listen = strcmp(transport, "tcp") == 0 ? "127.0.0.1:0" : address;
	ret = smd_server_start(base, &config, &server, &error);
	if (ret == 0) {
		smd_server_drain(server, true);
		smd_server_join(server, &stats);
		event_base_loop(base, EVLOOP_NONBLOCK);
		smd_server_free(server);
	} else {
		assert_true(error.text[0] != '\0');
	}
	smd_loop_free(base);
	return ret;
}

static void check_server(const char *transport, bool encrypt, long step)
{
	bool failed = true;
	long n = 0;

	assert_int_equal(server_once(transport, encrypt), 0);
	for (; failed; n += step) {
		uint64_t begin = smd_clock_ns();
		int ret;

		shortage_begin(n);
		ret = server_once(transport, encrypt);
		failed = shortage_end();
		assert_true(ret == 0 || (failed && ret < 0));
		assert_true(smd_clock_ns() - begin < ROUND_NS);
	}
	print_message("%ld allocations\n", n);
	assert_true(n > 20);
}

static void a_server_over_tcp(void **state)
{
	(void)state;
	check_server("tcp", false, 1);
}

static void a_server_over_loopback(void **state)
{
	(void)state;
	check_server("loopback", false, 1);
}

#ifdef SMD_TLS
static void a_server_over_tls(void **state)
{
	(void)state;
	check_server("tcp", true, 1);
}
#endif

/* ---- a worker ---- */

static int context_of(const struct pool *pool, const char *job, smd_context **out)
{
	const struct smd_context_options options = {
		.servers = pool->list,
		.replica = "worker",
		.job = job,
		.transport = pool->transport,
		.connect_timeout_s = PATIENCE_S,
	};

	return smd_context_create(&options, out);
}

static int reduce(smd_comm *comm)
{
	float values[COUNT];
	int ret;

	for (int i = 0; i < COUNT; i++) {
		values[i] = (float)i;
	}
	ret = smd_allreduce(comm, values, values, COUNT, SMD_FLOAT32, SMD_SUM);
	for (int i = 0; ret == 0 && i < COUNT; i++) {
		assert_true(values[i] == (float)i);
	}
	return ret;
}

/* From the context to the first sum, and the end of it. */
static int worker_once(const struct pool *pool)
{
	smd_context *context = NULL;
	smd_comm *comm = NULL;
	int ret = context_of(pool, "short", &context);

	if (ret) {
		return ret;
	}
	ret = smd_comm_create(context, "group", 1, 0, &comm);
	if (ret == 0) {
		ret = reduce(comm);
		smd_comm_destroy(comm);
	}
	smd_context_destroy(context);
	return ret;
}

/* The server is in this process too, so allocations of both ends fail. Another job is on it all the
 * time. */
static void check_worker(const char *transport, bool encrypt, const char *file, long step)
{
	const struct smd_server_config config = {
		.shards = 2, .tokens = &tokens, .encrypt = encrypt};
	smd_context *context;
	smd_comm *comm;
	struct pool pool;
	bool failed = true;
	long n = 0;

	pool_start(&pool, transport, 1, &config);
	assert_int_equal(context_of(&pool, "other", &context), 0);
	assert_int_equal(smd_comm_create(context, "group", 1, 0, &comm), 0);
	assert_int_equal(worker_once(&pool), 0);
	for (; failed; n += step) {
		uint64_t begin = smd_clock_ns();
		int ret;

		shortage_begin_in(file, n);
		ret = worker_once(&pool);
		failed = shortage_end();
		if (ret && (!failed || smd_error_message()[0] == '\0')) {
			fail_msg("allocation %ld: %d, %s", n, ret, smd_error_message());
		}
		if (smd_clock_ns() - begin > ROUND_NS) {
			fail_msg("allocation %ld: %llu ms", n,
				(unsigned long long)(smd_clock_ns() - begin) / 1000000);
		}
		ret = reduce(comm);
		if (ret) {
			fail_msg("allocation %ld: the other job: %s", n, smd_error_message());
		}
	}
	print_message("%ld allocations\n", n);
	assert_true(file || n > 50); /* OpenSSL may be built without the names of its files */
	smd_comm_destroy(comm);
	smd_context_destroy(context);
	pool_stop(&pool);
}

static void a_worker_over_tcp(void **state)
{
	(void)state;
	check_worker("tcp", false, NULL, 1);
}

static void a_worker_over_loopback(void **state)
{
	(void)state;
	check_worker("loopback", false, NULL, 1);
}

#ifdef SMD_TLS
static void a_worker_over_tls(void **state)
{
	(void)state;
	setenv("SUMMAND_TLS", "1", 1);
	check_worker("tcp", true, NULL, 23); /* of some thousands, which are OpenSSL's */
	unsetenv("SUMMAND_TLS");
}

/* Lists are in particular what OpenSSL keeps for a connection's owner, who finds himself there. */
static void a_worker_over_tls_without_memory_for_lists(void **state)
{
	(void)state;
	setenv("SUMMAND_TLS", "1", 1);
	check_worker("tcp", true, "/stack.c", 1);
	unsetenv("SUMMAND_TLS");
}
#endif

static int write_token(void **state)
{
	static char path[] = "/tmp/summand-token-XXXXXX";
	int fd = mkstemp(path);

	*state = path;
	assert_int_equal(write(fd, every, strlen(every)), strlen(every));
	close(fd);
	return setenv("SUMMAND_TOKEN_FILE", path, 1);
}

static int remove_token(void **state)
{
	unsetenv("SUMMAND_TOKEN_FILE");
	return unlink(*state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_server_over_tcp),
		cmocka_unit_test(a_server_over_loopback),
		cmocka_unit_test(a_worker_over_tcp),
		cmocka_unit_test(a_worker_over_loopback),
#ifdef SMD_TLS
		cmocka_unit_test(a_server_over_tls),
		cmocka_unit_test(a_worker_over_tls),
		cmocka_unit_test(a_worker_over_tls_without_memory_for_lists),
#endif
	};

	shortage_watch_libraries();
	evthread_use_pthreads();
	return cmocka_run_group_tests_name("set_up", tests, write_token, remove_token);
}
