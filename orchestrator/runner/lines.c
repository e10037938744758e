/* Cuts a stream into lines. */
#include "orchestrator/runner/lines.h"

#include <stdlib.h>
#include <string.h>

static char *buffer_of(struct smd_lines *lines)
{
	return lines->large ? lines->large : lines->small;
}

static size_t size_of(const struct smd_lines *lines)
{
	return lines->large ? lines->large_size : SMD_LINES_BUFFER;
}

/* Few lines are long, and these do not stay. */
static void shrink(struct smd_lines *lines)
{
	free(lines->large);
	lines->large = NULL;
	lines->large_size = 0;
}

/* A line that may be JSON is of use as a whole only. Where there is no memory it comes in parts. */
static void grow(struct smd_lines *lines)
{
	size_t size = 2 * size_of(lines);
	char *larger;

	if (lines->continued || lines->small[0] != '{' || size > SMD_LINES_JSON_MAX) {
		return;
	}
	larger = realloc(lines->large, size + 1);
	if (!larger) {
		return;
	}
	if (!lines->large) {
		memcpy(larger, lines->small, lines->used);
	}
	lines->large = larger;
	lines->large_size = size;
}

/* Hands on the first part of what is there; the rest begins another line. */
static void hand_on(struct smd_lines *lines, size_t length, int is_cut)
{
	char *buffer = buffer_of(lines);
	size_t rest = lines->used - length;
	char after = buffer[length];
	struct smd_line line = {
		.text = buffer, .length = length, .continued = lines->continued, .is_cut = is_cut};

	buffer[length] = '\0';
	lines->continued = buffer[length - 1] != '\n';
	lines->take(lines->arg, &line);
	buffer[length] = after;
	memmove(lines->small, buffer + length, rest);
	lines->used = rest;
	shrink(lines);
}

void smd_lines_finish(struct smd_lines *lines)
{
	if (lines->used > 0) {
		hand_on(lines, lines->used, 0);
	}
}

/* How much of a full buffer ends with a whole UTF-8 character; all of it if that is no UTF-8. */
static size_t whole_characters(const char *bytes, size_t length)
{
	size_t tail = 0;
	unsigned char first;

	while (tail < 3 && ((unsigned char)bytes[length - 1 - tail] & 0xc0) == 0x80) {
		tail++;
	}
	first = (unsigned char)bytes[length - 1 - tail];
	if (first < 0xc0 || tail + 1 >= (first < 0xe0 ? 2u : first < 0xf0 ? 3u : 4u)) {
		return length;
	}
	return length - 1 - tail;
}

const char *smd_lines_rest(const struct smd_lines *lines, size_t *length)
{
	*length = lines->used;
	return lines->large ? lines->large : lines->small;
}

void smd_lines_feed(struct smd_lines *lines, const char *bytes, size_t count)
{
	while (count > 0) {
		size_t room = size_of(lines) - lines->used;
		size_t part = count < room ? count : room;
		const char *newline = memchr(bytes, '\n', part);

		if (newline) {
			part = (size_t)(newline - bytes) + 1;
		}
		memcpy(buffer_of(lines) + lines->used, bytes, part);
		lines->used += part;
		bytes += part;
		count -= part;
		if (newline) {
			hand_on(lines, lines->used, 0);
		} else if (lines->used == size_of(lines)) {
			grow(lines);
		}
		if (lines->used == size_of(lines)) {
			hand_on(lines, whole_characters(buffer_of(lines), lines->used), 1);
		}
	}
}
