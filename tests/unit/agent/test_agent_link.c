/* The connection of a host's agent: frames of all sizes, plain and over TLS, strangers, and
 * silence. */
#include "worker/agent/wire/link.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "reduction_server/base/clock.h"

#define LONG_S 20

struct end {
	struct smd_agent_link *link;
	unsigned frames;
	size_t bytes;
	uint32_t sum;
	char over[SMD_AGENT_REASON_SIZE];
	int closes; /* in its callback */
};

static const uint8_t key[SMD_AGENT_KEY_SIZE] = {1, 2, 3};
static const uint8_t other_key[SMD_AGENT_KEY_SIZE] = {1, 2, 4};
static struct event_base *base;

static int on_frame(void *owner, const struct smd_agent_head *head, const uint8_t *body,
	struct smd_error *error)
{
	struct end *end = owner;

	assert_int_equal(body[head->length], '\0');
	end->frames++;
	end->bytes += head->length;
	for (uint32_t i = 0; i < head->length; i++) {
		end->sum = end->sum * 31 + body[i];
	}
	if (end->closes) {
		smd_agent_link_close(end->link);
		end->link = NULL;
	}
	return head->kind == SMD_AGENT_LEAVING ? smd_error_set(error, EPROTO, "not wanted") : 0;
}

static void on_over(void *owner, const char *reason)
{
	struct end *end = owner;

	assert_string_equal(end->over, "");
	snprintf(end->over, sizeof(end->over), "%s", reason);
}

static const struct smd_agent_link_callbacks callbacks = {.on_frame = on_frame, .on_over = on_over};

static void open_end(struct end *end, int fd, enum smd_agent_end which, const uint8_t *secret,
	unsigned silence_ms)
{
	const struct smd_agent_link_options options = {.end = which,
		.read_fd = fd,
		.write_fd = fd,
		.key = secret,
		.silence_ms = silence_ms,
		.callbacks = &callbacks,
		.owner = end};
	struct smd_error error = {""};

	*end = (struct end){.link = NULL};
	assert_int_equal(smd_agent_link_open(&end->link, base, &options, &error), 0);
}

static void open_sockets(int fds[2])
{
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
}

static void open_pair(
	struct end *runner, struct end *host, const uint8_t *secret, const uint8_t *its)
{
	int fds[2];

	open_sockets(fds);
	open_end(runner, fds[0], SMD_AGENT_RUNNER, secret, 0);
	open_end(host, fds[1], SMD_AGENT_HOST, its, 0);
}

static void close_pair(struct end *runner, struct end *host)
{
	smd_agent_link_close(runner->link);
	smd_agent_link_close(host->link);
}

/* Turns the loop until a number is as it should be. */
#define run_until(condition)                                                                       \
	do {                                                                                       \
		uint64_t until = smd_clock_ns() + LONG_S * (uint64_t)SMD_SECOND_NS;                \
                                                                                                   \
		while (!(condition)) {                                                             \
			assert_true(smd_clock_ns() < until);                                       \
			event_base_loop(base, EVLOOP_NONBLOCK);                                    \
		}                                                                                  \
	} while (0)

static void send_all_sizes(const uint8_t *secret)
{
	static uint8_t large[3 << 20];
	struct end runner, host;
	uint32_t sum = 0;
	size_t bytes = 0;

	for (size_t i = 0; i < sizeof(large); i++) {
		large[i] = (uint8_t)(i * 7);
	}
	open_pair(&runner, &host, secret, secret);
	for (size_t size = 0; size <= sizeof(large); size = size ? size * 3 : 1) {
		smd_agent_link_send(runner.link, SMD_AGENT_START, large, size / 2, large + size / 2,
			size - size / 2);
		bytes += size;
		for (size_t i = 0; i < size; i++) {
			sum = sum * 31 + large[i];
		}
	}
	run_until(host.bytes == bytes);
	assert_int_equal(host.sum, sum);
	assert_int_equal(smd_agent_link_unsent(runner.link), 0);
	for (unsigned i = 0; i < 1000; i++) {
		smd_agent_link_send(host.link, SMD_AGENT_OUTPUT, large, 100, NULL, 0);
	}
	run_until(runner.frames == 1000);
	assert_int_equal(runner.bytes, 100000);
	close_pair(&runner, &host);
}

static void test_plain(void **state)
{
	(void)state;
	send_all_sizes(NULL);
}

static void test_tls(void **state)
{
	(void)state;
#ifdef HAS_TLS
	send_all_sizes(key);
#else
	skip();
#endif
}

static void test_strangers(void **state)
{
	static const uint8_t nonsense[] = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
	struct end runner, host;
	int fds[2];

	(void)state;
#ifndef HAS_TLS
	skip();
#endif
	open_pair(&runner, &host, key, other_key);
	smd_agent_link_send(host.link, SMD_AGENT_HELLO, "x", 1, NULL, 0);
	run_until(runner.over[0] && host.over[0]);
	assert_int_equal(runner.frames + host.frames, 0);
	assert_non_null(strstr(runner.over, "TLS: both ends must know the job's key"));
	close_pair(&runner, &host);

	open_sockets(fds);
	open_end(&runner, fds[0], SMD_AGENT_RUNNER, key, 0);
	assert_true(write(fds[1], nonsense, sizeof(nonsense)) > 0);
	run_until(runner.over[0]);
	assert_int_equal(runner.frames, 0);
	smd_agent_link_close(runner.link);
	close(fds[1]);
}

