/* Finds launchers in commands, and in the lines of shells that commands run. */
#include "orchestrator/frontend/vertex/rank_launcher.h"

#include <ctype.h>
#include <string.h>

#define LINES_MAX  4 /* shells that run shells */
#define SPACE      " \t\r"
#define SEPARATORS ";&|()`\n" /* a command begins after them */
#define WANTS_SSH  "wants to reach other replicas by ssh"
#define STARTS     "starts ranks itself"

#define START_FOR_MPI                                                                              \
	"have one for all of them, with summand-distribution: mpi, or let Summand start the "      \
	"ranks "                                                                                   \
	"for torch.distributed"

static const struct smd_rank_launcher launchers[] = {
	{"mpirun", START_FOR_MPI, STARTS, NULL, 1},
	{"mpiexec", START_FOR_MPI, STARTS, NULL, 1},
	{"mpiexec.hydra", START_FOR_MPI, STARTS, NULL, 1},
	{"orterun", START_FOR_MPI, STARTS, NULL, 1},
	{"horovodrun",
		"have the program itself, with summand-distribution: mpi, as "
		"specs/jobs/recipes/horovod.yaml does, or over Gloo, as horovod_gloo.yaml does",
		WANTS_SSH, NULL, 0},
	{"deepspeed",
		"have deepspeed.launcher.launch, as specs/jobs/recipes/deepspeed_launcher.yaml "
		"does, "
		"or give it --hostfile, --no_ssh and --node_rank=$(NODE_RANK)",
		WANTS_SSH, "--no_ssh", 0},
};

/* It starts all sorts of things, so that it counts for MPI alone. */
static const struct smd_rank_launcher srun = {"srun", NULL, STARTS, NULL, 0};

static int has_word(const struct smd_job_pool *pool, const char *text)
{
	for (size_t i = 0; i < pool->ncommand + pool->nargs; i++) {
		if (smd_job_pool_word(pool, i) && strstr(smd_job_pool_word(pool, i), text)) {
			return 1;
		}
	}
	return 0;
}

static int is_word(const char *name, const char *word, size_t length)
{
	return strlen(name) == length && memcmp(name, word, length) == 0;
}

static int is_one_of(const char *const *names, const char *word, size_t length)
{
	while (*names && !is_word(*names, word, length)) {
		names++;
	}
	return *names != NULL;
}

/* The last part of a path of that length. */
static const char *last_part(const char *word, size_t *length)
{
	const char *slash = memrchr(word, '/', *length);

	*length -= slash ? (size_t)(slash + 1 - word) : 0;
	return slash ? slash + 1 : word;
}

static const struct smd_rank_launcher *find(const char *word, size_t length)
{
	word = last_part(word, &length);
	for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
		if (is_word(launchers[i].name, word, length)) {
			return &launchers[i];
		}
	}
	return NULL;
}

static int is_told(const struct smd_rank_launcher *launcher, const struct smd_job_pool *pool)
{
	return launcher->knows_world && has_word(pool, launcher->knows_world);
}

const struct smd_rank_launcher *smd_rank_launcher_of(const struct smd_job_pool *pool)
{
	for (size_t i = 0; i < pool->ncommand + pool->nargs; i++) {
		const char *word = smd_job_pool_word(pool, i);
		const char *before = i > 0 ? smd_job_pool_word(pool, i - 1) : "-c";
		const struct smd_rank_launcher *launcher =
			word && before && (strcmp(before, "-c") == 0 || strcmp(before, "-lc") == 0)
				? find(word, strcspn(word, SPACE "\n"))
				: NULL;

		if (launcher) {
			return is_told(launcher, pool) ? NULL : launcher;
		}
	}
	return NULL;
}

/* Where one is in a command, or in a shell's line. */
struct scan {
	int at_command;   /* the next word is one that is run */
	int after_prefix; /* options and numbers before it are of a word like `nice` */
	int is_shell;     /* the command is a shell, */
	int takes_line;   /* and the next word is a line for it */
	int depth;
	const struct smd_rank_launcher *found;
};

