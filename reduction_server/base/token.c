/* Reads tokens from their files. */
#include "reduction_server/base/token.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define GROUP_AND_OTHERS (S_IWGRP | S_IXGRP | S_IRWXO) /* all but reading by the group */
#define FILE_MAX         (1u << 20)

/* A token file as it was read, and where it is being read. */
struct token_file {
	const char *what;
	const char *path;
	char *text; /* FILE_MAX + 1 bytes, with a NUL behind the last one */
	size_t length;
	unsigned line;
};

/*
 * Others could use what they can read, and put a token of theirs in its place. The group may read,
 * because that is how systemd and Kubernetes hand a secret to a user that does not own it. What has
 * no name cannot be opened by others: an inherited pipe, or memory.
 */
static int check_private(const struct token_file *file, int fd, struct smd_error *error)
{
	struct stat status;

	if (fstat(fd, &status)) {
		return smd_error_set(
			error, errno, "%s: cannot read %s: %m", file->what, file->path);
	}
	if (status.st_nlink && (status.st_mode & GROUP_AND_OTHERS)) {
		return smd_error_set(error, EACCES,
			"%s: %s must be for its owner alone to write and for nobody else but its "
			"group to read, got mode %04o: chmod 600 %s",
			file->what, file->path, status.st_mode & 07777, file->path);
	}
	return 0;
}

static int read_all(struct token_file *file, int fd, struct smd_error *error)
{
	for (;;) {
		ssize_t got = read(fd, file->text + file->length, FILE_MAX + 1 - file->length);

		if (got < 0 && errno == EINTR) {
			continue;
		}
		if (got < 0) {
			return smd_error_set(
				error, errno, "%s: cannot read %s: %m", file->what, file->path);
		}
		file->length += (size_t)got;
		if (file->length > FILE_MAX) {
			return smd_error_set(error, EINVAL, "%s: %s must have at most %u bytes",
				file->what, file->path, FILE_MAX);
		}
		if (got == 0) {
			file->text[file->length] = '\0';
			return 0;
		}
	}
}

static void file_close(struct token_file *file)
{
	if (file->text) {
		explicit_bzero(file->text, FILE_MAX + 1);
	}
	free(file->text);
}

static int file_open(
	const char *what, const char *path, struct token_file *file, struct smd_error *error)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	int ret;

	*file = (struct token_file){.what = what, .path = path};
	if (fd < 0) {
		return smd_error_set(error, errno, "%s: cannot read %s: %m", what, path);
	}
	file->text = malloc(FILE_MAX + 1);
	ret = file->text ? check_private(file, fd, error)
			 : smd_error_set(error, ENOMEM, "%s: out of memory", what);
	if (ret == 0) {
		ret = read_all(file, fd, error);
	}
	close(fd);
	if (ret) {
		file_close(file);
	}
	return ret;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/*
 * The next line that says something, without blanks around it, from *at on, which goes past it;
 * NULL: there is none. Lines are cut in place; a NUL in one is found by check_characters().
 */
static char *file_next_line(struct token_file *file, char **at, size_t *length)
{
	const char *all = file->text + file->length;

	while (*at < all) {
		char *line = *at;
		char *end = memchr(line, '\n', (size_t)(all - line));

		end = end ? end : line + (all - line);
		*at = end + 1;
		file->line++;
		while (end > line && (is_blank(end[-1]) || end[-1] == '\r')) {
			end--;
		}
		while (line < end && is_blank(*line)) {
			line++;
		}
		if (line < end && *line != '#') {
			*end = '\0';
			*length = (size_t)(end - line);
			return line;
		}
	}
	return NULL;
}

static int check_characters(
	const struct token_file *file, const char *line, size_t length, struct smd_error *error)
{
	for (size_t i = 0; i < length; i++) {
		unsigned char c = (unsigned char)line[i];

		if ((c < 0x20 && c != '\t') || c == 0x7f) {
			return smd_error_set(error, EINVAL,
				"%s: %s: line %u must have no control characters", file->what,
				file->path, file->line);
		}
	}
	return 0;
}

/* The name of the job: all before the last word, which is the token. NULL: there is one word. */
static char *split_line(char *line, size_t length, char **token)
{
	char *at = line + length;

	while (at > line && !is_blank(at[-1])) {
		at--;
	}
	*token = at;
	if (at == line) {
		return NULL;
	}
	while (is_blank(at[-1])) {
		*--at = '\0';
	}
	return line;
}

