/* Reads secrets from their folder, and puts them where a job refers to them. */
#include "orchestrator/job/secrets.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BEGIN      "$(secret:"
#define NAME_MAX_  128
#define CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"
#define OTHERS     077 /* bits of a mode */

/* ---- references ---- */

/* A reference in a text. */
struct reference {
	const char *begin;
	const char *end; /* behind it */
	const char *name;
	size_t length;
};

/* The next one at `text` or behind. "$$" is a dollar sign. 0: there is none. */
static int find_reference(const char *text, struct reference *out)
{
	for (; (text = strchr(text, '$')); text++) {
		const char *close;

		if (text[1] == '$') {
			text++;
			continue;
		}
		close = strncmp(text, BEGIN, strlen(BEGIN)) == 0 ? strchr(text, ')') : NULL;
		if (close) {
			*out = (struct reference){.begin = text,
				.end = close + 1,
				.name = text + strlen(BEGIN),
				.length = (size_t)(close - text) - strlen(BEGIN)};
			return 1;
		}
	}
	return 0;
}

int smd_secret_is_reference(const char *text)
{
	struct reference reference;

	return find_reference(text, &reference) && reference.begin == text && !*reference.end;
}

/* Whether the text refers to the variable, by $(NAME); as a shell would where the job says so. */
static int refers_to(const struct smd_job *job, const char *text, const char *name)
{
	size_t length = strlen(name);

	for (; (text = strchr(text, '$')); text++) {
		const char *at = text + 1;
		char open = *at;

		if (open == '$') {
			text++;
		} else if (open == '(' || (open == '{' && job->has_shell_arguments)) {
			if (strncmp(at + 1, name, length) == 0 &&
				at[1 + length] == (open == '(' ? ')' : '}')) {
				return 1;
			}
		} else if (job->has_shell_arguments && strncmp(at, name, length) == 0 &&
			   !strchr(CHARACTERS, at[length])) {
			return 1;
		}
	}
	return 0;
}

/* Marks the variables whose values have a secret, their own or another one's. */
static void mark(const struct smd_job *job, const struct smd_job_pool *pool, int *has_secret)
{
	struct reference reference;
	int is_new = 0;

	for (size_t i = 0; i < pool->nenv; i++) {
		has_secret[i] = find_reference(pool->env[i].value, &reference);
		is_new |= has_secret[i];
	}
	while (is_new) {
		is_new = 0;
		for (size_t i = 0; i < pool->nenv; i++) {
			for (size_t n = 0; n < pool->nenv && !has_secret[i]; n++) {
				has_secret[i] = has_secret[n] && refers_to(job, pool->env[i].value,
										 pool->env[n].name);
				is_new |= has_secret[i];
			}
		}
	}
}

static int check_word(const struct smd_job *job, const struct smd_job_pool *pool, const char *word,
	const int *has_secret, struct smd_error *error)
{
	struct reference reference;

	if (find_reference(word, &reference)) {
		return smd_error_set(error, EINVAL,
			"workerpool%d: a secret must be in the value of a variable, and not on a "
			"command line, which others can read: \"%.64s\". For a program that wants "
			"a file let a shell write one: sh -c 'umask 077; printf %%s \"$TOKEN\" "
			">token; exec PROGRAM --token-file=token'",
			pool->index, word);
	}
	for (size_t i = 0; i < pool->nenv; i++) {
		if (has_secret[i] && refers_to(job, word, pool->env[i].name)) {
			return smd_error_set(error, EINVAL,
				"workerpool%d: %.64s has a secret, and must not be on a command line, "
				"which others can read: let the program read the variable",
				pool->index, pool->env[i].name);
		}
	}
	return 0;
}

static int check_words(
	const struct smd_job *job, const struct smd_job_pool *pool, struct smd_error *error)
{
	int *has_secret = calloc(pool->nenv + 1, sizeof(*has_secret));
	int ret = has_secret ? 0 : smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));

	if (!ret) {
		mark(job, pool, has_secret);
	}
	for (size_t i = 0; i < pool->ncommand && !ret; i++) {
		ret = check_word(job, pool, pool->command[i], has_secret, error);
	}
	for (size_t i = 0; i < pool->nargs && !ret; i++) {
		ret = check_word(job, pool, pool->args[i], has_secret, error);
	}
	free(has_secret);
	return ret;
}

/* ---- the folder ---- */

/* -errno with a text: it is not this user's alone. */
static int check_private(
	const char *path, const char *name, const struct stat *status, struct smd_error *error)
{
	const char *slash = *name ? "/" : "";

	if (status->st_uid != geteuid()) {
		return smd_error_set(error, EACCES,
			"--secrets: %s%s%s: must belong to user %u, got %u", path, slash, name,
			(unsigned)geteuid(), (unsigned)status->st_uid);
	}
	if (status->st_mode & OTHERS) {
		return smd_error_set(error, EACCES,
			"--secrets: %s%s%s: must be for its owner alone, got mode %04o; chmod go= "
			"makes it so",
			path, slash, name, status->st_mode & 07777);
	}
	return 0;
}

