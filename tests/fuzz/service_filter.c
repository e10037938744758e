/*
 * Any text at all as a filter, as the target of a request, as a time and as a line of a log:
 * refused with a reason, or taken apart within its bounds.
 */
#include <stdlib.h>
#include <string.h>

#include "orchestrator/service/filter.h"
#include "orchestrator/service/job_log.h"
#include "orchestrator/service/uri.h"
#include "tests/fuzz/input.h"

static enum smd_filter_key key_of(const char *key, const struct smd_filter_name **values)
{
	static const struct smd_filter_name names[] = {{"A_B", 1}, {"C", 2}, {NULL, 0}};

	*values = names;
	return strstr(key, "ime")	  ? SMD_FILTER_TIME
	       : strcmp(key, "level") == 0 ? SMD_FILTER_NAME
					   : SMD_FILTER_TEXT;
}

static const char *value_of(void *arg, const char *key)
{
	return strstr(key, "ime") ? "2026-01-31T12:00:00Z" : arg;
}

static void parse_filter(char *text)
{
	struct smd_error error = {""};
	struct smd_filter *filter = NULL;
	struct smd_filter_span span;
	int ret = smd_filter_parse(text, key_of, &filter, &error);
	int has;

	check_outcome(ret, &error);
	if (ret) {
		return;
	}
	has = smd_filter_has(filter, value_of, text);
	span = smd_filter_span_of(filter, "createTime");
	must_hold(has == 0 || has == 1);
	must_hold(filter || (span.first_ns == INT64_MIN && span.last_ns == INT64_MAX));
	smd_filter_only(filter, "state");
	smd_filter_free(filter);
}

static void parse_target(const char *text)
{
	struct smd_uri uri;

	if (smd_uri_parse(text, &uri)) {
		return;
	}
	for (size_t i = 0; i < uri.nsegments; i++) {
		must_hold(*uri.segments[i] && strcmp(uri.segments[i], "..") != 0);
	}
	must_hold(uri.nsegments <= SMD_URI_SEGMENTS_MAX);
	must_hold(uri.nparameters <= SMD_URI_PARAMETERS_MAX);
	smd_uri_parameter(&uri, "filter");
	smd_uri_clear(&uri);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	char *text = input_text(bytes, length);
	struct smd_log_line line;
	int64_t ns;

	parse_filter(text);
	parse_target(text);
	smd_filter_time(text, &ns);
	if (smd_log_line_parse(text, &line) == 0) {
		must_hold(line.severity && line.task && line.text);
	}
	free(text);
	return 0;
}
