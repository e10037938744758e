/* Lines that peers cause: the first ones of a kind, then few, and a count of the others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/log_limit.h"

static unsigned nlines;
static char last[1200];

static void count(enum smd_log_level level, const char *component, const char *sentence)
{
	nlines++;
	snprintf(last, sizeof(last), "%d %s: %s", (int)level, component, sentence);
}

static void say(const char *class, unsigned times)
{
	for (unsigned i = 0; i < times; i++) {
		smd_log_peer(SMD_LOG_WARN, "shard 0", class, "refused number %u of %s", i, class);
	}
}

static void a_flood_is_counted_and_silences_nobody_else(void **state)
{
	(void)state;
	smd_log_set_sink(count);
	say("10.0.0.1", SMD_LOG_LIMIT_BURST);
	assert_int_equal(nlines, SMD_LOG_LIMIT_BURST);
	say("10.0.0.1", 1234567);
	assert_true(nlines < SMD_LOG_LIMIT_BURST + 60); /* one a second */
	nlines = 0;
	say("10.0.0.2", 3);
	assert_int_equal(nlines, 3);
	smd_log_tell_left_out(smd_clock_ns(), 0);
	assert_true(nlines <= 4); /* told only now and then */
	smd_log_tell_left_out(smd_clock_ns(), 1);
	assert_non_null(strstr(last, "1 shard 0: ... and 1,234,"));
	assert_non_null(strstr(last, " more like this: refused number 1234566 of 10.0.0.1"));
	nlines = 0;
	smd_log_tell_left_out(smd_clock_ns(), 1); /* once */
	assert_int_equal(nlines, 0);
	smd_log_set_sink(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_flood_is_counted_and_silences_nobody_else),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
