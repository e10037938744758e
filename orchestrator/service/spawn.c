/* Starts runners, and the sender of notices. */
#include "orchestrator/service/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#define PROGRAM   "/proc/self/exe"
#define OWN_WORDS 5
#define WORD_SIZE 64

static struct rlimit descriptors;

void smd_spawn_lift_limits(void)
{
	struct rlimit most;

	if (getrlimit(RLIMIT_NOFILE, &descriptors) == 0) {
		most = descriptors;
		most.rlim_cur = most.rlim_max;
		setrlimit(RLIMIT_NOFILE, &most);
	}
}

/* The signals that the service waits for are nothing to the process, which has a session of its
 * own: what ends the service's terminal does not end a job. */
static void become(char *const *words)
{
	sigset_t none;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	if (setsid() < 0 || null < 0 || dup2(null, STDIN_FILENO) < 0 ||
		dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
		_exit(EXIT_FAILURE);
	}
	if (descriptors.rlim_max) {
		setrlimit(RLIMIT_NOFILE, &descriptors);
	}
	close_range(STDERR_FILENO + 1, ~0u, 0);
	execv(PROGRAM, (char **)words);
	_exit(EXIT_FAILURE);
}

static size_t count_words(char *const *words)
{
	size_t n = 0;

	while (words[n]) {
		n++;
	}
	return n;
}

/* `devices` may be NULL. */
static pid_t spawn(char *id, char *devices, char *const *options, char **words)
{
	static char program[] = "summand";
	static char verb[] = SMD_SPAWN_VERB;
	size_t n = 0;
	pid_t pid;

	words[n++] = program;
	words[n++] = verb;
	words[n++] = id;
	if (devices) {
		words[n++] = devices;
	}
	for (size_t i = 0; options[i]; i++) {
		words[n++] = options[i];
	}
	words[n] = NULL;
	pid = fork();
	if (pid == 0) {
		become(words);
	}
	return pid < 0 ? -errno : pid;
}

pid_t smd_spawn_runner(int64_t id, const char *devices, const struct smd_service_options *options)
{
	char **words = calloc(count_words(options->runner_options) + OWN_WORDS, sizeof(*words));
	char *list = NULL;
	char word[WORD_SIZE];
	pid_t pid = -ENOMEM;

	snprintf(word, sizeof(word), "--id=%" PRId64, id);
	if (words && (!devices || asprintf(&list, "--devices=%s", devices) >= 0)) {
		pid = spawn(word, list, options->runner_options, words);
	}
	free(list);
	free(words);
	return pid;
}

pid_t smd_spawn_sender(char *const *words)
{
	pid_t service = getpid();
	pid_t pid = fork();

	if (pid == 0) {
		if (prctl(PR_SET_PDEATHSIG, SIGTERM) || getppid() != service) {
			_exit(EXIT_FAILURE);
		}
		become(words);
	}
	return pid < 0 ? -errno : pid;
}
