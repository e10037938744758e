/* Metrics as text: heads, samples, and labels of any bytes. */
#include "reduction_server/metrics/text.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_samples(void **state)
{
	struct smd_metrics_text text = {0};
	const struct smd_metrics_label two[] = {{"a", "1"}, {"b", "x"}, {NULL, NULL}};

	(void)state;
	smd_metrics_begin(&text, "m_total", "counter", "Help.");
	smd_metrics_count(&text, NULL, UINT64_MAX);
	smd_metrics_count(&text, two, 0);
	smd_metrics_single(&text, "g", "gauge", "More.", 0.5);
	smd_metrics_sample(&text, NULL, NAN);
	smd_metrics_sample(&text, NULL, -INFINITY);
	assert_false(text.failed);
	assert_string_equal(text.bytes, "# HELP m_total Help.\n# TYPE m_total counter\n"
					"m_total 18446744073709551615\nm_total{a=\"1\",b=\"x\"} 0\n"
					"# HELP g More.\n# TYPE g gauge\ng 0.5\ng NaN\ng -Inf\n");
	assert_int_equal(text.length, strlen(text.bytes));
	smd_metrics_free(&text);
}

static void check_value(const char *value, const char *expected)
{
	struct smd_metrics_text text = {.name = "m"};
	const struct smd_metrics_label label[] = {{"l", value}, {NULL, NULL}};

	smd_metrics_count(&text, label, 1);
	assert_false(text.failed);
	assert_string_equal(text.bytes, expected);
	smd_metrics_free(&text);
}

/* Foreign ones: a line of their own, or another label, would be a lie about somebody else. */
static void test_foreign_labels(void **state)
{
	(void)state;
	check_value("", "m{l=\"\"} 1\n");
	check_value("a\"} 2\nx 3", "m{l=\"a\\\"} 2\\nx 3\"} 1\n");
	check_value("c:\\n", "m{l=\"c:\\\\n\"} 1\n");
	check_value("\n\n", "m{l=\"\\n\\n\"} 1\n");
	check_value("\r\x1b\x7f\xff", "m{l=\"????\"} 1\n");
	check_value("\xc3\xbc\xe2\x82\xac", "m{l=\"\xc3\xbc\xe2\x82\xac\"} 1\n");
}

static void test_long_label(void **state)
{
	char value[2000];
	struct smd_metrics_text text = {.name = "m"};
	const struct smd_metrics_label label[] = {{"l", value}, {NULL, NULL}};

	(void)state;
	memset(value, '"', sizeof(value) - 1);
	value[sizeof(value) - 1] = '\0';
	smd_metrics_count(&text, label, 1);
	assert_int_equal(strlen(text.bytes), strlen("m{l=\"") + 2 * 511 + strlen("\"} 1\n"));
	smd_metrics_free(&text);
}

static void test_many_samples(void **state)
{
	struct smd_metrics_text text = {.name = "m"};

	(void)state;
	for (unsigned i = 0; i < 100000; i++) {
		smd_metrics_count(&text, NULL, 7);
	}
	assert_int_equal(text.length, 100000 * strlen("m 7\n"));
	assert_int_equal(strlen(text.bytes), text.length);
	smd_metrics_free(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_samples),
		cmocka_unit_test(test_foreign_labels),
		cmocka_unit_test(test_long_label),
		cmocka_unit_test(test_many_samples),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
