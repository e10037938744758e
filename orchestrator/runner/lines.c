/* Cuts a stream into lines. */
#include "orchestrator/runner/lines.h"

#include <string.h>

void smd_lines_finish(struct smd_lines *lines)
{
	struct smd_line line = {
		.text = lines->buffer, .length = lines->used, .continued = lines->continued};

	if (lines->used == 0) {
		return;
	}
	lines->buffer[lines->used] = '\0';
	lines->continued = lines->buffer[lines->used - 1] != '\n';
	lines->used = 0;
	lines->take(lines->arg, &line);
}

void smd_lines_feed(struct smd_lines *lines, const char *bytes, size_t count)
{
	while (count > 0) {
		size_t room = SMD_LINES_BUFFER - lines->used;
		size_t part = count < room ? count : room;
		const char *newline = memchr(bytes, '\n', part);

		if (newline) {
			part = (size_t)(newline - bytes) + 1;
		}
		memcpy(lines->buffer + lines->used, bytes, part);
		lines->used += part;
		bytes += part;
		count -= part;
		if (newline || lines->used == SMD_LINES_BUFFER) {
			smd_lines_finish(lines);
		}
	}
}
