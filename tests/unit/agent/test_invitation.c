/* An agent waits for its invitation for a while, and reads no more than that. */
#include "worker/agent/host/connect.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static int pipe_ends[2];

static int set_up(void **state)
{
	(void)state;
	return pipe(pipe_ends);
}

static int tear_down(void **state)
{
	(void)state;
	close(pipe_ends[0]);
	return close(pipe_ends[1]);
}

static void write_text(const char *text)
{
	assert_int_equal(write(pipe_ends[1], text, strlen(text)), strlen(text));
}

static void what_follows_is_left(void **state)
{
	const struct smd_invitation sent = {
		.protocol = SMD_AGENT_PROTOCOL, .version = "0.1.0", .job = "17", .host = 3};
	char *line = smd_invitation_encode(&sent);
	struct smd_invitation got;
	struct smd_error error = {""};
	char rest[8];

	(void)state;
	assert_non_null(line);
	write_text(line);
	write_text("rest");
	free(line);
	assert_int_equal(smd_invitation_read(pipe_ends[0], 60, &got, &error), 0);
	assert_string_equal(got.job, "17");
	assert_int_equal(got.host, 3);
	assert_int_equal(read(pipe_ends[0], rest, sizeof(rest)), 4);
}

/* The way is half-open: neither a byte nor an end. */
static void one_that_does_not_come_whole_is_not_waited_for(void **state)
{
	struct smd_invitation got;
	struct smd_error error = {""};

	(void)state;
	assert_int_equal(smd_invitation_read(pipe_ends[0], 0, &got, &error), -ETIMEDOUT);
	assert_string_equal(error.text,
		"standard input: a whole invitation must come within 0 s, got 0 bytes of it");
	error.text[0] = '\0';
	write_text("{\"summand\"");
	assert_int_equal(smd_invitation_read(pipe_ends[0], 1, &got, &error), -ETIMEDOUT);
	assert_string_equal(error.text,
		"standard input: a whole invitation must come within 1 s, got 10 bytes of it");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_follows_is_left, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			one_that_does_not_come_whole_is_not_waited_for, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
