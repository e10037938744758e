/* Filters have what AIP-160 says they have, times are compared as times, and what a filter says of
 * one key is known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "orchestrator/service/filter.h"

static enum smd_filter_key key_of(const char *key, const struct smd_filter_name **values)
{
	static const struct smd_filter_name names[] = {
		{"LEVEL_INFO", 200}, {"LEVEL_WARNING", 400}, {"LEVEL_ERROR", 500}, {NULL, 0}};

	*values = names;
	if (strcmp(key, "level") == 0) {
		return SMD_FILTER_NAME;
	}
	if (strcmp(key, "createTime") == 0) {
		return SMD_FILTER_TIME;
	}
	return strcmp(key, "nosuch") == 0 ? SMD_FILTER_NO_KEY : SMD_FILTER_TEXT;
}

static const char *value_of(void *arg, const char *key)
{
	static const char *const values[][2] = {{"displayName", "Ada's job"}, {"state", "FAILED"},
		{"level", "LEVEL_WARNING"},
		{"labels.my_label", "x-1"}, {"labels.my-label", "y"},
		{"createTime", "2026-01-31T12:00:00.25Z"}};

	(void)arg;
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		if (strcmp(key, values[i][0]) == 0) {
			return values[i][1];
		}
	}
	return NULL;
}

static int has(const char *text)
{
	struct smd_error error = {""};
	struct smd_filter *filter;
	int result;

	assert_int_equal(smd_filter_parse(text, key_of, &filter, &error), 0);
	result = smd_filter_has(filter, value_of, NULL);
	smd_filter_free(filter);
	return result;
}

static void what_they_have(void **state)
{
	static const char *const right[] = {"", "  ", "state=FAILED", "state = \"FAILED\"",
		"state!=\"RUNNING\"", "NOT state=RUNNING", "-state=RUNNING",
		"display_name=\"Ada's job\"", "displayName='Ada\\'s job'", "displayName:ada",
		"displayName:\"Ada*\"", "labels.my_label=x-1", "labels.\"my-label\"=y",
		"labels.my_label:*", "NOT labels.other:*", "labels.other!=1",
		"state=RUNNING OR state=FAILED", "state=FAILED labels.my_label=x-1",
		/* OR binds more than AND. */
		"state=FAILED OR state=X AND labels.my_label=x-1", "NOT (state=FAILED AND state=X)",
		"state=X OR (state=FAILED AND NOT state=X)",
		"create_time=\"2026-01-31T12:00:00.25Z\"",
		"create_time=\"2026-01-31T13:00:00.250000+01:00\"",
		"create_time<\"2026-01-31T12:00:00.3Z\"", "create_time>2026-01-31",
		"create_time>=\"2026-01-31T12:00:00.25Z\" AND "
		"create_time<=\"2026-01-31T12:00:00.25Z\"",
		"create_time!=\"2026-01-31T12:00:00Z\"", "create_time<\"9999-12-31T00:00:00Z\"",
		/* Enumerations have their order, and not that of their texts. */
		"level=LEVEL_WARNING", "level=WARNING", "level=400", "level=level_warning",
		"level<ERROR", "level>=WARNING", "level>INFO", "level!=INFO", "level:WARN"};
	static const char *const wrong[] = {"state=X", "state=X OR state=Y", "labels.other=1",
		"labels.other:*", "displayName:eve",
		"state=X OR state=FAILED AND labels.my_label=1",
		"create_time>\"2026-01-31T13:00:00Z\"", "NOT NOT_A_KEY!=1", "-state=FAILED",
		"level>=ERROR", "level<=INFO", "level<WARNING", "level=ERROR", "level:*x"};

	(void)state;
	for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++) {
		if (!has(right[i])) {
			fail_msg("must hold: %s", right[i]);
		}
	}
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		if (has(wrong[i])) {
			fail_msg("must not hold: %s", wrong[i]);
		}
	}
}

static void what_they_refuse(void **state)
{
	static const char *const texts[] = {"state", "=1", "(state=1", "state=1)", "state=1 AND",
		"AND state=1", "state=\"1", "nosuch=1", "createTime=soon", "createTime=2026-13-01",
		"createTime>2026-01-31T", "NOT", "-", "()", "state=1 OR", "\"",
		"createTime=2026-01-31Tx", "level=ARNING", "level=LEVEL_", "level=", "level=40",
		"level>_INFO"};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct smd_error error = {""};
		struct smd_filter *filter;

		if (smd_filter_parse(texts[i], key_of, &filter, &error) == 0 || !*error.text) {
			fail_msg("must be refused with a reason: %s", texts[i]);
		}
	}
}

static struct smd_filter_span span_of(const char *text)
{
	struct smd_filter_span span;
	struct smd_filter *filter;

	assert_int_equal(smd_filter_parse(text, key_of, &filter, NULL), 0);
	span = smd_filter_span_of(filter, "createTime");
	smd_filter_free(filter);
	return span;
}

static void what_they_say_of_times(void **state)
{
	int64_t noon;
	int64_t one;
	struct smd_filter_span span;

	(void)state;
	assert_int_equal(smd_filter_time("2026-01-31T12:00:00Z", &noon), 0);
	assert_int_equal(smd_filter_time("2026-01-31T13:00:00Z", &one), 0);
	span = span_of(
		"state=X AND ((createTime=\"2026-01-31T12:00:00Z\" AND state>\"1\") OR "
		"createTime>\"2026-01-31T12:00:00Z\") AND createTime<\"2026-01-31T13:00:00Z\"");
	assert_int_equal(span.first_ns, noon);
	assert_int_equal(span.last_ns, one);
	span = span_of("NOT createTime>\"2026-01-31T12:00:00Z\" OR state=X");
	assert_int_equal(span.first_ns, INT64_MIN);
	assert_int_equal(span.last_ns, INT64_MAX);
}

static void which_one_they_want(void **state)
{
	struct smd_filter *filter;

	(void)state;
	assert_int_equal(
		smd_filter_parse("state!=X AND (labels.id=17 AND state=Y)", key_of, &filter, NULL),
		0);
	assert_string_equal(smd_filter_only(filter, "labels.id"), "17");
	assert_null(smd_filter_only(filter, "labels.other"));
	smd_filter_free(filter);
	assert_int_equal(
		smd_filter_parse("labels.id=17 OR labels.id=18", key_of, &filter, NULL), 0);
	assert_null(smd_filter_only(filter, "labels.id"));
	smd_filter_free(filter);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_they_have),
		cmocka_unit_test(what_they_refuse),
		cmocka_unit_test(what_they_say_of_times),
		cmocka_unit_test(which_one_they_want),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
