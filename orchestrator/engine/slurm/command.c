/* Starts Slurm's commands, takes what they print, and sees their ends. */
#include "orchestrator/engine/slurm/command.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "reduction_server/base/printable.h"

#define OUTPUT_MAX (4u << 20) /* names of some hundred thousand nodes */
#define WORDS_MAX  2048
#define LINE_MAX_  1024

/* Bytes of a pipe so far, with a zero behind. */
struct heard {
	int fd;
	struct event *readable;
	char *bytes;
	size_t count;
};

struct smd_slurm_command {
	struct smd_slurm_command_options options;
	pid_t pid;
	int pidfd;
	struct event *ended;
	struct heard output;
	struct heard words;
};

/* ---- what it prints ---- */

/* What is too long loses its beginning. */
static int hear_some(struct heard *heard, size_t max)
{
	char bytes[4096];
	ssize_t count = heard->fd >= 0 ? read(heard->fd, bytes, sizeof(bytes)) : 0;
	size_t excess;
	char *grown;

	if (count <= 0) {
		return 0;
	}
	grown = realloc(heard->bytes, heard->count + (size_t)count + 1);
	if (!grown) {
		return 0;
	}
	heard->bytes = grown;
	memcpy(grown + heard->count, bytes, (size_t)count);
	heard->count += (size_t)count;
	excess = heard->count > max ? heard->count - max : 0;
	memmove(grown, grown + excess, heard->count - excess);
	heard->count -= excess;
	grown[heard->count] = '\0';
	return 1;
}

/* Hands on whole lines; at the end, or when one is too long, what there is. */
static void hand_on_lines(struct smd_slurm_command *command, int is_end)
{
	struct heard *words = &command->words;

	while (command->options.on_line && words->count > 0) {
		char *end = memchr(words->bytes, '\n', words->count);
		char line[LINE_MAX_ + 1];
		size_t length = end ? (size_t)(end - words->bytes) : words->count;
		size_t taken = length + (end != NULL);

		if (!end && !is_end && length < LINE_MAX_) {
			return;
		}
		snprintf(line, sizeof(line), "%.*s", (int)length, words->bytes);
		smd_printable(line);
		memmove(words->bytes, words->bytes + taken, words->count - taken);
		words->count -= taken;
		words->bytes[words->count] = '\0';
		command->options.on_line(command->options.owner, line);
	}
}

static void stop_hearing(struct heard *heard)
{
	if (heard->readable) {
		event_free(heard->readable);
		heard->readable = NULL;
	}
	if (heard->fd >= 0) {
		close(heard->fd);
		heard->fd = -1;
	}
}

static void on_output(evutil_socket_t fd, short what, void *arg)
{
	struct smd_slurm_command *command = arg;

	(void)fd;
	(void)what;
	if (!hear_some(&command->output, OUTPUT_MAX)) {
		event_del(command->output.readable);
	} else if (command->options.on_print) {
		command->options.on_print(command->options.owner, command->output.bytes);
	}
}

static void on_words(evutil_socket_t fd, short what, void *arg)
{
	struct smd_slurm_command *command = arg;

	(void)fd;
	(void)what;
	if (!hear_some(&command->words, WORDS_MAX)) {
		event_del(command->words.readable);
	}
	hand_on_lines(command, 0);
}

/* ---- its end ---- */

static void command_free(struct smd_slurm_command *command)
{
	if (command->ended) {
		event_free(command->ended);
	}
	if (command->pidfd >= 0) {
		close(command->pidfd);
	}
	stop_hearing(&command->output);
	stop_hearing(&command->words);
	free(command->output.bytes);
	free(command->words.bytes);
	free(command);
}

static void on_ended(evutil_socket_t fd, short what, void *arg)
{
	struct smd_slurm_command *command = arg;
	char none[1] = "";
	char *words;
	int status;

	(void)fd;
	(void)what;
	if (waitpid(command->pid, &status, WNOHANG) != command->pid) {
		return;
	}
	command->pid = 0;
	while (hear_some(&command->output, OUTPUT_MAX)) {
	}
	while (hear_some(&command->words, WORDS_MAX)) {
		hand_on_lines(command, 0);
	}
	hand_on_lines(command, 1);
	words = command->words.bytes ? command->words.bytes : none;
	smd_printable_lines(words);
	command->options.on_end(command->options.owner, status,
		command->output.bytes ? command->output.bytes : none, words);
	command_free(command);
}

/* ---- its beginning ---- */

