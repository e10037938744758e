/*
 * Servers that go by a name: a resolver that does not answer keeps nobody waiting but those who
 * connect, what it has said once is used again, and it is asked again where that was of no use.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "reduction_server/transport/heartbeat.h"
#include "tests/unit/allreduce/fixture.h"

/* The resolver: it knows one name, and says nothing while it is mute. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool mute;
static bool fails;
static unsigned asked;
static unsigned answered;

int __real_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
	struct addrinfo **out);
int __wrap_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
	struct addrinfo **out);

int __wrap_getaddrinfo(
	const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **out)
{
	bool failed;

	if (!host || strcmp(host, "reducer.test") != 0) {
		return __real_getaddrinfo(host, service, hints, out);
	}
	if (hints->ai_flags & AI_NUMERICHOST) {
		return EAI_NONAME;
	}
	pthread_mutex_lock(&lock);
	asked++;
	pthread_cond_broadcast(&changed);
	while (mute) {
		pthread_cond_wait(&changed, &lock);
	}
	answered++;
	failed = fails;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	return failed ? EAI_AGAIN : __real_getaddrinfo("127.0.0.1", service, hints, out);
}

static void set(bool *what, bool value)
{
	pthread_mutex_lock(&lock);
	*what = value;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

static void wait_for(const unsigned *count, unsigned wanted)
{
	pthread_mutex_lock(&lock);
	while (*count < wanted) {
		pthread_cond_wait(&changed, &lock);
	}
	pthread_mutex_unlock(&lock);
}

static unsigned asked_so_far(void)
{
	unsigned n;

	pthread_mutex_lock(&lock);
	n = asked;
	pthread_mutex_unlock(&lock);
	return n;
}

static struct pool pool;
static char server[64]; /* by its name */

static int set_up(void **state)
{
	const struct smd_server_config config = {.shards = 2, .idle_s = 1};

	(void)state;
	asked = 0;
	answered = 0;
	mute = false;
	fails = false;
	pool_start(&pool, "tcp", 1, &config);
	snprintf(server, sizeof(server), "reducer.test%s", strrchr(pool.servers[0].address, ':'));
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	pool_stop(&pool);
	return 0;
}

static int connect_to(const char *servers, unsigned timeout_s, smd_context **out)
{
	const struct smd_context_options options = {.servers = servers,
		.replica = "worker",
		.job = "test",
		.transport = "tcp",
		.connect_timeout_s = timeout_s};

	return smd_context_create(&options, out);
}

/* The call ends in its time, though the resolver never lets go of it. */
static void a_mute_resolver_holds_nobody(void **state)
{
	smd_context *context;

	(void)state;
	set(&mute, true);
	assert_int_equal(connect_to(server, 1, &context), -ETIMEDOUT);
	assert_non_null(strstr(smd_error_message(), server));
	assert_non_null(strstr(smd_error_message(),
		"could not be reached within 1 s: its name is still being looked up"));
	assert_int_equal(asked_so_far(), 1);
	set(&mute, false);
	wait_for(&answered, 1);
	usleep(100000); /* its thread ends, with nobody to tell */
}

static void *connect_late(void *arg)
{
	CHECK(connect_to(server, 20, arg) == 0);
	return NULL;
}

static void use(smd_context *context, const char *group)
{
	int32_t value = 3;
	smd_comm *comm;

	assert_int_equal(smd_comm_create(context, group, 1, 0, &comm), 0);
	assert_int_equal(smd_allreduce(comm, &value, &value, 1, SMD_INT32, SMD_SUM), 0);
	smd_comm_destroy(comm);
}

/* It has one lookup for all lanes, and for those that are made again. */
static void an_address_is_kept(void **state)
{
	smd_context *context;
	pthread_t thread;

	(void)state;
	set(&mute, true);
	assert_int_equal(pthread_create(&thread, NULL, connect_late, &context), 0);
	wait_for(&asked, 1);
	set(&mute, false);
	pthread_join(thread, NULL);
	use(context, "first");
	set(&mute, true);
	usleep(1400000); /* the server ends lanes that no group uses */
	use(context, "second");
	smd_context_destroy(context);
	assert_int_equal(asked_so_far(), 1);
	set(&mute, false);
	pool_end_server(&pool, 0, 0);
	assert_true(pool.servers[0].stats.lanes > 2);
}

static void what_is_of_no_use_is_asked_again(void **state)
{
	smd_context *context;

	(void)state;
	assert_int_equal(connect_to("reducer.test:1", 1, &context), -ECONNREFUSED);
	assert_true(asked_so_far() > 1);
}

static void a_failed_lookup_is_tried_again(void **state)
{
	smd_context *context;
	pthread_t thread;

	(void)state;
	set(&fails, true);
	assert_int_equal(connect_to(server, 1, &context), -ETIMEDOUT);
	assert_non_null(strstr(smd_error_message(), "cannot resolve the host: "));
	assert_int_equal(pthread_create(&thread, NULL, connect_late, &context), 0);
	wait_for(&answered, asked_so_far() + 1);
	set(&fails, false);
	pthread_join(thread, NULL);
	use(context, "late");
	smd_context_destroy(context);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_mute_resolver_holds_nobody, set_up, tear_down),
		cmocka_unit_test_setup_teardown(an_address_is_kept, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			what_is_of_no_use_is_asked_again, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_failed_lookup_is_tried_again, set_up, tear_down),
	};

	smd_heartbeat_second_ms = 100; /* the server looks so often who is idle */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
