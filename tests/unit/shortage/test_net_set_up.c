/*
 * Memory runs out while the NCCL plugin starts and two of its processes connect: each allocation
 * fails once, in turn. Either the message arrives all the same, or a call returns an error and the
 * log has a sentence; nothing crashes, hangs or leaks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <event2/thread.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "reduction_server/base/clock.h"
#include "tests/unit/nccl/net_peer.h"
#include "tests/unit/shortage/shortage.h"
#include "worker/nccl_plugin/abi/log.h"
#include "worker/nccl_plugin/plugin.h"

#define ROUND_NS (60 * SMD_SECOND_NS)

/* Both ends of a connection. */
struct ends {
	void *listen;
	void *send;
	void *receive;
	void *requests[2];
	uint8_t data[2][100];
};

static void log_line(enum nccl_log_level level, unsigned long subsystems, const char *file,
	int line, const char *format, ...)
{
	va_list args;

	(void)level;
	(void)subsystems;
	(void)file;
	(void)line;
	va_start(args, format);
	vsnprintf(peer_said, sizeof(peer_said), format, args);
	va_end(args);
}

static int connect_ends(struct ends *ends, uint8_t handle[NCCL_HANDLE_BYTES])
{
	int ret = NCCL_SUCCESS;

	while (ret == NCCL_SUCCESS && (!ends->send || !ends->receive)) {
		ret = ends->send ? NCCL_SUCCESS : smd_net_connect(0, handle, &ends->send);
		if (ret == NCCL_SUCCESS && !ends->receive) {
			ret = smd_net_accept(ends->listen, &ends->receive);
		}
	}
	return ret;
}

/* A request may have to be asked for again. */
static int move_message(struct ends *ends)
{
	void *data = ends->data[1];
	const size_t size = sizeof(ends->data[1]);
	const int tag = 3;
	void *mhandle = NULL;
	int done[2] = {0, 0};
	int ret = NCCL_SUCCESS;

	while (ret == NCCL_SUCCESS && !(done[0] && done[1])) {
		if (!ends->requests[1]) {
			ret = smd_net_receive(
				ends->receive, 1, &data, &size, &tag, &mhandle, &ends->requests[1]);
		}
		if (ret == NCCL_SUCCESS && !ends->requests[0]) {
			ret = smd_net_send(
				ends->send, ends->data[0], size, tag, NULL, &ends->requests[0]);
		}
		for (int i = 0; i < 2 && ret == NCCL_SUCCESS; i++) {
			if (ends->requests[i] && !done[i]) {
				ret = smd_net_test(ends->requests[i], &done[i], NULL);
			}
		}
	}
	return ret;
}

/* From the plugin's start to a message, and the end of the connection. */
static int once(void)
{
	uint8_t handle[NCCL_HANDLE_BYTES];
	struct ends ends = {0};
	int ret = smd_plugin_begin(log_line);

	if (ret) {
		return ret;
	}
	memset(ends.data[0], 7, sizeof(ends.data[0]));
	ret = smd_net_listen(0, handle, &ends.listen);
	if (ret == NCCL_SUCCESS) {
		ret = connect_ends(&ends, handle);
	}
	if (ret == NCCL_SUCCESS) {
		ret = move_message(&ends);
	}
	if (ret == NCCL_SUCCESS) {
		assert_memory_equal(ends.data[0], ends.data[1], sizeof(ends.data[0]));
	}
	if (ends.send) {
		smd_net_close_send(ends.send);
	}
	if (ends.receive) {
		smd_net_close_receive(ends.receive);
	}
	if (ends.listen) {
		smd_net_close_listen(ends.listen);
	}
	smd_net_forget_attempts();
	return ret;
}

static void fail_each(long step)
{
	bool failed = true;
	long n = 0;

	assert_int_equal(once(), NCCL_SUCCESS);
	for (; failed; n += step) {
		uint64_t begin = smd_clock_ns();
		int ret;

		peer_said[0] = '\0';
		shortage_begin(n);
		ret = once();
		failed = shortage_end();
		/* Why the plugin declines is said when it changes. */
		if (ret && (!failed || (peer_said[0] == '\0' && ret != NCCL_INTERNAL_ERROR))) {
			fail_msg("allocation %ld: %d, \"%s\"", n, ret, peer_said);
		}
		if (smd_clock_ns() - begin > ROUND_NS) {
			fail_msg("allocation %ld: %llu ms, \"%s\"", n,
				(unsigned long long)(smd_clock_ns() - begin) / 1000000, peer_said);
		}
	}
	print_message("%ld allocations\n", n);
	assert_true(n > 30);
}

static void over_tcp(void **state)
{
	(void)state;
	fail_each(1);
}

#ifdef SMD_TLS
static void over_tls(void **state)
{
	char path[] = "/tmp/summand-token-XXXXXX";
	int fd = mkstemp(path);

	(void)state;
	assert_int_equal(write(fd, "token", 5), 5);
	close(fd);
	setenv("SUMMAND_TOKEN_FILE", path, 1);
	setenv("SUMMAND_TLS", "1", 1);
	fail_each(17); /* of some thousands, which are OpenSSL's */
	unlink(path);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(over_tcp),
#ifdef SMD_TLS
		cmocka_unit_test(over_tls),
#endif
	};

	shortage_watch_libraries();
	evthread_use_pthreads();
	peer_open_plugin();
	setenv("SUMMAND_CONNECT_TIMEOUT", "5", 1);
	setenv("NCCL_COLLNET_ENABLE", "1", 1);
	return cmocka_run_group_tests_name("net_set_up", tests, NULL, NULL);
}
