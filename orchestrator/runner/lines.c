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

void smd_lines_finish(struct smd_lines *lines)
{
	char *buffer = buffer_of(lines);
	struct smd_line line = {
		.text = buffer, .length = lines->used, .continued = lines->continued};

	if (lines->used == 0) {
		return;
	}
	buffer[lines->used] = '\0';
	lines->continued = buffer[lines->used - 1] != '\n';
	lines->used = 0;
	lines->take(lines->arg, &line);
	shrink(lines);
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
		if (!newline && lines->used == size_of(lines)) {
			grow(lines);
		}
		if (newline || lines->used == size_of(lines)) {
			smd_lines_finish(lines);
		}
	}
}