static void scan_line(struct scan *outer, const char *text, size_t length);

static int is_assignment(const char *word, size_t length)
{
	size_t i = 0;

	while (i < length && (isalnum((unsigned char)word[i]) || word[i] == '_')) {
		i++;
	}
	return i > 0 && i < length && word[i] == '=' && !isdigit((unsigned char)word[0]);
}

static void scan_command(struct scan *scan, const char *word, size_t length)
{
	static const char *const prefixes[] = {"!", "{", "builtin", "command", "do", "elif", "else",
		"env", "eval", "exec", "if", "nice", "nohup", "setsid", "stdbuf", "sudo", "then",
		"time", "timeout", "until", "while", NULL};
	static const char *const shells[] = {"sh", "bash", "dash", "ksh", "zsh", NULL};
	size_t rest = 0;
	const char *name;

	while (rest < length && !strchr(SPACE "\n", word[rest])) {
		rest++; /* the words of eval are one */
	}
	name = last_part(word, &rest);
	if (is_assignment(word, length) ||
		(scan->after_prefix && (word[0] == '-' || isdigit((unsigned char)word[0])))) {
		return;
	}
	if (is_one_of(prefixes, name, rest)) {
		scan->after_prefix = 1;
		return;
	}
	scan->at_command = 0;
	scan->is_shell = is_one_of(shells, name, rest);
	scan->found = is_word(srun.name, name, rest) ? &srun : find(name, rest);
}

static void scan_word(struct scan *scan, const char *word, size_t length)
{
	if (scan->takes_line) {
		scan->takes_line = 0;
		scan->is_shell = 0;
		scan_line(scan, word, length);
	} else if (scan->at_command) {
		scan_command(scan, word, length);
	} else if (scan->is_shell && length > 1 && word[0] == '-' && word[1] != '-') {
		scan->takes_line = memchr(word, 'c', length) != NULL; /* -c, -lc, -euxc */
	}
}

/* Up to what ends it outside of quotes. */
static size_t word_length(const char *text, size_t length)
{
	char quote = '\0';
	size_t i = 0;

	while (i < length && (quote || !strchr(SPACE SEPARATORS, text[i]))) {
		if (text[i] == '\\' && quote != '\'') {
			i++;
		} else if (quote ? text[i] == quote : text[i] == '"' || text[i] == '\'') {
			quote = quote ? '\0' : text[i];
		}
		i++;
	}
	return i < length ? i : length;
}

static int is_quoted(const char *word, size_t length)
{
	return length > 1 && (word[0] == '"' || word[0] == '\'') && word[length - 1] == word[0];
}

static void scan_line(struct scan *outer, const char *text, size_t length)
{
	struct scan scan = {.at_command = 1, .depth = outer->depth + 1};
	size_t at = 0;

	while (at < length && !scan.found && scan.depth <= LINES_MAX) {
		size_t count = 1;

		if (strchr(SEPARATORS, text[at])) {
			scan = (struct scan){.at_command = 1, .depth = scan.depth};
		} else if (length - at > 1 && text[at] == '\\' && text[at + 1] == '\n') {
			count = 2; /* the line goes on */
		} else if (text[at] == '#') {
			const char *end = memchr(text + at, '\n', length - at);

			count = end ? (size_t)(end - text) - at : length - at;
		} else if (!strchr(SPACE, text[at])) {
			int quotes;

			count = word_length(text + at, length - at);
			quotes = is_quoted(text + at, count);
			scan_word(&scan, text + at + quotes, count - 2 * (size_t)quotes);
		}
		at += count;
	}
	outer->found = scan.found;
}

const struct smd_rank_launcher *smd_rank_launcher_inside(const struct smd_job_pool *pool)
{
	struct scan scan = {.at_command = 1};

	for (size_t i = 0; i < pool->ncommand + pool->nargs && !scan.found; i++) {
		const char *word = smd_job_pool_word(pool, i);

		if (word) {
			scan_word(&scan, word, strlen(word));
		}
	}
	return scan.found && is_told(scan.found, pool) ? NULL : scan.found;
}
