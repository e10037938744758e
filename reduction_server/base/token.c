/* Reads tokens from their files. */
#include "reduction_server/base/token.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define GROUP_AND_OTHERS (S_IWGRP | S_IXGRP | S_IRWXO) /* all but reading by the group */
#define FILE_MAX         (1u << 20)
#define JOBS_FIRST       16

/* A token file as it was read, and where it is being read. */
struct token_file {
	const char *what;
	const char *path;
	char *text; /* FILE_MAX + 1 bytes, with a NUL behind the last one */
	size_t length;
	unsigned line;
	size_t room; /* for tokens */
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

/* Twice as many each time. */
static int tokens_make_room(struct smd_tokens *tokens, struct token_file *file)
{
	size_t room = tokens->njobs ? 2 * tokens->njobs : JOBS_FIRST;
	struct smd_job_token *grown;

	if (tokens->njobs < file->room) {
		return 0;
	}
	grown = calloc(room, sizeof(*grown)); /* realloc() would leave tokens behind */
	if (!grown) {
		return -ENOMEM;
	}
	if (tokens->njobs) {
		memcpy(grown, tokens->jobs, tokens->njobs * sizeof(*grown));
		explicit_bzero(tokens->jobs, tokens->njobs * sizeof(*grown));
		free(tokens->jobs);
	}
	tokens->jobs = grown;
	file->room = room;
	return 0;
}

static int tokens_add(struct smd_tokens *tokens, struct token_file *file, const char *job,
	const char *token, struct smd_error *error)
{
	struct smd_job_token *added;

	if (strlen(job) > SMD_TOKEN_JOB_MAX || strchr(job, '\t')) {
		return smd_error_set(error, EINVAL,
			"%s: %s: line %u must be a job's name of at most %d characters and its "
			"token",
			file->what, file->path, file->line, SMD_TOKEN_JOB_MAX);
	}
	if (tokens_make_room(tokens, file)) {
		return smd_error_set(error, ENOMEM, "%s: out of memory", file->what);
	}
	added = &tokens->jobs[tokens->njobs++];
	strcpy(added->job, job);
	strcpy(added->token, token);
	added->line = file->line;
	return 0;
}

/* By name, and of those of one name by line. */
static int compare_jobs(const void *a, const void *b)
{
	const struct smd_job_token *one = *(struct smd_job_token *const *)a;
	const struct smd_job_token *other = *(struct smd_job_token *const *)b;
	int order = strcmp(one->job, other->job);

	return order ? order : (one->line > other->line) - (one->line < other->line);
}

/* Puts pointers in order, since qsort() may copy what it sorts to memory that nobody wipes. Of the
 * lines that name a job again the first one is told. */
static int tokens_sort(
	struct smd_tokens *tokens, const struct token_file *file, struct smd_error *error)
{
	const struct smd_job_token *twice = NULL;

	if (tokens->njobs == 0) {
		return 0;
	}
	tokens->by_name = calloc(tokens->njobs, sizeof(struct smd_job_token *));
	if (!tokens->by_name) {
		return smd_error_set(error, ENOMEM, "%s: out of memory", file->what);
	}
	for (size_t i = 0; i < tokens->njobs; i++) {
		tokens->by_name[i] = &tokens->jobs[i];
	}
	qsort(tokens->by_name, tokens->njobs, sizeof(struct smd_job_token *), compare_jobs);
	for (size_t i = 1; i < tokens->njobs; i++) {
		const struct smd_job_token *job = tokens->by_name[i];

		if (strcmp(tokens->by_name[i - 1]->job, job->job) == 0 &&
			(!twice || job->line < twice->line)) {
			twice = job;
		}
	}
	return twice ? smd_error_set(error, EINVAL,
			       "%s: %s: line %u must name a job that no line before it names, got "
			       "\"%s\"",
			       file->what, file->path, twice->line, twice->job)
		     : 0;
}

static int tokens_take_line(struct smd_tokens *tokens, struct token_file *file, char *line,
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
	ret = ret ? ret : tokens_sort(out, &file, error);
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

/* Of a job of that name alone. NULL: there is none. */
static const char *find_name(const struct smd_tokens *tokens, const char *job)
{
	const struct smd_job_token *found = NULL;
	size_t first = 0;
	size_t n = tokens->njobs;

	/* It takes as long for a name that is not there. */
	while (n) {
		size_t half = n / 2;
		struct smd_job_token *middle = tokens->by_name[first + half];
		int order = strcmp(job, middle->job);

		found = order == 0 ? middle : found;
		first += order > 0 ? half + 1 : 0;
		n = order > 0 ? n - half - 1 : half;
	}
	return found ? found->token : NULL;
}

/* The name without the number of an attempt; all of it where there is none. */
static void name_of(const char *job, char out[SMD_TOKEN_JOB_MAX + 1])
{
	char *mark;

	snprintf(out, SMD_TOKEN_JOB_MAX + 1, "%s", job);
	mark = strrchr(out, SMD_TOKEN_ATTEMPT[0]);
	if (mark && mark[1] && mark[1 + strspn(mark + 1, "0123456789")] == '\0') {
		*mark = '\0';
	}
}

const char *smd_tokens_find(const struct smd_tokens *tokens, const char *job)
{
	char name[SMD_TOKEN_JOB_MAX + 1];
	const char *own = find_name(tokens, job);
	const char *named;

	name_of(job, name);
	named = find_name(tokens, name);
	own = own ? own : named;
	return own ? own : tokens->every;
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
	free(tokens->by_name);
	*tokens = (struct smd_tokens){.njobs = 0};
}
