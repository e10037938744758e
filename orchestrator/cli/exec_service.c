/*
 * Runs a command in a replica of a service's job: asks the service for a terminal, or for pipes, and
 * then for output without an end (specs/design/service.md, "Terminals").
 *
 * One thread shows output, each of its requests waits for some; the other sends input. Both know
 * how many bytes there have been, so what may not have come is sent again, and nothing comes twice.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "orchestrator/cli/exec.h"
#include "orchestrator/cli/own_terminal.h"
#include "orchestrator/service/base64.h"
#include "reduction_server/base/clock.h"
#include "reduction_server/base/parse.h"
#include "reduction_server/base/printable.h"
#include "worker/agent/exit_record.h"

#define READ_SIZE  16384
#define OUTPUT_MAX (1u << 20) /* of an answer */
#define AGAIN_MS   200        /* before something is asked again */
#define GIVE_UP_NS (20 * (uint64_t)SMD_SECOND_NS) /* of a service that does not answer */

/* What has come of one of the two streams. */
struct far_stream {
	int fd;
	const char *offset; /* names of members */
	const char *data;
	uint64_t at;
};

struct far_exec {
	struct smd_service_jobs *service;
	char *name; /* of the terminal */
	struct smd_own_terminal terminal;
	struct far_stream streams[2]; /* the reader's, */
	int exit_code;            /* and so are these until `over` says more */
	char *reason;
	int over;       /* an eventfd */
	int signals;    /* a signalfd */
	uint64_t given; /* bytes of input that have been taken */
	char input[READ_SIZE];
	size_t ninput; /* that have not */
	int input_ends;
	int input_is_over;
};

/* ---- requests ---- */

/* One that gets no answer is asked again for a while. */
static json_t *ask_again(struct far_exec *exec, const char *method, const char *suffix,
	const json_t *body, int *ret, struct smd_error *error)
{
	uint64_t begun = smd_clock_ns();
	json_t *answer;

	for (;;) {
		*error = (struct smd_error){""};
		answer = smd_service_jobs_ask(
			exec->service, method, exec->name, suffix, body, ret, error);
		if (*ret == 0 || *ret == -EAGAIN || *ret == -ENOENT || *ret == -EREMOTEIO ||
			smd_clock_ns() - begun > GIVE_UP_NS) {
			return answer;
		}
		usleep(AGAIN_MS * 1000);
	}
}

/* ---- output ---- */

static int show(struct far_stream *stream, const json_t *answer)
{
	const char *offset = json_string_value(json_object_get(answer, stream->offset));
	const char *text = json_string_value(json_object_get(answer, stream->data));
	static _Thread_local uint8_t bytes[OUTPUT_MAX];
	long count = text ? smd_base64_decode(text, bytes, sizeof(bytes)) : 0;
	uint64_t at = stream->at;
	int ret = 0;

	if (count < 0 || (offset && smd_parse_number(offset, 0, stream->at, &at))) {
		return -EPROTO;
	}
	if (at + (uint64_t)count > stream->at) {
		ret = smd_exec_show(stream->fd, bytes + (stream->at - at),
			(size_t)(at + (uint64_t)count - stream->at));
		stream->at = at + (uint64_t)count;
	}
	return ret;
}

/* Whether there is more to ask for. */
static int take_answer(struct far_exec *exec, const json_t *answer)
{
	const json_t *code = json_object_get(answer, "exitCode");
	const char *reason = json_string_value(json_object_get(answer, "reason"));

	for (size_t i = 0; i < 2; i++) {
		int ret = show(&exec->streams[i], answer);

		if (ret == -EPROTO) {
			exec->reason = strdup("the service must answer with what the command says");
			return 0;
		}
		if (ret) {
			exec->exit_code = SMD_EXIT_SIGNALLED + SIGPIPE;
			return 0;
		}
	}
	if (!json_is_true(json_object_get(answer, "hasEnded"))) {
		return 1;
	}
	exec->exit_code = json_is_integer(code) ? (int)json_integer_value(code) : SMD_EXEC_NOT_RUN;
	exec->reason = reason ? strdup(reason) : NULL;
	return 0;
}

