/*
 * Any bytes at all in the notify pipe, in parts of all sizes: each line means nothing, or is a
 * notice whose texts have no control characters.
 */
#include <stdlib.h>
#include <string.h>

#include "orchestrator/runner/lines.h"
#include "orchestrator/runner/notice.h"
#include "orchestrator/runner/replica_progress.h"
#include "tests/fuzz/input.h"

static void must_be_plain(const char *text)
{
	for (; *text; text++) {
		must_hold((unsigned char)*text >= 0x20 && *text != 0x7f);
	}
}

static int has_key(const struct smd_runner_notice *notice)
{
	return notice->kind == SMD_RUNNER_NOTICE_RESULT || notice->kind == SMD_RUNNER_NOTICE_FIGURE;
}

static void take(void *arg, const struct smd_line *line)
{
	struct smd_runner_notice notice = {.text = NULL};
	struct smd_replica_progress progress = {.is_there = 0};
	size_t *taken = arg;

	must_hold(line->text[line->length] == '\0' && line->length > 0);
	*taken += line->length;
	if (smd_runner_notice_parse(line, &notice) == 0) {
		must_be_plain(notice.text);
		must_hold(!has_key(&notice) || notice.key[0]);
		must_hold(!has_key(&notice) || !strchr(notice.key, ' '));
		if (notice.kind == SMD_RUNNER_NOTICE_PROGRESS &&
			smd_replica_progress_take(&progress, notice.text, 1) == 0) {
			must_hold(progress.done >= 0 && progress.total >= 0);
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	size_t part = length ? bytes[0] + 1u : 1;
	size_t taken = 0;
	struct smd_lines *lines = calloc(1, sizeof(*lines));

	must_hold(lines != NULL);
	lines->take = take;
	lines->arg = &taken;
	for (size_t at = 0; at < length; at += part) {
		smd_lines_feed(
			lines, (const char *)bytes + at, part < length - at ? part : length - at);
	}
	smd_lines_finish(lines);
	must_hold(taken == length);
	free(lines);
	return 0;
}
