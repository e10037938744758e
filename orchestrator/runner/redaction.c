/* Replaces secrets by the mask. */
#include "orchestrator/runner/redaction.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/job/secret.h"

#define LINE_MIN 8         /* bytes of a line of a value that counts by itself */
#define FILE_MAX (1u << 20) /* bytes of one that is rewritten */

static int add(struct smd_redaction *redaction, const char *text, size_t length)
{
	void *list = realloc(redaction->list, (redaction->count + 1) * sizeof(*redaction->list));

	if (!list) {
		return -ENOMEM;
	}
	redaction->list = list;
	redaction->list[redaction->count++] = (struct smd_redacted){.text = text, .length = length};
	redaction->begins[(unsigned char)*text] = 1;
	return 0;
}

static int add_lines(struct smd_redaction *redaction, const char *value)
{
	int ret = 0;

	for (const char *line = value; *line && !ret;) {
		size_t length = strcspn(line, "\r\n");

		ret = length >= LINE_MIN ? add(redaction, line, length) : 0;
		line += length;
		line += strspn(line, "\r\n");
	}
	return ret;
}

static int is_longer(const void *a, const void *b)
{
	const struct smd_redacted *one = a;
	const struct smd_redacted *other = b;

	return (one->length < other->length) - (one->length > other->length);
}

int smd_redaction_open(struct smd_redaction *redaction, const struct smd_secrets *secrets)
{
	int ret = 0;

	*redaction = (struct smd_redaction){.count = 0};
	for (size_t i = 0; i < secrets->count && !ret; i++) {
		const char *value = secrets->list[i].value;

		ret = add(redaction, value, strlen(value));
		ret = ret || !strpbrk(value, "\r\n") ? ret : add_lines(redaction, value);
	}
	if (redaction->count > 0) {
		qsort(redaction->list, redaction->count, sizeof(*redaction->list), is_longer);
	}
	return ret;
}

void smd_redaction_close(struct smd_redaction *redaction)
{
	free(redaction->list);
	*redaction = (struct smd_redaction){.count = 0};
}

/* The length of the secret at the bytes; 0: there is none; -1: there may be one, when more has come. */
static ssize_t match(
	const struct smd_redaction *redaction, const char *bytes, size_t count, int is_end)
{
	if (!redaction->begins[(unsigned char)*bytes]) {
		return 0;
	}
	for (size_t i = 0; i < redaction->count; i++) {
		const struct smd_redacted *one = &redaction->list[i];

		if (one->length <= count && memcmp(one->text, bytes, one->length) == 0) {
			return (ssize_t)one->length;
		}
		if (!is_end && one->length > count && memcmp(one->text, bytes, count) == 0) {
			return -1;
		}
	}
	return 0;
}

/* How many bytes are done with. */
static size_t redact(const struct smd_redaction *redaction, const char *bytes, size_t count,
	int is_end, smd_redaction_fn *take, void *arg)
{
	size_t plain = 0; /* where what was not handed on begins */
	size_t at = 0;

	while (at < count) {
		ssize_t length = match(redaction, bytes + at, count - at, is_end);

		if (length == 0) {
			at++;
			continue;
		}
		if (at > plain) {
			take(arg, bytes + plain, at - plain);
		}
		if (length < 0) {
			return at;
		}
		take(arg, SMD_SECRET_MASK, strlen(SMD_SECRET_MASK));
		at += (size_t)length;
		plain = at;
	}
	if (at > plain) {
		take(arg, bytes + plain, at - plain);
	}
	return count;
}

static int hold(struct smd_redacted_stream *stream, const char *bytes, size_t count)
{
	if (count == 0) {
		return 0;
	}
	if (stream->length + count > stream->size) {
		size_t size = 2 * (stream->length + count);
		char *held = realloc(stream->held, size);

		if (!held) {
			return -ENOMEM;
		}
		stream->held = held;
		stream->size = size;
	}
	memcpy(stream->held + stream->length, bytes, count);
	stream->length += count;
	return 0;
}

void smd_redaction_feed(const struct smd_redaction *redaction, struct smd_redacted_stream *stream,
	const char *bytes, size_t count, smd_redaction_fn *take, void *arg)
{
	size_t done;

	if (stream->length == 0) {
		done = redact(redaction, bytes, count, 0, take, arg);
		hold(stream, bytes + done, count - done);
	} else if (hold(stream, bytes, count) == 0) {
		done = redact(redaction, stream->held, stream->length, 0, take, arg);
		stream->length -= done;
		memmove(stream->held, stream->held + done, stream->length);
	}
}

void smd_redaction_finish(const struct smd_redaction *redaction,
	struct smd_redacted_stream *stream, smd_redaction_fn *take, void *arg)
{
	if (stream->length > 0) {
		redact(redaction, stream->held, stream->length, 1, take, arg);
		explicit_bzero(stream->held, stream->size);
	}
	free(stream->held);
	*stream = (struct smd_redacted_stream){.length = 0};
}

static void write_bytes(void *arg, const char *bytes, size_t count)
{
	fwrite(bytes, 1, count, arg);
}

char *smd_redaction_apply(const struct smd_redaction *redaction, char *text)
{
	char *result = NULL;
	size_t length;
	FILE *out;

	if (!text || !redaction || redaction->count == 0) {
		return text;
	}
	out = open_memstream(&result, &length);
	if (out) {
		redact(redaction, text, strlen(text), 1, write_bytes, out);
	}
	explicit_bzero(text, strlen(text));
	free(text);
	if (!out || fclose(out)) {
		free(result);
		return NULL;
	}
	return result;
}

static char *read_text(const struct smd_jobdir *dir, const char *name)
{
	size_t size;
	FILE *file = smd_jobdir_read_file(dir, name, &size);
	char *text = file && size <= FILE_MAX ? calloc(1, size + 1) : NULL;

	if (text && fread(text, 1, size, file) != size) {
		free(text);
		text = NULL;
	}
	if (file) {
		fclose(file);
	}
	return text;
}

void smd_redaction_rewrite(const struct smd_redaction *redaction, const struct smd_jobdir *dir,
	const char *name)
{
	char *text = smd_redaction_apply(redaction, read_text(dir, name));

	if (!text || smd_jobdir_write(dir, name, text, strlen(text))) {
		smd_jobdir_remove(dir, name);
	}
	free(text);
}