/* A session of its own: a terminal's signals are the runner's. */
static void become_command(
	const struct smd_slurm_command_options *options, const int *fds, pid_t runner, int why)
{
	sigset_t none;
	int err;

	prctl(PR_SET_PDEATHSIG, options->outlives ? SIGHUP : SIGKILL);
	if (getppid() != runner) {
		_exit(EXIT_FAILURE);
	}
	setsid();
	for (int signo = 1; signo < NSIG; signo++) {
		signal(signo, SIG_DFL);
	}
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	for (int i = 0; i < 3; i++) {
		if (dup2(fds[i], i) < 0) {
			_exit(EXIT_FAILURE);
		}
	}
	execvpe(options->argv[0], options->argv, options->environment);
	err = errno;
	(void)!write(why, &err, sizeof(err));
	_exit(EXIT_FAILURE);
}

/* The pipe closes when the command is executed, and carries errno when it is not. */
static int spawn(struct smd_slurm_command *command, const int *fds)
{
	pid_t self = getpid();
	int why[2];
	int err = 0;

	if (pipe2(why, O_CLOEXEC)) {
		return -errno;
	}
	command->pid = fork();
	if (command->pid == 0) {
		become_command(&command->options, fds, self, why[1]);
	}
	err = command->pid < 0 ? errno : 0;
	close(why[1]);
	if (command->pid > 0 && read(why[0], &err, sizeof(err)) == (ssize_t)sizeof(err)) {
		waitpid(command->pid, NULL, 0);
	}
	close(why[0]);
	if (err) {
		command->pid = 0;
	}
	return -err;
}

/* A pipe holds it all, so that nothing waits. */
static int open_input(const char *input, int *out)
{
	size_t length = input ? strlen(input) : 0;
	int fds[2];
	int ret = 0;

	if (!input) {
		*out = open("/dev/null", O_RDONLY | O_CLOEXEC);
		return *out < 0 ? -errno : 0;
	}
	if (pipe2(fds, O_CLOEXEC)) {
		return -errno;
	}
	fcntl(fds[1], F_SETPIPE_SZ, (int)length + 1);
	fcntl(fds[1], F_SETFL, O_NONBLOCK);
	if (write(fds[1], input, length) != (ssize_t)length) {
		ret = -EMSGSIZE;
		close(fds[0]);
	}
	close(fds[1]);
	*out = ret ? -1 : fds[0];
	return ret;
}

static int open_heard(struct smd_slurm_command *command, struct heard *heard,
	event_callback_fn on_readable, int *out)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC)) {
		return -errno;
	}
	heard->fd = fds[0];
	*out = fds[1];
	fcntl(fds[0], F_SETFL, O_NONBLOCK);
	heard->readable = event_new(
		command->options.base, fds[0], EV_READ | EV_PERSIST, on_readable, command);
	return !heard->readable || event_add(heard->readable, NULL) ? -ENOMEM : 0;
}

static int watch(struct smd_slurm_command *command)
{
	command->pidfd = pidfd_open(command->pid, 0);
	if (command->pidfd < 0) {
		return -errno;
	}
	command->ended = event_new(
		command->options.base, command->pidfd, EV_READ | EV_PERSIST, on_ended, command);
	return !command->ended || event_add(command->ended, NULL) ? -ENOMEM : 0;
}

int smd_slurm_command_start(
	struct smd_slurm_command **out, const struct smd_slurm_command_options *options)
{
	struct smd_slurm_command *command = calloc(1, sizeof(*command));
	int fds[3] = {-1, -1, -1};
	int ret;

	if (!command) {
		return -ENOMEM;
	}
	command->options = *options;
	command->pidfd = command->output.fd = command->words.fd = -1;
	ret = open_input(options->input, &fds[0]);
	ret = ret ? ret : open_heard(command, &command->output, on_output, &fds[1]);
	ret = ret ? ret : open_heard(command, &command->words, on_words, &fds[2]);
	ret = ret ? ret : spawn(command, fds);
	for (int i = 0; i < 3; i++) {
		if (fds[i] >= 0) {
			close(fds[i]);
		}
	}
	ret = ret ? ret : watch(command);
	if (ret) {
		smd_slurm_command_abandon(command);
		return ret;
	}
	*out = command;
	return 0;
}

void smd_slurm_command_signal(const struct smd_slurm_command *command, int signo)
{
	kill(command->pid, signo);
}

void smd_slurm_command_abandon(struct smd_slurm_command *command)
{
	if (!command) {
		return;
	}
	if (command->pid > 0) {
		kill(command->pid, SIGKILL);
		waitpid(command->pid, NULL, 0);
	}
	command_free(command);
}

void smd_slurm_command_describe(int status, char *text, size_t size)
{
	if (WIFSIGNALED(status)) {
		snprintf(text, size, "was killed by signal %d (%s)", WTERMSIG(status),
			sigdescr_np(WTERMSIG(status)));
	} else {
		snprintf(text, size, "ended with status %d", WEXITSTATUS(status));
	}
}
