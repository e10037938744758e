/*
 * Runs histories of seeds, each in a process of its own, and says those that ended wrong.
 *
 *     simulate [changes|late|losses|more|large] FIRST [LAST]
 *
 * Those seeds; one alone is told whole. Faults come while ranks agree on other tables, while some
 * have not begun, or at operations; with more, also servers are added, operations cut into segments
 * and tables measured.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/simulation/history.h"

/* Of one history: more is a loop that time does not pass in, or a thread that waits for something
 * other than its turn. The first is of the processor's time, of which a busy host gives little. */
#define PROCESSOR_LIMIT_S 60
#define REAL_LIMIT_S      600
#define SHOWN_MOST        20

static void limit_time(void)
{
	const struct rlimit limit = {PROCESSOR_LIMIT_S, PROCESSOR_LIMIT_S};

	setrlimit(RLIMIT_CPU, &limit);
	alarm(REAL_LIMIT_S);
}

/* What the history says goes to `file`. */
static pid_t begin_history(enum plan_kind kind, uint64_t seed, int file)
{
	pid_t child = fork();

	if (child == 0) {
		FILE *out;

		dup2(file, STDOUT_FILENO);
		dup2(file, STDERR_FILENO);
		limit_time();
		out = fdopen(STDOUT_FILENO, "w");
		_exit(out ? (history_run(kind, seed, out), fflush(out), 0) : 1);
	}
	return child;
}

static void show(int file)
{
	char bytes[4096];
	ssize_t n;

	lseek(file, 0, SEEK_SET);
	while ((n = read(file, bytes, sizeof(bytes))) > 0) {
		fwrite(bytes, 1, (size_t)n, stdout);
	}
}

/* Whether it ended right. */
static bool run_history(enum plan_kind kind, uint64_t seed, bool tell)
{
	FILE *said = tmpfile();
	pid_t child;
	int status = 0;

	if (!said) {
		perror("simulate: cannot make a file");
		exit(2);
	}
	child = begin_history(kind, seed, fileno(said));
	if (child < 0 || waitpid(child, &status, 0) != child) {
		perror("simulate: cannot run a history");
		exit(2);
	}
	if (status || tell) {
		show(fileno(said));
	}
	if (WIFSIGNALED(status)) {
		int number = WTERMSIG(status);

		printf("seed %llu: ended by signal %d%s\n", (unsigned long long)seed, number,
			number == SIGALRM || number == SIGXCPU || number == SIGKILL
				? ": no time passes"
				: "");
	}
	fclose(said);
	return status == 0;
}

static const struct {
	const char *word;
	enum plan_kind kind;
} kinds[] = {
	{"changes", PLAN_CHANGES},
	{"late", PLAN_LATE},
	{"losses", PLAN_LOSSES},
	{"more", PLAN_MORE},
	{"large", PLAN_LARGE},
};

static enum plan_kind kind_of(const char *word)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (strcmp(word, kinds[i].word) == 0) {
			return kinds[i].kind;
		}
	}
	return PLAN_ANY;
}

static uint64_t number_of(const char *word)
{
	char *end;
	uint64_t number = strtoull(word, &end, 10);

	if (!isdigit((unsigned char)*word) || *end) { /* "-1" would be a large one */
		fprintf(stderr, "simulate: must be a kind or a seed, got \"%s\"\n", word);
		exit(2);
	}
	return number;
}

int main(int argc, char **argv)
{
	enum plan_kind kind = argc > 1 ? kind_of(argv[1]) : PLAN_ANY;
	int given = argc - (kind != PLAN_ANY); /* numbers, and one */
	uint64_t last = given > 1 ? number_of(argv[argc - 1]) : 1;
	uint64_t first = given > 2 ? number_of(argv[argc - 2]) : last;
	unsigned wrong = 0;
	time_t began = time(NULL);

	if (given > 3) {
		(void)number_of(argv[1]);
		fprintf(stderr, "simulate: must have at most two seeds, got %d\n", given - 1);
		return 2;
	}
	if (first > last) {
		fprintf(stderr,
			"simulate: the last seed must be at least %llu, the first, got %llu\n",
			(unsigned long long)first, (unsigned long long)last);
		return 2;
	}
	setenv("SUMMAND_ZERO_BLOCKS", "on", 1); /* so that histories have what only then is said */
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (uint64_t seed = first; seed <= last && wrong < SHOWN_MOST; seed++) {
		if (!run_history(kind, seed, first == last)) {
			wrong++;
		}
	}
	printf("%llu histories, %u wrong, %ld s\n", (unsigned long long)(last - first + 1), wrong,
		(long)(time(NULL) - began));
	return wrong != 0;
}
