/*
 * Connections that NCCL begins and asks for no more, as it does when it aborts: nothing of them
 * stays for ever, and whoever is asked for after all still gets its connection.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "reduction_server/base/clock.h"
#include "worker/nccl_plugin/net/net.h"

#define PATIENCE_NS 20000000000ull
#define ABANDONED_S 11 /* ten times SUMMAND_CONNECT_TIMEOUT=1, and a little */
#define ATTEMPTS    8

extern const struct nccl_net_v12 ncclNetPlugin_v12;

/* The plugin's clock goes ahead of the machine's by so much: nobody waits for seconds to pass. */
static uint64_t ahead_ns;

int __real_clock_gettime(clockid_t clock, struct timespec *out);
int __wrap_clock_gettime(clockid_t clock, struct timespec *out);

int __wrap_clock_gettime(clockid_t clock, struct timespec *out)
{
	int ret = __real_clock_gettime(clock, out);

	if (ret == 0 && clock == CLOCK_MONOTONIC) {
		uint64_t ns = (uint64_t)out->tv_nsec + ahead_ns;

		out->tv_sec += (time_t)(ns / SMD_SECOND_NS);
		out->tv_nsec = (long)(ns % SMD_SECOND_NS);
	}
	return ret;
}

struct place {
	uint8_t handle[NCCL_HANDLE_BYTES];
	void *listen;
	void *recv;
};

static unsigned descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	assert_non_null(dir);
	while (readdir(dir)) {
		n++;
	}
	closedir(dir);
	return n;
}

static void place_open(struct place *place)
{
	memset(place, 0, sizeof(*place));
	assert_int_equal(smd_net_listen(0, place->handle, &place->listen), NCCL_SUCCESS);
}

static void place_close(struct place *place)
{
	if (place->recv) {
		assert_int_equal(smd_net_close_receive(place->recv), NCCL_SUCCESS);
	}
	assert_int_equal(smd_net_close_listen(place->listen), NCCL_SUCCESS);
}

/* One call of connect(), to one that does not call accept(). */
static void ask(uint8_t handle[NCCL_HANDLE_BYTES])
{
	void *send;

	assert_int_equal(smd_net_connect(0, handle, &send), NCCL_SUCCESS);
	assert_null(send);
}

/* Each is left after a call. */
static void abandon(const struct place *place, uint8_t handles[ATTEMPTS][NCCL_HANDLE_BYTES])
{
	for (unsigned i = 0; i < ATTEMPTS; i++) {
		memcpy(handles[i], place->handle, NCCL_HANDLE_BYTES);
		ask(handles[i]);
	}
}

static void assert_connects(struct place *place, uint8_t handle[NCCL_HANDLE_BYTES])
{
	uint64_t until = smd_clock_ns() + PATIENCE_NS;
	void *send = NULL;

	while (!send || !place->recv) {
		assert_true(smd_clock_ns() < until);
		if (!send) {
			assert_int_equal(smd_net_connect(0, handle, &send), NCCL_SUCCESS);
		}
		if (!place->recv) {
			assert_int_equal(smd_net_accept(place->listen, &place->recv), NCCL_SUCCESS);
		}
	}
	assert_int_equal(smd_net_close_send(send), NCCL_SUCCESS);
}

static void who_is_not_asked_for_long_is_forgotten(void **state)
{
	uint8_t handles[ATTEMPTS][NCCL_HANDLE_BYTES];
	uint8_t asked[NCCL_HANDLE_BYTES];
	struct place places[2];
	unsigned none = descriptors();
	unsigned before;

	(void)state;
	place_open(&places[0]);
	place_open(&places[1]);
	memcpy(asked, places[1].handle, sizeof(asked));
	ask(asked);
	before = descriptors();
	abandon(&places[0], handles);
	assert_true(descriptors() >= before + ATTEMPTS);
	for (unsigned s = 0; s < ABANDONED_S; s++) {
		ask(asked);
		usleep(1000); /* for its lane */
		ahead_ns += SMD_SECOND_NS;
	}
	assert_true(descriptors() >= before + ATTEMPTS);
	assert_connects(&places[0], places[0].handle);
	assert_connects(&places[1], asked); /* which was begun before, and forgotten by nobody */
	place_close(&places[0]);
	place_close(&places[1]);
	assert_int_equal(descriptors(), none);
}

static void who_was_forgotten_begins_anew(void **state)
{
	uint8_t handles[ATTEMPTS][NCCL_HANDLE_BYTES];
	struct place place;

	(void)state;
	place_open(&place);
	abandon(&place, handles);
	smd_net_forget_attempts();
	assert_connects(&place, handles[3]);
	place_close(&place);
	smd_net_forget_attempts();
}

static void the_last_context_forgets_all(void **state)
{
	const struct nccl_net_v12 *net = &ncclNetPlugin_v12;
	uint8_t handles[ATTEMPTS][NCCL_HANDLE_BYTES];
	void *contexts[2];
	struct place place;
	unsigned before;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(net->init(&contexts[i], i, NULL, NULL, NULL), NCCL_SUCCESS);
	}
	place_open(&place);
	before = descriptors();
	abandon(&place, handles);
	assert_int_equal(net->finalize(NULL), NCCL_SUCCESS); /* of an init() that declined */
	assert_int_equal(net->finalize(contexts[0]), NCCL_SUCCESS);
	assert_true(descriptors() >= before + ATTEMPTS);
	assert_int_equal(net->finalize(contexts[1]), NCCL_SUCCESS);
	assert_int_equal(descriptors(), before);
	place_close(&place);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_is_not_asked_for_long_is_forgotten),
		cmocka_unit_test(who_was_forgotten_begins_anew),
		cmocka_unit_test(the_last_context_forgets_all),
	};

	setenv("NCCL_SOCKET_IFNAME", "=lo", 1);
	setenv("NCCL_SOCKET_FAMILY", "AF_INET", 1);
	setenv("NCCL_COLLNET_ENABLE", "1", 1);
	setenv("SUMMAND_TRANSPORT", "tcp", 1);
	setenv("SUMMAND_NCCL_SOCKETS", "1", 1);
	setenv("SUMMAND_CONNECT_TIMEOUT", "1", 1);
	setenv("SUMMAND_REDUCTION_SERVERS", "127.0.0.1:1", 1);
	return cmocka_run_group_tests_name("net_attempts", tests, NULL, NULL);
}
