/* Reads a job's stream from a time on. */
#include "orchestrator/service/job_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "reduction_server/base/printable.h"

#define LOG       "job.log"
#define OLDER_LOG "job.log.1"
#define NEAR      65536               /* bytes that are read one line after the other */
#define SKIP_MAX  ((size_t)256 << 20) /* of a second whose last lines are asked for */

struct log_reader {
	struct smd_log_span span;
	size_t left;  /* bytes that may be looked at */
	size_t skips; /* and bytes that may be read only to count the lines of a second */
	off_t from;   /* where those begin that are asked for */
	int64_t second;
	uint64_t ordinal;
	smd_log_line_fn *take;
	void *arg;
	char *line;
	size_t size;
};

/* "2026-01-31 12:00:00 +0100" */
static int take_time(const char *text, int64_t *second)
{
	struct tm parts = {.tm_mday = 1};
	const char *end = strptime(text, "%Y-%m-%d %H:%M:%S %z", &parts);
	long offset = parts.tm_gmtoff;

	if (!end || *end) {
		return -EINVAL;
	}
	*second = (int64_t)timegm(&parts) - offset;
	return 0;
}

int smd_log_line_parse(char *text, struct smd_log_line *out)
{
	char *severity = strsep(&text, "\t");
	char *stamp = strsep(&text, "\t");
	char *task = strsep(&text, "\t");

	if (!text || take_time(stamp, &out->second)) {
		return -EINVAL;
	}
	smd_printable(severity); /* a replica may have written it */
	smd_printable(task);
	out->severity = severity;
	out->task = task;
	out->text = text;
	out->ordinal = 0;
	return 0;
}

/* A line that has an end. 0: there is none. */
static ssize_t next_line(struct log_reader *reader, FILE *file)
{
	ssize_t length = getline(&reader->line, &reader->size, file);

	if (length <= 0 || reader->line[length - 1] != '\n') {
		return 0;
	}
	reader->line[length - 1] = '\0';
	for (ssize_t i = 0; i < length - 1; i++) { /* else the rest of the line were lost */
		reader->line[i] = reader->line[i] ? reader->line[i] : '?';
	}
	return length;
}

/* The second of the first line that begins behind the offset; -1: there is none. */
static int64_t second_behind(struct log_reader *reader, FILE *file, off_t offset)
{
	struct smd_log_line line;

	if (fseeko(file, offset, SEEK_SET) || (offset > 0 && next_line(reader, file) == 0)) {
		return -1;
	}
	while (next_line(reader, file) > 0) {
		if (smd_log_line_parse(reader->line, &line) == 0) {
			return line.second;
		}
	}
	return -1;
}

static off_t size_of(FILE *file)
{
	struct stat status;

	return file && fstat(fileno(file), &status) == 0 ? status.st_size : 0;
}

/* Moves to a line before which all are of earlier seconds: lines are in the order of time. */
static void seek_first(struct log_reader *reader, FILE *file)
{
	off_t low = 0;
	off_t high = size_of(file);

	while (high - low > NEAR) {
		off_t middle = low + (high - low) / 2;
		int64_t second = second_behind(reader, file, middle);

		if (second >= 0 && second < reader->span.first) {
			low = middle;
		} else {
			high = middle;
		}
	}
	fseeko(file, low, SEEK_SET);
	if (low > 0) {
		next_line(reader, file);
	}
}

/* Leaves aside all but so many bytes, and moves to the beginning of the second that these begin in:
 * a line's number in its second is that of all readings. */
static void seek_last(struct log_reader *reader, FILE *file, size_t bytes_max)
{
	off_t from = size_of(file) - (off_t)bytes_max;
	int64_t second;

	if (from <= ftello(file)) {
		return;
	}
	second = second_behind(reader, file, from);
	reader->from = from;
	if (second > reader->span.first) {
		reader->span.first = second;
	}
	seek_first(reader, file);
}

static int is_before(const struct log_reader *reader, const struct smd_log_line *line, off_t at)
{
	return at < reader->from ||
	       (line->second == reader->span.first && line->ordinal < reader->span.first_ordinal);
}

/* Takes `count` bytes from the rest. 0; -EFBIG: there are not so many. */
static int charge(size_t *rest, size_t count)
{
	if (count > *rest) {
		return -EFBIG;
	}
	*rest -= count;
	return 0;
}

static int take_line(struct log_reader *reader, off_t at, size_t length)
{
	struct smd_log_line line;
	int ret;

	if (smd_log_line_parse(reader->line, &line) || line.second < reader->span.first) {
		return charge(&reader->left, length);
	}
	if (line.second != reader->second) {
		reader->second = line.second;
		reader->ordinal = 0;
	}
	line.ordinal = reader->ordinal++;
	if (is_before(reader, &line, at)) {
		return charge(&reader->skips, length);
	}
	ret = charge(&reader->left, length);
	return ret ? ret : reader->take(reader->arg, &line);
}

/* `later` bytes follow in another file. */
static int read_file(struct log_reader *reader, FILE *file, size_t later)
{
	ssize_t length;
	off_t at;
	int ret = 0;

	seek_first(reader, file);
	reader->from = 0;
	if (reader->span.is_end) {
		seek_last(reader, file, reader->left > later ? reader->left - later : 0);
	}
	at = ftello(file);
	while (!ret && (length = next_line(reader, file)) > 0) {
		ret = take_line(reader, at, (size_t)length);
		at += length;
		if (!ret && reader->second > reader->span.last) {
			return 0;
		}
	}
	return ret;
}

static FILE *open_log(int folder, const char *name)
{
	int fd = openat(folder, name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY);
	struct stat status;
	FILE *file;

	if (fd < 0) {
		return NULL;
	}
	file = fstat(fd, &status) == 0 && S_ISREG(status.st_mode) ? fdopen(fd, "r") : NULL;
	if (!file) {
		close(fd);
	}
	return file;
}

static int is_same(FILE *a, FILE *b)
{
	struct stat one, other;

	return fstat(fileno(a), &one) == 0 && fstat(fileno(b), &other) == 0 &&
	       one.st_ino == other.st_ino && one.st_dev == other.st_dev;
}

/* The later file is opened first: if it has been renamed by then, it is read once. */
static int read_both(struct log_reader *reader, int folder)
{
	FILE *later = open_log(folder, LOG);
	FILE *older = open_log(folder, OLDER_LOG);
	int ret = 0;

	if (older && !(later && is_same(older, later))) {
		ret = read_file(reader, older, (size_t)size_of(later));
	}
	if (!ret && later) {
		ret = read_file(reader, later, 0);
	}
	if (older) {
		fclose(older);
	}
	if (later) {
		fclose(later);
	}
	return ret;
}

int smd_job_log_read(
	const char *directory, const struct smd_log_span *span, smd_log_line_fn *take, void *arg)
{
	struct log_reader reader = {.span = *span,
		.left = span->bytes_max,
		.skips = SKIP_MAX,
		.second = INT64_MIN,
		.take = take,
		.arg = arg};
	char *path = NULL;
	int folder;
	int ret = 0;

	if (!*directory) {
		return 0;
	}
	if (asprintf(&path, "%s/logs", directory) < 0) {
		return -ENOMEM;
	}
	folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	free(path);
	if (folder >= 0) {
		ret = read_both(&reader, folder);
		close(folder);
	}
	free(reader.line);
	return ret;
}
