/* Blocks of zeros: what counts as one, how much is read to find them, and maps that are none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/wire/zeros.h"

enum { BLOCK = SMD_ZERO_BLOCK, LONGEST = 20 * BLOCK };

/* At the end of its memory, so that what is read beyond shows with the sanitizer. */
static uint8_t *zeros_of(uint32_t length)
{
	uint8_t *payload = calloc(1, length);

	assert_non_null(payload);
	return payload;
}

static void every_byte_counts(void **state)
{
	static const uint32_t lengths[] = {
		1, 7, 63, 64, 65, 4095, 4096, 4097, 4160, 8191, 8192, 12289};
	uint8_t map[SMD_ZERO_MAP_MAX];

	(void)state;
	for (size_t k = 0; k < sizeof(lengths) / sizeof(lengths[0]); k++) {
		uint32_t length = lengths[k];
		uint32_t blocks = (length + BLOCK - 1) / BLOCK;
		uint8_t *payload = zeros_of(length);

		for (uint32_t i = 0; i <= length; i++) {
			struct smd_zero_search search = {.credit = 1 << 16};

			if (i < length) {
				payload[i] = 0x80;
			}
			assert_int_equal(smd_zero_map_find(&search, payload, length, map),
				blocks - (i < length));
			for (uint32_t b = 0; b < blocks; b++) {
				assert_int_equal(
					map[b / 8] >> b % 8 & 1, i / BLOCK != b || i == length);
			}
			if (i < length) {
				payload[i] = 0;
			}
		}
		free(payload);
	}
}

static void a_negative_zero_is_none(void **state)
{
	struct smd_zero_search search = {.credit = 1 << 16};
	float *payload = (float *)zeros_of(2 * BLOCK);
	uint8_t map[1];

	(void)state;
	payload[5] = -0.0f;
	assert_true(payload[5] == 0.0f);
	assert_int_equal(smd_zero_map_find(&search, payload, 2 * BLOCK, map), 1);
	assert_int_equal(map[0], 2);
	free(payload);
}

/* Blocks of which only the last byte is none: what is read of them is bounded by what is sent. */
static void little_is_read_in_vain(void **state)
{
	struct smd_zero_search search = {0};
	uint8_t *payload = zeros_of(LONGEST);
	uint8_t map[SMD_ZERO_MAP_MAX];
	uint64_t looked_at = 0;

	(void)state;
	for (uint32_t b = 0; b < LONGEST / BLOCK; b++) {
		payload[(b + 1) * BLOCK - 1] = 1;
	}
	for (int k = 0; k < 100; k++) {
		for (uint32_t b = 0; b < LONGEST / BLOCK; b++) {
			int32_t before = search.credit;

			assert_int_equal(
				smd_zero_map_find(&search, payload + b * BLOCK, BLOCK, map), 0);
			looked_at += search.credit < before; /* it earns a little, and costs all */
			assert_true(search.credit > -BLOCK);
		}
	}
	assert_in_range(looked_at, 50, 100 * (LONGEST / BLOCK) / 32 + 2);
	/* Zeros are found again as soon as that is earned. */
	memset(payload, 0, LONGEST);
	smd_zero_map_find(&search, payload, LONGEST, map);
	smd_zero_map_find(&search, payload, LONGEST, map);
	assert_int_equal(smd_zero_map_find(&search, payload, LONGEST, map), LONGEST / BLOCK);
	free(payload);
}

static void where_nothing_is_zero_every_block_is_looked_at(void **state)
{
	struct smd_zero_search search = {0};
	uint8_t *payload = zeros_of(LONGEST);
	uint8_t map[SMD_ZERO_MAP_MAX];

	(void)state;
	memset(payload, 1, LONGEST);
	memset(payload + LONGEST - BLOCK, 0, BLOCK);
	for (int k = 0; k < 100; k++) {
		assert_int_equal(smd_zero_map_find(&search, payload, LONGEST, map), 1);
	}
	free(payload);
}

static void runs_cover_a_payload(void **state)
{
	const uint8_t map[] = {0x03, 0x80, 0x01};
	const uint32_t length = 17 * BLOCK - 5;
	static const struct {
		uint32_t end;
		bool zeros;
	} runs[] = {{2 * BLOCK, true}, {15 * BLOCK, false}, {17 * BLOCK - 5, true}};
	uint32_t at = 0;

	(void)state;
	for (size_t k = 0; k < sizeof(runs) / sizeof(runs[0]); k++) {
		bool zeros;
		/* From the middle of a block too. */
		uint32_t within = smd_zero_map_run(map, length, at + 1, &zeros);

		assert_int_equal(zeros, runs[k].zeros);
		assert_int_equal(within, runs[k].end);
		assert_int_equal(smd_zero_map_run(map, length, at, &zeros), runs[k].end);
		at = runs[k].end;
	}
}

static void what_is_no_map_is_refused(void **state)
{
	static const struct {
		uint8_t map[2];
		uint32_t bytes;
		uint32_t length;
		const char *text; /* NULL: it is one */
	} rows[] = {
		{{0x01}, 1, 1, NULL},
		{{0x80}, 1, 8 * BLOCK, NULL},
		{{0, 0x01}, 2, 8 * BLOCK + 1, NULL},
		{{0x01}, 1, 0,
			"ZEROS: must have a bit for each of the 0 blocks of the next frame, got 1 "
			"bytes"},
		{{0x01}, 1, 8 * BLOCK + 1,
			"ZEROS: must have a bit for each of the 9 blocks of the next frame, got 1 "
			"bytes"},
		{{0x01, 0}, 2, 8 * BLOCK,
			"ZEROS: must have a bit for each of the 8 blocks of the next frame, got 2 "
			"bytes"},
		{{0x00}, 1, BLOCK,
			"ZEROS: must name at least one of the 1 blocks of the next frame, and no "
			"other"},
		{{0x03}, 1, BLOCK,
			"ZEROS: must name at least one of the 1 blocks of the next frame, and no "
			"other"},
		{{0x80}, 1, 7 * BLOCK,
			"ZEROS: must name at least one of the 7 blocks of the next frame, and no "
			"other"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct smd_error error = {""};
		int ret = smd_zero_map_check(rows[i].map, rows[i].bytes, rows[i].length, &error);

		assert_int_equal(ret, rows[i].text ? -EPROTO : 0);
		assert_string_equal(error.text, rows[i].text ? rows[i].text : "");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_byte_counts),
		cmocka_unit_test(a_negative_zero_is_none),
		cmocka_unit_test(little_is_read_in_vain),
		cmocka_unit_test(where_nothing_is_zero_every_block_is_looked_at),
		cmocka_unit_test(runs_cover_a_payload),
		cmocka_unit_test(what_is_no_map_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
