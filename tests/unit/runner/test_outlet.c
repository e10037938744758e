/* What is shown: outlets that nobody reads, and lines as a terminal gets them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "orchestrator/runner/outlet.h"
#include "orchestrator/runner/terminal_text.h"

#define PART 65536

struct fixture {
	struct event_base *base;
	int ends[2];
	struct smd_outlet outlet;
};

static int set_up(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));

	*state = fixture;
	signal(SIGPIPE, SIG_IGN);
	fixture->base = event_base_new();
	return pipe(fixture->ends) || smd_outlet_open(&fixture->outlet, fixture->ends[1]) ||
	       smd_outlet_attach(&fixture->outlet, fixture->base);
}

static int tear_down(void **state)
{
	struct fixture *fixture = *state;

	smd_outlet_close(&fixture->outlet);
	event_base_free(fixture->base);
	close(fixture->ends[0]);
	close(fixture->ends[1]);
	free(fixture);
	return 0;
}

static void fill(struct smd_outlet *outlet, size_t bytes)
{
	static char part[PART];

	for (size_t i = 0; i < bytes; i += PART) {
		smd_outlet_add(outlet, part, PART);
	}
	smd_outlet_flush(outlet);
}

static size_t read_all(struct fixture *fixture)
{
	char bytes[PART];
	size_t sum = 0;

	while (smd_outlet_is_pending(&fixture->outlet)) {
		sum += (size_t)read(fixture->ends[0], bytes, sizeof(bytes));
		event_base_loop(fixture->base, EVLOOP_NONBLOCK);
	}
	fcntl(fixture->ends[0], F_SETFL, O_NONBLOCK);
	for (ssize_t n = 0; n >= 0; n = read(fixture->ends[0], bytes, sizeof(bytes))) {
		sum += (size_t)n;
	}
	return sum;
}

static void test_nobody_reads(void **state)
{
	struct fixture *fixture = *state;
	struct smd_outlet *outlet = &fixture->outlet;

	fill(outlet, SMD_OUTLET_MAX / 2);
	assert_true(smd_outlet_is_pending(outlet));
	assert_false(smd_outlet_is_full(outlet, 0));
	fill(outlet, SMD_OUTLET_MAX);
	assert_true(smd_outlet_is_full(outlet, 0));
	assert_false(outlet->drops);
	assert_false(smd_outlet_is_full(outlet, 1));
	assert_true(outlet->drops);
	assert_int_equal(read_all(fixture), SMD_OUTLET_MAX / 2 + SMD_OUTLET_MAX);
	assert_false(smd_outlet_drops(outlet));
}

/* The flag is the open file's, which others have too. */
static void test_the_callers_descriptor_still_blocks(void **state)
{
	struct fixture *fixture = *state;

	assert_int_equal(fcntl(fixture->ends[1], F_GETFL) & O_NONBLOCK, 0);
	assert_true(fcntl(fixture->outlet.fd, F_GETFL) & O_NONBLOCK);
}

static void test_the_reader_goes_away(void **state)
{
	struct fixture *fixture = *state;

	close(fixture->ends[0]);
	fill(&fixture->outlet, PART);
	assert_int_equal(fixture->outlet.error, EPIPE);
	assert_int_equal(fixture->outlet.fd, -1);
	fill(&fixture->outlet, PART);
	assert_false(smd_outlet_is_pending(&fixture->outlet));
	fixture->ends[0] = dup(STDERR_FILENO);
}

static void test_a_terminal_gets_text(void **state)
{
	static const struct {
		const char *text;
		const char *shown;
	} cases[] = {
		{"plain\n", "plain"},
		{"10%\r20%\r\n", "20%"},
		{"\033[31;1mred\033[0m", "red"},
		{"\033]0;title\a\xc2\x9b", "?]0;title???"},
		{"gr\xc3\xbcn\xff", "gr\xc3\xbcn?"},
		{"\033[", "?["},
		{"", ""},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char shown[64];
		size_t length = smd_terminal_text(shown, cases[i].text, strlen(cases[i].text));

		assert_string_equal(shown, cases[i].shown);
		assert_int_equal(length, strlen(shown));
	}
}

static void test_columns(void **state)
{
	(void)state;
	assert_int_equal(smd_terminal_text_fit("abc", 2), 2);
	assert_int_equal(smd_terminal_text_fit("abc", 3), 3);
	assert_int_equal(smd_terminal_text_fit("\xc3\xbc\xc3\xbc", 1), 2);
	assert_int_equal(smd_terminal_text_fit("\xe2\x96\x88|", 1), 3); /* a full block */
	assert_int_equal(
		smd_terminal_text_fit("\xe6\x97\xa5\xe6\x9c\xac", 3), 3);  /* two columns each */
	assert_int_equal(smd_terminal_text_fit("\xf0\x9f\x98\x80", 1), 0); /* an emoji */
	assert_int_equal(smd_terminal_text_fit("\xf0\x9f\x98\x80", 2), 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_nobody_reads, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			test_the_callers_descriptor_still_blocks, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_the_reader_goes_away, set_up, tear_down),
		cmocka_unit_test(test_a_terminal_gets_text),
		cmocka_unit_test(test_columns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
