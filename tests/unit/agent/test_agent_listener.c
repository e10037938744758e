/* A real agent that comes by TCP: it is invited on its standard input, and known by the key. */
#include "orchestrator/runner/listener.h"

#include <errno.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "reduction_server/base/clock.h"

#define LONG_S 40

static const uint8_t key[SMD_AGENT_KEY_SIZE] = {7, 7, 7};
static struct event_base *base;

struct meeting {
	struct smd_run_host host;
	int greeted;
	int asked; /* for a host by its number */
	int ended;
	char lost[SMD_EXIT_REASON_SIZE];
	struct smd_exit end;
};

static void on_greeted(void *owner, struct smd_run_host *host)
{
	struct meeting *meeting = owner;

	meeting->greeted = 1;
	smd_agent_link_send_json(host->link, SMD_AGENT_RESERVE, json_pack("{s:i}", "ports", 3));
}

static int on_message(void *owner, struct smd_run_host *host,
	const struct smd_agent_message *message, struct smd_error *error)
{
	struct meeting *meeting = owner;

	(void)host;
	(void)error;
	if (message->kind == SMD_AGENT_ENDED) {
		meeting->ended = 1;
		meeting->end = message->end;
	}
	return 0;
}

static void on_lost(void *owner, struct smd_run_host *host, const char *reason)
{
	struct meeting *meeting = owner;

	(void)host;
	snprintf(meeting->lost, sizeof(meeting->lost), "%s", reason);
}

static const struct smd_host_callbacks callbacks = {
	.on_greeted = on_greeted, .on_message = on_message, .on_lost = on_lost};

static struct smd_run_host *find(void *owner, int number, struct smd_error *error)
{
	struct meeting *meeting = owner;

	meeting->asked = number;
	if (number != meeting->host.number) {
		smd_error_set(error, ESRCH, "no such host");
		return NULL;
	}
	return &meeting->host;
}

/* An agent with this invitation. */
static pid_t start_agent(const struct smd_invitation *invitation, const char *node)
{
	char *line = smd_invitation_encode(invitation);
	int input[2];
	pid_t pid;

	assert_non_null(line);
	assert_int_equal(pipe(input), 0);
	pid = fork();
	if (pid == 0) {
		dup2(input[0], STDIN_FILENO);
		close(input[0]);
		close(input[1]);
		setenv("TEST_NODE", node, 1);
		execl(AGENT, AGENT, "--host", "--number-from=TEST_NODE", (char *)NULL);
		_exit(99);
	}
	close(input[0]);
	assert_int_equal(write(input[1], line, strlen(line)), strlen(line));
	close(input[1]);
	free(line);
	return pid;
}

#define run_until(condition)                                                                       \
	do {                                                                                       \
		uint64_t until = smd_clock_ns() + LONG_S * (uint64_t)SMD_SECOND_NS;                \
                                                                                                   \
		while (!(condition)) {                                                             \
			assert_true(smd_clock_ns() < until);                                       \
			event_base_loop(base, EVLOOP_NONBLOCK);                                    \
			usleep(1000);                                                              \
		}                                                                                  \
	} while (0)

static struct smd_runner_listener *open_listener(
	struct meeting *meeting, struct smd_invitation *invitation)
{
	const struct smd_runner_listener_options options = {
		.key = key, .silence_ms = 5000, .find = find, .owner = meeting};
	struct smd_runner_listener *listener;

	*meeting = (struct meeting){.asked = -1,
		.host = {.number = 4,
			.is_tcp = 1,
			.name = "node4",
			.callbacks = &callbacks,
			.owner = meeting}};
	assert_int_equal(smd_runner_listener_open(&listener, base, &options, NULL), 0);
	*invitation = (struct smd_invitation){.protocol = SMD_AGENT_PROTOCOL,
		.version = SUMMAND_VERSION,
		.job = "test",
		.host = 3,
		.is_tcp = 1,
		.silence_s = 5,
		.grace_s = 1};
	memcpy(invitation->key, key, sizeof(key));
	smd_runner_listener_addresses(listener, invitation);
	assert_true(invitation->naddresses > 0);
	return listener;
}

