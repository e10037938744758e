/* What a worker is told by CLUSTER_SPEC: a malformed one is an error where servers are wanted. */
#include "worker/libsummand/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>

static const struct {
	const char *text;
	const char *error;
} malformed[] = {
	{"{", "CLUSTER_SPEC: must be JSON, got "},
	{"[]", "CLUSTER_SPEC: must be an object whose cluster is one, got []"},
	{"{\"cluster\": 3}", "CLUSTER_SPEC: must be an object whose cluster is one, got {"},
	{"{\"cluster\": {\"workerpool2\": \"a:1\"}}",
		"CLUSTER_SPEC: workerpool2 must list host:port strings, got {"},
	{"{\"cluster\": {\"workerpool2\": [1]}}",
		"CLUSTER_SPEC: workerpool2 must list host:port strings"},
	{"{\"cluster\": {\"workerpool2\": [\"nowhere\"]}}",
		"reduction servers: each must be host:port, got \"nowhere\""},
};

#define NMALFORMED (sizeof(malformed) / sizeof(malformed[0]))

static void test_servers_are_wanted_from_it(void **state)
{
	(void)state;
	for (size_t i = 0; i < NMALFORMED; i++) {
		struct smd_config config;
		struct smd_error error = {""};

		setenv("CLUSTER_SPEC", malformed[i].text, 1);
		assert_int_equal(smd_config_read(NULL, &config, &error), -EINVAL);
		assert_int_equal(
			strncmp(error.text, malformed[i].error, strlen(malformed[i].error)), 0);
	}
}

static void test_servers_are_known_otherwise(void **state)
{
	const struct smd_context_options options = {.servers = "127.0.0.1:1", .transport = "tcp"};

	(void)state;
	for (size_t i = 0; i < NMALFORMED; i++) {
		struct smd_config config;
		struct smd_error error = {""};

		setenv("CLUSTER_SPEC", malformed[i].text, 1);
		assert_int_equal(smd_config_read(&options, &config, &error), 0);
		assert_int_equal(config.nservers, 1);
		smd_config_free(&config);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_servers_are_wanted_from_it),
		cmocka_unit_test(test_servers_are_known_otherwise),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
