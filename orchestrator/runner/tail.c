/* Keeps the last lines of a stream in a ring. */
#include "orchestrator/runner/tail.h"

#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/printable.h"

void smd_tail_add(struct smd_tail *tail, const char *text, size_t length)
{
	char **place = &tail->lines[tail->count % SMD_TAIL_LINES];

	while (length > 0 && (text[length - 1] == '\n' || text[length - 1] == '\r')) {
		length--;
	}
	free(*place);
	*place = strndup(text, length < SMD_TAIL_LINE_MAX ? length : SMD_TAIL_LINE_MAX);
	if (*place) {
		smd_printable(*place);
	}
	tail->count++;
}

static size_t kept(const struct smd_tail *tail)
{
	return tail->count < SMD_TAIL_LINES ? tail->count : SMD_TAIL_LINES;
}

const char *smd_tail_line(const struct smd_tail *tail, size_t i)
{
	size_t count = kept(tail);

	return i < count ? tail->lines[(tail->count - count + i) % SMD_TAIL_LINES] : NULL;
}

void smd_tail_print(const struct smd_tail *tail, FILE *file, const char *indent)
{
	for (size_t i = 0; i < kept(tail); i++) {
		const char *line = smd_tail_line(tail, i);

		if (line) {
			fprintf(file, "%s%s\n", indent, line);
		}
	}
}

void smd_tail_clear(struct smd_tail *tail)
{
	for (size_t i = 0; i < SMD_TAIL_LINES; i++) {
		free(tail->lines[i]);
	}
	*tail = (struct smd_tail){0};
}