static void *read_output(void *arg)
{
	struct far_exec *exec = arg;
	const uint64_t one = 1;
	int is_open = 1;

	while (is_open) {
		struct smd_error error = {""};
		char suffix[96];
		json_t *answer;
		int ret;

		snprintf(suffix, sizeof(suffix), "?offset=%" PRIu64 "&errorOffset=%" PRIu64,
			exec->streams[0].at, exec->streams[1].at);
		answer = ask_again(exec, "GET", suffix, NULL, &ret, &error);
		is_open = !ret && take_answer(exec, answer);
		if (ret) {
			exec->reason = strdup(error.text);
		}
		json_decref(answer);
	}
	return write(exec->over, &one, sizeof(one)) == sizeof(one) ? NULL : exec;
}

/* ---- input ---- */

static json_t *input_body(const struct far_exec *exec)
{
	char *text = smd_base64_encode((const uint8_t *)exec->input, exec->ninput);
	char offset[24];
	json_t *body;

	snprintf(offset, sizeof(offset), "%" PRIu64, exec->given);
	body = text ? json_pack("{s:s, s:s}", "offset", offset, "data", text) : NULL;
	if (exec->input_ends) {
		json_object_set_new(body, "isLast", json_true());
	}
	free(text);
	return body;
}

/* What the command does not take yet stays. Why it takes nothing more is told with its output. */
static void send_input(struct far_exec *exec)
{
	struct smd_error error = {""};
	json_t *body = input_body(exec);
	int ret;

	json_decref(ask_again(exec, "POST", ":write", body, &ret, &error));
	json_decref(body);
	if (ret == -EAGAIN) {
		return;
	}
	exec->given += exec->ninput;
	exec->ninput = 0;
	exec->input_is_over = ret || exec->input_ends;
}

static void read_input(struct far_exec *exec)
{
	ssize_t count = read(STDIN_FILENO, exec->input, sizeof(exec->input));

	if (count < 0 && (errno == EINTR || errno == EAGAIN)) {
		return;
	}
	exec->ninput = count > 0 ? (size_t)count : 0;
	exec->input_ends = count <= 0;
	send_input(exec);
}

static void send_size(struct far_exec *exec)
{
	struct smd_terminal shape = smd_own_terminal_shape(&exec->terminal);
	struct smd_error error = {""};
	json_t *body = json_pack("{s:i, s:i}", "rows", (int)shape.rows, "columns", (int)shape.columns);
	int ret;

	if (shape.rows) {
		json_decref(ask_again(exec, "POST", ":resize", body, &ret, &error));
	}
	json_decref(body);
}

/* The signal that ends it; 0: none does. */
static int take_signal(struct far_exec *exec)
{
	struct signalfd_siginfo signal;

	if (read(exec->signals, &signal, sizeof(signal)) != sizeof(signal)) {
		return 0;
	}
	if (signal.ssi_signo == SIGWINCH) {
		send_size(exec);
		return 0;
	}
	return (int)signal.ssi_signo;
}

/* Until the command has ended, or a signal ends it: that is returned. */
static int give_input(struct far_exec *exec)
{
	for (;;) {
		int has_rest = exec->ninput > 0 || (exec->input_ends && !exec->input_is_over);
		struct pollfd polled[] = {
			{.fd = exec->over, .events = POLLIN},
			{.fd = exec->signals, .events = POLLIN},
			{.fd = has_rest || exec->input_is_over ? -1 : STDIN_FILENO,
				.events = POLLIN},
		};
		int signo;

		if (poll(polled, 3, has_rest ? AGAIN_MS : -1) < 0 && errno != EINTR) {
			return SIGTERM;
		}
		if (polled[0].revents) {
			return 0;
		}
		signo = polled[1].revents ? take_signal(exec) : 0;
		if (signo) {
			return signo;
		}
		if (has_rest) {
			send_input(exec);
		} else if (polled[2].revents) {
			read_input(exec);
		}
	}
}

/* ---- all of it ---- */