static int not_a_token(const struct token_file *file, struct smd_error *error)
{
	return smd_error_set(error, EINVAL, "%s: %s must hold 1 to %d characters without spaces",
		file->what, file->path, SMD_TOKEN_MAX);
}

static int tokens_add(struct smd_tokens *tokens, const struct token_file *file, const char *job,
	const char *token, struct smd_error *error)
{
	struct smd_job_token *grown;

	if (strlen(job) > SMD_TOKEN_JOB_MAX || strchr(job, '\t')) {
		return smd_error_set(error, EINVAL,
			"%s: %s: line %u must be a job's name of at most %d characters and its "
			"token",
			file->what, file->path, file->line, SMD_TOKEN_JOB_MAX);
	}
	if (smd_tokens_find(tokens, job)) {
		return smd_error_set(error, EINVAL,
			"%s: %s: line %u must name a job that no line before it names, got \"%s\"",
			file->what, file->path, file->line, job);
	}
	grown = calloc(tokens->njobs + 1, sizeof(*grown)); /* realloc() would leave tokens behind */
	if (!grown) {
		return smd_error_set(error, ENOMEM, "%s: out of memory", file->what);
	}
	if (tokens->njobs) {
		memcpy(grown, tokens->jobs, tokens->njobs * sizeof(*grown));
		explicit_bzero(tokens->jobs, tokens->njobs * sizeof(*grown));
		free(tokens->jobs);
	}
	strcpy(grown[tokens->njobs].job, job);
	strcpy(grown[tokens->njobs].token, token);
	tokens->jobs = grown;
	tokens->njobs++;
	return 0;
}

static int tokens_take_line(struct smd_tokens *tokens, const struct token_file *file, char *line,
	size_t length, struct smd_error *error)
{
	char *token;
	const char *job;
	int ret = check_characters(file, line, length, error);

	if (ret) {
		return ret;
	}
	job = split_line(line, length, &token);
	if (strlen(token) > SMD_TOKEN_MAX) {
		return not_a_token(file, error);
	}
	if (tokens->every || (!job && tokens->njobs)) {
		return smd_error_set(error, EINVAL,
			"%s: %s must hold one token, for every job, or a line \"JOB TOKEN\" for "
			"each job, got both or more: see line %u",
			file->what, file->path, file->line);
	}
	if (job) {
		return tokens_add(tokens, file, job, token, error);
	}
	tokens->every = strdup(token);
	return tokens->every ? 0 : smd_error_set(error, ENOMEM, "%s: out of memory", file->what);
}

int smd_tokens_read(
	const char *what, const char *path, struct smd_tokens *out, struct smd_error *error)
{
	struct token_file file;
	size_t length;
	char *line;
	char *at;
	int ret = file_open(what, path, &file, error);

	*out = (struct smd_tokens){.njobs = 0};
	if (ret) {
		return ret;
	}
	at = file.text;
	while (ret == 0 && (line = file_next_line(&file, &at, &length))) {
		ret = tokens_take_line(out, &file, line, length, error);
	}
	if (ret == 0 && !out->every && out->njobs == 0) {
		ret = not_a_token(&file, error);
	}
	file_close(&file);
	if (ret) {
		smd_tokens_free(out);
	}
	return ret;
}

int smd_token_read(
	const char *what, const char *path, char token[SMD_TOKEN_MAX + 1], struct smd_error *error)
{
	struct smd_tokens tokens;
	int ret = smd_tokens_read(what, path, &tokens, error);

	if (ret == 0 && !tokens.every) {
		ret = smd_error_set(error, EINVAL,
			"%s: %s must hold one token without spaces, and no line \"JOB TOKEN\": "
			"only servers know more than one job",
			what, path);
	} else if (ret == 0) {
		strcpy(token, tokens.every);
	}
	smd_tokens_free(&tokens);
	return ret;
}

const char *smd_tokens_find(const struct smd_tokens *tokens, const char *job)
{
	const char *found = tokens->every;

	for (size_t i = 0; i < tokens->njobs; i++) { /* all, so that the time tells nothing */
		found = strcmp(tokens->jobs[i].job, job) == 0 ? tokens->jobs[i].token : found;
	}
	return found;
}

void smd_tokens_free(struct smd_tokens *tokens)
{
	if (tokens->every) {
		explicit_bzero(tokens->every, strlen(tokens->every));
		free(tokens->every);
	}
	if (tokens->jobs) {
		explicit_bzero(tokens->jobs, tokens->njobs * sizeof(*tokens->jobs));
		free(tokens->jobs);
	}
	*tokens = (struct smd_tokens){.njobs = 0};
}
