/* Memory is looked at by the kernel: where there is none that is an answer, and no signal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>
#include <sys/mman.h>

#include "reduction_server/base/peek.h"

enum { PAGE = 4096, PAGES = 1500 };

static uint8_t *map(void)
{
	uint8_t *memory =
		mmap(NULL, (size_t)PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(memory, MAP_FAILED);
	return memory;
}

static void places_are_read(void **state)
{
	uint8_t *memory = map();
	const struct iovec from[] = {
		{.iov_base = memory + 1, .iov_len = 3}, {.iov_base = memory + 9 * PAGE, .iov_len = 2}};
	char to[6] = "";

	(void)state;
	assert_true(smd_peek_works());
	memcpy(memory + 1, "abc", 3);
	memcpy(memory + 9 * PAGE, "de", 2);
	assert_true(smd_peek(from, 2, to, 5));
	assert_string_equal(to, "abcde");
	assert_int_equal(mprotect(memory + 9 * PAGE, PAGE, PROT_NONE), 0);
	assert_false(smd_peek(from, 2, to, 5));
	assert_true(smd_peek(from, 1, to, 3));
	munmap(memory, (size_t)PAGES * PAGE);
}

/* More than one call asks about; the first and the last page may be touched by a byte alone. */
static void what_is_not_mapped_is_found(void **state)
{
	static const unsigned holes[] = {0, 1, 1023, 1024, PAGES - 1};
	const size_t all = (size_t)PAGES * PAGE;

	(void)state;
	for (size_t i = 0; i < sizeof(holes) / sizeof(holes[0]); i++) {
		uint8_t *memory = map();
		uint8_t *hole = memory + (size_t)holes[i] * PAGE;

		assert_true(smd_peek_is_mapped(memory, all));
		assert_true(smd_peek_is_mapped(memory + PAGE - 1, all - PAGE + 1));
		assert_int_equal(munmap(hole, PAGE), 0);
		assert_false(smd_peek_is_mapped(memory, all));
		assert_false(smd_peek_is_mapped(hole, 1));
		if (holes[i] == 0) {
			assert_false(smd_peek_is_mapped(hole + PAGE - 1, 2));
			assert_true(smd_peek_is_mapped(hole + PAGE, all - PAGE));
		}
		if (holes[i] == PAGES - 1) {
			assert_false(smd_peek_is_mapped(hole - 1, 2));
			assert_true(smd_peek_is_mapped(memory, all - PAGE));
		}
		munmap(memory, all);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(places_are_read),
		cmocka_unit_test(what_is_not_mapped_is_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
