/* base64: RFC 4648's own examples, all short inputs there and back, and what is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/service/base64.h"

static void test_examples(void **state)
{
	static const char *const examples[][2] = {{"", ""}, {"f", "Zg=="}, {"fo", "Zm8="},
		{"foo", "Zm9v"}, {"foob", "Zm9vYg=="}, {"fooba", "Zm9vYmE="},
		{"foobar", "Zm9vYmFy"}, {"\xff\xfe\xfd", "//79"}};

	(void)state;
	for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++) {
		size_t length = strlen(examples[i][0]);
		char *text = smd_base64_encode((const uint8_t *)examples[i][0], length);
		uint8_t bytes[8];

		assert_string_equal(text, examples[i][1]);
		assert_int_equal(smd_base64_decode(text, bytes, sizeof(bytes)), length);
		assert_memory_equal(bytes, examples[i][0], length);
		free(text);
	}
}

static void test_all_bytes(void **state)
{
	uint8_t given[256], got[256];

	(void)state;
	for (unsigned i = 0; i < 256; i++) {
		given[i] = (uint8_t)i;
	}
	for (size_t length = 0; length <= 256; length++) {
		char *text = smd_base64_encode(given, length);

		assert_int_equal(smd_base64_decode(text, got, length), length);
		assert_memory_equal(got, given, length);
		if (length > 0) {
			assert_int_equal(smd_base64_decode(text, got, length - 1), -E2BIG);
		}
		free(text);
	}
}

static void test_what_is_none(void **state)
{
	static const char *const texts[] = {"Z", "Zg", "Zg=", "====", "Z===", "Zg==Zg==", "Zm9v\n",
		"Zh==", "Zm9=", "Z g=", "Zm-_", "Zm9v=", "=m9v", "Zm=v"};
	uint8_t bytes[16];

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		assert_int_equal(smd_base64_decode(texts[i], bytes, sizeof(bytes)), -EINVAL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_examples),
		cmocka_unit_test(test_all_bytes),
		cmocka_unit_test(test_what_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
