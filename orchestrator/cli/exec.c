/* `summand custom-jobs exec`: runs a command, or a shell, in a replica that runs. */
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "orchestrator/cli/custom_jobs.h"
#include "orchestrator/cli/stored_jobs.h"
#include "orchestrator/cli/verbs.h"
#include "orchestrator/job/job.h"
#include "orchestrator/store/session_socket.h"
#include "reduction_server/base/printable.h"
#include "worker/agent/wire/link.h"
#include "worker/agent/wire/message.h"

#define EXIT_OWN      125 /* no command was run: as of env and docker; 126 and 127 are the command's */
#define EXIT_SIGNAL   128
#define CREDIT        (128u << 10) /* of output that is on its way */
#define SESSION_ID    1u           /* a connection has one */
#define READ_SIZE     16384
#define POOL_PREFIX   "workerpool"

static const int watched_signals[] = {SIGWINCH, SIGINT, SIGTERM, SIGHUP};

#define WATCHED (sizeof(watched_signals) / sizeof(watched_signals[0]))

struct exec {
	struct event_base *base;
	struct smd_agent_link *link;
	struct event *input; /* standard input; NULL: it has ended */
	struct event *signals[WATCHED];
	uint32_t credit; /* of input */
	int has_terminal;
	struct termios before; /* the terminal's own mode */
	int is_raw;
	int is_over;
	int exit_code;
};

/* ---- the terminal ---- */

static void get_size(struct smd_terminal *terminal)
{
	struct winsize size = {.ws_row = 0};

	ioctl(STDIN_FILENO, TIOCGWINSZ, &size);
	terminal->rows = size.ws_row ? size.ws_row : 24;
	terminal->columns = size.ws_col ? size.ws_col : 80;
	if (terminal->rows > SMD_TERMINAL_SIZE_MAX || terminal->columns > SMD_TERMINAL_SIZE_MAX) {
		terminal->rows = terminal->columns = SMD_TERMINAL_SIZE_MAX;
	}
}

/* All keys go to the replica, Ctrl-C too. */
static void make_raw(struct exec *exec)
{
	struct termios raw;

	if (exec->has_terminal && !exec->is_raw && tcgetattr(STDIN_FILENO, &exec->before) == 0) {
		raw = exec->before;
		cfmakeraw(&raw);
		exec->is_raw = tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
	}
}

static void restore(struct exec *exec)
{
	if (exec->is_raw) {
		tcsetattr(STDIN_FILENO, TCSADRAIN, &exec->before);
		exec->is_raw = 0;
	}
}

/* ---- the end ---- */

static void end(struct exec *exec, int exit_code)
{
	exec->is_over = 1;
	exec->exit_code = exit_code;
	restore(exec);
}

static void fail(struct exec *exec, const char *reason)
{
	end(exec, EXIT_OWN);
	smd_print_line(stderr, "summand: %s\n", reason);
}

static void take_end(struct exec *exec, const struct smd_exit *how)
{
	switch (how->kind) {
	case SMD_EXIT_CODE:
		end(exec, how->value);
		return;
	case SMD_EXIT_SIGNAL:
		end(exec, EXIT_SIGNAL + how->value);
		if (how->reason[0]) {
			smd_print_line(stderr, "summand: %s\n", how->reason);
		}
		return;
	case SMD_EXIT_ERRNO:
		break;
	}
	if (how->reason[0]) {
		fail(exec, how->reason);
	} else { /* its keeper has said which program */
		end(exec, how->value == ENOENT ? SMD_EXIT_NOT_FOUND : SMD_EXIT_NOT_EXECUTABLE);
	}
}

/* ---- output ---- */