/* NULL: a word is no text in UTF-8. */
static json_t *make_request(
	const struct far_exec *exec, const struct smd_exec_request *request)
{
	struct smd_terminal shape = smd_own_terminal_shape(&exec->terminal);
	json_t *body = json_pack("{s:s, s:[]}", "replica", request->replica, "command");
	json_t *words = json_object_get(body, "command");
	char number[16];

	for (char *const *word = request->command; *word; word++) {
		if (json_array_append_new(words, json_string(*word))) {
			json_decref(body);
			return NULL;
		}
	}
	if (request->trial) {
		snprintf(number, sizeof(number), "%u", request->trial);
		json_object_set_new(body, "trial", json_string(number));
	}
	if (shape.rows) {
		json_object_set_new(body, "rows", json_integer(shape.rows));
		json_object_set_new(body, "columns", json_integer(shape.columns));
		json_object_set_new(body, "terminalType", json_string(shape.type));
	}
	return body;
}

static int begin(struct far_exec *exec, const struct smd_stored_job *job,
	const struct smd_exec_request *request, struct smd_error *error)
{
	json_t *body = make_request(exec, request);
	json_t *answer;
	const char *name;
	int ret;

	if (!body) {
		return smd_error_set(error, EINVAL, "COMMAND must be text in UTF-8");
	}
	answer = smd_service_jobs_ask(
		exec->service, "POST", job->resource_name, "/terminals", body, &ret, error);
	name = json_string_value(json_object_get(answer, "name"));
	if (!ret && !name) {
		ret = smd_error_set(error, EPROTO, "the service must answer with a terminal's name");
	}
	exec->name = name ? strdup(name) : NULL;
	json_decref(answer);
	json_decref(body);
	return ret;
}

/* Both threads leave signals to the descriptor. 0 or -errno. */
static int open_events(struct far_exec *exec)
{
	static const int watched[] = {SIGWINCH, SIGINT, SIGTERM, SIGHUP};
	sigset_t set;

	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(watched) / sizeof(watched[0]); i++) {
		sigaddset(&set, watched[i]);
	}
	sigprocmask(SIG_BLOCK, &set, NULL);
	exec->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	exec->over = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return exec->signals < 0 || exec->over < 0 ? -errno : 0;
}

/* With the terminal the command ends, and the request that waits for its output. */
static int run(struct far_exec *exec, struct smd_error *error)
{
	pthread_t reader;
	int signo;
	int ret = pthread_create(&reader, NULL, read_output, exec);

	if (ret) {
		return smd_error_set(error, ret, "%s", strerror(ret));
	}
	smd_own_terminal_make_raw(&exec->terminal);
	signo = give_input(exec);
	smd_own_terminal_restore(&exec->terminal);
	json_decref(smd_service_jobs_ask(
		exec->service, "DELETE", exec->name, "", NULL, &ret, &(struct smd_error){""}));
	if (signo && ret) { /* the reader may wait for long */
		_exit(SMD_EXIT_SIGNALLED + signo);
	}
	pthread_join(reader, NULL);
	if (signo) {
		exec->exit_code = SMD_EXIT_SIGNALLED + signo;
	} else if (exec->reason) {
		smd_print_line(stderr, "summand: %s\n", exec->reason);
	}
	return 0;
}

int smd_exec_at_service(struct smd_service_jobs *service, const struct smd_stored_job *job,
	const struct smd_exec_request *request)
{
	struct far_exec exec = {.service = service,
		.streams = {{STDOUT_FILENO, "offset", "data", 0},
			{STDERR_FILENO, "errorOffset", "errorData", 0}},
		.exit_code = SMD_EXEC_NOT_RUN,
		.over = -1,
		.signals = -1};
	struct smd_error error = {""};
	int ret = open_events(&exec);

	smd_own_terminal_find(&exec.terminal);
	ret = ret ? smd_error_set(&error, -ret, "%s", strerror(-ret))
		  : begin(&exec, job, request, &error);
	ret = ret ? ret : run(&exec, &error);
	if (ret) {
		smd_print_line(stderr, "summand: %s\n", error.text);
	}
	close(exec.over);
	close(exec.signals);
	free(exec.reason);
	free(exec.name);
	return exec.exit_code;
}