/* An agent that has died says nothing about keys. */
static void test_one_that_ends_before_both_agree(void **state)
{
	struct end runner;
	int fds[2];

	(void)state;
#ifndef HAS_TLS
	skip();
#endif
	open_sockets(fds);
	open_end(&runner, fds[0], SMD_AGENT_RUNNER, key, 0);
	close(fds[1]);
	run_until(runner.over[0]);
	assert_non_null(strstr(runner.over, "the connection was cut before TLS was agreed"));
	smd_agent_link_close(runner.link);
}

static void test_bad_frames(void **state)
{
	static const struct {
		uint8_t bytes[5];
		const char *reason;
	} cases[] = {
		{{0, 0, 0, 0, 99}, "a frame of an unknown kind came"},
		{{1, 0, 0, 0, SMD_AGENT_START}, "a frame came that this end alone may send"},
		{{0xff, 0xff, 0xff, 0x7f, SMD_AGENT_ENDED},
			"a frame came that is longer than its kind may be"},
		{{0, 0, 0, 0, SMD_AGENT_LEAVING}, "not wanted"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct end runner;
		int fds[2];

		open_sockets(fds);
		open_end(&runner, fds[0], SMD_AGENT_RUNNER, NULL, 0);
		assert_int_equal(write(fds[1], cases[i].bytes, 5), 5);
		run_until(runner.over[0]);
		assert_string_equal(runner.over, cases[i].reason);
		smd_agent_link_send(runner.link, SMD_AGENT_CLOSE, "{}", 2, NULL, 0); /* harmless */
		smd_agent_link_close(runner.link);
		close(fds[1]);
	}
}

/* A shell's start-up file prints something. */
static void test_text_before_the_first_frame(void **state)
{
	static const char text[] = "Welcome to node1!\nToday: maintenance\n";
	struct end runner;
	int fds[2];

	(void)state;
	open_sockets(fds);
	open_end(&runner, fds[0], SMD_AGENT_RUNNER, NULL, 0);
	assert_true(write(fds[1], text, strlen(text)) > 0);
	run_until(runner.over[0]);
	assert_string_equal(runner.over,
		"it must begin with the agent's greeting, got \"Welcome to node1!\": let the shell "
		"there print nothing when it starts (.bashrc)");
	smd_agent_link_close(runner.link);
	close(fds[1]);
}

static void test_the_end(void **state)
{
	struct end runner, host;

	(void)state;
	open_pair(&runner, &host, NULL, NULL);
	smd_agent_link_close(host.link);
	run_until(runner.over[0]);
	assert_string_equal(runner.over, "the other end closed the connection");
	smd_agent_link_close(runner.link);

	open_pair(&runner, &host, NULL, NULL);
	runner.closes = 1;
	smd_agent_link_send(host.link, SMD_AGENT_OUTPUT, "one", 3, NULL, 0);
	smd_agent_link_send(host.link, SMD_AGENT_OUTPUT, "two", 3, NULL, 0);
	run_until(host.over[0]);
	assert_int_equal(runner.frames, 1);
	smd_agent_link_close(host.link);
}

static void test_silence(void **state)
{
	struct end runner, host;
	int fds[2];

	(void)state;
	open_sockets(fds);
	open_end(&runner, fds[0], SMD_AGENT_RUNNER, NULL, 1000);
	run_until(runner.over[0]); /* nobody reads or says anything */
	assert_string_equal(runner.over, "nothing has come from the other end for 1 s");
	smd_agent_link_close(runner.link);
	close(fds[1]);

	open_sockets(fds);
	open_end(&runner, fds[0], SMD_AGENT_RUNNER, NULL, 1000);
	open_end(&host, fds[1], SMD_AGENT_HOST, NULL, 1000);
	for (uint64_t until = smd_clock_ns() + 2 * (uint64_t)SMD_SECOND_NS;
		smd_clock_ns() < until;) {
		event_base_loop(base, EVLOOP_ONCE);
	}
	assert_string_equal(runner.over, "");
	assert_string_equal(host.over, "");
	close_pair(&runner, &host);
}

/* A runner that was held up has not looked, so it does not know what has come meanwhile. */
static void test_own_delay(void **state)
{
	struct end runner;
	uint64_t held_up_until;
	int fds[2];

	(void)state;
	open_sockets(fds);
	open_end(&runner, fds[0], SMD_AGENT_RUNNER, NULL, 1000);
	usleep(1500000);
	held_up_until = smd_clock_ns();
	run_until(runner.over[0]);
	assert_string_equal(runner.over, "nothing has come from the other end for 1 s");
	assert_true(smd_clock_ns() - held_up_until > SMD_SECOND_NS / 2);
	smd_agent_link_close(runner.link);
	close(fds[1]);
}

static int open_base(void **state)
{
	(void)state;
	signal(SIGPIPE, SIG_IGN);
	base = event_base_new();
	return base == NULL;
}

static int close_base(void **state)
{
	(void)state;
	event_base_free(base);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain),
		cmocka_unit_test(test_tls),
		cmocka_unit_test(test_strangers),
		cmocka_unit_test(test_one_that_ends_before_both_agree),
		cmocka_unit_test(test_bad_frames),
		cmocka_unit_test(test_text_before_the_first_frame),
		cmocka_unit_test(test_the_end),
		cmocka_unit_test(test_silence),
		cmocka_unit_test(test_own_delay),
	};

	return cmocka_run_group_tests(tests, open_base, close_base);
}