/* Whoever reads slowly delays the command alone: it gets credit for what is written. */
static int write_all(int fd, const uint8_t *bytes, size_t count)
{
	while (count > 0) {
		ssize_t written = write(fd, bytes, count);

		if (written < 0 && errno == EAGAIN) {
			struct pollfd ready = {.fd = fd, .events = POLLOUT};

			poll(&ready, 1, -1);
		} else if (written < 0 && errno != EINTR) {
			return -errno;
		}
		bytes += written > 0 ? written : 0;
		count -= written > 0 ? (size_t)written : 0;
	}
	return 0;
}

static void take_output(struct exec *exec, const struct smd_agent_message *message)
{
	int fd = message->stream == SMD_AGENT_STDERR ? STDERR_FILENO : STDOUT_FILENO;

	if (write_all(fd, message->bytes, message->length)) {
		end(exec, EXIT_SIGNAL + SIGPIPE);
		return;
	}
	smd_agent_link_send_credit(exec->link, SESSION_ID, (uint32_t)message->length);
}

/* ---- input ---- */

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
	smd_agent_link_send_input(exec->link, SESSION_ID, bytes, count > 0 ? (size_t)count : 0);
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
	struct smd_terminal size;

	(void)what;
	if (signo != SIGWINCH) {
		end(exec, EXIT_SIGNAL + (int)signo); /* the session ends with the connection */
		return;
	}
	if (exec->has_terminal) {
		get_size(&size);
		smd_agent_link_send_resize(
			exec->link, SESSION_ID, (int)size.rows, (int)size.columns);
	}
}

/* ---- the connection ---- */

static int take_message(struct exec *exec, const struct smd_agent_message *message)
{
	switch (message->kind) {
	case SMD_AGENT_STARTED:
		make_raw(exec);
		return event_add(exec->input, NULL) ? -ENOMEM : 0;
	case SMD_AGENT_OUTPUT:
		take_output(exec, message);
		return 0;
	case SMD_AGENT_CREDIT:
		exec->credit += message->credit;
		return exec->input && event_add(exec->input, NULL) ? -ENOMEM : 0;
	case SMD_AGENT_ENDED:
		take_end(exec, &message->end);
		return 0;
	default:
		return -EPROTO;
	}
}

static int on_frame(void *owner, const struct smd_agent_head *head, const uint8_t *body,
	struct smd_error *error)
{
	struct smd_agent_message message;
	int ret = smd_agent_message_decode(&message, head->kind, body, head->length, error);

	if (!ret) {
		ret = take_message(owner, &message);
		ret = ret ? smd_error_set(error, -ret, "the runner: %s", strerror(-ret)) : 0;
	}
	smd_agent_message_clear(&message);
	return ret;
}

static void on_over(void *owner, const char *reason)
{
	struct exec *exec = owner;

	(void)reason;
	if (!exec->is_over) {
		fail(exec, "the job's runner has ended the connection: the job is over, or has as "
			   "many sessions as it takes");
	}
}

static const struct smd_agent_link_callbacks callbacks = {.on_frame = on_frame, .on_over = on_over};

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

static int exec_open(struct exec *exec, int fd, struct smd_error *error)
{
	const struct smd_agent_link_options options = {.end = SMD_AGENT_RUNNER,
		.read_fd = fd,
		.write_fd = fd,
		.callbacks = &callbacks,
		.owner = exec};

	exec->credit = SMD_AGENT_INPUT_WINDOW;
	exec->has_terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
	exec->base = open_base();
	if (!exec->base) {
		close(fd);
		return smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
	}
	exec->input = event_new(exec->base, STDIN_FILENO, EV_READ | EV_PERSIST, on_input, exec);
	for (size_t i = 0; i < WATCHED; i++) {
		exec->signals[i] = evsignal_new(exec->base, watched_signals[i], on_signal, exec);
		if (!exec->signals[i] || event_add(exec->signals[i], NULL)) {
			close(fd);
			return smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
		}
	}
	return smd_agent_link_open(&exec->link, exec->base, &options, error);
}

