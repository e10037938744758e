/* Finds a reduction server in a command. */
#include "orchestrator/frontend/server_command.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/document/decode.h"

#define PROGRAM     "summand-reduction-server"
#define SHELL_WORDS 3 /* bash -c TEXT */
#define BLANKS      " \t\n"

static const char *base_of(const char *word)
{
	const char *slash = strrchr(word, '/');

	return slash ? slash + 1 : word;
}

static int is_shell(const char *const *words)
{
	static const char *const shells[] = {"bash", "dash", "sh"};
	size_t length = strlen(words[1]);

	for (size_t i = 0; i < sizeof(shells) / sizeof(shells[0]); i++) {
		if (strcmp(base_of(words[0]), shells[i]) == 0) {
			return *words[1] == '-' && words[1][length - 1] == 'c';
		}
	}
	return 0;
}

/* What a shell's text starts: behind blanks and exec. */
static const char *started_by(const char *text)
{
	text += strspn(text, BLANKS);
	if (strncmp(text, "exec", 4) == 0 && strspn(text + 4, BLANKS) > 0) {
		text += 4 + strspn(text + 4, BLANKS);
	}
	return text;
}

static int starts_program(const char *text)
{
	size_t length = strcspn(text, BLANKS ";&|<>()");
	size_t size = strlen(PROGRAM);

	return length >= size && strncmp(text + length - size, PROGRAM, size) == 0 &&
	       (length == size || text[length - size - 1] == '/');
}

static int is_program(const char *word)
{
	return strcmp(base_of(word), PROGRAM) == 0;
}

static int is_of_words(const char *const *words, size_t count)
{
	return (count > 0 && is_program(words[0])) ||
	       (count >= SHELL_WORDS && is_shell(words) &&
		       starts_program(started_by(words[2])));
}

/* The first texts of a list; how many there are then. */
static size_t add_words(const struct smd_node *list, const char **words, size_t count)
{
	if (!list || list->type != SMD_NODE_ARRAY) {
		return count;
	}
	for (const struct smd_node *word = list->first; word && count < SHELL_WORDS;
		word = word->next) {
		if (word->type != SMD_NODE_STRING) {
			break;
		}
		words[count++] = word->string;
	}
	return count;
}

int smd_server_command_is_of(const struct smd_node *container)
{
	const char *words[SHELL_WORDS];
	size_t count = add_words(smd_node_member(container, "command"), words, 0);

	count = add_words(smd_node_member(container, "args"), words, count);
	return is_of_words(words, count);
}

/* Command and args in one list, whose texts stay the pool's. NULL: out of memory. */
static char **join_words(const struct smd_job_pool *pool)
{
	char **words = calloc(pool->ncommand + pool->nargs + 1, sizeof(*words));

	for (size_t i = 0; words && i < pool->ncommand + pool->nargs; i++) {
		words[i] = i < pool->ncommand ? pool->command[i] : pool->args[i - pool->ncommand];
	}
	return words;
}

static int set_args(struct smd_job_pool *pool, char **words, size_t count)
{
	char **args = calloc(count + 1, sizeof(*args));

	for (size_t i = 0; args && i < count; i++) {
		args[i] = strdup(words[i]);
		if (!args[i]) {
			while (i-- > 0) {
				free(args[i]);
			}
			free(args);
			return -ENOMEM;
		}
	}
	if (!args) {
		return -ENOMEM;
	}
	for (size_t i = 0; i < pool->ncommand; i++) {
		free(pool->command[i]);
	}
	for (size_t i = 0; i < pool->nargs; i++) {
		free(pool->args[i]);
	}
	free(pool->command);
	free(pool->args);
	pool->command = NULL;
	pool->ncommand = 0;
	pool->args = args;
	pool->nargs = count;
	return 0;
}

/* A shell would make more of its text than words of it. */
static int take_text(struct smd_job_pool *pool, const char *text)
{
	char *copy = strdup(text);
	char **words = calloc(strlen(text) + 1, sizeof(*words));
	size_t count = 0;
	int ret = copy && words ? 0 : -ENOMEM;

	if (!ret && strpbrk(text, "\"'`$\\;&|<>(){}*?[]!#~\n")) {
		ret = -EINVAL;
	}
	for (char *rest = copy, *word; !ret && (word = strsep(&rest, BLANKS));) {
		if (*word) {
			words[count++] = word;
		}
	}
	ret = ret ? ret : set_args(pool, words + 1, count - 1);
	free(words);
	free(copy);
	return ret;
}

int smd_server_command_take(struct smd_job_pool *pool)
{
	size_t count = pool->ncommand + pool->nargs;
	char **words = join_words(pool);
	int ret;

	if (!words) {
		return -ENOMEM;
	}
	if (!is_of_words((const char *const *)words, count)) {
		ret = 0; /* its texts could not be read, which has been said */
	} else if (is_program(words[0])) {
		ret = set_args(pool, words + 1, count - 1);
	} else {
		ret = count > SHELL_WORDS ? -EINVAL : take_text(pool, started_by(words[2]));
	}
	free(words);
	return ret;
}
