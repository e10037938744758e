/*
 * Any text at all as a value that people write on command lines and in variables: refused, or a
 * number within its bounds.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/frontend/duration.h"
#include "orchestrator/frontend/flag_items.h"
#include "reduction_server/base/options.h"
#include "reduction_server/base/parse.h"
#include "tests/fuzz/input.h"

#define UNTOUCHED 0x5a5a5a5a5a5a5a5aull

static void parse_numbers(const char *text)
{
	uint64_t number = UNTOUCHED;
	struct smd_share share = {0, 0};

	must_hold(smd_parse_number(text, 3, 4096, &number) ? number == UNTOUCHED
							   : number >= 3 && number <= 4096);
	number = UNTOUCHED;
	must_hold(smd_parse_size(text, &number) == 0 || number == UNTOUCHED);
	number = UNTOUCHED;
	must_hold(smd_parse_bandwidth(text, &number) ? number == UNTOUCHED : number >= 1);
	must_hold(smd_parse_share(text, &share) ? share.part == 0 : share.part >= 1 && share.whole >= 1);
	number = UNTOUCHED;
	must_hold(smd_duration_parse(text, &number) || number > 0);
}

static void parse_endpoint(const char *text)
{
	char host[24];
	uint16_t port = 0;

	if (smd_parse_endpoint(text, host, sizeof(host), &port) == 0) {
		must_hold(host[0] && memchr(host, '\0', sizeof(host)));
	}
}

static void parse_items(
	const char *text, int (*parse)(const char *, struct smd_flag_items *, struct smd_error *))
{
	struct smd_flag_items items;
	struct smd_error error = {""};
	int ret = parse(text, &items, &error);

	check_outcome(ret, &error);
	if (ret == 0) {
		for (size_t i = 0; i < items.count; i++) {
			must_hold(strlen(items.values[i]) <= strlen(text));
			must_hold(!items.keys || strlen(items.keys[i]) <= strlen(text));
		}
		smd_flag_items_free(&items);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	static const char *const names[] = {"listen", "threads", "memory-limit", "n1-standard-4", ""};
	char *text = input_text(bytes, length);

	parse_numbers(text);
	parse_endpoint(text);
	parse_items(text, smd_flag_list);
	parse_items(text, smd_flag_dictionary);
	smd_suggest(text, names, sizeof(names) / sizeof(names[0]));
	free(text);
	return 0;
}