static int open_folder(const char *path, struct smd_error *error)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat status;
	int ret;

	if (fd < 0 || fstat(fd, &status)) {
		ret = smd_error_set(error, errno, "--secrets: %s: %s", path, strerror(errno));
	} else {
		ret = check_private(path, "", &status, error);
	}
	if (ret && fd >= 0) {
		close(fd);
	}
	return ret ? ret : fd;
}

int smd_secrets_check_folder(const char *folder, struct smd_error *error)
{
	int fd = open_folder(folder, error);

	if (fd >= 0) {
		close(fd);
	}
	return fd < 0 ? fd : 0;
}

/* Without the newline that an editor puts there. */
static int read_value(
	int fd, const char *path, const char *name, char **out, struct smd_error *error)
{
	char *text = calloc(1, SMD_SECRET_MAX + 2);
	size_t length = 0;
	ssize_t count = 1;
	json_t *valid;

	while (text && length <= SMD_SECRET_MAX && count > 0) {
		count = read(fd, text + length, SMD_SECRET_MAX + 1 - length);
		length += count > 0 ? (size_t)count : 0;
	}
	if (text && length > 0 && length <= SMD_SECRET_MAX && text[length - 1] == '\n') {
		text[--length] = '\0';
	}
	valid = text ? json_stringn(text, length) : NULL;
	json_decref(valid);
	if (!valid || count < 0 || length < SMD_SECRET_MIN || length > SMD_SECRET_MAX ||
		strlen(text) != length) {
		if (text) {
			explicit_bzero(text, SMD_SECRET_MAX + 2);
		}
		free(text);
		return smd_error_set(error, EINVAL,
			"--secrets: %s/%s: must be a text of %d to %d bytes", path, name,
			SMD_SECRET_MIN, SMD_SECRET_MAX);
	}
	*out = text;
	return 0;
}

static int open_secret(int folder, const char *path, const char *name, struct smd_error *error)
{
	int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat status;
	int ret;

	if (fd < 0 && errno == ENOENT) {
		return smd_error_set(error, ENOENT, "there is no secret \"%s\"", name);
	}
	if (fd < 0 || fstat(fd, &status) || !S_ISREG(status.st_mode)) {
		ret = smd_error_set(error, fd < 0 ? errno : EINVAL,
			"--secrets: %s/%s: must be a regular file, and no link", path, name);
	} else {
		ret = check_private(path, name, &status, error);
	}
	if (ret && fd >= 0) {
		close(fd);
	}
	return ret ? ret : fd;
}

static int add(struct smd_secrets *secrets, int folder, const char *path, const char *name,
	struct smd_error *error)
{
	void *list = realloc(secrets->list, (secrets->count + 1) * sizeof(*secrets->list));
	struct smd_secret_value *secret;
	int fd;
	int ret;

	if (!list) {
		return smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
	}
	secrets->list = list;
	fd = open_secret(folder, path, name, error);
	if (fd < 0) {
		return fd;
	}
	secret = &secrets->list[secrets->count];
	*secret = (struct smd_secret_value){.name = strdup(name)};
	ret = secret->name ? read_value(fd, path, name, &secret->value, error)
			   : smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
	close(fd);
	if (ret) {
		free(secret->name);
		return ret;
	}
	secrets->count++;
	return 0;
}

static const char *value_of(const struct smd_secrets *secrets, const char *name, size_t length)
{
	for (size_t i = 0; i < secrets->count; i++) {
		if (strncmp(secrets->list[i].name, name, length) == 0 &&
			!secrets->list[i].name[length]) {
			return secrets->list[i].value;
		}
	}
	return NULL;
}

static int add_referred(struct smd_secrets *secrets, int folder, const char *path,
	const struct smd_variable *variable, struct smd_error *error)
{
	const char *text = variable->value;
	struct reference reference;
	int ret = 0;

	while (!ret && find_reference(text, &reference)) {
		char name[NAME_MAX_ + 1];

		text = reference.end;
		if (reference.length == 0 || reference.length > NAME_MAX_ ||
			strspn(reference.name, CHARACTERS) < reference.length ||
			*reference.name == '.') {
			return smd_error_set(error, EINVAL,
				"%.64s: a secret must have a name of letters, digits, underscores, "
				"dots and dashes, got \"%.*s\"",
				variable->name,
				(int)(reference.length < 64 ? reference.length : 64), reference.name);
		}
		snprintf(name, sizeof(name), "%.*s", (int)reference.length, reference.name);
		if (folder < 0) {
			ret = smd_error_set(error, ENOENT,
				"%.64s: there are no secrets here: --secrets=DIR names their folder",
				variable->name);
		} else if (!value_of(secrets, name, strlen(name))) {
			ret = add(secrets, folder, path, name, error);
		}
	}
	return ret;
}

