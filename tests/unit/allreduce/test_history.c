/* The ring of copies that a lost server is survived with. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "reduction_server/base/cache_line.h"
#include "worker/libsummand/flow.h"

#define ODD_BYTES ((64u << 10) - 60u)

static uint8_t *keep(struct smd_history *history, uint32_t length)
{
	uint8_t *room = smd_history_room(history, length);

	if (room) {
		*smd_history_entry(history, history->next) = (struct smd_kept){.length = length};
		smd_history_add(history, room);
	}
	return room;
}

/* Whatever the lengths of those before: cache_line.h says what other places cost. */
static void copies_begin_on_cache_lines(void **state)
{
	struct smd_history history = {0};

	(void)state;
	assert_int_equal(smd_history_create(&history), 0);
	for (uint32_t length = 1; length < 200; length++) {
		const uint8_t *room = keep(&history, length);

		assert_non_null(room);
		assert_int_equal((uintptr_t)room % SMD_CACHE_LINE, 0);
	}
	smd_history_destroy(&history);
}

static void a_full_ring_takes_no_more(void **state)
{
	struct smd_history history = {0};
	uint64_t kept = 0;
	uint8_t *room;

	(void)state;
	assert_int_equal(smd_history_create(&history), 0);
	while ((room = keep(&history, ODD_BYTES))) {
		memset(room, (int)kept++, ODD_BYTES);
	}
	assert_int_equal(kept, SMD_HISTORY_BYTES / (64u << 10));
	for (uint64_t k = 0; k < kept; k++) {
		const struct smd_kept *entry = smd_history_entry(&history, k);

		assert_int_equal(entry->bytes[0], k);
		assert_int_equal(entry->bytes[ODD_BYTES - 1], k);
	}
	smd_history_destroy(&history);
}

static uint8_t *keep_for(struct smd_history *history, struct smd_flow *flow, uint32_t length)
{
	uint8_t *room = smd_history_room(history, length);

	if (room) {
		*smd_history_entry(history, history->next) =
			(struct smd_kept){.flow = flow, .ordinal = history->next, .length = length};
		smd_history_add(history, room);
	}
	return room;
}

/* Of an operation that this rank has contributed nothing to, or with bytes that are elsewhere. */
static void what_has_no_bytes_here_frees_none(void **state)
{
	static struct smd_comm comm;
	struct smd_flow flow = {.comm = &comm};
	struct smd_history history = {0};
	const uint8_t *last;
	const uint8_t *room;

	(void)state;
	assert_int_equal(smd_history_create(&history), 0);
	keep_for(&history, &flow, 64);
	keep_for(&history, &flow, 0);
	*smd_history_entry(&history, 2) =
		(struct smd_kept){.flow = &flow, .ordinal = 2, .length = 9};
	smd_history_add_outside(&history);
	flow.stable = 1; /* the ring begins again */
	smd_history_release(&history);
	last = keep_for(&history, &flow, 4096);
	flow.stable = 3;
	smd_history_release(&history);
	assert_int_equal(history.next - history.first, 1);
	while ((room = keep_for(&history, &flow, 8192))) {
		assert_true(room >= last + 4096);
	}
	assert_non_null(keep_for(&history, &flow, 4096)); /* to the ring's end */
	assert_null(keep_for(&history, &flow, 32));
	smd_history_destroy(&history);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(copies_begin_on_cache_lines),
		cmocka_unit_test(a_full_ring_takes_no_more),
		cmocka_unit_test(what_has_no_bytes_here_frees_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