static void exec_close(struct exec *exec)
{
	smd_agent_link_close(exec->link);
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

static void send_exec(struct exec *exec, const char *replica, char *const *command)
{
	struct smd_terminal terminal = {.type = getenv("TERM")};
	json_t *body;

	if (exec->has_terminal) {
		get_size(&terminal);
		terminal.type = terminal.type ? terminal.type : "dumb";
	}
	body = smd_agent_exec_encode(SESSION_ID, CREDIT, replica, command, &terminal);
	if (body) {
		smd_agent_link_send_json(exec->link, SMD_AGENT_EXEC, body);
	} else {
		fail(exec, "COMMAND must be text in UTF-8");
	}
}

static int run(const struct smd_stored_job *job, const char *replica, char *const *command)
{
	struct exec exec = {.exit_code = EXIT_OWN};
	struct smd_error error = {""};
	char name[SMD_STORE_NAME_SIZE];
	int fd;

	smd_store_name(name, job->kind, job->id);
	if (job->end_time || !job->directory) {
		smd_print_line(stderr, "summand: %s: must run, and its state is %s\n", name,
			job->state);
		return EXIT_OWN;
	}
	fd = smd_session_socket_connect(job->directory, &error);
	if (fd < 0 || exec_open(&exec, fd, &error)) {
		smd_print_line(stderr, "summand: %s\n", error.text);
		exec_close(&exec);
		return EXIT_OWN;
	}
	signal(SIGPIPE, SIG_IGN);
	send_exec(&exec, replica, command);
	while (!exec.is_over) {
		event_base_loop(exec.base, EVLOOP_ONCE);
	}
	exec_close(&exec);
	return exec.exit_code;
}

/* "1-0" is short for "workerpool1-0". */
static void complete_name(char name[SMD_REPLICA_NAME_MAX], const char *given)
{
	int is_short = given[0] >= '0' && given[0] <= '9';

	snprintf(name, SMD_REPLICA_NAME_MAX, "%s%s", is_short ? POOL_PREFIX : "", given);
}

/* What follows "--" is the command, whatever it looks like. Where it begins. */
static int find_command(int argc, char **argv)
{
	int i = 1;

	while (i < argc && strcmp(argv[i], "--") != 0) {
		i++;
	}
	return i;
}

int smd_custom_jobs_exec(int argc, char **argv)
{
	const char *given = "0-0";
	const struct smd_option options[] = {
		SMD_OPTION_GROUP("Replica"),
		{"replica", "POOL-INDEX", "the replica, as 1-0 or workerpool1-0 (default 0-0)",
			smd_option_set_string, &given},
		SMD_GLOBAL_OPTIONS,
	};
	const struct smd_command command = {
		.synopsis = "summand custom-jobs exec JOB [--replica=POOL-INDEX] [OPTION...] "
			    "[-- COMMAND...]",
		.summary = "Runs a command, or a shell, beside a replica's own process.",
		.options = options,
		.noptions = sizeof(options) / sizeof(options[0]),
		.epilog = SMD_JOB_OPERAND(SMD_STORED_CUSTOM_JOB),
		.exits = "Exit codes: the command's; 125 it was not run, 126 it cannot be executed, "
			 "127 it was not found, 128 + N signal N has ended it.",
	};
	int at = find_command(argc, argv);
	char replica[SMD_REPLICA_NAME_MAX];
	struct smd_stored_jobs jobs;
	struct smd_job_copy job;
	int exit_code;

	/* The list ends with NULL. */
	char **words = at < argc ? argv + at + 1 : argv + argc;

	if (!smd_stored_jobs_begin(
		    &jobs, SMD_STORED_CUSTOM_JOB, &command, at, argv, &job, &exit_code)) {
		int is_here = smd_stored_jobs_are_here(&jobs);

		smd_stored_jobs_close(&jobs);
		complete_name(replica, given);
		exit_code = is_here ? run(&job.job, replica, words) : SMD_EXIT_USAGE;
		smd_job_copy_free(&job);
	}
	return exit_code;
}