/* ---- a job's ---- */

int smd_secrets_are_needed(const struct smd_job *job)
{
	struct reference reference;

	for (int i = 0; i < SMD_JOB_POOLS_MAX; i++) {
		const struct smd_job_pool *pool = &job->pools[i];

		for (size_t n = 0; n < pool->nenv; n++) {
			if (find_reference(pool->env[n].value, &reference)) {
				return 1;
			}
		}
		for (size_t n = 0; n < pool->ncommand; n++) {
			if (find_reference(pool->command[n], &reference)) {
				return 1;
			}
		}
		for (size_t n = 0; n < pool->nargs; n++) {
			if (find_reference(pool->args[n], &reference)) {
				return 1;
			}
		}
	}
	return 0;
}

int smd_secrets_read(const char *folder, const struct smd_job *job, struct smd_secrets *out,
	struct smd_error *error)
{
	int fd = -1;
	int ret = 0;

	*out = (struct smd_secrets){.count = 0};
	if (!smd_secrets_are_needed(job)) {
		return 0;
	}
	if (folder) {
		fd = open_folder(folder, error);
		ret = fd < 0 ? fd : 0;
	}
	for (int i = 0; i < SMD_JOB_POOLS_MAX && !ret; i++) {
		const struct smd_job_pool *pool = &job->pools[i];

		ret = check_words(job, pool, error);
		for (size_t n = 0; n < pool->nenv && !ret; n++) {
			ret = add_referred(out, fd, folder, &pool->env[n], error);
		}
	}
	if (fd >= 0) {
		close(fd);
	}
	if (ret) {
		smd_secrets_clear(out);
	}
	return ret;
}

static void wipe(char *text)
{
	if (text) {
		explicit_bzero(text, strlen(text));
	}
	free(text);
}

void smd_secrets_clear(struct smd_secrets *secrets)
{
	for (size_t i = 0; i < secrets->count; i++) {
		free(secrets->list[i].name);
		wipe(secrets->list[i].value);
	}
	free(secrets->list);
	*secrets = (struct smd_secrets){.count = 0};
}

/* References to variables are expanded later, so what a value has of dollar signs is escaped. */
static int write_value(const struct smd_secrets *secrets, const char *text, FILE *out)
{
	struct reference reference;

	while (find_reference(text, &reference)) {
		const char *value = value_of(secrets, reference.name, reference.length);
		char *escaped = value ? smd_reference_escape(value) : NULL;

		fwrite(text, 1, (size_t)(reference.begin - text), out);
		if (!escaped) {
			return -ENOMEM;
		}
		fputs(escaped, out);
		wipe(escaped);
		text = reference.end;
	}
	fputs(text, out);
	return 0;
}

static char *resolve(const struct smd_secrets *secrets, const char *text)
{
	char *result = NULL;
	size_t length;
	FILE *out = open_memstream(&result, &length);
	int ret = out ? write_value(secrets, text, out) : -ENOMEM;

	if ((out && fclose(out)) || ret) {
		wipe(result);
		return NULL;
	}
	return result;
}

static int resolve_pool(const struct smd_secrets *secrets, struct smd_job_pool *pool)
{
	const struct smd_variable *from = pool->env;

	pool->env = calloc(pool->nenv + 1, sizeof(*pool->env));
	if (!pool->env) {
		return -ENOMEM;
	}
	for (size_t i = 0; i < pool->nenv; i++) {
		pool->env[i].name = from[i].name;
		pool->env[i].value = resolve(secrets, from[i].value);
		if (!pool->env[i].value) {
			return -ENOMEM;
		}
	}
	return 0;
}

int smd_secrets_resolve(
	const struct smd_secrets *secrets, const struct smd_job *job, struct smd_job *out)
{
	int ret = 0;

	*out = *job;
	for (int i = 0; i < SMD_JOB_POOLS_MAX; i++) {
		if (ret) {
			out->pools[i].env = NULL; /* the job's own */
		} else {
			ret = resolve_pool(secrets, &out->pools[i]);
		}
	}
	if (ret) {
		smd_secrets_resolved_clear(out);
	}
	return ret;
}

void smd_secrets_resolved_clear(struct smd_job *resolved)
{
	for (int i = 0; i < SMD_JOB_POOLS_MAX; i++) {
		struct smd_job_pool *pool = &resolved->pools[i];

		for (size_t n = 0; pool->env && n < pool->nenv; n++) {
			wipe(pool->env[n].value);
		}
		free(pool->env);
		pool->env = NULL;
	}
}
