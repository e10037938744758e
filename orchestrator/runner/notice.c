/* Parses the lines of a replica's notify pipe. */
#include "orchestrator/runner/notice.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "reduction_server/base/printable.h"

static const char *const words[] = {
	[SMD_RUNNER_NOTICE_READY] = "ready",
	[SMD_RUNNER_NOTICE_STATUS] = "status",
	[SMD_RUNNER_NOTICE_RESULT] = "result",
	[SMD_RUNNER_NOTICE_FIGURE] = "figure",
	[SMD_RUNNER_NOTICE_PROGRESS] = "progress",
};

const char *smd_runner_notice_word(enum smd_runner_notice_kind kind)
{
	return words[kind];
}

/* The first word's kind and what follows the blank after it. */
static int split_kind(const char *text, enum smd_runner_notice_kind *kind, size_t *skip)
{
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		size_t length = strlen(words[i]);

		if (strncmp(text, words[i], length) == 0 &&
			(text[length] == ' ' || text[length] == '\n')) {
			*kind = (enum smd_runner_notice_kind)i;
			*skip = length + (text[length] == ' ');
			return 0;
		}
	}
	return -EINVAL;
}

static int is_key_character(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* "KEY VALUE": the blank that ends the key, or NULL. */
static char *end_of_key(char *text)
{
	char *end = text;

	while (is_key_character(*end)) {
		end++;
	}
	return end > text && *end == ' ' && end[1] != '\n' ? end : NULL;
}

int smd_runner_notice_parse(const struct smd_line *line, struct smd_runner_notice *out)
{
	struct smd_runner_notice notice = {0};
	char *end = line->text + line->length - 1;
	char *key_end = NULL;
	char *rest;
	size_t skip;

	if (line->continued || line->length > SMD_RUNNER_NOTICE_LINE_MAX || *end != '\n' ||
		memchr(line->text, '\0', line->length)) {
		return -EINVAL;
	}
	if (split_kind(line->text, &notice.kind, &skip)) {
		return -EINVAL;
	}
	rest = line->text + skip;
	if (notice.kind == SMD_RUNNER_NOTICE_RESULT || notice.kind == SMD_RUNNER_NOTICE_FIGURE) {
		key_end = end_of_key(rest);
		if (!key_end) {
			return -EINVAL;
		}
	}
	*end = '\0';
	for (char *c = rest; c < end; c++) {
		if (iscntrl((unsigned char)*c)) {
			*c = '?';
		}
	}
	if (!key_end) {
		smd_printable(
			rest); /* it is shown; a result's value is checked where it is recorded */
	}
	notice.text = rest;
	if (key_end) {
		*key_end = '\0';
		notice.key = rest;
		notice.text = key_end + 1;
	}
	*out = notice;
	return 0;
}
