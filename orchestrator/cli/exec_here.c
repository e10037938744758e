/* Runs a command in a replica of a job whose runner is on this machine. */
#include <errno.h>
#include <event2/event.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "orchestrator/cli/exec.h"
#include "orchestrator/cli/own_terminal.h"
#include "orchestrator/client/session.h"
#include "orchestrator/job/trial.h"
#include "reduction_server/base/printable.h"

#define CREDIT    (128u << 10) /* of output that is on its way */
#define READ_SIZE 16384

static const int watched_signals[] = {SIGWINCH, SIGINT, SIGTERM, SIGHUP};

#define WATCHED (sizeof(watched_signals) / sizeof(watched_signals[0]))

struct exec {
	struct event_base *base;
	struct smd_session *session;
	struct event *input; /* standard input; NULL: it has ended */
	struct event *signals[WATCHED];
	uint32_t credit; /* of input */
	struct smd_own_terminal terminal;
	int is_over;
	int exit_code;
};

/* ---- what the session says ---- */

static void end(struct exec *exec, int exit_code)
{
	exec->is_over = 1;
	exec->exit_code = exit_code;
	smd_own_terminal_restore(&exec->terminal);
}

static void take_end(void *owner, int code, const char *reason)
{
	struct exec *exec = owner;

	if (!exec->is_over) {
		end(exec, code < 0 ? SMD_EXEC_NOT_RUN : code);
		if (*reason) {
			smd_print_line(stderr, "summand: %s\n", reason);
		}
	}
}

static void take_start(void *owner)
{
	struct exec *exec = owner;

	smd_own_terminal_make_raw(&exec->terminal);
	event_add(exec->input, NULL);
}

/* Whoever reads slowly delays the command alone: it gets credit for what is written. */
static int take_output(
	void *owner, enum smd_agent_stream stream, const uint8_t *bytes, size_t count)
{
	struct exec *exec = owner;
	int fd = stream == SMD_AGENT_STDERR ? STDERR_FILENO : STDOUT_FILENO;

	if (smd_exec_show(fd, bytes, count)) {
		end(exec, SMD_EXIT_SIGNALLED + SIGPIPE);
		return 0;
	}
	smd_session_give_credit(exec->session, (uint32_t)count);
	return 0;
}

static void take_credit(void *owner, uint32_t count)
{
	struct exec *exec = owner;

	exec->credit += count;
	if (exec->input) {
		event_add(exec->input, NULL);
	}
}

static const struct smd_session_callbacks callbacks = {
	.take_start = take_start,
	.take_output = take_output,
	.take_credit = take_credit,
	.take_end = take_end,
};

/* ---- what comes from here ---- */

static void on_input(evutil_socket_t fd, short what, void *arg)
{
	struct exec *exec = arg;
	char bytes[READ_SIZE];
	size_t max = exec->credit < sizeof(bytes) ? exec->credit : sizeof(bytes);
	ssize_t count = read(fd, bytes, max);

	(void)what;
	if (count < 0 && (errno == EINTR || errno == EAGAIN)) {
		return;
	}
	smd_session_write(exec->session, bytes, count > 0 ? (size_t)count : 0);
	exec->credit -= count > 0 ? (uint32_t)count : 0;
	if (count <= 0) {
		event_free(exec->input);
		exec->input = NULL;
	} else if (exec->credit == 0) {
		event_del(exec->input);
	}
}

static void on_signal(evutil_socket_t signo, short what, void *arg)
{
	struct exec *exec = arg;
	struct smd_terminal shape = smd_own_terminal_shape(&exec->terminal);

	(void)what;
	if (signo != SIGWINCH) {
		end(exec, SMD_EXIT_SIGNALLED + (int)signo); /* the session ends with the connection */
	} else if (shape.rows) {
		smd_session_resize(exec->session, (int)shape.rows, (int)shape.columns);
	}
}

/* ---- all of it ---- */

/* One that watches files, too, which epoll does not. */
static struct event_base *open_base(void)
{
	struct event_config *config = event_config_new();
	struct event_base *base = NULL;

	if (config && event_config_require_features(config, EV_FEATURE_FDS) == 0) {
		base = event_base_new_with_config(config);
	}
	if (config) {
		event_config_free(config);
	}
	return base;
}

static int open_events(struct exec *exec)
{
	exec->base = open_base();
	exec->input = exec->base ? event_new(exec->base, STDIN_FILENO, EV_READ | EV_PERSIST,
					   on_input, exec)
				 : NULL;
	for (size_t i = 0; i < WATCHED && exec->input; i++) {
		exec->signals[i] = evsignal_new(exec->base, watched_signals[i], on_signal, exec);
		if (!exec->signals[i] || event_add(exec->signals[i], NULL)) {
			return -ENOMEM;
		}
	}
	return exec->input ? 0 : -ENOMEM;
}

static void exec_close(struct exec *exec)
{
	smd_session_close(exec->session);
	if (exec->input) {
		event_free(exec->input);
	}
	for (size_t i = 0; i < WATCHED; i++) {
		if (exec->signals[i]) {
			event_free(exec->signals[i]);
		}
	}
	if (exec->base) {
		event_base_free(exec->base);
	}
}

static int begin(struct exec *exec, const char *directory, const struct smd_exec_request *request,
	struct smd_error *error)
{
	struct smd_terminal shape = smd_own_terminal_shape(&exec->terminal);
	int ret = open_events(exec);

	ret = ret ? ret
		  : smd_session_open(
			    &exec->session, exec->base, directory, &callbacks, exec, error);
	if (ret) {
		return smd_error_set(error, -ret, "%s", strerror(-ret));
	}
	ret = smd_session_begin(exec->session, request->replica, request->command, &shape, NULL, CREDIT);
	return ret == -EINVAL ? smd_error_set(error, EINVAL, "COMMAND must be text in UTF-8")
	       : ret	      ? smd_error_set(error, -ret, "COMMAND: %s", strerror(-ret))
			      : 0;
}

/* A trial's runner has its own directory. */
static char *directory_of(const struct smd_stored_job *job, unsigned trial)
{
	char *path;

	if (!trial) {
		return strdup(job->directory);
	}
	return asprintf(&path, "%s/" SMD_TRIAL_FOLDER, job->directory, trial) < 0 ? NULL : path;
}

int smd_exec_here(const struct smd_stored_job *job, const struct smd_exec_request *request)
{
	struct exec exec = {.credit = SMD_AGENT_INPUT_WINDOW, .exit_code = SMD_EXEC_NOT_RUN};
	struct smd_error error = {""};
	char *directory = directory_of(job, request->trial);

	signal(SIGPIPE, SIG_IGN);
	smd_own_terminal_find(&exec.terminal);
	if (!directory || begin(&exec, directory, request, &error)) {
		smd_print_line(stderr, "summand: %s\n", directory ? error.text : strerror(ENOMEM));
		exec.is_over = 1;
	}
	free(directory);
	while (!exec.is_over) {
		event_base_loop(exec.base, EVLOOP_ONCE);
	}
	exec_close(&exec);
	return exec.exit_code;
}
