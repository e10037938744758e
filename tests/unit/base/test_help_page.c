/* The page of a command: its groups, its width, what another page lists, and who may have its table
 * instead. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/help_page.h"

static const struct smd_option options[] = {
	SMD_OPTION_GROUP("Run"),
	{"grace", "SECONDS", "how long replicas may take to end, and no longer", NULL, NULL},
	{"container-runtime", "podman|docker", "run images", NULL, NULL},
	SMD_OPTION_GROUP("Without effect"),
	{"region", "REGION", NULL, NULL, NULL},
	{"project", "PROJECT", NULL, NULL, NULL},
	{"account", "ACCOUNT", NULL, NULL, NULL},
	SMD_OPTION_GROUP("Elsewhere"),
	{"args", "ARG,...", "arguments", NULL, NULL},
};

static const struct smd_command command = {
	.synopsis = "run SPEC|FLAG... [OPTION...] [-- ARG...]",
	.summary = "Runs a job on this machine, all of its replicas.",
	.options = options,
	.noptions = sizeof(options) / sizeof(options[0]),
	.nelsewhere = 2,
	.elsewhere = "`help flags` lists more.",
	.epilog = "Examples of how to call it:\n  run  a\n  run  b",
	.exits = "Exit codes: 0 done.",
};

static void prints(int width, const struct smd_command *printed, const char *expected)
{
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	assert_non_null(out);
	smd_help_page(out, width, printed);
	assert_int_equal(fclose(out), 0);
	assert_string_equal(text, expected);
	free(text);
}

static void groups(void **state)
{
	(void)state;
	prints(80, &command,
		"Usage: run SPEC|FLAG... [OPTION...] [-- ARG...]\n"
		"\n"
		"Runs a job on this machine, all of its replicas.\n"
		"\n"
		"Run:\n"
		"  --grace=SECONDS              how long replicas may take to end, and no longer\n"
		"  --container-runtime=podman|docker\n"
		"                               run images\n"
		"\n"
		"Without effect:\n"
		"  --region=REGION --project=PROJECT --account=ACCOUNT\n"
		"\n"
		"  --help                       print this page\n"
		"\n"
		"`help flags` lists more.\n"
		"\n"
		"Examples of how to call it:\n"
		"  run  a\n"
		"  run  b\n"
		"\n"
		"Exit codes: 0 done.\n");
}

static void narrow(void **state)
{
	(void)state;
	prints(40, &command,
		"Usage: run SPEC|FLAG... [OPTION...] [--\n"
		"       ARG...]\n"
		"\n"
		"Runs a job on this machine, all of its\n"
		"replicas.\n"
		"\n"
		"Run:\n"
		"  --grace=SECONDS  how long replicas may\n"
		"                   take to end, and no\n"
		"                   longer\n"
		"  --container-runtime=podman|docker\n"
		"                   run images\n"
		"\n"
		"Without effect:\n"
		"  --region=REGION --project=PROJECT\n"
		"  --account=ACCOUNT\n"
		"\n"
		"  --help           print this page\n"
		"\n"
		"`help flags` lists more.\n"
		"\n"
		"Examples of how to call it:\n"
		"  run  a\n"
		"  run  b\n"
		"\n"
		"Exit codes: 0 done.\n");
}

static void no_options(void **state)
{
	static const struct smd_command bare = {.synopsis = "bare", .summary = "Does nothing."};

	(void)state;
	prints(80, &bare,
		"Usage: bare\n\nDoes nothing.\n\nOptions:\n"
		"  --help                       print this page\n");
}

static void paragraphs(void **state)
{
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	(void)state;
	assert_non_null(out);
	smd_help_text(out, 20, "one two three four five\nsix\n\n\n  as  it  is\nseven eight nine\nten\n");
	assert_int_equal(fclose(out), 0);
	assert_string_equal(text, "one two three four\nfive six\n\n\n  as  it  is\nseven eight nine ten\n");
	free(text);
}

static void width(void **state)
{
	FILE *file = tmpfile();

	(void)state;
	assert_non_null(file);
	assert_int_equal(smd_help_width(file), 80);
	fclose(file);
}

static void take(void *context, const struct smd_command *taken)
{
	*(const struct smd_command **)context = taken;
}

static void diverted(void **state)
{
	const char *argv[] = {"run", "--help"};
	const struct smd_command *taken = NULL;
	struct smd_error error = {""};
	int n;

	(void)state;
	smd_command_divert_help(take, &taken);
	assert_int_equal(smd_options_parse(&command, 2, (char **)argv, &n, &error), -ENOEXEC);
	smd_command_divert_help(NULL, NULL);
	assert_ptr_equal(taken, &command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(groups),
		cmocka_unit_test(narrow),
		cmocka_unit_test(no_options),
		cmocka_unit_test(paragraphs),
		cmocka_unit_test(width),
		cmocka_unit_test(diverted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
