/* Keeps foreign text from steering the terminal that it is shown on. */
#include "orchestrator/job/shown.h"

#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/printable.h"

/* The character of a UTF-8 text. What is not UTF-8 has none. */
static unsigned code_of(const char *text, size_t length)
{
	const unsigned char *bytes = (const unsigned char *)text;

	switch (length) {
	case 3:
		return (bytes[0] & 0x0fU) << 12 | (bytes[1] & 0x3fU) << 6 | (bytes[2] & 0x3fU);
	case 2:
		return (bytes[0] & 0x1fU) << 6 | (bytes[1] & 0x3fU);
	default:
		return bytes[0] < 0x80 ? bytes[0] : 0xfffd;
	}
}

/* U+0080 to U+009F are two bytes that are no character each. */
static size_t whole_length(const char *text, size_t length)
{
	const unsigned char *bytes = (const unsigned char *)text;

	return bytes[0] == 0xc2 && bytes[1] >= 0x80 && bytes[1] < 0xa0 ? 2 : length;
}

char *smd_shown_escape(const char *text)
{
	char *escaped = NULL;
	size_t size;
	FILE *out = open_memstream(&escaped, &size);
	const char *bad;
	size_t length;
	int failed;

	if (!out) {
		return NULL;
	}
	while ((bad = smd_unprintable(text, &length))) {
		length = whole_length(bad, length);
		fwrite(text, 1, (size_t)(bad - text), out);
		fprintf(out, "\\u%04x", code_of(bad, length));
		text = bad + length;
	}
	fputs(text, out);
	failed = ferror(out);
	if (fclose(out) || failed) {
		free(escaped);
		return NULL;
	}
	return escaped;
}

char *smd_shown_json(const json_t *document, size_t flags)
{
	char *raw = document ? json_dumps(document, flags) : NULL;
	char *text = raw ? smd_shown_escape(raw) : NULL;

	free(raw);
	return text;
}

void smd_shown_open(struct smd_shown_text *shown)
{
	shown->text = NULL;
	shown->file = open_memstream(&shown->text, &shown->length);
}

char *smd_shown_take(struct smd_shown_text *shown)
{
	int failed = !shown->file || ferror(shown->file);

	failed |= shown->file && fclose(shown->file);
	shown->file = NULL;
	if (failed) {
		free(shown->text);
		return NULL;
	}
	smd_printable_lines(shown->text);
	return shown->text;
}

void smd_shown_print(struct smd_shown_text *shown, FILE *out)
{
	char *text = smd_shown_take(shown);

	if (text) {
		fputs(text, out);
	}
	free(text);
}
