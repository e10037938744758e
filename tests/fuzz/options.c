/*
 * Any words at all as a command line, one a line, of a command that has a row of each kind: refused
 * with a reason, or all words are options or operands.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/options.h"
#include "tests/fuzz/input.h"

#define WORDS_MAX 64

struct values {
	const char *string;
	const char *path;
	int boolean;
	int number;
	uint64_t size;
	uint64_t bandwidth;
};

static void parse(int argc, char **argv, int ends_with_operand)
{
	struct values v = {.string = NULL};
	const struct smd_option rows[] = {
		{"string", "TEXT", "a text", smd_option_set_string, &v.string},
		{"path", "FILE", "a path", smd_option_set_path, &v.path},
		{"switch", NULL, "a switch", smd_option_set_bool, &v.boolean},
		{"number", "N", "a number", smd_option_set_int, &v.number},
		{"size", "BYTES", "a size", smd_option_set_size, &v.size},
		{"bandwidth", "RATE", "a bandwidth", smd_option_set_bandwidth, &v.bandwidth},
	};
	const struct smd_command command = {
		.synopsis = "fuzz [OPTION...] [WORD...]",
		.summary = "Parses words.",
		.options = rows,
		.noptions = sizeof(rows) / sizeof(rows[0]),
		.ends_with_operand = ends_with_operand,
	};
	struct smd_error error = {""};
	int noperands = -1;
	int ret = smd_options_parse(&command, argc, argv, &noperands, &error);

	if (ret == -ENOEXEC) {
		return;
	}
	check_outcome(ret, &error);
	must_hold(ret || (noperands >= 0 && noperands < argc));
	must_hold(ret || (v.number >= 0 && (!v.path || v.path[0])));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	char name[] = "fuzz";
	char *argv[WORDS_MAX + 2] = {name};

	input_mute();
	for (int ends = 0; ends <= 1; ends++) {
		char *text = input_text(bytes, length);
		int argc = 1 + input_lines(text, argv + 1, WORDS_MAX);

		argv[argc] = NULL;
		parse(argc, argv, ends);
		free(text);
	}
	input_unmute();
	return 0;
}
