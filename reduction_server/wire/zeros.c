/* Finds blocks of zeros, and reads maps of them. */
#include "reduction_server/wire/zeros.h"

#include <errno.h>
#include <string.h>

#define LINE        64u
#define VAIN_SHARE  32 /* of what is sent, the part that may be read in vain */
#define CREDIT_MOST (64 << 10)

static bool line_is_zero(const uint8_t *bytes)
{
	uint64_t words[LINE / sizeof(uint64_t)];
	uint64_t any = 0;

	memcpy(words, bytes, sizeof(words));
	for (unsigned i = 0; i < LINE / sizeof(uint64_t); i++) {
		any |= words[i];
	}
	return any == 0;
}

/* How many bytes of the block were read until one was not zero; *zero: none was. */
static uint32_t block_read(const uint8_t *block, uint32_t length, bool *zero)
{
	uint32_t at = 0;

	while (length - at >= LINE && line_is_zero(block + at)) {
		at += LINE;
	}
	*zero = length - at < LINE;
	for (uint32_t i = at; *zero && i < length; i++) {
		*zero = block[i] == 0;
	}
	return length - at < LINE ? length : at + LINE;
}

unsigned smd_zero_map_find(
	struct smd_zero_search *search, const void *payload, uint32_t length, uint8_t *map)
{
	int32_t credit = search->credit;
	unsigned found = 0;

	memset(map, 0, smd_zero_map_bytes(length));
	for (uint32_t at = 0; at < length; at += SMD_ZERO_BLOCK) {
		uint32_t bytes = length - at < SMD_ZERO_BLOCK ? length - at : SMD_ZERO_BLOCK;
		bool zero = false;

		credit += (int32_t)bytes / VAIN_SHARE;
		if (credit > 0) {
			uint32_t block = at / SMD_ZERO_BLOCK;
			uint32_t read = block_read((const uint8_t *)payload + at, bytes, &zero);

			credit += zero ? (int32_t)bytes : -(int32_t)read;
			map[block / 8] |= (uint8_t)(zero << block % 8);
			found += zero;
		}
		credit = credit < CREDIT_MOST ? credit : CREDIT_MOST;
	}
	search->credit = credit;
	return found;
}

int smd_zero_map_check(const uint8_t *map, uint32_t bytes, uint32_t length, struct smd_error *error)
{
	uint32_t blocks = (length + SMD_ZERO_BLOCK - 1) / SMD_ZERO_BLOCK;
	uint8_t any = 0;

	if (bytes != smd_zero_map_bytes(length)) {
		return smd_error_set(error, EPROTO,
			"ZEROS: must have a bit for each of the %u blocks of the next frame, got "
			"%u "
			"bytes",
			blocks, bytes);
	}
	for (uint32_t i = 0; i < bytes; i++) {
		any |= map[i];
	}
	if (any == 0 || (blocks % 8 && map[bytes - 1] >> blocks % 8)) {
		return smd_error_set(error, EPROTO,
			"ZEROS: must name at least one of the %u blocks of the next frame, and no "
			"other",
			blocks);
	}
	return 0;
}

uint32_t smd_zero_map_run(const uint8_t *map, uint32_t length, uint32_t at, bool *zeros)
{
	uint32_t blocks = (length + SMD_ZERO_BLOCK - 1) / SMD_ZERO_BLOCK;
	uint32_t block = at / SMD_ZERO_BLOCK;

	*zeros = map[block / 8] >> block % 8 & 1;
	do {
		block++;
	} while (block < blocks && (map[block / 8] >> block % 8 & 1) == *zeros);
	return block < blocks ? block * SMD_ZERO_BLOCK : length;
}