static void test_an_agent_comes_and_works(void **state)
{
	char *argv[] = {(char[]){"/bin/sh"}, (char[]){"-c"}, (char[]){"exit 5"}, NULL};
	const struct smd_environment environment = {.count = 0};
	const struct smd_launch launch = {
		.argv = argv, .environment = &environment, .name = "one", .grace_s = 1};
	struct smd_invitation invitation;
	struct meeting meeting;
	struct smd_runner_listener *listener = open_listener(&meeting, &invitation);
	pid_t pid = start_agent(&invitation, "1");
	int status;

	(void)state;
	run_until(meeting.host.state == SMD_HOST_READY);
	assert_true(meeting.greeted);
	assert_int_equal(meeting.asked, 4);
	assert_int_equal(meeting.host.nports, 3);
	assert_true(meeting.host.facts.cpus > 0);
	assert_true(meeting.host.facts.ninterfaces > 0);
	smd_agent_link_send_json(
		meeting.host.link, SMD_AGENT_START, smd_agent_start_encode(0, 4096, &launch));
	run_until(meeting.ended);
	assert_int_equal(meeting.end.kind, SMD_EXIT_CODE);
	assert_int_equal(meeting.end.value, 5);
	smd_run_host_close(&meeting.host);
	run_until(waitpid(pid, &status, WNOHANG) == pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	assert_string_equal(meeting.lost, "");
	smd_run_host_clear(&meeting.host);
	smd_runner_listener_close(listener);
}

static void test_an_agent_without_the_key(void **state)
{
	struct smd_invitation invitation;
	struct meeting meeting;
	struct smd_runner_listener *listener = open_listener(&meeting, &invitation);
	pid_t pid;
	int status;

	(void)state;
	invitation.key[0] = 8;
	pid = start_agent(&invitation, "1");
	run_until(waitpid(pid, &status, WNOHANG) == pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) != 0);
	assert_int_equal(meeting.asked, -1);
	assert_int_equal(meeting.host.state, SMD_HOST_EXPECTED);
	smd_runner_listener_close(listener);
}

/* It is turned away. */
static void test_a_host_that_is_not_waited_for(void **state)
{
	struct smd_invitation invitation;
	struct meeting meeting;
	struct smd_runner_listener *listener = open_listener(&meeting, &invitation);
	pid_t pid = start_agent(&invitation, "6");
	int status;

	(void)state;
	run_until(waitpid(pid, &status, WNOHANG) == pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
	assert_int_equal(meeting.asked, 9);
	assert_false(meeting.greeted);
	smd_runner_listener_close(listener);
}

/* What is logged while the agent of a host in that state is turned away. */
static void turn_away(enum smd_host_state host_state, char *said, size_t size)
{
	struct smd_invitation invitation;
	struct meeting meeting;
	struct smd_runner_listener *listener = open_listener(&meeting, &invitation);
	int own_stderr = dup(STDERR_FILENO);
	int log = memfd_create("log", MFD_CLOEXEC);
	ssize_t length;
	pid_t pid;
	int status;

	meeting.host.state = host_state;
	pid = start_agent(&invitation, "1");
	dup2(log, STDERR_FILENO);
	run_until(waitpid(pid, &status, WNOHANG) == pid);
	dup2(own_stderr, STDERR_FILENO);
	length = pread(log, said, size - 1, 0);
	said[length > 0 ? length : 0] = '\0';
	close(log);
	close(own_stderr);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
	assert_false(meeting.greeted);
	assert_int_equal(meeting.host.state, host_state);
	smd_runner_listener_close(listener);
}

/* The job is over, or goes on without it: it comes too late. Only what nobody expected is told. */
static void test_a_host_that_comes_too_late(void **state)
{
	char said[1024];

	(void)state;
	turn_away(SMD_HOST_CLOSED, said, sizeof(said));
	assert_string_equal(said, "");
	turn_away(SMD_HOST_LOST, said, sizeof(said));
	assert_non_null(strstr(said, "host number 4, and none is waited for"));
	turn_away(SMD_HOST_READY, said, sizeof(said));
	assert_non_null(strstr(said, "host number 4, and none is waited for"));
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
		cmocka_unit_test(test_an_agent_comes_and_works),
		cmocka_unit_test(test_an_agent_without_the_key),
		cmocka_unit_test(test_a_host_that_is_not_waited_for),
		cmocka_unit_test(test_a_host_that_comes_too_late),
	};

	return cmocka_run_group_tests(tests, open_base, close_base);
}
