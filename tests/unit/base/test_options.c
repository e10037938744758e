/* The command line parser: forms of an option, operands in order, errors with a suggestion. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "reduction_server/base/options.h"

struct values {
	const char *listen;
	int threads;
	int quiet;
	int ends_with_operand; /* what the command says */
	uint64_t limit;
};

static int parse(
	struct values *values, int argc, const char **argv, int *noperands, struct smd_error *error)
{
	const struct smd_option options[] = {
		SMD_OPTION_GROUP("Where"),
		{"listen", "ADDR", "", smd_option_set_string, &values->listen},
		{"threads", "N", "", smd_option_set_int, &values->threads},
		{"quiet", NULL, "", smd_option_set_bool, &values->quiet},
		SMD_OPTION_GROUP("How much"),
		{"memory-limit", "SIZE", "", smd_option_set_size, &values->limit},
	};
	const struct smd_command command = {.synopsis = "x",
		.summary = "x",
		.options = options,
		.noptions = sizeof(options) / sizeof(options[0]),
		.ends_with_operand = values->ends_with_operand};

	return smd_options_parse(&command, argc, (char **)argv, noperands, error);
}

static void forms_and_operands(void **state)
{
	const char *argv[] = {"x", "one", "--listen=a:1", "--threads", "4", "two", "--quiet",
		"--memory_limit=1M", "--", "--three"};
	struct values values = {0};
	struct smd_error error = {""};
	int n;

	(void)state;
	assert_int_equal(parse(&values, 10, argv, &n, &error), 0);
	assert_string_equal(values.listen, "a:1");
	assert_int_equal(values.threads, 4);
	assert_int_equal(values.quiet, 1);
	assert_int_equal(values.limit, 1 << 20);
	assert_int_equal(n, 3);
	assert_string_equal(argv[1], "one");
	assert_string_equal(argv[2], "two");
	assert_string_equal(argv[3], "--three");
}

static void what_follows_an_operand(void **state)
{
	const char *argv[] = {"x", "--quiet", "script", "--threads", "--quiet=false"};
	struct values values = {.ends_with_operand = 1};
	struct smd_error error = {""};
	int n;

	(void)state;
	assert_int_equal(parse(&values, 5, argv, &n, &error), 0);
	assert_int_equal(values.quiet, 1);
	assert_int_equal(n, 3);
	assert_string_equal(argv[1], "script");
	assert_string_equal(argv[2], "--threads");
	assert_string_equal(argv[3], "--quiet=false");
}

/* What "x WORD... operand" makes of the switch. */
static int switched(const char *first, const char *second)
{
	const char *argv[] = {"x", first, second ? second : "operand", "operand"};
	struct values values = {.quiet = 7};
	struct smd_error error = {""};
	int n;

	assert_int_equal(parse(&values, second ? 4 : 3, argv, &n, &error), 0);
	assert_int_equal(n, 1);
	assert_string_equal(argv[1], "operand");
	return values.quiet;
}

static void forms_of_switches(void **state)
{
	(void)state;
	assert_int_equal(switched("--quiet", NULL), 1);
	assert_int_equal(switched("--no-quiet", NULL), 0);
	assert_int_equal(switched("--quiet=True", NULL), 1);
	assert_int_equal(switched("--quiet=FALSE", NULL), 0);
	assert_int_equal(switched("--quiet=1", NULL), 1);
	assert_int_equal(switched("--quiet=0", NULL), 0);
	assert_int_equal(switched("--quiet", "False"), 0);
	assert_int_equal(switched("--quiet", "true"), 1);
	assert_int_equal(switched("-q", NULL), 1);
}

static void refused(const char *word, const char *text)
{
	const char *argv[] = {"x", word};
	struct values values = {0};
	struct smd_error error = {""};
	int n;

	assert_int_equal(parse(&values, 2, argv, &n, &error), -EINVAL);
	assert_string_equal(error.text, text);
}

static void errors(void **state)
{
	(void)state;
	refused("--thread=4", "--thread: unknown option; did you mean --threads?");
	refused("-x", "-x: unknown option; --help lists them");
	refused("-qx", "-qx: unknown option; --help lists them");
	refused("--colour", "--colour: unknown option; --help lists them");
	refused("--threads=-1", "--threads: must be a whole number, 0 or more, got \"-1\"");
	refused("--listen", "--listen: needs a value: --listen=ADDR");
	refused("--no-quiet=true", "--no-quiet: unknown option; did you mean --quiet?");
	refused("--no-listen", "--no-listen: unknown option; did you mean --listen?");
	refused("--quiet=maybe", "--quiet: must be true or false, got \"maybe\"");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(forms_and_operands),
		cmocka_unit_test(what_follows_an_operand),
		cmocka_unit_test(forms_of_switches),
		cmocka_unit_test(errors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
